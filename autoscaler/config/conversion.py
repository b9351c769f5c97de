"""What the models hold -> the types of the core: specs, targets, and the `Config` that has them."""

from collections.abc import Hashable, Sequence
from pathlib import Path
from typing import Any, TypeVar

from autoscaler.config import extension_models as extension
from autoscaler.config import spec_model as model
from autoscaler.config.queries import Queries, bound_query_of
from autoscaler.config.settings import Config, IncludedFile, MainFile, Settings, Sources
from autoscaler.core import quantity
from autoscaler.core.extensions import (
    NO_EXTENSIONS,
    Extensions,
    Fallback,
    FallbackBehavior,
    Idle,
    Pause,
    PauseMode,
    Schedule,
)
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


def config_of(
    main: MainFile,
    included: Sequence[IncludedFile],
    path: Path,
    sources: Sources,
    pod_namespace: str | None,
) -> Config:
    """Convert documents that all rules accepted; ``path`` is the file of the main one."""
    parts: list[MainFile | IncludedFile] = [main, *included]
    queries = Queries(
        {name: query for part in parts for name, query in part.queries.items()},
        main.resource_queries,
        {name: one.resource_queries for name, one in main.prometheus.servers.items()},
    )
    shared = _Shared()
    targets = (
        _target_of(target, queries, main.sync_period, shared)
        for part in parts
        for target in part.targets
    )
    settings = {name: getattr(main, name) for name in Settings.model_fields}
    election = main.leader_election
    namespace = election.namespace or pod_namespace or ""
    settings["leader_election"] = election.model_copy(update={"namespace": namespace})
    # All of it is validated already.
    return Config.model_construct(**settings, path=path, sources=sources, targets=tuple(targets))


_T = TypeVar("_T", bound=Hashable)


class _Shared:
    """Makes equal values one object, however many targets have them."""

    def __init__(self) -> None:
        self._values: dict[Any, Any] = {}

    def __call__(self, value: _T) -> _T:
        """Return the first value that is equal to this one."""
        first: _T = self._values.setdefault(value, value)
        return first


def _target_of(
    target: model.TargetModel, queries: Queries, sync_period: float, shared: _Shared
) -> Target:
    low, high = target.min_replicas_query, target.max_replicas_query
    extensions = _extensions(target, shared)
    return Target(
        namespace=target.namespace,
        spec=to_core(target),
        queries=tuple(queries.for_metric(metric, target.server) for metric in target.metrics),
        sync_period=sync_period if target.sync_period is None else target.sync_period,
        extensions=NO_EXTENSIONS if extensions == NO_EXTENSIONS else shared(extensions),
        min_replicas_query=None if low is None else shared(bound_query_of(low, target.server)),
        max_replicas_query=None if high is None else shared(bound_query_of(high, target.server)),
    )


def _extensions(target: model.TargetModel, shared: _Shared) -> Extensions:
    idle, fallback = target.idle, target.fallback
    activations = tuple(_milli(metric.activation) or 0 for metric in target.metrics)
    return Extensions(
        idle=None if idle is None else Idle(idle.replicas, idle.after, idle.initially),
        activations=activations if any(activations) else (),
        fallback=None if fallback is None else _fallback(fallback),
        pause=_pause(target.paused),
        schedules=tuple(shared(_schedule(one)) for one in target.schedules),
        ignore_surge=target.ignore_surge,
    )


def _fallback(fallback: extension.FallbackModel) -> Fallback:
    behavior = FallbackBehavior(fallback.behavior)
    return Fallback(fallback.replicas or 0, fallback.failure_threshold, behavior)


def _pause(paused: bool | str | extension.PausedReplicas) -> Pause | None:  # noqa: FBT001 - YAML
    if isinstance(paused, extension.PausedReplicas):
        return Pause(replicas=paused.replicas)
    if isinstance(paused, bool):
        return Pause() if paused else None
    return Pause(PauseMode(paused))


def _schedule(schedule: extension.ScheduleModel) -> Schedule:
    return Schedule(
        name=schedule.name,
        start=schedule.start,
        end=schedule.end,
        timezone=schedule.timezone,
        min_replicas=schedule.min_replicas,
        max_replicas=schedule.max_replicas,
        gradual=schedule.gradual,
    )


def to_core(spec: model.HorizontalPodAutoscalerSpec) -> HorizontalPodAutoscalerSpec:
    """Convert a spec, in which the models have filled in the API's defaults."""
    behavior = spec.behavior
    return HorizontalPodAutoscalerSpec(
        scale_target_ref=_reference(spec.scale_target_ref),
        min_replicas=spec.min_replicas,
        max_replicas=spec.max_replicas,
        metrics=tuple(_metric(metric) for metric in spec.metrics),
        behavior=None
        if behavior is None
        else Behavior(_rules(behavior.scale_up), _rules(behavior.scale_down)),
    )


def _reference(ref: model.CrossVersionObjectReference) -> ScaleTargetRef:
    return ScaleTargetRef(api_version=ref.api_version, kind=ref.kind, name=ref.name)


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
        match_labels=tuple(selector.match_labels.items()),
        match_expressions=tuple(
            Requirement(item.key, Operator(item.operator), item.values)
            for item in selector.match_expressions
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
        select_policy=SelectPolicy(rules.select_policy),
        policies=tuple(
            ScalingPolicy(PolicyType(policy.type), policy.value, policy.period_seconds)
            for policy in rules.policies
        ),
        tolerance=None
        if rules.tolerance is None
        else quantity.tolerance_value(quantity.parse(rules.tolerance)),
    )
