"""The explanation of any instant that is in the record: what held then, and why."""

from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass, field, replace

from autoscaler.core.entry import Entry
from autoscaler.core.observation import LONGEST_SENTENCE
from autoscaler.core.spec import MetricSpec
from autoscaler.core.text import printable, rfc3339, rfc3339_milli
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
"""Others who wrote within this time before a decision are told, of so many changes."""
_MOST_OTHERS = 10
"""So many of their changes are named."""


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
    recorded_until: float | None = None
    """Set if nothing was recorded at ``at``: the last instant before it that was."""

    @property
    def held(self) -> str:
        """Until when it held, in words."""
        if self.recorded_until is not None:
            return f"it held when it was last recorded, at {rfc3339(self.recorded_until)}"
        if self.until is None:
            return "it still holds"
        return f"it held until {rfc3339_milli(self.until)}"


def explanation_at(record: RecordReader, target: str, at: float) -> Explanation | None:
    """Explain what held for a target (its key) at an instant; None where nothing is recorded.

    Raises RecordError.
    """
    change = record.change_at(target, at)
    if change is None:
        return None
    after = record.change_after(change)
    until, message = None if after is None else after.time, _plain(change.message)
    others = tuple(map(_plain, _others(record, change, after)))
    away = _away(record, change, at)
    shown = Explanation(
        target,
        at,
        change.time,
        until,
        change.state,
        message,
        (),
        _not_recorded(away, after),
        others=others,
        recorded_until=away,
    )
    if Mark.REMOVED in change.marks:
        gone = f"{target} is no longer configured, since {rfc3339(change.time)}"
        return replace(shown, lines=(_plain(gone),))
    try:
        entry = record.entry(change)
    except RecordError as error:
        lines = (message, _plain(f"there is no more of it: {error}"))
        return replace(shown, lines=lines)
    result = SyncResult(entry.rules.target, entry.decision, entry.write)
    return replace(
        shown,
        lines=tuple(explain(result).splitlines()),
        values=shown.values or tuple(_values(record, change, entry, at)),
        differences=tuple(map(_plain, _differences(record, change, entry))),
        alternatives=alternatives(entry),
        decision=whole(result),
    )


def _plain(text: str) -> str:
    return printable(text, LONGEST_SENTENCE)


def _differences(record: RecordReader, change: Change, entry: Entry) -> Iterator[str]:
    """Yield what differs from the change before, and whether there is a time between them."""
    found = record.changes([change.target], 0.0, change.time + _AFTER, limit=1, before=change.id)
    if not found:
        yield "it is the first one that is recorded"
        return
    before = found[0]
    if Mark.REMOVED in before.marks:
        yield f"the target was not configured from {rfc3339(before.time)} on"
        return
    try:
        different = differences(record.entry(before), entry)
    except RecordError as error:
        yield f"the decision before cannot be read: {error}"
        return
    away = record.lapses(change.target, before.time, change.time)
    for one in away:
        yield f"nothing was recorded from {rfc3339(one.begin)} to {rfc3339(one.end)}"
    yield from different
    if not different and not away:
        yield "nothing differs; a new process has begun to record"


def _away(record: RecordReader, change: Change, at: float) -> float | None:
    """Return since when nothing is recorded, if that is so at an instant."""
    found = record.lapses(change.target, change.time, at + _AFTER)
    return next((one.begin for one in found if one.begin >= change.time), None)


def _not_recorded(since: float | None, after: Change | None) -> tuple[str, ...]:
    """Say that nothing was recorded at an instant, so that an earlier decision is shown."""
    if since is None:
        return ()
    to = "on" if after is None else f"to {rfc3339(after.time)}"
    when = f"from {rfc3339(since)} {to}"
    return (f"nothing was recorded {when}; this is the last decision before that",)


# -- values --------------------------------------------------------------------------------------


def _values(record: RecordReader, change: Change, entry: Entry, at: float) -> Iterator[str]:
    """Yield the numbers of the last sync at an instant, if it came after the change."""
    last: Sample | None = None
    for sample in record.samples(change.target, at, at + _AFTER):
        if sample.time <= at:
            last = sample
    if last is None or last.time <= change.time:
        return
    metrics = entry.rules.target.spec.metrics
    shown = [_number(metric, last, 2 + 2 * index) for index, metric in enumerate(metrics)]
    told = [one for one in shown if one]
    if told:
        stays = "" if change.desired is None else f"; the count stays at {change.desired}"
        yield _plain(f"since {rfc3339(last.time)}: {'; '.join(told)}{stays}")


def _number(metric: MetricSpec, sample: Sample, index: int) -> str:
    """Write a metric's value and what it asks for, of a minute also the least and the most."""
    if index + 1 >= len(sample.numbers):
        return ""
    name, value, proposal = wording.metric_name(metric), *sample.numbers[index : index + 2]
    if value is None:
        return f"{name} has no value"
    asks = "" if proposal is None else f", which asks for {proposal}"
    measured = f"{_shown(metric, value)}/{wording.target(metric)}"
    return f"{name} is {measured}{_range(metric, sample, index)}{asks}"


def _range(metric: MetricSpec, sample: Sample, index: int) -> str:
    low = sample.low[index] if index < len(sample.low) else None
    high = sample.high[index] if index < len(sample.high) else None
    if low is None or high is None or low == high:
        return ""
    return f" ({_shown(metric, low)} to {_shown(metric, high)} in that minute)"


def _shown(metric: MetricSpec, value: int) -> str:
    percent = metric.target.average_utilization is not None
    return f"{value}%" if percent else wording.quantity(metric, value)


# -- others --------------------------------------------------------------------------------------


def _others(record: RecordReader, change: Change, after: Change | None) -> Iterator[str]:
    """Yield who else set the count shortly before a decision, with it, or at its end."""
    begin = change.time - _NEAR_SECONDS
    near = record.changes([change.target], begin, change.time + _AFTER, limit=_NEAR)
    last = () if after is None else (after,)
    theirs = [one for one in (*reversed(near), *last) if Mark.FOREIGN in one.marks]
    if len(theirs) > _MOST_OTHERS:
        yield f"others set the replicas {len(theirs)} times around then, the last times so:"
    for one in theirs[-_MOST_OTHERS:]:
        yield f"{_who(record, one)}, seen at {rfc3339(one.time)}"


def _who(record: RecordReader, change: Change) -> str:
    """Say who set the count, from which one to which."""
    try:
        foreign = record.entry(change).decision.foreign
    except RecordError:
        foreign = None
    if foreign is not None:
        return wording.foreign(foreign)
    who = f'"{change.by}"' if change.by else "somebody else"
    return f"{who} set the replicas to {change.current}"


# -- as JSON ------------------------------------------------------------------------------------


def explanation_json(one: Explanation) -> Json:
    """Return an explanation as the API and the commands show it."""
    return {
        "target": one.target,
        "at": rfc3339_milli(one.at),
        "time": rfc3339_milli(one.time),
        "until": None if one.until is None else rfc3339_milli(one.until),
        "recordedUntil": None if one.recorded_until is None else rfc3339_milli(one.recorded_until),
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
