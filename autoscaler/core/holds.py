"""`holdScaleDownQuery`: nothing goes down while it says so, nor just after (semantics 8.9)."""

from autoscaler.core.decision import QueryHold, Refill
from autoscaler.core.gaps import GapKey, refill_until, tracker_of
from autoscaler.core.history import History, with_extended
from autoscaler.core.observation import HoldReading
from autoscaler.core.reconcile import DecisionContext

HOLD_QUERY = "holdScaleDownQuery"
_HOLD_KEY: GapKey = ("", "")


def hold_in_force(
    context: DecisionContext, history: History
) -> tuple[QueryHold | None, Refill | None, History]:
    """Return the hold, the refill after one, and the history with the gap while it holds."""
    reading, before = context.observation.hold, history.extended.hold_gap
    longest, gap = max(context.observation.ranges or (), default=0.0), None
    # What it tells of, as an exporter that is away, may have cost the samples of any range.
    if reading is not None and reading.holds:
        gap = tracker_of(context).opened(before, _HOLD_KEY)
    elif reading is not None and before is not None:
        gap = tracker_of(context).closed(before, longest)
    if gap != before:
        history = with_extended(history, hold_gap=gap)
    just_held = before is not None and before.since is not None
    hold = QueryHold(reading) if reading is not None and (reading.holds or just_held) else None
    refill = None
    if gap is not None and gap.since is None and gap.until > context.now:
        refill = refill_until(gap.until, longest, after_hold=True)
    return hold, refill, history


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
