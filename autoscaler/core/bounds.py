"""The bounds in force: the target's own, those of open schedules, those of queries (8.2)."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace

from autoscaler.core.decision import Bound, Bounds
from autoscaler.core.history import History, KnownBound
from autoscaler.core.numbers import INT32_MAX
from autoscaler.core.observation import Gap, Observation, OpenWindow, Values
from autoscaler.core.spec import HorizontalPodAutoscalerSpec

KNOWN_SECONDS = 300.0
"""So long the last value of a bound's query counts while the query has none."""

MIN_QUERY, MAX_QUERY = "minReplicasQuery", "maxReplicasQuery"


def bounds_in_force(
    spec: HorizontalPodAutoscalerSpec, observation: Observation, history: History, now: float
) -> tuple[Bounds, History]:
    """Return the bounds at ``now``, and the history with what the queries of bounds gave."""
    windows = observation.windows
    low = _scheduled(Bound(spec.min_replicas), windows, lambda one: one.schedule.min_replicas)
    high = _scheduled(Bound(spec.max_replicas), windows, lambda one: one.schedule.max_replicas)
    high = _at_least(high, low)
    minimum = _asked(MIN_QUERY, observation.min_replicas_reading, history.known_min, now)
    maximum = _asked(MAX_QUERY, observation.max_replicas_reading, history.known_max, now)
    if (minimum.known, maximum.known) != (history.known_min, history.known_max):
        history = replace(history, known_min=minimum.known, known_max=maximum.known)
    lower, upper = minimum.within(low, high, low), maximum.within(low, high, high)
    bounds = Bounds(
        lower,
        _at_least(upper, lower),
        missing="; ".join(one.missing for one in (minimum, maximum) if one.missing),
        hold_down=bool(minimum.missing) and minimum.counts is None,
    )
    return bounds, history


def _scheduled(
    own: Bound, windows: Iterable[OpenWindow], bound_of: Callable[[OpenWindow], int | None]
) -> Bound:
    """Return the largest of the windows' bounds, the target's own where none has one."""
    given = [(replicas, one) for one in windows if (replicas := bound_of(one)) is not None]
    if not given:
        return own
    largest, window = max(given, key=lambda one: (one[0], one[1].until))
    return Bound(
        largest,
        f"schedule {window.schedule.name} until {window.until_text}",
        all(one.schedule.gradual for _, one in given),
    )


def _at_least(high: Bound, low: Bound) -> Bound:
    return low if high.replicas < low.replicas else high


@dataclass(frozen=True, slots=True)
class _Asked:
    """What the query of one bound gives.

    ``known`` is its last value, ``counts`` the value that counts now, ``missing`` why there is no
    new one.
    """

    name: str
    known: KnownBound | None = None
    counts: int | None = None
    missing: str = ""

    def within(self, low: Bound, high: Bound, otherwise: Bound) -> Bound:
        """Return the query's bound within ``low`` and ``high``; ``otherwise`` without a value."""
        if self.counts is None:
            return otherwise
        by = f"{self.name}, as last read" if self.missing else self.name
        return Bound(min(max(self.counts, low.replicas), high.replicas), by)


def _asked(name: str, reading: Values | Gap | None, known: KnownBound | None, now: float) -> _Asked:
    if reading is None:
        return _Asked(name)
    if isinstance(reading, Values):
        # Rounded up; a count is never below zero.
        replicas = min(max(-(-reading.values[0] // 1000), 0), INT32_MAX)
        return _Asked(name, KnownBound(replicas, now), replicas)
    missing = f"{name} has no value: {reading.detail}"
    if known is None or now - known.time > KNOWN_SECONDS:
        return _Asked(name, known, None, missing)
    return _Asked(name, known, known.replicas, missing)
