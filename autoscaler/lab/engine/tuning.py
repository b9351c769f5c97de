"""Candidates for the settings of one target, and the choice by some of the days.

A candidate is replayed once over all days; each day has its own measures, and its decisions depend
on the previous days. So choosing by the first days and judging by the later ones needs no further
replay.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Annotated, Any

from pydantic import BeforeValidator, Field

from autoscaler.config.fields import DURATION_SCHEMA, DurationBounds, PositiveCount, Tolerance
from autoscaler.config.models import Items, Model
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
from autoscaler.lab.engine.measures import DayCounts, Measures, counted_days, total

_FACTORS = (0.6, 0.7, 0.8, 0.9, 1.0, 1.1, 1.2, 1.3)
_WINDOWS = (0.0, 60.0, 120.0, 300.0, 600.0)
_UP_WINDOWS = (0.0, 30.0, 60.0)
_TOLERANCES = (0.02, 0.05, 0.1)
_PERCENTS = (50, 100, 200)
_DOWN_PERCENTS = (10, 25, 100)

Factor = Annotated[float, Field(gt=0.0, le=10.0, strict=False)]
Percent = Annotated[int, Field(ge=1, le=10_000)]
Window = Annotated[float, BeforeValidator(DurationBounds(0.0, 3600.0)), DURATION_SCHEMA]
"""The API's maximum for a stabilization window."""


class TuningSpace(Model):
    """The values to try of each setting; one without values stays as it is.

    Every candidate has one value of each. The current target is a candidate, too.
    """

    target_factors: Items[Factor] = _FACTORS
    """Factors for the target of each metric."""
    tolerances: Items[Tolerance] = _TOLERANCES
    """The tolerance of both directions."""
    scale_up_windows: Items[Window] = _UP_WINDOWS
    """`stabilizationWindowSeconds` of scaleUp."""
    scale_down_windows: Items[Window] = _WINDOWS
    """`stabilizationWindowSeconds` of scaleDown."""
    scale_up_percents: Items[Percent] = _PERCENTS
    """The policy of scaleUp: percent of the replicas in 60 s, or 4 pods if that is more."""
    scale_down_percents: Items[Percent] = _DOWN_PERCENTS
    """The policy of scaleDown: percent of the replicas in 60 s."""
    min_replicas: Items[PositiveCount] = ()
    """The minimum; empty leaves the target's."""


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
"""By the name of a setting: the number of its value in the space."""


@dataclass(frozen=True, slots=True)
class Candidate:
    """Tried settings, and the measures of each day; an empty choice is the current target."""

    choice: Choice
    days: tuple[Measures, ...]

    @property
    def is_today(self) -> bool:
        """Whether it is the current configuration."""
        return not self.choice


@dataclass(frozen=True, slots=True)
class Preference:
    """The preference: the least cost of missing pod-hours and of replica-hours.

    Or, with ``most_short``, the fewest replica-hours with at most that share of the time
    under-provisioned.
    """

    shortage_cost: float = 0.0
    replica_hour_cost: float = 1.0
    most_short: float | None = None

    def objectives(self, measures: Measures) -> tuple[float, float, float]:
        """Return the objectives to minimize: preferred shortage, replica-hours, changes."""
        by_time = self.most_short is not None
        shortage = measures.tau_under if by_time else measures.shortage_pod_hours
        return shortage or 0.0, measures.replica_hours, float(measures.changes)

    def key(self, measures: Measures) -> tuple[float, ...]:
        """Return the sort key of a candidate; the best has the least."""
        shortage, hours, changes = self.objectives(measures)
        if self.most_short is None:
            cost = self.shortage_cost * shortage + self.replica_hour_cost * hours
            return cost, shortage, hours, changes
        return max(0.0, shortage - self.most_short), hours, shortage, changes


# -- candidates ------------------------------------------------------------------------------------


def settings_of(space: TuningSpace) -> dict[str, int]:
    """Return the number of values of each setting in the search."""
    counts = {name: len(getattr(space, name)) for name in TuningSpace.model_fields}
    return {name: count for name, count in counts.items() if count}


def applied_to(target: Target, space: TuningSpace, choice: Choice) -> Target:
    """Return the target with the chosen values."""
    if not choice:
        return target
    spec = target.spec

    def value(name: str) -> Any:
        return getattr(space, name)[choice[name]] if name in choice else None

    factor, least = value("target_factors"), value("min_replicas")
    if factor is not None and factor != 1.0:
        metrics = tuple(with_target(metric, factor) for metric in spec.metrics)
        spec = replace(spec, metrics=metrics)
    if least is not None:
        spec = replace(spec, min_replicas=min(least, spec.max_replicas))
    return replace(target, spec=replace(spec, behavior=_behavior(spec, value)))


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


def _behavior(spec: HorizontalPodAutoscalerSpec, value: Callable[[str], Any]) -> Behavior | None:
    if all(value(name) is None for name in _OF_BEHAVIOR):
        return spec.behavior
    usual = spec.behavior or Behavior(
        ScalingRules(0, SelectPolicy.MAX, (_pods(_LEAST_PODS, 15), _percent(100, 15))),
        ScalingRules(None, SelectPolicy.MAX, (_percent(100, 15),)),
    )
    more = (_pods(_LEAST_PODS, _POLICY_SECONDS),)
    return Behavior(
        _rules(usual.scale_up, value, "scale_up", more),
        _rules(usual.scale_down, value, "scale_down"),
    )


def _rules(
    usual: ScalingRules,
    value: Callable[[str], Any],
    direction: str,
    more: tuple[ScalingPolicy, ...] = (),
) -> ScalingRules:
    """Return the rules of a direction; ``more`` policies precede the percentage."""
    window, percent = value(f"{direction}_windows"), value(f"{direction}_percents")
    tolerance = value("tolerances")
    changed: dict[str, Any] = {}
    if window is not None:
        changed["stabilization_window_seconds"] = round(window)
    if percent is not None:
        policies = (*more, _percent(percent, _POLICY_SECONDS))
        changed |= {"select_policy": SelectPolicy.MAX, "policies": policies}
    if tolerance is not None:
        changed["tolerance"] = tolerance
    return replace(usual, **changed)


def _percent(percent: int, seconds: int) -> ScalingPolicy:
    return ScalingPolicy(PolicyType.PERCENT, percent, seconds)


def _pods(pods: int, seconds: int) -> ScalingPolicy:
    return ScalingPolicy(PolicyType.PODS, pods, seconds)


# -- which is better -------------------------------------------------------------------------------


def dominates(number: Sequence[float], other: Sequence[float]) -> bool:
    """Return whether one dominates the other: no value is larger and one is smaller."""
    return number != other and all(
        first <= second for first, second in zip(number, other, strict=True)
    )


def on_front(
    candidates: Iterable[Candidate], preference: Preference, days: slice
) -> list[Candidate]:
    """Return the candidates that no other dominates by some days; one of equal ones.

    They are in the order of their replica-hours.
    """
    first_of: dict[tuple[float, ...], Candidate] = {}
    for candidate in candidates:
        first_of.setdefault(preference.objectives(total(candidate.days[days])), candidate)
    front = [own for own in first_of if not any(dominates(other, own) for other in first_of)]
    return [first_of[own] for own in sorted(front, key=lambda objectives: objectives[1])]


def best(candidates: Sequence[Candidate], preference: Preference, days: slice) -> Candidate:
    """Return the preferred candidate by some days; the first of equal ones."""
    return min(candidates, key=lambda candidate: preference.key(total(candidate.days[days])))


@dataclass(frozen=True, slots=True)
class TuningResult:
    """The result of a search; candidates are chosen by the first ``split`` days.

    The first candidate is the current target.
    """

    target: Target
    space: TuningSpace
    preference: Preference
    days: int
    split: int
    candidates: Sequence[Candidate]
    interrupted: bool = False

    @property
    def first_days(self) -> slice:
        """The days by which candidates are searched and chosen."""
        return slice(0, self.split)

    @property
    def last_days(self) -> slice:
        """The days by which they are judged."""
        return slice(self.split, self.days)

    @property
    def today(self) -> Candidate:
        """The current configuration."""
        return self.candidates[0]

    @property
    def chosen(self) -> Candidate:
        """The preferred candidate by the first days."""
        return best(self.candidates, self.preference, self.first_days)

    @property
    def tuned(self) -> Target:
        """The target with the chosen settings."""
        return applied_to(self.target, self.space, self.chosen.choice)

    def front(self) -> list[Candidate]:
        """Return the candidates that no other dominates by the first days."""
        return on_front(self.candidates, self.preference, self.first_days)

    def judged(self) -> DayCounts:
        """Return on how many of the last days the chosen one was better than the current one."""
        last = self.last_days
        return counted_days(self.today.days[last], self.chosen.days[last], self.preference.key)
