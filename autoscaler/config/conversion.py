"""What the models hold -> the types of the core: API defaulting, specs, targets, the `Config`."""

import functools
from collections.abc import Sequence
from pathlib import Path
from typing import TypeVar

from autoscaler.config import spec_model as model
from autoscaler.config.queries import Queries
from autoscaler.config.settings import Config, IncludedFile, MainFile, Settings, Sources
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
from autoscaler.core.target import Target

_Spec = TypeVar("_Spec", bound=model.HorizontalPodAutoscalerSpec)


def config_of(
    main: MainFile,
    included: Sequence[IncludedFile],
    path: Path,
    sources: Sources,
    pod_namespace: str | None,
) -> Config:
    """Convert documents that all rules accepted; ``path`` is the file of the main one."""
    parts: list[MainFile | IncludedFile] = [main, *included]
    queries = Queries.of(
        {name: query for part in parts for name, query in part.queries.items()},
        main.resource_queries,
    )
    targets = (
        _target_of(target, queries, main.sync_period) for part in parts for target in part.targets
    )
    settings = {name: getattr(main, name) for name in Settings.model_fields}
    election = main.leader_election
    namespace = election.namespace or pod_namespace or ""
    settings["leader_election"] = election.model_copy(update={"namespace": namespace})
    # All of it is validated already.
    return Config.model_construct(**settings, path=path, sources=sources, targets=tuple(targets))


def _target_of(target: model.TargetModel, queries: Queries, sync_period: float) -> Target:
    spec = completed(target)
    return Target(
        namespace=target.namespace,
        spec=_completed_to_core(spec),
        queries=tuple(queries.for_metric(metric) for metric in spec.metrics or ()),
        sync_period=sync_period if target.sync_period is None else target.sync_period,
    )


# API defaulting of autoscaling/v2 (semantics 5.1)


@functools.cache
def _default_metric() -> model.MetricSpec:
    """Return what an empty list of metrics stands for: cpu at 80 percent of its request."""
    target = model.MetricTarget(type="Utilization", averageUtilization=80)
    source = model.ResourceMetricSource(name="cpu", target=target)
    return model.MetricSpec(type="Resource", resource=source)


@functools.cache
def _default_scale_up() -> model.HPAScalingRules:
    """Return the rules of scaling up where a behavior does not say others."""
    return model.HPAScalingRules(
        stabilizationWindowSeconds=0,
        selectPolicy="Max",
        policies=(
            model.HPAScalingPolicy(type="Pods", value=4, periodSeconds=15),
            model.HPAScalingPolicy(type="Percent", value=100, periodSeconds=15),
        ),
    )


@functools.cache
def _default_scale_down() -> model.HPAScalingRules:
    """Return the rules of scaling down; their window stays unset, which means the flag's."""
    policy = model.HPAScalingPolicy(type="Percent", value=100, periodSeconds=15)
    return model.HPAScalingRules(selectPolicy="Max", policies=(policy,))


def completed(spec: _Spec) -> _Spec:
    """Fill in what the user left out.

    An absent behavior stays absent; a present one is completed in both directions, field by
    field, with policies taken as a whole.
    """
    behavior = spec.behavior
    if behavior is not None:
        behavior = model.HorizontalPodAutoscalerBehavior(
            scaleUp=_completed_rules(behavior.scale_up, _default_scale_up()),
            scaleDown=_completed_rules(behavior.scale_down, _default_scale_down()),
        )
    return spec.model_copy(
        update={
            "min_replicas": 1 if spec.min_replicas is None else spec.min_replicas,
            "metrics": spec.metrics or (_default_metric(),),
            "behavior": behavior,
        }
    )


def _completed_rules(
    given: model.HPAScalingRules | None, default: model.HPAScalingRules
) -> model.HPAScalingRules:
    if given is None:
        return default
    missing = {
        name: getattr(default, name)
        for name in model.HPAScalingRules.model_fields
        if getattr(given, name) is None
    }
    return given.model_copy(update=missing)


# A spec as it is written -> as the core computes with it


def to_core(spec: model.HorizontalPodAutoscalerSpec) -> HorizontalPodAutoscalerSpec:
    """Complete a spec with the API's defaults and convert it."""
    return _completed_to_core(completed(spec))


def _completed_to_core(spec: model.HorizontalPodAutoscalerSpec) -> HorizontalPodAutoscalerSpec:
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
    source = metric.source
    target = _target(source.target)
    if isinstance(source, model.ResourceMetricSource):
        return ResourceMetric(source.name, target)
    if isinstance(source, model.ContainerResourceMetricSource):
        return ContainerResourceMetric(source.name, source.container, target)
    identifier = MetricIdentifier(source.metric.name, _selector(source.metric.selector))
    if isinstance(source, model.PodsMetricSource):
        return PodsMetric(identifier, target)
    if isinstance(source, model.ObjectMetricSource):
        return ObjectMetric(_reference(source.described_object), identifier, target)
    return ExternalMetric(identifier, target)


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
