"""From a proposal to the count that may be written: stabilization, then rate limits and bounds.

The behavior normalizer of the HPA (semantics 4), with its conditions.
"""

from dataclasses import dataclass, replace

from autoscaler.core.conditions import ABLE_TO_SCALE, SCALING_LIMITED, Notes
from autoscaler.core.decision import Limit, Refill, Stabilization
from autoscaler.core.history import History
from autoscaler.core.limits import Changes, limit, limit_legacy
from autoscaler.core.spec import Flags, HorizontalPodAutoscalerSpec
from autoscaler.core.stabilization import READY, SCALE_DOWN_STABILIZED, stabilize, stabilize_legacy


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
