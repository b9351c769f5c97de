"""How well a count followed a demand: the elasticity measures of the SPEC Research Group.

They come from Herbst et al., "Ready for Rain? A View from SPEC Research on the Future of Cloud
Metrics" (SPEC RG, 2016), of a demand d and a supply s in pods, over the time T that is scored:

    theta_U = 1/T * integral of max(d - s, 0) / d      theta_O = 1/T * integral of max(s - d, 0) / d
    tau_U   = share of T with s < d                    tau_O   = share of T with s > d
    upsilon = share of T in which d and s change in different directions

Where d is 0, a surplus counts against one pod.  A gap in the data is not scored.
"""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from math import comb

from autoscaler.rendering.answers import AnswerModel

A_DAY = 86_400.0
"""Seconds."""


class Measures(AnswerModel):
    """How well the ready pods of a target followed the demand; shares are of 1.

    Measures of the demand are omitted if no time was scored.
    """

    scored_seconds: float
    """The time with a known demand."""
    gap_seconds: float
    """The time with an unknown demand."""
    theta_under: float | None = None
    """Missing pods as a share of the demand, averaged over the time."""
    theta_over: float | None = None
    """Surplus pods as a share of the demand, averaged over the time."""
    tau_under: float | None = None
    """The share of the time with missing pods."""
    tau_over: float | None = None
    """The share of the time with surplus pods."""
    upsilon: float | None = None
    """The share of the time in which demand and ready pods changed in different directions."""
    replica_hours: float
    """Hours of all desired pods, ready or not, including gaps."""
    shortage_pod_hours: float | None = None
    """Hours of missing pods."""
    changes: int
    """The number of changes of the count."""
    at_max_seconds: float
    """The time at the maximum."""
    worst_shortage: int | None = None
    """The most missing pods at an instant."""
    longest_shortage_seconds: float | None = None
    """The duration of the longest shortage."""
    longest_queue: float | None = None
    """The greatest length of a queue."""
    mean_wait_seconds: float | None = None
    """The mean wait in a queue: mean length over throughput (Little)."""
    longest_wait_seconds: float | None = None
    """The longest time that a queue exceeded what its pods serve, or that it had no pods."""


@dataclass(slots=True)
class _Sums:
    """Sums over a time: seconds, and pod-seconds."""

    scored: float = 0.0
    gap: float = 0.0
    under: float = 0.0
    over: float = 0.0
    under_seconds: float = 0.0
    over_seconds: float = 0.0
    unstable: float = 0.0
    replica_seconds: float = 0.0
    missing_seconds: float = 0.0
    at_max: float = 0.0
    changes: int = 0
    queue_area: float = 0.0
    served: float = 0.0

    def since(self, before: "_Sums") -> "_Sums":
        """Return the difference from an earlier sum."""
        return _Sums(*(getattr(self, slot) - getattr(before, slot) for slot in self.__slots__))


@dataclass(slots=True)
class _Peak:
    """The extremes of a time."""

    shortage: int = 0
    shortage_seconds: float = 0.0
    queue: float = 0.0
    wait: float = 0.0

    def with_other(self, other: "_Peak") -> "_Peak":
        """Return the extremes of both."""
        return _Peak(*(max(getattr(self, slot), getattr(other, slot)) for slot in self.__slots__))


class Score:
    """Adds up the measures of one target, interval after interval."""

    def __init__(self) -> None:
        self._sums, self._cut_at = _Sums(), _Sums()
        self._most, self._most_before = _Peak(), _Peak()
        self._shortage = 0.0
        self._queued = False
        self._last_demand: int | None = None
        self._last_supply = 0

    def interval(
        self, seconds: float, demand: int | None, supply: int, replicas: int, *, at_max: bool
    ) -> None:
        """Add a time without a change: the demand (None if unknown) and the ready pods."""
        sums = self._sums
        sums.replica_seconds += replicas * seconds
        if at_max:
            sums.at_max += seconds
        before, self._last_demand = self._last_demand, demand
        if demand is None:
            sums.gap += seconds
            return
        sums.scored += seconds
        if before is not None and (demand != before or supply != self._last_supply):
            risen, followed = demand - before, supply - self._last_supply
            if (risen > 0) - (risen < 0) != (followed > 0) - (followed < 0):
                sums.unstable += seconds
        self._last_supply = supply
        missing = demand - supply
        if missing > 0:
            self._short(missing, demand, seconds)
            return
        self._shortage = 0.0
        if missing:
            sums.over -= missing / (demand or 1) * seconds
            sums.over_seconds += seconds

    def _short(self, missing: int, demand: int, seconds: float) -> None:
        sums, most = self._sums, self._most
        sums.under += missing / demand * seconds
        sums.under_seconds += seconds
        sums.missing_seconds += missing * seconds
        self._shortage += seconds
        most.shortage = max(most.shortage, missing)
        most.shortage_seconds = max(most.shortage_seconds, self._shortage)

    def changed(self) -> None:
        """Count a change of the count."""
        self._sums.changes += 1

    def queue(self, seconds: float, length: float, served: float, wait: float) -> None:
        """Add a queue's mean length over a time, the served items, and the longest wait."""
        self._queued = True
        self._sums.queue_area += length * seconds
        self._sums.served += served
        self._most.queue = max(self._most.queue, length)
        self._most.wait = max(self._most.wait, wait)

    def cut(self) -> Measures:
        """Return the measures since the last cut, and begin another part."""
        found = self.part()
        self._most_before = self._most_before.with_other(self._most)
        self._cut_at, self._most = replace(self._sums), _Peak()
        return found

    def part(self) -> Measures:
        """Return the measures since the last cut."""
        return self._measures(self._sums.since(self._cut_at), self._most)

    def measures(self) -> Measures:
        """Return the measures of everything added."""
        return self._measures(self._sums, self._most_before.with_other(self._most))

    def _measures(self, sums: _Sums, most: _Peak) -> Measures:
        scored = sums.scored
        values: dict[str, float] = {
            "scored_seconds": scored,
            "gap_seconds": sums.gap,
            "replica_hours": sums.replica_seconds / 3600.0,
            "changes": sums.changes,
            "at_max_seconds": sums.at_max,
        }
        if scored:
            values |= {
                "theta_under": sums.under / scored,
                "theta_over": sums.over / scored,
                "tau_under": sums.under_seconds / scored,
                "tau_over": sums.over_seconds / scored,
                "upsilon": sums.unstable / scored,
                "shortage_pod_hours": sums.missing_seconds / 3600.0,
                "worst_shortage": most.shortage,
                "longest_shortage_seconds": most.shortage_seconds,
            }
        if self._queued:
            values |= {
                "longest_queue": most.queue,
                "mean_wait_seconds": sums.queue_area / sums.served if sums.served else 0.0,
                "longest_wait_seconds": most.wait,
            }
        return Measures.model_validate(values)


# -- two of one time -------------------------------------------------------------------------------


COMPARED = ("tau_under", "theta_under", "shortage_pod_hours", "replica_hours", "changes")
"""The compared measures; less is better for each."""
LEAST_DAYS = 3
_SURE = 0.05
_SHORTEST_DAY = 0.5
"""The least scored seconds of a day that counts."""


class Side(StrEnum):
    """How one measure compares."""

    BETTER = "better"
    WORSE = "worse"
    EQUAL = "equal"
    UNKNOWN = "unknown"


@dataclass(frozen=True, slots=True)
class DayCounts:
    """The number of days on which the second was better, and worse."""

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
        """Whether the days agree more than by chance."""
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
    return lambda measures: (getattr(measures, field),)


def counted_days(
    first: Sequence[Measures],
    second: Sequence[Measures],
    key: Callable[[Measures], tuple[float, ...]],
) -> DayCounts:
    """Count the days on which the second key is less, or more; short days are omitted."""
    pairs = [
        (key(finding), key(other))
        for finding, other in zip(first, second, strict=False)
        if min(finding.scored_seconds, other.scored_seconds) >= _SHORTEST_DAY * A_DAY
    ]
    better = sum(other < pair for pair, other in pairs)
    return DayCounts(len(pairs), better, sum(other > pair for pair, other in pairs))


def sign_test(better: int, worse: int) -> float:
    """Return the two-sided probability of at least this many days on one side by chance."""
    days, most = better + worse, max(better, worse)
    tail = sum(comb(days, number) for number in range(most, days + 1))
    return min(1.0, 2.0 * tail / float(2**days))


def total(measures: Iterable[Measures]) -> Measures:
    """Return the measures of several targets together: sums, and shares by the scored time."""
    every = list(measures)
    values: dict[str, float] = {}
    for name in Measures.model_fields:
        known = [measure for measure in every if getattr(measure, name) is not None]
        if not known:
            continue
        if name in _SHARES:
            weighted = sum(getattr(measures, name) * measures.scored_seconds for measures in known)
            values[name] = weighted / sum(measures.scored_seconds for measures in known)
        else:
            numbers = [getattr(measures, name) for measures in known]
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
