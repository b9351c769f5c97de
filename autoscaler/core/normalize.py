"""The normalizer: from the desired count to the count that may be written (semantics 4)."""

import math
from collections.abc import Sequence
from dataclasses import dataclass

from autoscaler.core.decision import Limit, Refill, Stabilization
from autoscaler.core.history import History, Recommendation
from autoscaler.core.limits import Changes, limit, limit_legacy
from autoscaler.core.spec import Behavior, Flags, HorizontalPodAutoscalerSpec
from autoscaler.core.status import (
    ABLE_TO_SCALE,
    SCALING_LIMITED,
    WITHIN_RANGE_MESSAGE,
    StatusRecorder,
)

READY = "ReadyForNewScale"
SCALE_DOWN_STABILIZED = "ScaleDownStabilized"
SCALE_UP_STABILIZED = "ScaleUpStabilized"

Recommendations = tuple[Recommendation, ...]


@dataclass(frozen=True, slots=True)
class Normalizer:
    """Applies stabilization, then limits, at ``now``, and sets the conditions of each.

    Recommendations are recorded as of ``stamp``.
    """

    spec: HorizontalPodAutoscalerSpec
    flags: Flags
    now: float
    stamp: float
    status: StatusRecorder

    def stabilize(
        self, current: int, desired: int, recommendations: Recommendations
    ) -> tuple[Stabilization, Recommendations]:
        """Stabilize the desired count; it is recorded in the recommendations that are returned."""
        result, kept = self._stabilized(current, desired, recommendations)
        message = (
            "the recommended size stands"
            if result.reason == READY
            else f"recent recommendations hold the size at {result.after} instead of {desired}"
        )
        self.status.set_true(ABLE_TO_SCALE, result.reason, message)
        return result, kept

    def record(self, desired: int, recommendations: Recommendations) -> Recommendations:
        """Return the recommendations with one more, which is not stabilized."""
        return self._stabilized(desired, desired, recommendations)[1]

    def _stabilized(
        self, current: int, desired: int, recommendations: Recommendations
    ) -> tuple[Stabilization, Recommendations]:
        behavior = self.spec.behavior
        if behavior is None:
            window = self.flags.downscale_stabilization
            return stabilize_legacy(desired, recommendations, window, self.now, self.stamp)
        return stabilize(
            current, desired, recommendations, behavior, self.flags, self.now, self.stamp
        )

    def hold(
        self, current: int, desired: int, refill: Refill, recommendations: Recommendations
    ) -> Stabilization:
        """Keep the current count while a reading refills (semantics 7.2).

        The desired count is not recorded; earlier recommendations count as always.
        """
        result, _ = self.stabilize(current, current, recommendations)
        if result.after != current:
            return result
        which = "was read for the first time" if refill.first else "returned after a gap"
        message = f"a metric {which}; nothing goes down until its range is whole again"
        self.status.set_true(ABLE_TO_SCALE, SCALE_DOWN_STABILIZED, message)
        return Stabilization(
            desired, current, SCALE_DOWN_STABILIZED, until=refill.until, refill=refill
        )

    def limit(self, current: int, stabilized: int, history: History) -> Limit:
        """Apply rate limits and bounds."""
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
            self.status.set_true(SCALING_LIMITED, result.reason, message)
        else:
            self.status.set_false(SCALING_LIMITED, result.reason, WITHIN_RANGE_MESSAGE)
        return result


def down_window(behavior: Behavior | None, flags: Flags) -> float:
    """Return the stabilization window of scale-down in seconds (semantics 4.1, 4.2)."""
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
    """Return the largest of the desired count and the recommendations of the window.

    This is the path without behavior (semantics 4.1): an entry exactly as old as the window
    counts.  The desired count is recorded as of ``stamp``, by default as of ``now``.
    """
    cutoff = now - window
    largest = desired
    old_slot = None
    for slot, entry in enumerate(recommendations):
        if entry.time < cutoff:
            old_slot = slot
        elif entry.replicas > largest:
            largest = entry.replicas
    recorded = _record(recommendations, old_slot, desired, now if stamp is None else stamp)
    if largest == desired:
        return Stabilization(desired, desired, READY), recorded
    counting = [entry for entry in recommendations if entry.time >= cutoff]
    holder = _latest([entry for entry in counting if entry.replicas >= largest])
    # At the end of the window the entry still counts: the next instant is the first without it.
    until = math.nextafter(holder.time + window, math.inf)
    return Stabilization(desired, largest, SCALE_DOWN_STABILIZED, holder, until), recorded


def stabilize(
    current: int,
    desired: int,
    recommendations: Recommendations,
    behavior: Behavior,
    flags: Flags,
    now: float,
    stamp: float | None = None,
) -> tuple[Stabilization, Recommendations]:
    """Move from the current count toward the desired one as far as both windows permit.

    This is the path with behavior (semantics 4.2): an entry exactly as old as a window does not
    count.  The desired count is recorded as of ``stamp``, by default as of ``now``.
    """
    up_seconds = float(behavior.scale_up.stabilization_window_seconds or 0)
    down_seconds = down_window(behavior, flags)
    up_cutoff, down_cutoff = now - up_seconds, now - down_seconds
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
    recorded = _record(recommendations, old_slot, desired, now if stamp is None else stamp)
    if stabilized == desired:
        return Stabilization(desired, desired, READY), recorded
    if desired >= current:
        holders = [e for e in recommendations if e.time > up_cutoff and e.replicas <= stabilized]
        reason, window = SCALE_UP_STABILIZED, up_seconds
    else:
        holders = [e for e in recommendations if e.time > down_cutoff and e.replicas >= stabilized]
        reason, window = SCALE_DOWN_STABILIZED, down_seconds
    holder = _latest(holders)
    return Stabilization(desired, stabilized, reason, holder, holder.time + window), recorded


def _latest(entries: Sequence[Recommendation]) -> Recommendation:
    """Return the entry that leaves the window last: the result stands until it does."""
    return max(entries, key=lambda entry: entry.time)


def _record(
    recommendations: Recommendations, slot: int | None, desired: int, stamp: float
) -> Recommendations:
    entry = Recommendation(desired, stamp)
    if slot is None:
        return (*recommendations, entry)
    return (*recommendations[:slot], entry, *recommendations[slot + 1 :])
