"""`HorizontalPodAutoscalerSpec` as written -> as the core computes with it."""

from autoscaler.config import spec_model as model
from autoscaler.config.defaulting import completed
from autoscaler.core import quantity
from autoscaler.core.selectors import LabelSelector, Operator, Requirement
from autoscaler.core.spec import (
    Behavior,
    ContainerResourceMetric,
    ExternalMetric,
    HorizontalPodAutoscalerSpec,
    MetricIdentifier,
    MetricSpec,
    MetricTarget,
    ObjectMetric,
    PodsMetric,
    PolicyType,
    ResourceMetric,
    ScaleTargetRef,
    ScalingPolicy,
    ScalingRules,
    SelectPolicy,
    TargetType,
)


def to_core(spec: model.HorizontalPodAutoscalerSpec) -> HorizontalPodAutoscalerSpec:
    """Complete a spec with the API's defaults and convert it."""
    return completed_to_core(completed(spec))


def completed_to_core(spec: model.HorizontalPodAutoscalerSpec) -> HorizontalPodAutoscalerSpec:
    """Convert a spec that `completed` returned."""
    behavior = spec.behavior
    return HorizontalPodAutoscalerSpec(
        scale_target_ref=_reference(spec.scale_target_ref),
        min_replicas=1 if spec.min_replicas is None else spec.min_replicas,
        max_replicas=spec.max_replicas,
        metrics=tuple(_metric(metric) for metric in spec.metrics or ()),
        behavior=None
        if behavior is None or behavior.scale_up is None or behavior.scale_down is None
        else Behavior(_rules(behavior.scale_up), _rules(behavior.scale_down)),
    )


def _reference(ref: model.CrossVersionObjectReference) -> ScaleTargetRef:
    return ScaleTargetRef(api_version=ref.api_version or "", kind=ref.kind, name=ref.name)


def _metric(metric: model.MetricSpec) -> MetricSpec:
    if metric.resource is not None:
        return ResourceMetric(metric.resource.name, _target(metric.resource.target))
    if metric.container_resource is not None:
        source = metric.container_resource
        return ContainerResourceMetric(source.name, source.container, _target(source.target))
    if metric.pods is not None:
        return PodsMetric(_identifier(metric.pods.metric), _target(metric.pods.target))
    if metric.object is not None:
        described = _reference(metric.object.described_object)
        target = _target(metric.object.target)
        return ObjectMetric(described, _identifier(metric.object.metric), target)
    if metric.external is not None:
        return ExternalMetric(_identifier(metric.external.metric), _target(metric.external.target))
    raise ValueError(f"a metric of type {metric.type} without a source")


def _identifier(metric: model.MetricIdentifier) -> MetricIdentifier:
    return MetricIdentifier(metric.name, _selector(metric.selector))


def _selector(selector: model.LabelSelector | None) -> LabelSelector | None:
    if selector is None:
        return None
    return LabelSelector(
        match_labels=tuple((selector.match_labels or {}).items()),
        match_expressions=tuple(
            Requirement(item.key, Operator(item.operator), item.values or ())
            for item in selector.match_expressions or ()
        ),
    )


def _target(target: model.MetricTarget) -> MetricTarget:
    return MetricTarget(
        type=TargetType(target.type),
        value=_milli(target.value),
        average_value=_milli(target.average_value),
        average_utilization=target.average_utilization,
    )


def _milli(text: str | None) -> int | None:
    return None if text is None else quantity.parse_milli(text)


def _rules(rules: model.HPAScalingRules) -> ScalingRules:
    return ScalingRules(
        stabilization_window_seconds=rules.stabilization_window_seconds,
        select_policy=SelectPolicy(rules.select_policy or "Max"),
        policies=tuple(
            ScalingPolicy(PolicyType(policy.type), policy.value, policy.period_seconds)
            for policy in rules.policies or ()
        ),
        tolerance=None
        if rules.tolerance is None
        else quantity.tolerance_value(quantity.parse(rules.tolerance)),
    )
