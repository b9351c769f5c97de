"""The bounds in force: the target's own, those of open schedules, those of queries (8.2)."""

from collections.abc import Callable, Iterable
from dataclasses import replace
from operator import attrgetter

from autoscaler.core.decision import Bound, Bounds
from autoscaler.core.extensions import Schedule
from autoscaler.core.history import ExtensionHistory, KnownBound
from autoscaler.core.numbers import INT32_MAX
from autoscaler.core.observation import Gap, Observation, OpenWindow, Values
from autoscaler.core.spec import HorizontalPodAutoscalerSpec

KNOWN_SECONDS = 300.0
"""So long the last value of a bound's query counts while the query has none."""

MIN_QUERY, MAX_QUERY = "minReplicasQuery", "maxReplicasQuery"


def bounds_in_force(
    spec: HorizontalPodAutoscalerSpec, observation: Observation, known: ExtensionHistory, now: float
) -> tuple[Bounds, ExtensionHistory]:
    """Return the bounds at ``now``, and the history with what the queries of bounds gave."""
    low, high = Bound(spec.min_replicas), Bound(spec.max_replicas)
    if observation.windows:
        low = _scheduled(low, observation.windows, _MINIMUM)
        high = _at_least(_scheduled(high, observation.windows, _MAXIMUM), low)
    if not observation.asks_for_bounds:
        return Bounds(low, high), known
    least, of_min, missing = _asked(observation.min_replicas_reading, known.known_min, now)
    most, of_max, missing_max = _asked(observation.max_replicas_reading, known.known_max, now)
    if of_min is not known.known_min or of_max is not known.known_max:
        known = replace(known, known_min=of_min, known_max=of_max)
    lower, upper = low, high
    if least is not None and least > low.replicas:
        lower = Bound(min(least, high.replicas), _origin(MIN_QUERY, missing))
    if most is not None and most < high.replicas:
        upper = Bound(max(most, low.replicas), _origin(MAX_QUERY, missing_max))
    told = [
        f"{name} has no value: {why}"
        for name, why in ((MIN_QUERY, missing), (MAX_QUERY, missing_max))
        if why
    ]
    hold_down = least is None and observation.min_replicas_reading is not None
    bounds = Bounds(
        lower,
        _at_least(upper, lower),
        "; ".join(told),
        hold_down,
        None if least is None else of_min,
        None if most is None else of_max,
    )
    return bounds, known


def gives_least(windows: Iterable[OpenWindow], replicas: int) -> bool:
    """Return whether a schedule that is open gives a minimum of at least so many replicas."""
    return any((one.schedule.min_replicas or 0) >= replicas for one in windows)


_MINIMUM, _MAXIMUM = attrgetter("min_replicas"), attrgetter("max_replicas")


def _scheduled(
    own: Bound, windows: Iterable[OpenWindow], bound_of: Callable[[Schedule], int | None]
) -> Bound:
    """Return the largest of the windows' bounds, the target's own where none has one."""
    largest, source, gradual = -1, None, True
    for window in windows:
        replicas = bound_of(window.schedule)
        if replicas is not None:
            gradual = gradual and window.schedule.gradual
            if replicas > largest:
                largest, source = replicas, window
    if source is None:
        return own
    return Bound(largest, f"schedule {source.schedule.name} until {source.until_text}", gradual)


def _at_least(high: Bound, low: Bound) -> Bound:
    """Return the maximum, which is at least the minimum."""
    if high.replicas >= low.replicas:
        return high
    return replace(low, by=f"the minimum by {low.by}" if low.by else "the minimum")


def _asked(
    reading: Values | Gap | None, known: KnownBound | None, now: float
) -> tuple[int | None, KnownBound | None, str]:
    """Return the count that a bound's query gives now, its last value, and why there is no new one.

    The count is None, and the last sentence empty, for a bound without a query.
    """
    if isinstance(reading, Values):
        # Rounded up; a count is never below zero.
        replicas = min(max(-(-reading.values[0] // 1000), 0), INT32_MAX)
        return replicas, KnownBound(replicas, now), ""
    if reading is None:
        return None, None, ""
    if known is None or now - known.time > KNOWN_SECONDS:
        return None, known, reading.detail
    return known.replicas, known, reading.detail


def _origin(name: str, missing: str) -> str:
    return f"{name}, as last read" if missing else name
