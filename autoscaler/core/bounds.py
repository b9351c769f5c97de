"""The bounds in force: of the target, of open schedules and of queries (8.2)."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from operator import attrgetter

from autoscaler.core.decision import Bound, Bounds, RulesOutcome, Zone
from autoscaler.core.extensions import Schedule
from autoscaler.core.history import ExtensionHistory, History, KnownBound
from autoscaler.core.numbers import INT32_MAX, NANO
from autoscaler.core.observation import Gap, Observation, OpenWindow, Values
from autoscaler.core.quick import changed, quick
from autoscaler.core.reconcile import limited
from autoscaler.core.spec import HorizontalPodAutoscalerSpec
from autoscaler.core.status import DecisionContext

KNOWN_SECONDS = 300.0
"""How long the last value of a bound's query is used while the query has no value, in seconds."""

MIN_QUERY, MAX_QUERY = "minReplicasQuery", "maxReplicasQuery"


def bounds_in_force(
    spec: HorizontalPodAutoscalerSpec,
    observation: Observation,
    before: ExtensionHistory,
    now: float,
) -> tuple[Bounds, ExtensionHistory]:
    """Return the bounds at ``now``, and the history with the answers to the bounds' queries."""
    low, high = Bound(spec.min_replicas), Bound(spec.max_replicas)
    if observation.windows:
        low = _scheduled(low, observation.windows, attrgetter("min_replicas"))
        high = _scheduled(high, observation.windows, attrgetter("max_replicas"))
        high = _at_least(high, low)
    if not observation.asks_for_bounds:
        return Bounds(low, high), before
    after = before
    of_min = _answer_of(observation.min_replicas_reading, before.known_min, now)
    of_max = _answer_of(observation.max_replicas_reading, before.known_max, now)
    if of_min.remembered is not before.known_min or of_max.remembered is not before.known_max:
        after = changed(before, known_min=of_min.remembered, known_max=of_max.remembered)
    lower, upper = low, high
    least = of_min.counts or of_min.at_least
    if least is not None and least.replicas > low.replicas:
        lower = Bound(min(least.replicas, high.replicas), _origin(MIN_QUERY, least, now))
    most = of_max.counts
    if most is not None and most.replicas < high.replicas:
        upper = Bound(max(most.replicas, low.replicas), _origin(MAX_QUERY, most, now))
    missing = [
        f"{name} has {answer.missing}"
        for name, answer in ((MIN_QUERY, of_min), (MAX_QUERY, of_max))
        if answer.missing
    ]
    hold_down = of_min.counts is None and observation.min_replicas_reading is not None
    bounds = Bounds(lower, _at_least(upper, lower), "; ".join(missing), hold_down, least, most)
    return bounds, after


def within(spec: HorizontalPodAutoscalerSpec, bounds: Bounds) -> HorizontalPodAutoscalerSpec:
    """Return the spec with the bounds in force in place of its own."""
    low, high = bounds.minimum.replicas, bounds.maximum.replicas
    if low == spec.min_replicas and high == spec.max_replicas:
        return spec
    return replace(spec, min_replicas=low, max_replicas=high)


def approached(
    result: RulesOutcome, context: DecisionContext, bounds: Bounds, current: int, history: History
) -> RulesOutcome:
    """Return the origin of the bound that a change approaches: a gradual one has limits (8.2)."""
    bound = bounds.maximum if result.zone is Zone.ABOVE_MAX else bounds.minimum
    if bound.by:
        result = replace(result, reason=f"{result.reason} ({bound.by})")
    if bound.gradual:
        step = limited(context, current, result.desired, history)
        # A policy in percent, or none, would leave a target at zero forever.
        result = replace(result, desired=max(step.after, 1), limit=step)
    return result


def _scheduled(
    own: Bound, windows: Iterable[OpenWindow], bound_of: Callable[[Schedule], int | None]
) -> Bound:
    """Return the largest of the bounds of open schedules; the target's own if none sets one."""
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
    """Return the maximum, raised to the minimum where it is lower."""
    if high.replicas >= low.replicas:
        return high
    return replace(low, by=f"the minimum by {low.by}" if low.by else "the minimum")


@quick
@dataclass(frozen=True, slots=True)
class _BoundAnswer:
    """The answer to a bound's query: ``counts`` is the bound now, None if it is unknown.

    ``remembered`` is what the next sync knows. ``missing`` says what is wrong with the answer,
    ``at_least`` is the value of an incomplete answer where no other value is known.
    """

    counts: KnownBound | None = None
    remembered: KnownBound | None = None
    missing: str = ""
    at_least: KnownBound | None = None


def _answer_of(reading: Values | Gap | None, last: KnownBound | None, now: float) -> _BoundAnswer:
    """Return the bound that a reading gives, given the last complete answer.

    An incomplete answer may be too low: it may raise the last complete one and never lowers it; it
    is remembered at the time of that one.
    """
    if reading is None:
        return _BoundAnswer()
    fresh = None if last is None or now - last.time > KNOWN_SECONDS else last
    if isinstance(reading, Gap):
        return _BoundAnswer(fresh, last, f"no value: {reading.detail}")
    # Round up, but ignore the error of double arithmetic; a count is never negative.
    nano = round(min(max(reading.units, 0.0), INT32_MAX) * NANO)
    replicas = -(-nano // NANO)
    bound = KnownBound(replicas, now)
    if not reading.gaps:
        return _BoundAnswer(bound, bound)
    missing = f"only an incomplete answer: {reading.gaps[0].detail}"
    if fresh is None:
        return _BoundAnswer(None, last, missing, bound)
    if replicas > fresh.replicas:
        fresh = replace(fresh, replicas=replicas)
    return _BoundAnswer(fresh, fresh, missing)


def _origin(name: str, bound: KnownBound, now: float) -> str:
    return name if bound.time == now else f"{name}, as last read"
