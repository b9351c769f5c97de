"""`HorizontalPodAutoscalerSpec` (autoscaling/v2) as a user writes it, field for field.

The rules that tie several fields together are in `autoscaler.config.spec_rules`.
"""

from typing import Annotated, Literal

from pydantic import ConfigDict, Field

from autoscaler.config import schema_rules as schema
from autoscaler.config.fields import (
    ApiVersion,
    ContainerResource,
    Count,
    DnsLabel,
    Items,
    Model,
    PositiveCount,
    Segment,
    SyncPeriod,
    TargetQuantity,
    Text,
    ToleranceQuantity,
)
from autoscaler.config.query_model import QueryModel, QuerySource


class CrossVersionObjectReference(Model):
    """A Kubernetes object, by group, kind and name."""

    api_version: ApiVersion | None = Field(
        default=None, description="Group and version, such as apps/v1; v1 is the core group."
    )
    kind: Segment = Field(description="The object's kind, such as Deployment.")
    name: Segment = Field(description="The object's name.")


class LabelSelectorRequirement(Model):
    """One condition on one label of a series."""

    model_config = ConfigDict(json_schema_extra={"allOf": schema.SELECTOR_VALUES})
    key: Text = Field(description="The label's name.")
    operator: Literal["In", "NotIn", "Exists", "DoesNotExist"] = Field(
        description="In and NotIn compare with `values`; Exists and DoesNotExist take none."
    )
    values: Items[str] | None = Field(default=None, description="The values of In and NotIn.")


class LabelSelector(Model):
    """Which of the query's series count; all conditions must hold."""

    match_labels: dict[str, str] | None = Field(
        default=None, description="Labels and the values that they must have."
    )
    match_expressions: Items[LabelSelectorRequirement] | None = Field(
        default=None, description="Further conditions: In, NotIn, Exists, DoesNotExist."
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
    model_config = ConfigDict(json_schema_extra={"allOf": schema.RESOURCE_TARGET})


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
    model_config = ConfigDict(json_schema_extra={"allOf": schema.RESOURCE_TARGET})


class PodsMetricSource(Model):
    """A metric of each pod, averaged over the pods."""

    metric: MetricIdentifier = Field(description="Which query, and which of its series.")
    target: MetricTarget = Field(description="averageValue: what each pod should have.")
    model_config = ConfigDict(json_schema_extra={"allOf": schema.PODS_TARGET})


class ObjectMetricSource(Model):
    """A metric of one Kubernetes object, such as an Ingress."""

    described_object: CrossVersionObjectReference = Field(
        description="The object that the metric is about."
    )
    metric: MetricIdentifier = Field(description="Which query, and which of its series.")
    target: MetricTarget = Field(description="value or averageValue.")
    model_config = ConfigDict(json_schema_extra={"allOf": schema.OBJECT_TARGET})


class ExternalMetricSource(Model):
    """A metric of something outside the cluster, such as a queue; its series are summed."""

    metric: MetricIdentifier = Field(description="Which query, and which of its series.")
    target: MetricTarget = Field(description="value, or averageValue per pod.")
    model_config = ConfigDict(json_schema_extra={"allOf": schema.EXTERNAL_TARGET})


class MetricSpec(Model):
    """One metric: its type, and the one source that belongs to the type."""

    model_config = ConfigDict(json_schema_extra={"allOf": schema.METRIC_SOURCES})
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

    @property
    def query(self) -> QueryModel | None:
        """The metric's own query, if it carries one."""
        resource = self.resource or self.container_resource
        if resource is not None:
            return resource.query
        source = self.pods or self.object or self.external
        return source.metric.query if source is not None else None


class HPAScalingPolicy(Model):
    """One rate limit: at most so many pods, or percent of the pods, within a period."""

    type: Literal["Pods", "Percent"] = Field(description="What `value` counts.")
    value: PositiveCount = Field(description="Pods or percent; percent may exceed 100.")
    period_seconds: int = Field(ge=1, le=1800, description="The period in seconds, 1 to 1800.")


class HPAScalingRules(Model):
    """How fast, and how readily, one direction goes."""

    stabilization_window_seconds: Annotated[int, Field(ge=0, le=3600)] | None = Field(
        default=None,
        description="Seconds over which the most cautious recommendation counts, 0 to 3600. "
        "Default: 0 up, `downscaleStabilization` down.",
    )
    select_policy: Literal["Max", "Min", "Disabled"] | None = Field(
        default=None,
        description="Which policy counts: the one that allows most (Max) or least (Min); "
        "Disabled forbids this direction.",
        json_schema_extra={"default": "Max"},
    )
    policies: Annotated[Items[HPAScalingPolicy], Field(min_length=1)] | None = Field(
        default=None,
        description="Rate limits. Default: up 4 pods or 100 percent in 15 s, down 100 percent in "
        "15 s.",
    )
    tolerance: ToleranceQuantity | None = Field(
        default=None,
        description="How far from 1 the ratio may be without a change. Default: `tolerance`.",
    )


class HorizontalPodAutoscalerBehavior(Model):
    """Both directions; what is left out is completed with the HPA's defaults."""

    scale_up: HPAScalingRules | None = Field(default=None, description="Rules of scaling up.")
    scale_down: HPAScalingRules | None = Field(default=None, description="Rules of scaling down.")


class HorizontalPodAutoscalerSpec(Model):
    """The spec of an autoscaler, as in autoscaling/v2."""

    model_config = ConfigDict(json_schema_extra={"allOf": schema.MIN_REPLICAS_ZERO})
    scale_target_ref: CrossVersionObjectReference = Field(
        description="The workload to scale: any kind with a scale subresource.",
        json_schema_extra={"allOf": schema.SCALE_TARGET_GROUP},
    )
    min_replicas: Count | None = Field(
        default=None,
        description="The fewest replicas; 0 needs an Object or External metric.",
        json_schema_extra={"default": 1},
    )
    max_replicas: PositiveCount = Field(description="The most replicas.")
    metrics: Items[MetricSpec] | None = Field(
        default=None,
        description="What to scale on; the largest proposal wins. Default: cpu at 80 percent of "
        "its request.",
    )
    behavior: HorizontalPodAutoscalerBehavior | None = Field(
        default=None, description="Rate limits, stabilization and tolerance by direction."
    )


class TargetModel(HorizontalPodAutoscalerSpec):
    """One workload and how it is scaled: a namespace and a HorizontalPodAutoscalerSpec."""

    namespace: DnsLabel = Field(description="The namespace of the workload.")
    sync_period: SyncPeriod | None = Field(
        default=None,
        description="The time from one decision on this target to the next, 1s to 1h. "
        "Default: the document's syncPeriod.",
    )
