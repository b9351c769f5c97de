"""The differences between a target and the HorizontalPodAutoscaler that controls its workload."""

from collections.abc import Sequence
from dataclasses import replace
from typing import NamedTuple

from autoscaler.config.comparison import FieldChange, field_changes
from autoscaler.config.written import Parts, as_written, parts_of
from autoscaler.core.spec import (
    SOURCES,
    Behavior,
    Flags,
    HorizontalPodAutoscalerSpec,
    LabelSelector,
    MetricSpec,
    PolicyType,
    ScalingPolicy,
    ScalingRules,
    SelectPolicy,
    down_window,
    name_of,
    tolerance_of,
)
from autoscaler.core.target import Target

_ANY_CHANGE = ScalingPolicy(PolicyType.PERCENT, 100, 15)
USUAL_BEHAVIOR = Behavior(
    ScalingRules(0, SelectPolicy.MAX, (ScalingPolicy(PolicyType.PODS, 4, 15), _ANY_CHANGE)),
    ScalingRules(None, SelectPolicy.MAX, (_ANY_CHANGE,)),
)
"""The defaults of the API server where `behavior` is set and empty (semantics 5)."""


OF_AN_AUTOSCALER = ("scaleTargetRef", "minReplicas", "maxReplicas", "metrics", "behavior")
"""The keys of a target that a HorizontalPodAutoscaler also has."""


class Counterpart(NamedTuple):
    """A match of a target and an HPA: the index of each metric in the HPA, and the differences.

    An index is None if the HPA lacks the metric.
    """

    metrics: tuple[int | None, ...] = ()
    fields: tuple[FieldChange, ...] = ()


def counterpart_of(
    target: Target, flags: Flags, theirs: HorizontalPodAutoscalerSpec | None
) -> Counterpart:
    """Match the metrics of an HPA with the target's, and compare the rest; None if unknown."""
    ours = target.spec
    if theirs is None:
        return Counterpart((None,) * len(ours.metrics))
    matched = _matched(ours.metrics, theirs.metrics)
    here, there = _metrics(ours.metrics, theirs.metrics, matched)
    behavior, other = _behaviors(ours, theirs, flags)
    changes = field_changes(
        {**_bounds(ours), "metrics": here, "behavior": behavior},
        {**_bounds(theirs), "metrics": there, "behavior": other},
    )
    own = (FieldChange(key, "set", None) for key in own_fields(target))
    return Counterpart(matched, (*changes, *own))


def own_fields(target: Target) -> tuple[str, ...]:
    """Return the keys of a target that no HorizontalPodAutoscaler has."""
    usual = {"cluster", "namespace", "mode", "syncPeriod", *OF_AN_AUTOSCALER}
    return tuple(key for key in as_written(target) if key not in usual)


def _bounds(spec: HorizontalPodAutoscalerSpec) -> Parts:
    return {"minReplicas": spec.min_replicas, "maxReplicas": spec.max_replicas}


# -- metrics -------------------------------------------------------------------------------------


def _matched(ours: Sequence[MetricSpec], theirs: Sequence[MetricSpec]) -> tuple[int | None, ...]:
    """Match metrics by what they measure; others, such as KEDA's, by type and order."""
    matched: list[int | None] = [None] * len(ours)
    for identity in (_measured, _type):
        free = {index: identity(spec) for index, spec in enumerate(theirs) if index not in matched}
        for index, metric in enumerate(ours):
            if matched[index] is None:
                wanted = identity(metric)
                found = next((at for at, spec in free.items() if spec == wanted), None)
                matched[index] = found
                free.pop(-1 if found is None else found, None)
    return tuple(matched)


def _type(metric: MetricSpec) -> str:
    return metric.type


def _measured(metric: MetricSpec) -> tuple[object, ...]:
    """Return what a metric measures, without its target value."""
    ref, selector = metric.described_object, metric.selector or LabelSelector()
    described = ref and (ref.group, ref.kind, ref.name)
    requirements = sorted(
        (requirement.key, requirement.operator, tuple(sorted(requirement.values)))
        for requirement in selector.match_expressions
    )
    labels = sorted(selector.match_labels)
    identity = metric.type, metric.name, metric.container, described
    return *identity, tuple(labels), tuple(requirements)


def _metrics(
    ours: Sequence[MetricSpec], theirs: Sequence[MetricSpec], matched: Sequence[int | None]
) -> tuple[list[object], list[object]]:
    """Return the targets of common metrics, and the names of all others, in the target's order."""
    here: list[object] = []
    there: list[object] = []
    for metric, found in zip(ours, matched, strict=True):
        here.append(_named(metric) if found is None else _target_of(metric))
        there.append(None if found is None else _target_of(theirs[found]))
    others = [_named(spec) for index, spec in enumerate(theirs) if index not in matched]
    return here, [*there, *others]


def _named(metric: MetricSpec) -> str:
    return f"{metric.type} {name_of(metric)}"


def _target_of(metric: MetricSpec) -> Parts:
    return {SOURCES[metric.type]: {"target": parts_of(metric)["target"]}}


# -- behavior ------------------------------------------------------------------------------------


def _behaviors(
    ours: HorizontalPodAutoscalerSpec, theirs: HorizontalPodAutoscalerSpec, flags: Flags
) -> tuple[object, object]:
    """Return both behaviors with the defaults filled in."""
    behaviors = (ours.behavior, theirs.behavior)
    if behaviors == (None, None):
        return None, None
    own, other = (_rules(ours, flags), _rules(theirs, flags))
    if own == other and None in behaviors:
        own, other = ("not set" if behavior is None else "set, as usual" for behavior in behaviors)  # type: ignore[assignment]
    return own, other


def _rules(spec: HorizontalPodAutoscalerSpec, flags: Flags) -> Parts:
    behavior = spec.behavior or USUAL_BEHAVIOR
    down, up = behavior.scale_down, behavior.scale_up
    windows = int(down_window(spec.behavior, flags)), up.stabilization_window_seconds or 0
    found: Parts = {}
    for key, rules, window, tolerance in zip(
        ("scaleDown", "scaleUp"), (down, up), windows, tolerance_of(spec, flags), strict=True
    ):
        effective = replace(rules, stabilization_window_seconds=window)
        policies = ", ".join(
            f"{policy.value} {policy.type} in {policy.period_seconds}s" for policy in rules.policies
        )
        found[key] = parts_of(effective) | {"policies": policies, "tolerance": f"{tolerance:g}"}
    return found
