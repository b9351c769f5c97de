"""The results of reading the record; instants are Unix seconds."""

from dataclasses import dataclass, field
from typing import NamedTuple

from autoscaler.core.classification import Mark


@dataclass(frozen=True, slots=True)
class Change:
    """A decision that changed something; it holds until the target's next change.

    ``state`` is a `core.classification.State`, ``message`` its sentence; unknown counts are None.
    Changes with the same ``rules`` have equal configurations.
    """

    id: int
    """Orders the changes of all targets by the time of recording."""
    target: str
    """`core.target.Target.key`."""
    time: float
    state: str
    current: int | None
    desired: int | None
    min_replicas: int
    max_replicas: int
    marks: Mark
    message: str
    by: str = ""
    """The field manager of another client that changed the count."""
    rules: int = field(default=0, compare=False)


Numbers = tuple[int | None, ...]
"""``current, desired``, then ``value, proposal`` of each metric, in the order of the spec. A value
has the unit of its target: milli-units, or percent for a utilization; None if missing."""


class Sample(NamedTuple):
    """The numbers of one sync; they hold until the next sample, or until a lapse.

    With 60 ``seconds`` it is a minute: its last numbers, the least (``low``), the most (``high``).
    """

    time: float
    numbers: Numbers
    seconds: float = 0.0
    low: Numbers = ()
    high: Numbers = ()


class Lapse(NamedTuple):
    """An interval without a record: the daemon did not run, or lost the rows."""

    begin: float
    end: float


class LastState(NamedTuple):
    """The last recorded state of a target, and its start."""

    state: str
    since: float


class RecordError(Exception):
    """The record cannot be read; the text is a sentence for the operator."""


class EmptyRecordError(RecordError):
    """There is no record yet."""
