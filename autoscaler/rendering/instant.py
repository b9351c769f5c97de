"""The explanation of any instant that is in the record: what held then, and why."""

from contextlib import suppress
from dataclasses import dataclass, field, replace

from autoscaler.core.text import rfc3339_milli
from autoscaler.record.rows import Change, Mark, RecordError, RecordReader
from autoscaler.rendering.explanation import explain
from autoscaler.rendering.record import Json, as_json, metric_record, whole
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


# -- as JSON ------------------------------------------------------------------------------------


def explanation_json(one: Explanation) -> Json:
    """Return an explanation as the API and the commands show it."""
    return {
        "target": one.target,
        "at": rfc3339_milli(one.at),
        "time": rfc3339_milli(one.time),
        "until": None if one.until is None else rfc3339_milli(one.until),
        "state": one.state,
        "message": one.message,
        "lines": one.lines,
        "values": one.values,
        "differences": one.differences,
        "alternatives": one.alternatives,
        "others": one.others,
        "decision": one.decision or None,
    }


def recorded_targets(record: RecordReader) -> Json:
    """Return how the targets stood when they were recorded last, as `/api/v1/targets` does.

    Those that are no longer configured are left out.  Raises RecordError.
    """
    span = record.span()
    if span is None:
        raise RecordError("nothing is recorded yet")
    found = [record.change_at(target, span[1]) for target in record.targets()]
    held = [one for one in found if one is not None and Mark.REMOVED not in one.marks]
    return {"time": rfc3339_milli(span[1]), "targets": [_recorded(one, record) for one in held]}


def _recorded(change: Change, record: RecordReader) -> Json:
    namespace, kind, name = change.target.split("/", 2)
    metrics: list[Json] = []
    with suppress(RecordError):
        results = record.entry(change).decision.metrics
        metrics = [as_json(metric_record(one.metric, one)) for one in results]
    return {
        "target": change.target,
        "namespace": namespace,
        "kind": kind,
        "name": name,
        "since": rfc3339_milli(change.time),
        "lastSync": None,
        "state": change.state,
        "message": change.message,
        "minReplicas": change.min_replicas,
        "maxReplicas": change.max_replicas,
        "currentReplicas": change.current,
        "desiredReplicas": change.desired,
        "metrics": metrics,
    }


def change_json(one: Change) -> Json:
    """Return a change as the API and the commands show it."""
    return {
        "id": one.id,
        "target": one.target,
        "time": rfc3339_milli(one.time),
        "state": one.state,
        "message": one.message,
        "currentReplicas": one.current,
        "desiredReplicas": one.desired,
        "minReplicas": one.min_replicas,
        "maxReplicas": one.max_replicas,
        "marks": [mark.word for mark in one.marks],
        "by": one.by or None,
    }
