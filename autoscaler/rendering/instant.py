"""The explanation of any instant that is in the record: what held then, and why."""

from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass, field, replace

from autoscaler.core.entry import Entry
from autoscaler.core.spec import MetricSpec
from autoscaler.core.text import rfc3339, rfc3339_milli
from autoscaler.record.rows import Change, Mark, RecordError, RecordReader, Sample
from autoscaler.rendering import wording
from autoscaler.rendering.alternatives import alternatives
from autoscaler.rendering.differences import differences
from autoscaler.rendering.explanation import explain
from autoscaler.rendering.record import Json, as_json, metric_record, whole
from autoscaler.sync.ports import SyncResult

_AFTER = 1e-3
"""Ends of a time are not part of it; instants are kept to the millisecond."""
_NEAR_SECONDS, _NEAR = 3600.0, 200
"""Others who wrote within this time before a decision are named, of so many changes."""


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
        values=tuple(_values(record, change, entry, at)),
        differences=_differences(record, change, entry),
        alternatives=alternatives(entry),
        others=tuple(_others(record, change)),
        decision=whole(result),
    )


def _differences(record: RecordReader, change: Change, entry: Entry) -> tuple[str, ...]:
    earlier = record.changes([change.target], 0.0, change.time + _AFTER, limit=1, before=change.id)
    if not earlier:
        return ("it is the first one that is recorded",)
    if Mark.REMOVED in earlier[0].marks:
        return ("the target was not configured before",)
    try:
        return differences(record.entry(earlier[0]), entry)
    except RecordError as error:
        return (f"the decision before cannot be read: {error}",)


def _values(record: RecordReader, change: Change, entry: Entry, at: float) -> Iterator[str]:
    """Yield the numbers of the last sync at an instant, if it came after the change."""
    for lapse in record.lapses(change.target, change.time, at + _AFTER):
        if lapse.begin <= at <= lapse.end or lapse.end > at:
            begin = rfc3339(lapse.begin)
            yield f"nothing was recorded from {begin} on; this is the last decision before that"
            return
    last: Sample | None = None
    for sample in record.samples(change.target, at, at + _AFTER):
        if sample.time <= at:
            last = sample
    if last is None or last.time <= change.time:
        return
    metrics = entry.rules.target.spec.metrics
    numbers = zip(metrics, last.numbers[2::2], last.numbers[3::2], strict=False)
    shown = [_number(metric, value, proposal) for metric, value, proposal in numbers]
    yield f"since {rfc3339(last.time)}: {'; '.join(shown)}" if shown else ""


def _number(metric: MetricSpec, value: int | None, proposal: int | None) -> str:
    name = wording.metric_name(metric)
    if value is None:
        return f"{name} has no value"
    percent = metric.target.average_utilization is not None
    text = f"{value}%" if percent else wording.quantity(metric, value)
    asks = "" if proposal is None else f", which asks for {proposal}"
    return f"{name} is {text}/{wording.target(metric)}{asks}"


def _others(record: RecordReader, change: Change) -> Iterator[str]:
    """Yield who else set the count, shortly before the decision or with it."""
    begin = change.time - _NEAR_SECONDS
    for one in reversed(record.changes([change.target], begin, change.time + _AFTER, limit=_NEAR)):
        if Mark.FOREIGN in one.marks:
            who = f'"{one.by}"' if one.by else "somebody else"
            yield f"{who} set the replicas to {one.current}, seen at {rfc3339(one.time)}"


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
