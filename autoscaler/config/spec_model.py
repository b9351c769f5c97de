"""A target as a user writes it: queries, and autoscaling/v2's spec field for field."""

import functools
import re
from typing import Annotated, Literal

from pydantic import AfterValidator, BeforeValidator, Field

from autoscaler.config.document import one_line
from autoscaler.config.extension_models import FallbackModel, IdleModel, Paused, ScheduleModel
from autoscaler.config.fields import (
    ActivationQuantity,
    ApiVersion,
    ContainerResource,
    Count,
    DnsLabel,
    Duration,
    LongerThanZero,
    PositiveCount,
    PromQL,
    Segment,
    SyncPeriod,
    TargetQuantity,
    Text,
    ToleranceQuantity,
)
from autoscaler.config.model_base import Items, Model, OrDefault, SchemaAlternative, seconds
from autoscaler.core.target import Query

_USUAL = Query(promql="")
_MATCHER = re.compile(r"[^=!~\"']+(=|!=|=~|!~)[\"'`]")


class SeriesLabelsModel(Model):
    """The names of the labels that say which object a series is about."""

    namespace: OrDefault[Text] = Field(
        default=_USUAL.labels.namespace, description="The label that holds the namespace."
    )
    pod: OrDefault[Text] = Field(
        default=_USUAL.labels.pod, description="The label that holds the pod's name."
    )
    container: OrDefault[Text] = Field(
        default=_USUAL.labels.container, description="The label that holds the container's name."
    )


class BoundQueryModel(Model):
    """PromQL that returns one value: a bound of the replicas."""

    query: PromQL = Field(
        description="The PromQL; targets with equal PromQL of one server share a request."
    )
    server: Text | None = Field(
        default=None,
        description="A key of `prometheus.servers`, or default. Default: the target's server.",
    )
    max_age: OrDefault[LongerThanZero] = seconds(_USUAL.max_age, "Older samples do not count.")
    empty: OrDefault[Literal["fail", "zero"]] = Field(
        default="fail",
        description="What an answer without series is: missing data (fail), or a value of 0.",
    )
    nan: OrDefault[Literal["fail", "zero"]] = Field(
        default="fail", description="What NaN is, such as of 0/0: missing data (fail), or 0."
    )
    partial: OrDefault[Literal["hold", "use"]] = Field(
        default="hold",
        description="Whether a reading that may be incomplete may scale down: no (hold), or as "
        "any (use).",
    )


class QueryModel(BoundQueryModel):
    """PromQL, and how its answer is read."""

    window: Duration | None = Field(
        default=None,
        description="The time that a sample averages over, usually the range of rate(). "
        "Default: 60s; the built-in's for an override in `resourceQueries`.",
    )
    labels: SeriesLabelsModel | None = Field(
        default=None, description="The names of the labels, where they are not the usual ones."
    )


def _query_form(value: object) -> object:
    if isinstance(value, str):
        return {"query": value}
    if isinstance(value, dict):
        _refuse_unquoted_selector(value)
    if isinstance(value, dict | BoundQueryModel):
        return value
    raise ValueError("must be PromQL, or a mapping with `query` and what else is needed")


def _refuse_unquoted_selector(value: dict[object, object]) -> None:
    """Refuse what YAML makes of PromQL that begins with ``{``: keys such as ``job="a"``."""
    matchers = [key for key in value if isinstance(key, str) and _MATCHER.match(key)]
    if matchers and len(matchers) == len(value) and not any(value.values()):
        meant = one_line("'{" + ", ".join(matchers).replace("'", "''") + "}'", 200)
        raise ValueError(
            "is PromQL that begins with {, of which YAML makes a mapping: put it in quotes, as in "
            f"{meant}"
        )


QuerySource = Annotated[
    QueryModel,
    BeforeValidator(_query_form),
    SchemaAlternative({"type": "string", "pattern": r"\S"}),
]
"""Either form; PromQL alone becomes the mapping with `query`."""

BoundQuerySource = Annotated[
    BoundQueryModel,
    BeforeValidator(_query_form),
    SchemaAlternative({"type": "string", "pattern": r"\S"}),
]


class CrossVersionObjectReference(Model):
    """A Kubernetes object, by group, kind and name."""

    api_version: OrDefault[ApiVersion] = Field(
        default="", description="Group and version, such as apps/v1; v1 is the core group."
    )
    kind: Segment = Field(description="The object's kind, such as Deployment.")
    name: Segment = Field(description="The object's name.")


class ScaleTargetRef(CrossVersionObjectReference):
    """The workload to scale, by group, kind and name."""


class LabelSelectorRequirement(Model):
    """One condition on one label of a series."""

    key: Text = Field(description="The label's name.")
    operator: Literal["In", "NotIn", "Exists", "DoesNotExist"] = Field(
        description="In and NotIn compare with `values`; Exists and DoesNotExist take none."
    )
    values: OrDefault[Items[str]] = Field(
        default_factory=tuple, description="The values of In and NotIn."
    )


class LabelSelector(Model):
    """Which of the query's series count; all conditions must hold."""

    match_labels: OrDefault[dict[str, str]] = Field(
        default_factory=dict, description="Labels and the values that they must have."
    )
    match_expressions: OrDefault[Items[LabelSelectorRequirement]] = Field(
        default_factory=tuple, description="Further conditions: In, NotIn, Exists, DoesNotExist."
    )


class MetricIdentifier(Model):
    """Which query gives the metric, and which of its series count."""

    name: Segment = Field(
        description="A key of `queries`; free where the metric has its own `query`."
    )
    selector: LabelSelector | None = Field(
        default=None, description="Which of the query's series count; absent means all."
    )
    query: QuerySource | None = Field(
        default=None, description="The metric's own PromQL, instead of one of `queries`."
    )


class MetricTarget(Model):
    """The value to hold the metric at."""

    type: Literal["Utilization", "Value", "AverageValue"] = Field(
        description="Utilization: percent of the request; AverageValue: per pod; Value: as it is."
    )
    value: TargetQuantity | None = Field(
        default=None, description="The metric itself should be this, whatever the replicas."
    )
    average_value: TargetQuantity | None = Field(
        default=None, description="The metric divided by the pods should be this."
    )
    average_utilization: PositiveCount | None = Field(
        default=None, description="Usage in percent of what the pods request."
    )


class ResourceMetricSource(Model):
    """cpu, memory or another resource of whole pods."""

    name: Text = Field(description="The resource: cpu, memory or a key of `resourceQueries`.")
    target: MetricTarget = Field(description="averageUtilization or averageValue.")
    query: QuerySource | None = Field(
        default=None, description="The metric's own PromQL, by namespace, pod and container."
    )


class ContainerResourceMetricSource(Model):
    """A resource of one container in each pod."""

    name: ContainerResource = Field(
        description="The resource: cpu, memory or a key of `resourceQueries`."
    )
    container: DnsLabel = Field(description="The container's name.")
    target: MetricTarget = Field(description="averageUtilization or averageValue.")
    query: QuerySource | None = Field(
        default=None, description="The metric's own PromQL, by namespace, pod and container."
    )


class PodsMetricSource(Model):
    """A metric of each pod, averaged over the pods."""

    metric: MetricIdentifier = Field(description="Which query, and which of its series.")
    target: MetricTarget = Field(description="averageValue: what each pod should have.")


class ObjectMetricSource(Model):
    """A metric of one Kubernetes object, such as an Ingress."""

    described_object: CrossVersionObjectReference = Field(
        description="The object that the metric is about."
    )
    metric: MetricIdentifier = Field(description="Which query, and which of its series.")
    target: MetricTarget = Field(description="value or averageValue.")


class ExternalMetricSource(Model):
    """A metric of something outside the cluster, such as a queue; its series are summed."""

    metric: MetricIdentifier = Field(description="Which query, and which of its series.")
    target: MetricTarget = Field(description="value, or averageValue per pod.")


class MetricSpec(Model):
    """One metric: its type, and the one source that belongs to the type."""

    type: Literal["ContainerResource", "External", "Object", "Pods", "Resource"] = Field(
        description="Which source below describes the metric."
    )
    resource: ResourceMetricSource | None = Field(
        default=None, description="type Resource: cpu or memory of whole pods."
    )
    container_resource: ContainerResourceMetricSource | None = Field(
        default=None, description="type ContainerResource: cpu or memory of one container."
    )
    pods: PodsMetricSource | None = Field(
        default=None, description="type Pods: a metric of each pod."
    )
    object: ObjectMetricSource | None = Field(
        default=None, description="type Object: a metric of one Kubernetes object."
    )
    external: ExternalMetricSource | None = Field(
        default=None, description="type External: a metric of something else, such as a queue."
    )
    activation: ActivationQuantity | None = Field(
        default=None,
        description="With `idle`, the metric is active above this; External and Object only. "
        "Default: 0.",
    )

    @property
    def source(self) -> "MetricSource":
        """The source of the type; raises ValueError where the rules would have found it missing."""
        found = (
            self.resource or self.container_resource or self.pods or self.object or self.external
        )
        if found is None:
            raise ValueError(f"a metric of type {self.type} without a source")
        return found


MetricSource = (
    ResourceMetricSource
    | ContainerResourceMetricSource
    | PodsMetricSource
    | ObjectMetricSource
    | ExternalMetricSource
)

SOURCES = {
    "Resource": "resource",
    "ContainerResource": "containerResource",
    "Pods": "pods",
    "Object": "object",
    "External": "external",
}
"""`metrics[].type` -> the key of its source."""


class HPAScalingPolicy(Model):
    """One rate limit: at most so many pods, or percent of the pods, within a period."""

    type: Literal["Pods", "Percent"] = Field(description="What `value` counts.")
    value: PositiveCount = Field(description="Pods or percent; percent may exceed 100.")
    period_seconds: int = Field(ge=1, le=1800, description="The period in seconds, 1 to 1800.")


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
    """How fast, and how readily, one direction goes."""

    stabilization_window_seconds: WindowSeconds | None = Field(default=None, description=_WINDOW)
    select_policy: OrDefault[Literal["Max", "Min", "Disabled"]] = Field(
        default="Max",
        description="Which policy counts: the one that allows most (Max) or least (Min); "
        "Disabled forbids this direction.",
    )
    policies: OrDefault[Policies] = Field(default_factory=_policies_down, description=_POLICIES)
    tolerance: ToleranceQuantity | None = Field(
        default=None,
        description="How far from 1 the ratio may be without a change. Default: `tolerance`.",
    )


class HPAScaleUpRules(HPAScalingRules):
    """How fast, and how readily, a workload is scaled up."""

    stabilization_window_seconds: OrDefault[WindowSeconds] = Field(default=0, description=_WINDOW)
    policies: OrDefault[Policies] = Field(default_factory=_policies_up, description=_POLICIES)


class HorizontalPodAutoscalerBehavior(Model):
    """Both directions; what is left out is completed with the HPA's defaults."""

    scale_up: OrDefault[HPAScaleUpRules] = Field(
        default_factory=HPAScaleUpRules, description="Rules of scaling up."
    )
    scale_down: OrDefault[HPAScalingRules] = Field(
        default_factory=HPAScalingRules, description="Rules of scaling down."
    )


@functools.cache
def _default_metrics() -> tuple[MetricSpec, ...]:
    target = MetricTarget(type="Utilization", averageUtilization=80)
    source = ResourceMetricSource(name="cpu", target=target)
    return (MetricSpec(type="Resource", resource=source),)


def _or_default_metrics(metrics: tuple[MetricSpec, ...]) -> tuple[MetricSpec, ...]:
    return metrics or _default_metrics()


class HorizontalPodAutoscalerSpec(Model):
    """The spec of an autoscaler, as in autoscaling/v2, with the API's defaults (semantics 5.1)."""

    scale_target_ref: ScaleTargetRef = Field(
        description="The workload to scale: any kind with a scale subresource."
    )
    min_replicas: OrDefault[Count] = Field(
        default=1, description="The fewest replicas; 0 needs an Object or External metric."
    )
    max_replicas: PositiveCount = Field(description="The most replicas.")
    metrics: OrDefault[Annotated[Items[MetricSpec], AfterValidator(_or_default_metrics)]] = Field(
        default_factory=_default_metrics,
        description="What to scale on; the largest proposal wins. Default: cpu at 80 percent of "
        "its request.",
    )
    behavior: HorizontalPodAutoscalerBehavior | None = Field(
        default=None, description="Rate limits, stabilization and tolerance by direction."
    )


class TargetModel(HorizontalPodAutoscalerSpec):
    """One workload and how it is scaled: a namespace, a HorizontalPodAutoscalerSpec, and more."""

    namespace: DnsLabel = Field(description="The namespace of the workload.")
    sync_period: SyncPeriod | None = Field(
        default=None,
        description="The time from one decision on this target to the next, 1s to 1h. "
        "Default: the document's syncPeriod.",
    )
    server: Text | None = Field(
        default=None,
        description="A key of `prometheus.servers`, or default: what is asked by those of the "
        "target's queries that name no server. Default: default.",
    )
    idle: IdleModel | None = Field(
        default=None, description="To few or no replicas while no metric is active, and back."
    )
    fallback: FallbackModel | None = Field(
        default=None, description="What a metric proposes that fails for some time."
    )
    paused: OrDefault[Paused] = Field(
        default=False,
        description="true, scaleDown, scaleUp or {replicas: N}: nothing is scaled, not down, not "
        "up, or to this count.",
    )
    schedules: OrDefault[Items[ScheduleModel]] = Field(
        default_factory=tuple, description="Bounds by time, in place of the target's own."
    )
    min_replicas_query: BoundQuerySource | None = Field(
        default=None,
        description="PromQL whose one value, rounded up, replaces minReplicas within the bounds.",
    )
    max_replicas_query: BoundQuerySource | None = Field(
        default=None,
        description="PromQL whose one value, rounded up, replaces maxReplicas within the bounds.",
    )
    ignore_surge: OrDefault[bool] = Field(
        default=False, description="Whether pods above spec.replicas, as in a rollout, count not."
    )
