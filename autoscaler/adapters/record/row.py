"""What is handed in to be recorded."""

from typing import NamedTuple

from autoscaler.core.decision import Decision
from autoscaler.core.entry import Inputs, Rules
from autoscaler.core.writes import WriteOutcome
from autoscaler.record.rows import Mark, Numbers


class NewChange(NamedTuple):
    """A decision in which something changed, as `autoscaler.record.rows.Change` has it."""

    state: str
    message: str
    marks: Mark
    by: str
    rules: Rules
    inputs: Inputs
    decision: Decision
    write: WriteOutcome | None


class Row(NamedTuple):
    """One sync of a target (its key): Unix seconds, the seconds from one sync to the next."""

    target: str
    time: float
    period: float
    numbers: Numbers
    change: NewChange | None = None
