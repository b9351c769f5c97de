"""One decided sync of a target: the inputs, the decision and the outcome of the write.

It is what a sync reports, what is logged and shown of it, and what the record keeps of a change.
From what it was decided from it can be decided again (`step.recompute`), to the same result.
"""

from dataclasses import dataclass, field

from autoscaler.core.classification import Classification, classify
from autoscaler.core.decision import Decision
from autoscaler.core.history import History
from autoscaler.core.observation import Observation
from autoscaler.core.quick import quick
from autoscaler.core.spec import Flags
from autoscaler.core.target import Target
from autoscaler.core.writes import WriteOutcome


@quick
@dataclass(frozen=True, slots=True)
class Inputs:
    """What `decide` takes; ``history`` is from before the decision.  Instants are Unix seconds."""

    observation: Observation
    history: History
    now: float
    stamp: float


@dataclass(frozen=True, slots=True)
class Rules:
    """What a decision follows and what the configuration sets: seldom another one."""

    target: Target
    flags: Flags


@dataclass(frozen=True, slots=True)
class SyncResult:
    """One target at one sync: the decision as after the write, and what became of the write.

    ``write`` is None without a write.  ``given`` are the inputs of the decision; they are
    large, so caches of all targets leave them out.
    """

    target: Target
    decision: Decision
    write: WriteOutcome | None = None
    given: Inputs | None = None
    flags: Flags = field(default_factory=Flags)
    _classified: Classification | None = field(default=None, init=False, compare=False, repr=False)

    def classified(self) -> Classification:
        """Return its state, the cause of that, and its marks; they are worked out once."""
        known = self._classified
        if known is None:
            known = classify(self.decision, self.write)
            object.__setattr__(self, "_classified", known)
        return known

    @property
    def inputs(self) -> Inputs:
        """What was decided from; raises LookupError where it was left out."""
        if self.given is None:
            raise LookupError(f"it is not kept what {self.target.key} was decided from")
        return self.given

    @property
    def rules(self) -> Rules:
        """What it follows that the configuration sets."""
        return Rules(self.target, self.flags)
