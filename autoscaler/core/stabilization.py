"""Stabilization: recent recommendations hold a proposal back (semantics 4.1, 4.2)."""

import math
from collections.abc import Sequence

from autoscaler.core.decision import Stabilization
from autoscaler.core.history import Recommendation
from autoscaler.core.spec import Behavior, Flags

READY = "ReadyForNewScale"
SCALE_DOWN_STABILIZED = "ScaleDownStabilized"
SCALE_UP_STABILIZED = "ScaleUpStabilized"

Recommendations = tuple[Recommendation, ...]


def down_window(behavior: Behavior | None, flags: Flags) -> float:
    """Return how long recommendations hold a scale-down, in seconds (semantics 4.1, 4.2)."""
    if behavior is None:
        return flags.downscale_stabilization
    seconds = behavior.scale_down.stabilization_window_seconds
    return float(int(flags.downscale_stabilization) if seconds is None else seconds)


def stabilize_legacy(
    desired: int,
    recommendations: Recommendations,
    window: float,
    now: float,
    stamp: float | None = None,
) -> tuple[Stabilization, Recommendations]:
    """Take the largest recommendation of the window, and remember this one.

    The path of a spec without behavior.  An entry exactly as old as the window counts.  This one
    is remembered as of ``stamp``, by default as of ``now``.
    """
    cutoff = now - window
    largest = desired
    old_slot = None
    for slot, entry in enumerate(recommendations):
        if entry.time < cutoff:
            old_slot = slot
        elif entry.replicas > largest:
            largest = entry.replicas
    remembered = _remember(recommendations, old_slot, desired, now if stamp is None else stamp)
    if largest == desired:
        return Stabilization(desired, desired, READY), remembered
    counting = [entry for entry in recommendations if entry.time >= cutoff]
    holder = _latest([entry for entry in counting if entry.replicas >= largest])
    # At the end of the window itself the entry still counts: the next instant is the first.
    until = math.nextafter(holder.time + window, math.inf)
    return Stabilization(desired, largest, SCALE_DOWN_STABILIZED, holder, until), remembered


def stabilize(
    current: int,
    desired: int,
    recommendations: Recommendations,
    behavior: Behavior,
    flags: Flags,
    now: float,
    stamp: float | None = None,
) -> tuple[Stabilization, Recommendations]:
    """Move from the current count toward the desired one only as far as both windows allow.

    The path of a spec with behavior.  An entry exactly as old as a window does not count.  This
    one is remembered as of ``stamp``, by default as of ``now``.
    """
    up_window = float(behavior.scale_up.stabilization_window_seconds or 0)
    held_down = down_window(behavior, flags)
    up_cutoff, down_cutoff = now - up_window, now - held_down
    low = high = desired
    old_slot = None
    for slot, entry in enumerate(recommendations):
        if entry.time > up_cutoff and entry.replicas < low:
            low = entry.replicas
        if entry.time > down_cutoff and entry.replicas > high:
            high = entry.replicas
        if entry.time < up_cutoff and entry.time < down_cutoff:
            old_slot = slot
    stabilized = min(max(current, low), high)
    remembered = _remember(recommendations, old_slot, desired, now if stamp is None else stamp)
    if stabilized == desired:
        return Stabilization(desired, desired, READY), remembered
    if desired >= current:
        holders = [e for e in recommendations if e.time > up_cutoff and e.replicas <= stabilized]
        reason, window = SCALE_UP_STABILIZED, up_window
    else:
        holders = [e for e in recommendations if e.time > down_cutoff and e.replicas >= stabilized]
        reason, window = SCALE_DOWN_STABILIZED, held_down
    holder = _latest(holders)
    return Stabilization(desired, stabilized, reason, holder, holder.time + window), remembered


def _latest(entries: Sequence[Recommendation]) -> Recommendation:
    """Return the entry that leaves the window last: until then the result stands."""
    return max(entries, key=lambda entry: entry.time)


def _remember(
    recommendations: Recommendations, slot: int | None, desired: int, stamp: float
) -> Recommendations:
    entry = Recommendation(desired, stamp)
    if slot is None:
        return (*recommendations, entry)
    return (*recommendations[:slot], entry, *recommendations[slot + 1 :])
