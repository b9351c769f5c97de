"""The normalizer: from the proposal to the count (semantics 4): stabilization, then rate limits."""

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

from autoscaler.core.decision import Limit, Refill, Stabilization
from autoscaler.core.history import History, Recommendation
from autoscaler.core.limits import Changes, limit, limit_legacy
from autoscaler.core.spec import Behavior, Flags, HorizontalPodAutoscalerSpec
from autoscaler.core.status import ABLE_TO_SCALE, SCALING_LIMITED, Notes


@dataclass(frozen=True, slots=True)
class Normalizer:
    """The rules of one target at the instant ``now`` of a sync that is remembered as ``stamp``."""

    spec: HorizontalPodAutoscalerSpec
    flags: Flags
    now: float
    stamp: float

    def stabilize(
        self, current: int, desired: int, history: History, notes: Notes
    ) -> tuple[Stabilization, History]:
        """Hold the proposal back by recent recommendations, and remember it as one."""
        recommendations, behavior = history.recommendations or (), self.spec.behavior
        if behavior is None:
            window = self.flags.downscale_stabilization
            result, kept = stabilize_legacy(desired, recommendations, window, self.now, self.stamp)
        else:
            result, kept = stabilize(
                current, desired, recommendations, behavior, self.flags, self.now, self.stamp
            )
        message = (
            "the recommended size stands"
            if result.reason == READY
            else f"recent recommendations hold the size at {result.after} instead of {desired}"
        )
        notes.true(ABLE_TO_SCALE, result.reason, message)
        return result, replace(history, recommendations=kept)

    def hold(
        self, current: int, desired: int, refill: Refill, history: History, notes: Notes
    ) -> Stabilization:
        """Keep the count until a reading that has just returned is whole again.

        What the reading asks for is no recommendation; earlier ones hold as they would otherwise.
        """
        result, _ = self.stabilize(current, current, history, notes)
        if result.after != current:
            return result
        which = "was read for the first time" if refill.first else "returned after a gap"
        message = f"a metric {which}; nothing goes down until its range is whole again"
        notes.true(ABLE_TO_SCALE, SCALE_DOWN_STABILIZED, message)
        return Stabilization(
            desired, current, SCALE_DOWN_STABILIZED, until=refill.until, refill=refill
        )

    def limit(self, current: int, stabilized: int, history: History, notes: Notes) -> Limit:
        """Go only as far as rate limits and bounds permit now."""
        spec = self.spec
        if spec.behavior is None:
            result = limit_legacy(current, stabilized, spec.min_replicas, spec.max_replicas)
        else:
            result = limit(
                current,
                stabilized,
                (spec.min_replicas, spec.max_replicas),
                spec.behavior,
                Changes(history.scale_ups, history.scale_downs, history.unseen),
                self.now,
            )
        if result.after != stabilized:
            message = f"{stabilized} replicas are wanted, and {result.after} are permitted now"
            notes.true(SCALING_LIMITED, result.reason, message)
        else:
            message = "the desired count is within the acceptable range"
            notes.false(SCALING_LIMITED, result.reason, message)
        return result


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
