"""Two rehearsals of one time side by side: which measure is better, and how sure that is.

Days are what is compared: how a measure differs on each of them, and by the sign test how often
chance alone would put as many of them on one side.
"""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from enum import StrEnum
from math import comb

from autoscaler.lab.engine.measures import A_DAY, Measures

COMPARED = ("tau_under", "theta_under", "shortage_pod_hours", "replica_hours", "changes")
"""The measures that are compared; of each less is better."""
LEAST_DAYS = 3
_SURE = 0.05
_SHORTEST_DAY = 0.5
"""A day of which less was scored is too short to count."""


class Side(StrEnum):
    """How one measure compares."""

    BETTER = "better"
    WORSE = "worse"
    EQUAL = "equal"
    UNKNOWN = "unknown"


@dataclass(frozen=True, slots=True)
class DayCounts:
    """On how many of the days the second was better, and on how many worse."""

    days: int
    better: int
    worse: int

    @property
    def chance(self) -> float | None:
        """The probability that chance alone puts as many days on one side.

        None with fewer than `LEAST_DAYS` days that differ.
        """
        differ = self.better + self.worse
        return sign_test(self.better, self.worse) if differ >= LEAST_DAYS else None

    @property
    def sure(self) -> bool:
        """Whether days agree more than chance would have them."""
        return self.chance is not None and self.chance < _SURE


@dataclass(frozen=True, slots=True)
class MeasureComparison:
    """One measure of both, over the whole time and by days; None where nothing was scored."""

    field: str
    first: float | None
    second: float | None
    by_days: DayCounts

    @property
    def verdict(self) -> Side:
        """Whether the second is better."""
        if self.first is None or self.second is None:
            return Side.UNKNOWN
        if self.first == self.second:
            return Side.EQUAL
        return Side.BETTER if self.second < self.first else Side.WORSE


def compared_days(
    first: Measures,
    second: Measures,
    first_days: Sequence[Measures],
    second_days: Sequence[Measures],
) -> tuple[MeasureComparison, ...]:
    """Compare two outcomes of one time, measure by measure."""
    return tuple(
        MeasureComparison(
            field,
            getattr(first, field),
            getattr(second, field),
            counted_days(first_days, second_days, _value_of(field)),
        )
        for field in COMPARED
    )


def _value_of(field: str) -> Callable[[Measures], tuple[float, ...]]:
    return lambda one: (getattr(one, field),)


def counted_days(
    first: Sequence[Measures],
    second: Sequence[Measures],
    key: Callable[[Measures], tuple[float, ...]],
) -> DayCounts:
    """Count the days of which the second's key is less, or more; days cut short are left out."""
    pairs = [
        (key(one), key(other))
        for one, other in zip(first, second, strict=False)
        if min(one.scored_seconds, other.scored_seconds) >= _SHORTEST_DAY * A_DAY
    ]
    better = sum(other < one for one, other in pairs)
    return DayCounts(len(pairs), better, sum(other > one for one, other in pairs))


def sign_test(better: int, worse: int) -> float:
    """Return the probability that so many days or more are on one side by chance: two-sided."""
    days, most = better + worse, max(better, worse)
    tail = sum(comb(days, number) for number in range(most, days + 1))
    return min(1.0, 2.0 * tail / float(2**days))


def total(measures: Iterable[Measures]) -> Measures:
    """Return the measures of several targets together: sums, and shares by the scored time."""
    every = list(measures)
    values: dict[str, float] = {}
    for name in Measures.model_fields:
        known = [one for one in every if getattr(one, name) is not None]
        if not known:
            continue
        if name in _SHARES:
            weighted = sum(getattr(one, name) * one.scored_seconds for one in known)
            values[name] = weighted / sum(one.scored_seconds for one in known)
        else:
            numbers = [getattr(one, name) for one in known]
            values[name] = max(numbers) if name in _EXTREMES else sum(numbers)
    return Measures.model_validate(values)


_SHARES = {"theta_under", "theta_over", "tau_under", "tau_over", "upsilon"}
_EXTREMES = {
    "worst_shortage",
    "longest_shortage_seconds",
    "longest_queue",
    "mean_wait_seconds",
    "longest_wait_seconds",
}
