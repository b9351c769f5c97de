"""What the user asks for: `HorizontalPodAutoscalerSpec` (autoscaling/v2), defaulted and valid.

Quantities are integers of milli-units; tolerances are doubles.  Field names are the API's in
snake_case.
"""

from dataclasses import dataclass
from enum import StrEnum

from autoscaler.core.numbers import Tolerance
from autoscaler.core.selectors import LabelSelector


class SelectPolicy(StrEnum):
    """Which of several policies counts: the one that allows the largest or smallest change."""

    MAX = "Max"
    MIN = "Min"
    DISABLED = "Disabled"


class PolicyType(StrEnum):
    """Whether a policy's value counts pods or percent of the pods."""

    PODS = "Pods"
    PERCENT = "Percent"


class TargetType(StrEnum):
    """`MetricTarget.type`."""

    UTILIZATION = "Utilization"
    VALUE = "Value"
    AVERAGE_VALUE = "AverageValue"


@dataclass(frozen=True, slots=True)
class ScaleTargetRef:
    """`CrossVersionObjectReference`: the workload whose scale subresource is written."""

    api_version: str
    kind: str
    name: str

    @property
    def group(self) -> str:
        """The API group; empty for the core group."""
        return self.api_version.rpartition("/")[0]


@dataclass(frozen=True, slots=True)
class MetricTarget:
    """`MetricTarget`: values in milli-units, utilization in percent of the request."""

    type: TargetType
    value: int | None = None
    average_value: int | None = None
    average_utilization: int | None = None


@dataclass(frozen=True, slots=True)
class MetricIdentifier:
    """`MetricIdentifier`: a metric's name and the selector of its series."""

    name: str
    selector: LabelSelector | None = None


@dataclass(frozen=True, slots=True)
class ResourceMetric:
    """`ResourceMetricSource`: cpu, memory or another resource of whole pods."""

    type = "Resource"
    name: str
    target: MetricTarget
    container: None = None


@dataclass(frozen=True, slots=True)
class ContainerResourceMetric:
    """`ContainerResourceMetricSource`: a resource of one container in each pod."""

    type = "ContainerResource"
    name: str
    container: str
    target: MetricTarget


@dataclass(frozen=True, slots=True)
class PodsMetric:
    """`PodsMetricSource`: a custom metric of each pod, averaged."""

    type = "Pods"
    metric: MetricIdentifier
    target: MetricTarget


@dataclass(frozen=True, slots=True)
class ObjectMetric:
    """`ObjectMetricSource`: a metric of one Kubernetes object."""

    type = "Object"
    described_object: ScaleTargetRef
    metric: MetricIdentifier
    target: MetricTarget


@dataclass(frozen=True, slots=True)
class ExternalMetric:
    """`ExternalMetricSource`: a metric of something outside the cluster, such as a queue."""

    type = "External"
    metric: MetricIdentifier
    target: MetricTarget


MetricSpec = ResourceMetric | ContainerResourceMetric | PodsMetric | ObjectMetric | ExternalMetric


@dataclass(frozen=True, slots=True)
class ScalingPolicy:
    """`HPAScalingPolicy`: at most ``value`` pods or percent within ``period_seconds``."""

    type: PolicyType
    value: int
    period_seconds: int


@dataclass(frozen=True, slots=True)
class ScalingRules:
    """`HPAScalingRules` of one direction.

    A window of None means the flag's (scale-down only); a tolerance of None means the flag's.
    """

    stabilization_window_seconds: int | None
    select_policy: SelectPolicy
    policies: tuple[ScalingPolicy, ...]
    tolerance: float | None = None


@dataclass(frozen=True, slots=True)
class Behavior:
    """`HorizontalPodAutoscalerBehavior`, both directions completed by defaulting."""

    scale_up: ScalingRules
    scale_down: ScalingRules


@dataclass(frozen=True, slots=True)
class HorizontalPodAutoscalerSpec:
    """`HorizontalPodAutoscalerSpec`, after defaulting and validation."""

    scale_target_ref: ScaleTargetRef
    min_replicas: int
    max_replicas: int
    metrics: tuple[MetricSpec, ...]
    behavior: Behavior | None = None


@dataclass(frozen=True, slots=True)
class Flags:
    """The HPA's flags of kube-controller-manager that a decision depends on, in seconds.

    ``hold_after_reversals`` is ours: so many reversals of our writes by others within ten minutes
    make us hold (`autoscaler.core.contention`); 0 means never, as the HPA does.
    """

    tolerance: float = 0.1
    downscale_stabilization: float = 300.0
    cpu_initialization_period: float = 300.0
    initial_readiness_delay: float = 30.0
    hold_after_reversals: int = 3


def tolerance_of(spec: HorizontalPodAutoscalerSpec, flags: Flags) -> Tolerance:
    """Return the tolerance in force: each direction's own, else the flag's."""
    if spec.behavior is None:
        return Tolerance(flags.tolerance, flags.tolerance)
    down, up = spec.behavior.scale_down.tolerance, spec.behavior.scale_up.tolerance
    return Tolerance(
        flags.tolerance if down is None else down, flags.tolerance if up is None else up
    )


def needs_pods(spec: HorizontalPodAutoscalerSpec) -> bool:
    """Tell whether a decision may look at pods.

    Per-pod metrics always do; Object and External metrics with a Value target multiply by the
    pods that are ready; those with an AverageValue target look at no pod.
    """
    return any(
        not isinstance(metric, ObjectMetric | ExternalMetric) or metric.target.value is not None
        for metric in spec.metrics
    )
