"""How the configuration of a target differs from the HorizontalPodAutoscaler beside it."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, fields, replace

from autoscaler.core.numbers import format_milli
from autoscaler.core.observation import Hpa
from autoscaler.core.spec import (
    SOURCES,
    Behavior,
    ContainerResourceMetric,
    Flags,
    HorizontalPodAutoscalerSpec,
    LabelSelector,
    MetricSpec,
    MetricTarget,
    ObjectMetric,
    PolicyType,
    ResourceMetric,
    ScalingPolicy,
    ScalingRules,
    SelectPolicy,
    name_of,
    tolerance_of,
)
from autoscaler.core.target import Target

NOT_SET = "not set"
_ANY_CHANGE = ScalingPolicy(PolicyType.PERCENT, 100, 15)
USUAL_BEHAVIOR = Behavior(
    ScalingRules(0, SelectPolicy.MAX, (ScalingPolicy(PolicyType.PODS, 4, 15), _ANY_CHANGE)),
    ScalingRules(None, SelectPolicy.MAX, (_ANY_CHANGE,)),
)
"""What the API server fills in where `behavior` is set and empty (semantics 5)."""
_DIRECTIONS = (("scaleUp", "scale_up"), ("scaleDown", "scale_down"))
_RULES = (
    ("stabilizationWindowSeconds", "stabilization_window_seconds"),
    ("selectPolicy", "select_policy"),
    ("policies", "policies"),
)


@dataclass(frozen=True, slots=True)
class FieldDifference:
    """A field that has another value there: its key path, and both values in words."""

    field: str
    ours: str
    theirs: str


@dataclass(frozen=True, slots=True)
class DifferingField:
    """A difference, and our spec with only that field as theirs; None where that is no spec.

    ``up`` and ``down`` say which changes of the count it can be about.
    """

    difference: FieldDifference
    spec: HorizontalPodAutoscalerSpec | None
    up: bool = True
    down: bool = True


@dataclass(frozen=True, slots=True)
class Counterpart:
    """How a target and an HPA go together.

    ``metrics`` are the indexes of its metrics in the order of ours; None where it lacks one.
    """

    metrics: tuple[int | None, ...]
    others: tuple[DifferingField, ...]

    @property
    def differences(self) -> tuple[FieldDifference, ...]:
        """The fields that differ."""
        return tuple(other.difference for other in self.others)


NO_COUNTERPART = Counterpart((), ())


def counterpart_of(target: Target, flags: Flags, hpa: Hpa) -> Counterpart:
    """Match the metrics of an HPA with a target's, and compare the rest; its spec must be known."""
    theirs = hpa.spec
    if theirs is None:
        return Counterpart((None,) * len(target.spec.metrics), ())
    matched = _matched(target.spec.metrics, theirs.metrics)
    others = (
        *_bounds(target, theirs),
        *_metrics(target.spec, theirs, matched),
        *_behavior(target.spec, theirs, flags),
        *_extensions(target),
    )
    return Counterpart(matched, others)


# -- metrics -------------------------------------------------------------------------------------


def _matched(ours: Sequence[MetricSpec], theirs: Sequence[MetricSpec]) -> tuple[int | None, ...]:
    """Match by what is measured; what is left, as KEDA's names of its own, by type and order."""
    matched: list[int | None] = [None] * len(ours)
    for identity in (_measured, _type):
        free = {index: identity(one) for index, one in enumerate(theirs) if index not in matched}
        for index, metric in enumerate(ours):
            if matched[index] is None:
                wanted = identity(metric)
                found = next((at for at, one in free.items() if one == wanted), None)
                matched[index] = found
                free.pop(-1 if found is None else found, None)
    return tuple(matched)


def _type(metric: MetricSpec) -> str:
    return metric.type


def _measured(metric: MetricSpec) -> tuple[object, ...]:
    """Return what is measured, whatever the target is."""
    if isinstance(metric, ResourceMetric | ContainerResourceMetric):
        return metric.type, metric.name, metric.container
    ref = metric.described_object if isinstance(metric, ObjectMetric) else None
    described = None if ref is None else (ref.group, ref.kind, ref.name)
    selector = metric.metric.selector or LabelSelector()
    requirements = sorted(
        (one.key, one.operator, tuple(sorted(one.values))) for one in selector.match_expressions
    )
    labels = sorted(selector.match_labels)
    return metric.type, metric.metric.name, described, tuple(labels), tuple(requirements)


def _metrics(
    ours: HorizontalPodAutoscalerSpec,
    theirs: HorizontalPodAutoscalerSpec,
    matched: Sequence[int | None],
) -> Iterator[DifferingField]:
    for index, found in enumerate(matched):
        metric, place = ours.metrics[index], f"metrics[{index}]"
        if found is None:
            rest = (*ours.metrics[:index], *ours.metrics[index + 1 :])
            spec = replace(ours, metrics=rest) if rest else None
            yield DifferingField(FieldDifference(place, _named(metric), NOT_SET), spec)
        elif (target := theirs.metrics[found].target) != metric.target:
            changed = list(ours.metrics)
            changed[index] = replace(metric, target=target)
            path = f"{place}.{SOURCES[metric.type]}.target"
            difference = FieldDifference(path, target_text(metric.target), target_text(target))
            yield DifferingField(difference, replace(ours, metrics=tuple(changed)))
    for index in sorted(set(range(len(theirs.metrics))) - set(matched)):
        yield DifferingField(
            FieldDifference("metrics", NOT_SET, _named(theirs.metrics[index])), None
        )


def _named(metric: MetricSpec) -> str:
    return f"{metric.type} {name_of(metric)}"


def target_text(target: MetricTarget) -> str:
    """Return for example `averageValue 30`."""
    if target.average_utilization is not None:
        return f"averageUtilization {target.average_utilization}"
    if target.average_value is not None:
        return f"averageValue {format_milli(target.average_value)}"
    return f"value {format_milli(target.value or 0)}"


# -- the rest ------------------------------------------------------------------------------------


def _bounds(target: Target, theirs: HorizontalPodAutoscalerSpec) -> Iterator[DifferingField]:
    ours = target.spec
    for key, name in (("minReplicas", "min_replicas"), ("maxReplicas", "max_replicas")):
        own, other = getattr(ours, name), getattr(theirs, name)
        if own != other:
            difference = FieldDifference(key, str(own), str(other))
            yield DifferingField(difference, replace(ours, **{name: other}))


def _behavior(
    ours: HorizontalPodAutoscalerSpec, theirs: HorizontalPodAutoscalerSpec, flags: Flags
) -> Iterator[DifferingField]:
    own, other = ours.behavior, theirs.behavior
    if own is None or other is None:
        if own is not other:
            is_set = _behavior_text(own), _behavior_text(other)
            yield DifferingField(
                FieldDifference("behavior", *is_set), replace(ours, behavior=other)
            )
        return
    for direction, name in _DIRECTIONS:
        rules, others = getattr(own, name), getattr(other, name)
        down = name == "scale_down"
        for key, attribute in _RULES:
            values = getattr(rules, attribute), getattr(others, attribute)
            if values[0] != values[1]:
                texts = [_rule_text(value) for value in values]
                yield DifferingField(
                    FieldDifference(f"behavior.{direction}.{key}", *texts),
                    _with_rules(ours, own, name, replace(rules, **{attribute: values[1]})),
                    up=not down,
                    down=down,
                )
        tolerances = tolerance_of(ours, flags)[not down], tolerance_of(theirs, flags)[not down]
        if tolerances[0] != tolerances[1]:
            yield DifferingField(
                FieldDifference(
                    f"behavior.{direction}.tolerance", *(f"{one:g}" for one in tolerances)
                ),
                _with_rules(ours, own, name, replace(rules, tolerance=others.tolerance)),
                up=not down,
                down=down,
            )


def _behavior_text(behavior: Behavior | None) -> str:
    """Return what of a behavior is not as the API server fills it in."""
    if behavior is None:
        return NOT_SET
    own: list[str] = []
    for direction, name in _DIRECTIONS:
        rules, usual = getattr(behavior, name), getattr(USUAL_BEHAVIOR, name)
        for key, attribute in (*_RULES, ("tolerance", "tolerance")):
            value = getattr(rules, attribute)
            if value != getattr(usual, attribute):
                own.append(f"{direction}.{key} {_rule_text(value)}")
    return f"set ({'; '.join(own)})" if own else "set, with the defaults"


def _with_rules(
    spec: HorizontalPodAutoscalerSpec, behavior: Behavior, name: str, rules: ScalingRules
) -> HorizontalPodAutoscalerSpec:
    return replace(spec, behavior=replace(behavior, **{name: rules}))


def _rule_text(value: object) -> str:
    if value is None:
        return NOT_SET
    if isinstance(value, tuple):
        return ", ".join(f"{one.value} {one.type} in {one.period_seconds}s" for one in value)
    return str(value)


def _extensions(target: Target) -> Iterator[DifferingField]:
    """Yield what the target has and no HPA can have."""
    extensions = target.extensions
    for each in fields(extensions):
        value = getattr(extensions, each.name)
        # Which value a metric is active above says nothing without `idle`.
        if each.name not in {"mode", "activations"} and value not in (each.default, ()):
            yield _only_here(_camel_case(each.name))
    for key, query in (
        ("minReplicasQuery", target.min_replicas_query),
        ("maxReplicasQuery", target.max_replicas_query),
        ("holdScaleDownQuery", target.hold),
    ):
        if query is not None:
            yield _only_here(key)


def _only_here(key: str) -> DifferingField:
    return DifferingField(FieldDifference(key, "set", NOT_SET), None)


def _camel_case(name: str) -> str:
    first, *rest = name.split("_")
    return first + "".join(part.capitalize() for part in rest)
