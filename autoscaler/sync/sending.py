"""A write on its way, and what its outcome means for the decision and the history."""

from dataclasses import dataclass, replace

from autoscaler.core.decision import Decision
from autoscaler.core.history import History, PendingWrite
from autoscaler.core.observation import Scale
from autoscaler.core.target import Target
from autoscaler.core.writes import (
    Superseded,
    WriteFailed,
    WriteOutcome,
    Written,
    resolve,
    settle,
    settle_failure,
)


@dataclass(frozen=True, slots=True)
class Sending:
    """A write that was noted and is sent.

    ``previous`` is the history before the decision; ``earlier`` a write before this one that may
    still be applied.
    """

    target: Target
    scale: Scale
    decision: Decision
    previous: History
    earlier: PendingWrite | None

    def settle(self, history: History, write: WriteOutcome) -> tuple[Decision, History]:
        """Take in the outcome; ``history`` has this write as the one that is pending."""
        spec, decision = self.target.spec, self.decision
        if isinstance(write, Written):
            return settle(spec, decision, history)
        if isinstance(write, Superseded):
            pending = self.earlier or (history.pending if write.uncertain else None)
            error = f"somebody else set the replicas to {write.scale.spec_replicas} meanwhile"
            decision, history = settle_failure(decision, history, self.previous, error, pending)
            return decision, resolve(spec, history, write.scale)
        if isinstance(write, WriteFailed):
            pending = history.pending if write.unknown else self.earlier
            return settle_failure(decision, history, self.previous, write.message, pending)
        return decision, replace(history, pending=self.earlier)
