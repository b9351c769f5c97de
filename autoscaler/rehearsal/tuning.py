"""Candidates for the settings of one target, and which of them is chosen by which days.

A candidate is rehearsed once over all days; each day has its own measures, and what is decided on
a day follows from the days before it.  So choosing by the first days and judging on later ones
needs no further rehearsal.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from autoscaler.core.extensions import Schedule
from autoscaler.core.spec import (
    Behavior,
    HorizontalPodAutoscalerSpec,
    MetricSpec,
    PolicyType,
    ScalingPolicy,
    ScalingRules,
    SelectPolicy,
)
from autoscaler.core.target import Target
from autoscaler.rehearsal.comparison import total
from autoscaler.rehearsal.measures import Measures
from autoscaler.settings.tuning import TuningSpace

_POLICY_SECONDS = 60
_LEAST_PODS = 4
_OF_BEHAVIOR = (
    "tolerances",
    "scale_up_windows",
    "scale_down_windows",
    "scale_up_percents",
    "scale_down_percents",
)

Choice = Mapping[str, int]
"""By the name of a setting the number of its value in the space."""


@dataclass(frozen=True, slots=True)
class Candidate:
    """Settings that were tried, and the measures of each day; no choice is what there is today."""

    choice: Choice
    days: tuple[Measures, ...]

    @property
    def is_today(self) -> bool:
        """Whether it is the configuration as it is."""
        return not self.choice


@dataclass(frozen=True, slots=True)
class Preference:
    """What is better: less cost of missing pod-hours and of replica-hours.

    Or the fewest replica-hours with no more than so much of the time short.
    """

    shortage_cost: float = 0.0
    replica_hour_cost: float = 1.0
    most_short: float | None = None

    def key(self, measures: Measures) -> tuple[float, float]:
        """Return what is least for the best."""
        if self.most_short is None:
            cost = self.shortage_cost * measures.shortage_pod_hours
            return cost + self.replica_hour_cost * measures.replica_hours, 0.0
        return max(0.0, measures.tau_under - self.most_short), measures.replica_hours


@dataclass(frozen=True, slots=True)
class Fold:
    """What was chosen by the days before ``first``, and how it did from then up to ``last``."""

    first: int
    last: int
    chosen: Candidate
    judged: Measures
    today: Measures


# -- candidates ------------------------------------------------------------------------------------


def settings_of(space: TuningSpace) -> dict[str, int]:
    """Return how many values each setting has that is searched."""
    counts = {name: len(getattr(space, name)) for name in TuningSpace.model_fields}
    return {name: count for name, count in counts.items() if count}


def applied_to(target: Target, space: TuningSpace, choice: Choice) -> Target:
    """Return the target with the chosen values."""
    if not choice:
        return target
    spec, extensions = target.spec, target.extensions

    def value(name: str) -> object:
        return getattr(space, name)[choice[name]] if name in choice else None

    factor, least, schedules = value("target_factors"), value("min_replicas"), value("schedules")
    if isinstance(factor, float) and factor != 1.0:
        metrics = tuple(with_target(metric, factor) for metric in spec.metrics)
        spec = replace(spec, metrics=metrics)
    if isinstance(least, int):
        spec = replace(spec, min_replicas=min(least, spec.max_replicas))
    spec = replace(spec, behavior=_behavior(spec, value))
    if isinstance(schedules, tuple):
        extensions = replace(
            extensions,
            schedules=tuple(
                Schedule(one.name, one.start, one.end, one.timezone, one.min_replicas)
                for one in schedules
            ),
        )
    return replace(target, spec=spec, extensions=extensions)


def with_target(metric: MetricSpec, factor: float) -> MetricSpec:
    """Return a metric with its target multiplied; a utilization stays a whole percentage."""
    target = metric.target

    def times(number: int | None) -> int | None:
        return None if number is None else max(1, round(number * factor))

    return replace(
        metric,
        target=replace(
            target,
            value=times(target.value),
            average_value=times(target.average_value),
            average_utilization=times(target.average_utilization),
        ),
    )


def _behavior(spec: HorizontalPodAutoscalerSpec, value: Callable[[str], object]) -> Behavior | None:
    if all(value(name) is None for name in _OF_BEHAVIOR):
        return spec.behavior
    usual = spec.behavior or Behavior(
        ScalingRules(0, SelectPolicy.MAX, (_pods(_LEAST_PODS, 15), _percent(100, 15))),
        ScalingRules(None, SelectPolicy.MAX, (_percent(100, 15),)),
    )
    up_percent, down_percent = value("scale_up_percents"), value("scale_down_percents")
    up: tuple[ScalingPolicy, ...] | None = None
    down: tuple[ScalingPolicy, ...] | None = None
    if isinstance(up_percent, int):
        up = (_pods(_LEAST_PODS, _POLICY_SECONDS), _percent(up_percent, _POLICY_SECONDS))
    if isinstance(down_percent, int):
        down = (_percent(down_percent, _POLICY_SECONDS),)
    tolerance = value("tolerances")
    return Behavior(
        _rules(usual.scale_up, value("scale_up_windows"), up, tolerance),
        _rules(usual.scale_down, value("scale_down_windows"), down, tolerance),
    )


def _rules(
    usual: ScalingRules,
    window: object,
    policies: tuple[ScalingPolicy, ...] | None,
    tolerance: object,
) -> ScalingRules:
    return ScalingRules(
        round(window) if isinstance(window, float) else usual.stabilization_window_seconds,
        usual.select_policy if policies is None else SelectPolicy.MAX,
        usual.policies if policies is None else policies,
        tolerance if isinstance(tolerance, float) else usual.tolerance,
    )


def _percent(percent: int, seconds: int) -> ScalingPolicy:
    return ScalingPolicy(PolicyType.PERCENT, percent, seconds)


def _pods(pods: int, seconds: int) -> ScalingPolicy:
    return ScalingPolicy(PolicyType.PODS, pods, seconds)


# -- which is better -------------------------------------------------------------------------------


def front(candidates: Iterable[Candidate], days: slice) -> list[Candidate]:
    """Return those that none is better than in both shortage and replica-hours (Pareto).

    They are in the order of their replica-hours; of equal ones the first.
    """
    scored = sorted(
        ((objectives(one, days), number, one) for number, one in enumerate(candidates)),
        key=lambda each: (each[0][1], each[0][0], each[1]),
    )
    found, least = [], float("inf")
    for (shortage, _), _, one in scored:
        if shortage < least:
            found.append(one)
            least = shortage
    return found


def objectives(candidate: Candidate, days: slice) -> tuple[float, float]:
    """Return the missing pod-hours and the replica-hours of some days."""
    measures = total(candidate.days[days])
    return measures.shortage_pod_hours, measures.replica_hours


def best(candidates: Sequence[Candidate], preference: Preference, days: slice) -> Candidate:
    """Return the one that is preferred by some days; of equal ones the first."""
    return min(candidates, key=lambda one: preference.key(total(one.days[days])))


def walked_forward(
    candidates: Sequence[Candidate], today: Candidate, preference: Preference, first: int
) -> list[Fold]:
    """Choose for each day from ``first`` on by all days before it, and judge it on that day."""
    folds = []
    for day in range(first, len(today.days)):
        chosen = best(candidates, preference, slice(0, day))
        judged, now = total(chosen.days[day : day + 1]), total(today.days[day : day + 1])
        folds.append(Fold(day, day + 1, chosen, judged, now))
    return folds
