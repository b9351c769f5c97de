"""`holdScaleDownQuery`: nothing goes down while it says so, nor just after (semantics 8.9)."""

from dataclasses import replace

from autoscaler.core.decision import QueryHold, Refill
from autoscaler.core.gaps import GapKey, GapTracker, refill_until, tracker_of
from autoscaler.core.history import History, ReadingGap
from autoscaler.core.observation import HoldReading, Observation
from autoscaler.core.reconcile import DecisionContext

HOLD_QUERY = "holdScaleDownQuery"
_HOLD_KEY: GapKey = ("", "")


def hold_in_force(
    context: DecisionContext, history: History
) -> tuple[QueryHold | None, Refill | None, History]:
    """Return the hold, the refill after one, and the history with the gap while it holds."""
    reading, before = context.observation.hold, history.extended.hold_gap
    gap = _tracked(before, context.observation, tracker_of(context))
    if gap != before:
        history = replace(history, extended=replace(history.extended, hold_gap=gap))
    just_held = before is not None and before.since is not None
    hold = QueryHold(reading) if reading is not None and (reading.holds or just_held) else None
    refill = None
    if gap is not None and gap.since is None and gap.until > context.now:
        refill = refill_until(gap.until, _longest_range(context.observation), after_hold=True)
    return hold, refill, history


def _tracked(
    gap: ReadingGap | None, observation: Observation, tracker: GapTracker
) -> ReadingGap | None:
    """Return the gap of the readings: what holds may have cost the samples of any range."""
    reading = observation.hold
    if reading is None:
        return None
    if reading.holds:
        return tracker.opened(gap, _HOLD_KEY)
    return None if gap is None else tracker.closed(gap, _longest_range(observation))


def _longest_range(observation: Observation) -> float:
    return max(observation.ranges or (), default=0.0)


def why_held(reading: HoldReading) -> str:
    """Say why `holdScaleDownQuery` lets nothing go down."""
    if reading.gap is not None:
        missing = f"{HOLD_QUERY} has no answer that counts: {reading.gap.detail}"
        return f"nothing goes down, since {missing}"
    if not reading.series:
        return f"nothing goes down in the first sync after {HOLD_QUERY} held"
    more = f" and {reading.series - 1} more" if reading.series > 1 else ""
    # Such as that of vector(1).
    first = "a value without labels" if reading.first == "{}" else reading.first
    return f"nothing goes down while {HOLD_QUERY} returns {first}{more}"
