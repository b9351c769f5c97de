"""One decided sync of a target: the inputs, the decision and the outcome of the write.

A sync reports it, logs and pages show it, and the record stores it for each change.
`step.recompute` computes the same result again from the inputs.
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
    """The arguments of `decide`; ``history`` is from before the decision. Unix seconds."""

    observation: Observation
    history: History
    now: float
    stamp: float


@dataclass(frozen=True, slots=True)
class Rules:
    """The inputs of a decision that come from the configuration and seldom change."""

    target: Target
    flags: Flags


@dataclass(frozen=True, slots=True)
class SyncResult:
    """One target at one sync: the decision and the outcome of the write.

    ``write`` is None without a write. ``given`` are the inputs of the decision; they are large, so
    caches of all targets omit them.
    """

    target: Target
    decision: Decision
    write: WriteOutcome | None = None
    given: Inputs | None = None
    flags: Flags = field(default_factory=Flags)
    _classified: Classification | None = field(default=None, init=False, compare=False, repr=False)

    def classified(self) -> Classification:
        """Return the state, its cause and the marks; computed once."""
        known = self._classified
        if known is None:
            known = classify(self.decision, self.write)
            object.__setattr__(self, "_classified", known)
        return known

    @property
    def inputs(self) -> Inputs:
        """The inputs of the decision; raises LookupError if they were omitted."""
        if self.given is None:
            raise LookupError(f"it is not kept what {self.target.key} was decided from")
        return self.given

    @property
    def rules(self) -> Rules:
        """The inputs that come from the configuration."""
        return Rules(self.target, self.flags)
