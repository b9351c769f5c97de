"""`HorizontalPodAutoscalerSpec` (autoscaling/v2) after defaulting and validation, and the flags.

Fields have the API's names in snake_case.  Quantities are int64 milli-units, tolerances doubles.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import ClassVar, NamedTuple, get_args


class ConditionStatus(StrEnum):
    """The status of a Kubernetes condition."""

    TRUE = "True"
    FALSE = "False"
    UNKNOWN = "Unknown"


class SelectPolicy(StrEnum):
    """`ScalingPolicySelect`: the policy with the largest or the smallest change counts, or none."""

    MAX = "Max"
    MIN = "Min"
    DISABLED = "Disabled"


class PolicyType(StrEnum):
    """`HPAScalingPolicyType`: whether a policy's value is a number of pods or a percentage."""

    PODS = "Pods"
    PERCENT = "Percent"


class TargetType(StrEnum):
    """`MetricTarget.type`."""

    UTILIZATION = "Utilization"
    VALUE = "Value"
    AVERAGE_VALUE = "AverageValue"


@dataclass(frozen=True, slots=True)
class ScaleTargetRef:
    """`CrossVersionObjectReference`: the scale target, or the object of an Object metric."""

    api_version: str
    kind: str
    name: str

    @property
    def group(self) -> str:
        """The API group; empty for the core group."""
        return self.api_version.rpartition("/")[0]


class Operator(StrEnum):
    """`LabelSelectorRequirement.operator`."""

    IN = "In"
    NOT_IN = "NotIn"
    EXISTS = "Exists"
    DOES_NOT_EXIST = "DoesNotExist"


@dataclass(frozen=True, slots=True)
class Requirement:
    """`LabelSelectorRequirement`: one condition on one label."""

    key: str
    operator: Operator
    values: tuple[str, ...] = ()

    def matches(self, labels: Mapping[str, str]) -> bool:
        """Return whether the labels meet the condition; an absent label meets NotIn."""
        value = labels.get(self.key)
        if self.operator is Operator.IN:
            return value is not None and value in self.values
        if self.operator is Operator.NOT_IN:
            return value is None or value not in self.values
        return (value is not None) is (self.operator is Operator.EXISTS)


@dataclass(frozen=True, slots=True)
class LabelSelector:
    """`LabelSelector`: every label and requirement must match; an empty one matches everything."""

    match_labels: tuple[tuple[str, str], ...] = ()
    match_expressions: tuple[Requirement, ...] = ()

    @property
    def empty(self) -> bool:
        """Whether the selector has no condition."""
        return not self.match_labels and not self.match_expressions

    @property
    def keys(self) -> list[str]:
        """The names of the labels that conditions are about."""
        return [*dict(self.match_labels), *(each.key for each in self.match_expressions)]

    def matches(self, labels: Mapping[str, str]) -> bool:
        """Return whether the labels meet every condition."""
        return all(labels.get(key) == value for key, value in self.match_labels) and all(
            requirement.matches(labels) for requirement in self.match_expressions
        )


@dataclass(frozen=True, slots=True)
class MetricTarget:
    """`MetricTarget`: values in milli-units, the utilization in percent of the request."""

    type: TargetType
    value: int | None = None
    average_value: int | None = None
    average_utilization: int | None = None


@dataclass(frozen=True, slots=True)
class MetricIdentifier:
    """`MetricIdentifier`: the name of a metric and the selector of its series."""

    name: str
    selector: LabelSelector | None = None


class _MetricSource:
    """The properties that all metric sources have.

    ``name`` selects the query: in `resourceQueries` if ``of_resource``, else in `queries`.
    """

    __slots__ = ()
    type: ClassVar[str]
    of_resource: ClassVar[bool] = False
    of_pods: ClassVar[bool] = True
    """Whether each pod has its own value."""
    container: str | None = None
    described_object: ScaleTargetRef | None = None


class _ResourceSource(_MetricSource):
    __slots__ = ()
    of_resource = True
    selector = None


class _IdentifiedSource(_MetricSource):
    __slots__ = ()
    metric: MetricIdentifier

    @property
    def name(self) -> str:
        return self.metric.name

    @property
    def selector(self) -> LabelSelector | None:
        return self.metric.selector


@dataclass(frozen=True, slots=True)
class ResourceMetric(_ResourceSource):
    """`ResourceMetricSource`: the usage of cpu, memory or another resource by each pod."""

    type = "Resource"
    name: str
    target: MetricTarget


@dataclass(frozen=True, slots=True)
class ContainerResourceMetric(_ResourceSource):
    """`ContainerResourceMetricSource`: the usage of a resource by one container of each pod."""

    type = "ContainerResource"
    name: str
    container: str = field()  # without the default that it inherits
    target: MetricTarget


@dataclass(frozen=True, slots=True)
class PodsMetric(_IdentifiedSource):
    """`PodsMetricSource`: a custom metric of each pod, averaged."""

    type = "Pods"
    metric: MetricIdentifier
    target: MetricTarget


@dataclass(frozen=True, slots=True)
class ObjectMetric(_IdentifiedSource):
    """`ObjectMetricSource`: a metric of one Kubernetes object."""

    type = "Object"
    of_pods = False
    described_object: ScaleTargetRef = field()
    metric: MetricIdentifier
    target: MetricTarget


@dataclass(frozen=True, slots=True)
class ExternalMetric(_IdentifiedSource):
    """`ExternalMetricSource`: a metric of no Kubernetes object, such as the length of a queue."""

    type = "External"
    of_pods = False
    metric: MetricIdentifier
    target: MetricTarget


MetricSpec = ResourceMetric | ContainerResourceMetric | PodsMetric | ObjectMetric | ExternalMetric

SOURCES = {kind.type: kind.type[0].lower() + kind.type[1:] for kind in get_args(MetricSpec)}
"""`metrics[].type` -> the key of its source, such as containerResource."""


@dataclass(frozen=True, slots=True)
class ScalingPolicy:
    """`HPAScalingPolicy`: a change of at most ``value`` pods or percent in ``period_seconds``."""

    type: PolicyType
    value: int
    period_seconds: int


@dataclass(frozen=True, slots=True)
class ScalingRules:
    """`HPAScalingRules` of one direction; for a tolerance or a down window of None see `Flags`."""

    stabilization_window_seconds: int | None
    select_policy: SelectPolicy
    policies: tuple[ScalingPolicy, ...]
    tolerance: float | None = None


@dataclass(frozen=True, slots=True)
class Behavior:
    """`HorizontalPodAutoscalerBehavior`; defaulting has completed both directions."""

    scale_up: ScalingRules
    scale_down: ScalingRules


@dataclass(frozen=True, slots=True)
class HorizontalPodAutoscalerSpec:
    """`HorizontalPodAutoscalerSpec`."""

    scale_target_ref: ScaleTargetRef
    min_replicas: int
    max_replicas: int
    metrics: tuple[MetricSpec, ...]
    behavior: Behavior | None = None


@dataclass(frozen=True, slots=True)
class Flags:
    """Flags of kube-controller-manager that decisions depend on (durations: seconds), and ours.

    After ``hold_after_reversals`` reversals of our writes nothing is written for a while (semantics
    7.5); 0 disables this. With ``keep_above_target`` a Value metric above its target proposes at
    least the current count (6.18).
    """

    tolerance: float = 0.1
    downscale_stabilization: float = 300.0
    cpu_initialization_period: float = 300.0
    initial_readiness_delay: float = 30.0
    hold_after_reversals: int = 3
    keep_above_target: bool = True


class Tolerance(NamedTuple):
    """How far a ratio may be below and above 1.0 without a change of scale."""

    down: float
    up: float

    def covers(self, ratio: float) -> bool:
        """Return whether the ratio is within tolerance, borders included; NaN never is."""
        return (1.0 - self.down) <= ratio <= (1.0 + self.up)


def tolerance_of(spec: HorizontalPodAutoscalerSpec, flags: Flags) -> Tolerance:
    """Return the tolerance of each direction: of its behavior, or of the flags."""
    if spec.behavior is None:
        return Tolerance(flags.tolerance, flags.tolerance)
    own = (spec.behavior.scale_down.tolerance, spec.behavior.scale_up.tolerance)
    return Tolerance(*(flags.tolerance if number is None else number for number in own))


def down_window(behavior: Behavior | None, flags: Flags) -> float:
    """Return the stabilization window of scale-down in seconds."""
    if behavior is None:
        return flags.downscale_stabilization
    seconds = behavior.scale_down.stabilization_window_seconds
    return float(int(flags.downscale_stabilization) if seconds is None else seconds)


def name_of(metric: MetricSpec) -> str:
    """Return the short name of a metric: `orders`, `cpu`, `cpu of app` of a container."""
    return f"{metric.name} of {metric.container}" if metric.container else metric.name


def needs_pods(spec: HorizontalPodAutoscalerSpec) -> bool:
    """Return whether a decision may need the pods: Value targets count the ready ones (1.3.1)."""
    return any(metric.of_pods or metric.target.value is not None for metric in spec.metrics)
