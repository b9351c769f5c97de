"""What the record gives back; instants are Unix seconds."""

from dataclasses import dataclass, field
from typing import NamedTuple

from autoscaler.core.classification import Mark


@dataclass(frozen=True, slots=True)
class Change:
    """A decision in which something changed; it holds until the target's next one.

    ``state`` is a `core.classification.State`, ``message`` its sentence; counts that are not known
    are None.  Changes with the same ``rules`` have equal configurations.
    """

    id: int
    """Orders the changes of all targets as they were recorded."""
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
    """The field manager of others who changed the count."""
    rules: int = field(default=0, compare=False)


Numbers = tuple[int | None, ...]
"""``current, desired``, then ``value, proposal`` of each metric, in the order of the spec.

A value is as its target: milli-units, or percent for a utilization; None where it is missing.
"""


class Sample(NamedTuple):
    """The numbers of one sync; they hold until the next sample, or until a lapse.

    With 60 ``seconds`` of a minute: its last numbers, ``low`` the least and ``high`` the most.
    """

    time: float
    numbers: Numbers
    seconds: float = 0.0
    low: Numbers = ()
    high: Numbers = ()


class Lapse(NamedTuple):
    """From ``begin`` to ``end`` nothing was recorded: the daemon did not run, or lost it."""

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
