"""The explanation of any instant that is in the record: what held then, and why."""

from dataclasses import dataclass, field, replace

from autoscaler.record.rows import Mark, RecordError, RecordReader
from autoscaler.rendering.explanation import explain
from autoscaler.rendering.record import Json, whole
from autoscaler.sync.ports import SyncResult


@dataclass(frozen=True, slots=True)
class Explanation:
    """The decision that held for a target at the instant ``at``.  Instants are Unix seconds.

    ``time`` is when it was decided, ``until`` when the next change came; None if it still holds.
    ``lines`` explain it as `plan --explain` does, ``values`` are the numbers of the last sync at or
    before ``at``, if that is a later one.  ``differences`` are from the change before,
    ``alternatives`` what would have had to be different for another count, and ``others`` who else
    wrote.  ``decision`` is all of it as `plan -o json` shows it.
    """

    target: str
    at: float
    time: float
    until: float | None
    state: str
    message: str
    lines: tuple[str, ...]
    values: tuple[str, ...] = ()
    differences: tuple[str, ...] = ()
    alternatives: tuple[str, ...] = ()
    others: tuple[str, ...] = ()
    decision: Json = field(default_factory=dict)


def explanation_at(record: RecordReader, target: str, at: float) -> Explanation | None:
    """Explain what held for a target (its key) at an instant; None where nothing is recorded.

    Raises RecordError.
    """
    change = record.change_at(target, at)
    if change is None:
        return None
    after = record.change_after(change)
    until = None if after is None else after.time
    shown = Explanation(target, at, change.time, until, change.state, change.message, ())
    if Mark.REMOVED in change.marks:
        return replace(shown, lines=(f"{target} is no longer configured",))
    try:
        entry = record.entry(change)
    except RecordError as error:
        return replace(shown, lines=(change.message, f"there is no more of it: {error}"))
    result = SyncResult(entry.rules.target, entry.decision, entry.write)
    return replace(
        shown,
        lines=tuple(explain(result).splitlines()),
        decision=whole(result),
    )
