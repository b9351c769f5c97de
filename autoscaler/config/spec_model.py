"""A target in the configuration: autoscaling/v2's spec field for field, its queries, and more."""

import functools
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated, ClassVar, Literal, TypeAlias

from pydantic import (
    AfterValidator,
    BeforeValidator,
    Field,
    ValidatorFunctionWrapHandler,
    WrapValidator,
)

from autoscaler import quantities
from autoscaler.config.documents import one_line
from autoscaler.config.fields import (
    ActivationQuantity,
    ApiVersion,
    ContainerResource,
    Count,
    CronExpression,
    DnsLabel,
    Duration,
    LongerThanZero,
    PositiveCount,
    PromQL,
    Segment,
    SyncPeriod,
    TargetQuantity,
    Text,
    TimeZone,
    ToleranceQuantity,
)
from autoscaler.config.models import Items, Model, OrDefault, SchemaAlternative, seconds
from autoscaler.core import spec
from autoscaler.core.extensions import Fallback, Idle, ReplicaRounding, Schedule
from autoscaler.core.numbers import INT32_MAX
from autoscaler.core.target import Query, SeriesLabels

_USUAL = Query(promql="")
_IDLE = Idle()
_FALLBACK = Fallback(replicas=0)
_MATCHER = re.compile(r"[^=!~\"']+(=|!=|=~|!~)[\"'`]")


class SeriesLabelsModel(Model):
    """The names of the labels that identify the object of a series."""

    core: ClassVar = SeriesLabels

    namespace: OrDefault[Text] = _USUAL.labels.namespace
    """The label that holds the namespace."""
    pod: OrDefault[Text] = _USUAL.labels.pod
    """The label that holds the pod's name."""
    container: OrDefault[Text] = _USUAL.labels.container
    """The label that holds the container's name."""


class SharedQueryModel(Model):
    """The server of a query, and how its answer is read."""

    server: Text | None = None
    """A key of `prometheus.servers`, or default. Default: the target's server."""
    max_age: OrDefault[LongerThanZero] = seconds(_USUAL.max_age)
    """Older samples do not count."""
    nan: OrDefault[Literal["fail", "zero"]] = "fail"
    """The meaning of NaN, such as of 0/0: missing data (fail), or 0."""
    partial: OrDefault[Literal["hold", "use"]] = "hold"
    """Whether a reading that may be incomplete may scale down: no (hold) or yes (use)."""


class BoundQueryModel(SharedQueryModel):
    """PromQL that returns one value: a bound of the replicas."""

    query: PromQL
    """The PromQL; targets with equal PromQL of one server share a request."""
    empty: OrDefault[Literal["fail", "zero"]] = "fail"
    """The meaning of an answer without series: missing data (fail), or a value of 0."""


class QueryModel(BoundQueryModel):
    """PromQL, and how its answer is read."""

    window: Duration | None = None
    """The time that a sample averages over, usually the range of rate(). Default: 60s; the
    built-in's for an override in `resourceQueries`."""
    labels: SeriesLabelsModel | None = None
    """The names of the labels, if they differ from the usual ones."""


@dataclass(frozen=True)
class _PromqlShorthand:
    """Accepts PromQL in place of the mapping with `query`; ``keys`` are the mapping's."""

    keys: str

    def __call__(self, value: object) -> object:
        if isinstance(value, str):
            return {"query": value}
        if isinstance(value, dict):
            _refuse_unquoted_selector(value)
        if isinstance(value, dict | Model):
            return value
        raise ValueError(f"must be PromQL, or a mapping with {self.keys}")


def _refuse_unquoted_selector(value: dict[object, object]) -> None:
    """Refuse PromQL that begins with ``{`` and that YAML has parsed: keys such as ``job="a"``."""
    matchers = [key for key in value if isinstance(key, str) and _MATCHER.match(key)]
    if matchers and len(matchers) == len(value) and not any(value.values()):
        meant = one_line("'{" + ", ".join(matchers).replace("'", "''") + "}'", 200)
        raise ValueError(
            f"is PromQL that begins with {{, a mapping in YAML: put it in quotes, as in {meant}"
        )


_OR_PROMQL = SchemaAlternative({"type": "string", "pattern": r"\S"})
_QUERY_FORM = BeforeValidator(_PromqlShorthand("`query` and what else is needed"))
QuerySource = Annotated[QueryModel, _QUERY_FORM, _OR_PROMQL]
BoundQuerySource = Annotated[BoundQueryModel, _QUERY_FORM, _OR_PROMQL]


class CrossVersionObjectReference(Model):
    """A Kubernetes object, by group, kind and name."""

    core: ClassVar = spec.ScaleTargetRef

    api_version: OrDefault[ApiVersion] = ""
    """Group and version, such as apps/v1; v1 is the core group."""
    kind: Segment
    """The object's kind, such as Deployment."""
    name: Segment
    """The object's name."""


class ScaleTargetRef(CrossVersionObjectReference):
    """The workload to scale, by group, kind and name."""


class LabelSelectorRequirement(Model):
    """One condition on one label of a series."""

    core: ClassVar = spec.Requirement

    key: Text
    """The label's name."""
    operator: Literal["In", "NotIn", "Exists", "DoesNotExist"]
    """In and NotIn compare with `values`; Exists and DoesNotExist take none."""
    values: OrDefault[Items[str]] = Field(default_factory=tuple)
    """The values of In and NotIn."""


class LabelSelector(Model):
    """Selects the query's series that count; all conditions must hold."""

    core: ClassVar = spec.LabelSelector
    in_core: ClassVar = {"match_labels": lambda labels: tuple(labels.items())}

    match_labels: OrDefault[dict[str, str]] = Field(default_factory=dict)
    """Labels and their required values."""
    match_expressions: OrDefault[Items[LabelSelectorRequirement]] = Field(default_factory=tuple)
    """Further conditions: In, NotIn, Exists, DoesNotExist."""


class MetricIdentifier(Model):
    """The query of the metric, and which of its series count."""

    core: ClassVar = spec.MetricIdentifier

    name: Segment
    """A key of `queries`; any name if the metric has its own `query`."""
    selector: LabelSelector | None = None
    """Selects the query's series that count; absent means all."""
    query: QuerySource | None = None
    """The metric's own PromQL, instead of one of `queries`."""


class MetricTarget(Model):
    """The target value of a metric."""

    core: ClassVar = spec.MetricTarget
    in_core: ClassVar = dict.fromkeys(("value", "average_value"), quantities.parse_milli)

    type: Literal["Utilization", "Value", "AverageValue"]
    """The type of the number: Utilization (percent of the request), AverageValue (per pod) or
    Value."""
    value: TargetQuantity | None = None
    """The target of the metric's total, regardless of the replicas."""
    average_value: TargetQuantity | None = None
    """The target of the metric divided by the number of pods."""
    average_utilization: PositiveCount | None = None
    """The target usage in percent of the pods' requests."""


class ResourceMetricSource(Model):
    """cpu, memory or another resource of whole pods."""

    core: ClassVar[type] = spec.ResourceMetric

    name: Text
    """The resource: cpu, memory or a key of `resourceQueries`."""
    target: MetricTarget
    """averageUtilization or averageValue."""
    query: QuerySource | None = None
    """The metric's own PromQL, by namespace, pod and container."""


class ContainerResourceMetricSource(ResourceMetricSource):
    """A resource of one container in each pod."""

    core: ClassVar[type] = spec.ContainerResourceMetric

    name: ContainerResource
    """The resource: cpu, memory or a key of `resourceQueries`."""
    container: DnsLabel
    """The container's name."""


class PodsMetricSource(Model):
    """A metric of each pod, averaged over the pods."""

    core: ClassVar = spec.PodsMetric

    metric: MetricIdentifier
    """The query, and which of its series count."""
    target: MetricTarget
    """averageValue: the target of each pod."""


class ObjectMetricSource(Model):
    """A metric of one Kubernetes object, such as an Ingress."""

    core: ClassVar = spec.ObjectMetric

    described_object: CrossVersionObjectReference
    """The object that the metric is about."""
    metric: MetricIdentifier
    """The query, and which of its series count."""
    target: MetricTarget
    """value or averageValue."""


class ExternalMetricSource(Model):
    """A metric of something outside the cluster, such as a queue; its series are summed."""

    core: ClassVar = spec.ExternalMetric

    metric: MetricIdentifier
    """The query, and which of its series count."""
    target: MetricTarget
    """value, or averageValue per pod."""


class MetricSpec(Model):
    """One metric: its type, and the one source that belongs to the type."""

    type: Literal["ContainerResource", "External", "Object", "Pods", "Resource"]
    """The key of the source below that describes the metric."""
    resource: ResourceMetricSource | None = None
    """type Resource: cpu or memory of whole pods."""
    container_resource: ContainerResourceMetricSource | None = None
    """type ContainerResource: cpu or memory of one container."""
    pods: PodsMetricSource | None = None
    """type Pods: a metric of each pod."""
    object: ObjectMetricSource | None = None
    """type Object: a metric of one Kubernetes object."""
    external: ExternalMetricSource | None = None
    """type External: a metric of something else, such as a queue."""
    activation: ActivationQuantity | None = None
    """With `idle`, the metric is active above this; External and Object only. Default: 0."""

    @property
    def source(
        self,
    ) -> ResourceMetricSource | PodsMetricSource | ObjectMetricSource | ExternalMetricSource:
        """The source of the type; raises ValueError if the rules failed to report it missing."""
        source = (
            self.resource or self.container_resource or self.pods or self.object or self.external
        )
        if source is None:
            raise ValueError(f"a metric of type {self.type} without a source")
        return source


class HPAScalingPolicy(Model):
    """One rate limit: a number of pods, or a percentage of the pods, within a period."""

    core: ClassVar = spec.ScalingPolicy

    type: Literal["Pods", "Percent"]
    """The unit of `value`."""
    value: PositiveCount
    """Pods or percent; percent may exceed 100."""
    period_seconds: int = Field(ge=1, le=1800)
    """The period in seconds, 1 to 1800."""


@functools.cache
def _policies_down() -> tuple[HPAScalingPolicy, ...]:
    return (HPAScalingPolicy(type="Percent", value=100, periodSeconds=15),)


@functools.cache
def _policies_up() -> tuple[HPAScalingPolicy, ...]:
    return (HPAScalingPolicy(type="Pods", value=4, periodSeconds=15), *_policies_down())


WindowSeconds = Annotated[int, Field(ge=0, le=3600)]
Policies = Annotated[Items[HPAScalingPolicy], Field(min_length=1)]
_WINDOW = (
    "Seconds over which the most cautious recommendation counts, 0 to 3600. Default: 0 up, "
    "`downscaleStabilization` down."
)
_POLICIES = "Rate limits. Default: up 4 pods or 100 percent in 15 s, down 100 percent in 15 s."


class HPAScalingRules(Model):
    """The rate limits and the sensitivity of one direction."""

    core: ClassVar = spec.ScalingRules
    in_core: ClassVar = {
        "tolerance": lambda text: quantities.tolerance_value(quantities.parse_quantity(text))
    }

    stabilization_window_seconds: WindowSeconds | None = Field(default=None, description=_WINDOW)
    select_policy: OrDefault[Literal["Max", "Min", "Disabled"]] = "Max"
    """The policy that counts: the largest change (Max) or the smallest (Min); Disabled forbids this
    direction."""
    policies: OrDefault[Policies] = Field(default_factory=_policies_down, description=_POLICIES)
    tolerance: ToleranceQuantity | None = None
    """How much the ratio may differ from 1 without a change. Default: `tolerance`."""


class HPAScaleUpRules(HPAScalingRules):
    """The rate limits and the sensitivity of scaling up."""

    stabilization_window_seconds: OrDefault[WindowSeconds] = Field(default=0, description=_WINDOW)
    policies: OrDefault[Policies] = Field(default_factory=_policies_up, description=_POLICIES)


class HorizontalPodAutoscalerBehavior(Model):
    """Both directions; missing keys have the HPA's defaults."""

    core: ClassVar = spec.Behavior

    scale_up: OrDefault[HPAScaleUpRules] = Field(default_factory=HPAScaleUpRules)
    """The rules of scaling up."""
    scale_down: OrDefault[HPAScalingRules] = Field(default_factory=HPAScalingRules)
    """The rules of scaling down."""


@functools.cache
def _default_metrics() -> tuple[MetricSpec, ...]:
    target = MetricTarget(type="Utilization", averageUtilization=80)
    source = ResourceMetricSource(name="cpu", target=target)
    return (MetricSpec(type="Resource", resource=source),)


def _or_default_metrics(metrics: tuple[MetricSpec, ...]) -> tuple[MetricSpec, ...]:
    return metrics or _default_metrics()


class HorizontalPodAutoscalerSpec(Model):
    """The spec of an autoscaler, as in autoscaling/v2, with the API's defaults (semantics 5.1)."""

    in_core: ClassVar = {
        "metrics": lambda metrics: tuple(each.source.as_core(each.source.core) for each in metrics)
    }

    scale_target_ref: ScaleTargetRef
    """The workload to scale: any kind with a scale subresource."""
    min_replicas: OrDefault[Count] = 1
    """The fewest replicas; 0 needs an Object or External metric."""
    max_replicas: PositiveCount
    """The most replicas."""
    metrics: OrDefault[Annotated[Items[MetricSpec], AfterValidator(_or_default_metrics)]] = Field(
        default_factory=_default_metrics
    )
    """The metrics; the largest proposal wins. Default: cpu at 80 percent of its request."""
    behavior: HorizontalPodAutoscalerBehavior | None = None
    """Rate limits, stabilization and tolerance by direction."""


class HoldQueryModel(SharedQueryModel):
    """PromQL, or the name of a query: while it returns a series, nothing scales down.

    Nothing scales down either while it has no valid answer.
    """

    query: PromQL | None = None
    """The PromQL; one of `query` and `name` is required."""
    name: Text | None = None
    """A key of `queries`; its PromQL, server and maxAge apply."""
    selector: LabelSelector | None = None
    """Selects the series of the answer that count. Default: all."""


HoldQuerySource = Annotated[
    HoldQueryModel, BeforeValidator(_PromqlShorthand("`query` or `name`")), _OR_PROMQL
]


class PodDeletionCostModel(SharedQueryModel):
    """PromQL that returns one value for each pod."""

    query: PromQL
    """The PromQL; its series have the labels of a namespace and a pod."""
    labels: SeriesLabelsModel | None = None
    """The names of the labels, if they differ from the usual ones."""


PodDeletionCostSource = Annotated[PodDeletionCostModel, _QUERY_FORM, _OR_PROMQL]


class ScaleDownModel(Model):
    """Which pods a scale-down removes."""

    pod_deletion_cost: PodDeletionCostSource
    """PromQL with one value for each pod: the pods with the lowest values go first."""


class IdleModel(Model):
    """When a target scales to few or no replicas, and to how many."""

    core: ClassVar = Idle

    replicas: OrDefault[Count] = _IDLE.replicas
    """The count while idle, less than minReplicas."""
    after: OrDefault[Duration] = seconds(_IDLE.after)
    """The time without an active metric after which the target goes idle."""
    initially: OrDefault[Duration] = seconds(_IDLE.initially)
    """The time after its first sync in which a target does not go idle."""
    gradual: OrDefault[bool] = _IDLE.gradual
    """Whether it goes idle by the policies of `behavior.scaleDown`, and not at once."""


class ReplicasModel(Model):
    """Scales in whole slices, groups or zones."""

    core: ClassVar = ReplicaRounding

    multiple_of: int = Field(ge=2, le=INT32_MAX)
    """Counts are rounded up to a multiple within the bounds, except the counts of `idle` and
    `paused`."""


class FallbackModel(Model):
    """The proposal of a metric that failed in many consecutive syncs."""

    core: ClassVar = Fallback

    replicas: Count | None = None
    """The count; required unless behavior is currentReplicas."""
    failure_threshold: OrDefault[PositiveCount] = _FALLBACK.failure_threshold
    """The number of consecutive failed syncs after which the fallback applies."""
    behavior: OrDefault[
        Literal["static", "currentReplicas", "currentReplicasIfHigher", "currentReplicasIfLower"]
    ] = _FALLBACK.behavior.value
    """static: replicas; currentReplicas: the current count; the others: the larger or the smaller
    of both."""


class PausedReplicas(Model):
    """A fixed count."""

    replicas: Count
    """The count."""


def _paused(value: object, handler: ValidatorFunctionWrapHandler) -> object:
    """Select the form explicitly, so that an error is reported for one form only."""
    if isinstance(value, Mapping):
        return PausedReplicas.model_validate(value)
    if isinstance(value, bool) or value in ("scaleDown", "scaleUp"):
        return handler(value)
    raise ValueError("must be true, false, scaleDown, scaleUp or {replicas: N}")


Paused: TypeAlias = Annotated[
    bool | Literal["scaleDown", "scaleUp"] | PausedReplicas, WrapValidator(_paused)
]
"""Both directions, none or one; or both at a fixed count."""


class UndecidedModel(Model):
    """A key that a conversion could not decide: a file with one is invalid."""

    field: Text
    """The field of the manifest that was converted."""
    type: Text | None = None
    """The type of its trigger, if it has one."""
    why: Text
    """The action that fixes it."""


Undecided = Annotated[
    OrDefault[Items[UndecidedModel]],
    Field(
        default_factory=tuple,
        description="What a conversion left to decide; delete each entry once that is done.",
        json_schema_extra={"maxItems": 0},
    ),
]
"""In the JSON Schema the key must be absent."""


class ScheduleModel(Model):
    """A time window, and the bounds that replace the target's while it is open."""

    core: ClassVar = Schedule

    name: Text
    """The name of the window in explanations, such as office."""
    start: CronExpression
    """When it opens: minute, hour, day, month, day of the week, as 0 8 * * 1-5."""
    end: CronExpression
    """When it closes: also a cron expression."""
    timezone: OrDefault[TimeZone] = "UTC"
    """The IANA name of the zone of both, such as Europe/Berlin."""
    min_replicas: Count | None = None
    """The fewest replicas while it is open. Default: the target's."""
    max_replicas: PositiveCount | None = None
    """The most replicas while it is open. Default: the target's."""
    gradual: OrDefault[bool] = False
    """Whether a count outside of the bounds approaches them by the policies of `behavior`, and not
    at once."""


class ScalingModel(HorizontalPodAutoscalerSpec):
    """A HorizontalPodAutoscalerSpec, and the keys that the HPA does not have."""

    sync_period: SyncPeriod | None = None
    """The time from one decision on this target to the next, 1s to 1h. Default: the document's
    syncPeriod."""
    server: Text | None = None
    """A key of `prometheus.servers`, or default: the server of the target's queries without a
    server. Default: default."""
    mode: OrDefault[Literal["live", "shadow"]] = "live"
    """live, or shadow: decisions are made and never written, next to the HPA that writes."""
    idle: IdleModel | None = None
    """Scales to few or no replicas while no metric is active."""
    replicas: ReplicasModel | None = None
    """Restricts the counts, as for slices, groups or zones."""
    fallback: FallbackModel | None = None
    """The proposal of a metric that fails for some time."""
    paused: OrDefault[Paused] = False
    """true, scaleDown, scaleUp or {replicas: N}: no scaling, none down, none up, or this count."""
    schedules: OrDefault[Items[ScheduleModel]] = Field(default_factory=tuple)
    """Bounds by time, in place of the target's own."""
    min_replicas_query: BoundQuerySource | None = None
    """PromQL with one value that, rounded up, replaces minReplicas within the bounds."""
    max_replicas_query: BoundQuerySource | None = None
    """PromQL with one value that, rounded up, replaces maxReplicas within the bounds."""
    hold_scale_down_query: HoldQuerySource | None = None
    """PromQL, or a mapping with `query` or `name`: nothing scales down while it has no valid
    answer, or returns a series that is not 0 (any series, if it is a comparison)."""
    scale_down: ScaleDownModel | None = None
    """Chooses the pods that a scale-down removes, by a query."""
    ignore_surge: OrDefault[bool] = False
    """Whether to ignore pods above spec.replicas, as in a rollout."""


class TargetModel(ScalingModel):
    """One workload and its scaling: a namespace, a HorizontalPodAutoscalerSpec, and more."""

    cluster: DnsLabel | None = None
    """The name of one of `clusters`. Default: the only one."""
    clusters: Annotated[Items[DnsLabel], Field(min_length=1)] | None = None
    """Names of several clusters with such a workload: one target each, equal except for the
    cluster."""
    namespace: DnsLabel
    """The namespace of the workload."""
    undecided: Undecided


class ObjectSpecModel(ScalingModel):
    """The spec of a PromqlAutoscaler, which scales a workload in its own namespace."""

    queries: OrDefault[dict[Text, QuerySource]] = Field(default_factory=dict)
    """PromQL by name, for the metrics of this object."""
