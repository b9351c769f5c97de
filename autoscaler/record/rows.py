"""What the record gives back: changes, samples, and the times in which nothing was recorded.

Instants are Unix seconds.
"""

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple, Protocol

from autoscaler.core.classification import Mark
from autoscaler.core.sync_result import SyncResult


@dataclass(frozen=True, slots=True)
class Change:
    """A decision in which something changed; it holds until the target's next one.

    ``id`` orders the changes of all targets as they were recorded.  ``state`` is a
    `core.classification.State`, ``message`` its sentence.  Counts are None where they are not
    known.  ``by`` is the field manager of others who changed the count.  Changes with the
    same ``rules`` have equal ones.
    """

    id: int
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
    rules: int = field(default=0, compare=False)


Numbers = tuple[int | None, ...]
"""``current, desired``, then ``value, proposal`` of each metric, in the order of the spec.

A value is as its target: milli-units, or percent for a utilization; None where it is missing.
"""


class Sample(NamedTuple):
    """The numbers of one sync; they hold until the next sample, or until a lapse.

    ``seconds`` is 0; or 60 for the syncs of one minute, of which ``numbers`` are the last,
    and ``low`` and ``high`` the least and the most.
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


class Standing(NamedTuple):
    """The last state of a target that is recorded, and since when it is so."""

    state: str
    since: float


class RecordError(Exception):
    """The record cannot be read; the text is a sentence for the operator."""


class RecordReader(Protocol):
    """Reads the record, also while it is written.  Methods raise RecordError."""

    def targets(self) -> Sequence[str]:
        """Return the keys of all targets that something is kept of, sorted."""

    def span(self) -> tuple[float, float] | None:
        """Return the first and the last instant that are recorded; None if nothing is."""

    def standings(self) -> Mapping[str, Standing]:
        """Return how each target stood last; one that was removed is left out."""

    def change_at(self, target: str, at: float) -> Change | None:
        """Return the change that held at an instant: the last one at or before it."""

    def change_after(self, change: Change) -> Change | None:
        """Return the target's next change; None if it is the last one."""

    def changes(
        self,
        targets: Collection[str] | None,
        begin: float,
        end: float,
        *,
        limit: int,
        before: int | None = None,
    ) -> Sequence[Change]:
        """Return at most ``limit`` changes of some targets, or all, from ``begin`` up to ``end``.

        The last ones first; ``before`` is the id of the last one of the page before.
        """

    def entry(self, change: Change) -> SyncResult:
        """Return a change in full; raises RecordError where it is lost or cannot be read."""

    def samples(self, target: str, begin: float, end: float) -> Iterator[Sample]:
        """Yield the samples of a time in order, and before them the one that held at its begin."""

    def lapses(self, target: str | None, begin: float, end: float) -> Sequence[Lapse]:
        """Return when nothing was recorded of a target, or of none, within a time."""


def entry_or_none(record: RecordReader, change: Change) -> SyncResult | None:
    """Return a change in full; None where it is lost."""
    try:
        return record.entry(change)
    except RecordError:
        return None


_PAGE, _MOST_PAGES = 200, 50
_AFTER = 1e-3


def last_count_change(record: RecordReader, target: str, until: float) -> Change | None:
    """Return the last change of a target's count at or before an instant, by us or by others.

    Looks at 10,000 changes at most.  Raises RecordError.
    """
    before = None
    for _ in range(_MOST_PAGES):
        found = record.changes([target], 0.0, until + _AFTER, limit=_PAGE, before=before)
        for one in found:
            if one.time <= until and one.marks & (Mark.WRITTEN | Mark.FOREIGN):
                return one
        if len(found) < _PAGE:
            return None
        before = found[-1].id
    return None
