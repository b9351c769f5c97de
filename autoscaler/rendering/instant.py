"""The explanation of any recorded instant: the decision in force, and its reasons."""

import math
from collections.abc import Iterator
from typing import Any

from autoscaler.core.classification import Mark
from autoscaler.core.extensions import Mode
from autoscaler.core.observation import LONGEST_SENTENCE
from autoscaler.core.spec import MetricSpec
from autoscaler.core.sync_result import SyncResult
from autoscaler.core.text import printable, rfc3339
from autoscaler.persistence.record import DirectoryRecord
from autoscaler.persistence.record.rows import Change, RecordError, Sample
from autoscaler.rendering import answers, wording
from autoscaler.rendering.alternatives import alternatives
from autoscaler.rendering.differences import differences
from autoscaler.rendering.explanation import explain
from autoscaler.rendering.hpa import hpa_answer
from autoscaler.rendering.record import metric_of, whole

_AFTER = 1e-3
"""The end of a time span is not part of it; instants are rounded to the millisecond."""
_NEAR_SECONDS, _NEAR = 3600.0, 200
"""Writes of other clients within this time before a decision are shown, among this many changes."""
_MOST_OTHERS = 10
"""The most such changes that are shown."""


def explanation_at(record: DirectoryRecord, target: str, at: float) -> answers.Explanation | None:
    """Return the explanation of an instant; None if nothing is recorded. Raises RecordError."""
    change = record.change_at(target, at)
    if change is None:
        return None
    after = record.change_after(change)
    lapses = record.lapses(target, change.time, at + _AFTER)
    away = next((lapse.begin for lapse in lapses if lapse.begin >= change.time), None)
    values: tuple[str, ...] = ()
    if away is not None:
        when = "on" if after is None else f"to {rfc3339(after.time)}"
        since_then = f"nothing was recorded from {rfc3339(away)} {when}"
        values = (f"{since_then}; this is the last decision before",)
    return answers.Explanation(
        target=target,
        at=at,
        time=change.time,
        until=None if after is None else after.time,
        recorded_until=away,
        state=change.state,
        message=change.message,
        others=tuple(_others(record, change, after)),
        **{"values": values, **_decided(record, change, at, silent=away is not None)},
    )


def _decided(record: DirectoryRecord, change: Change, at: float, *, silent: bool) -> dict[str, Any]:
    """Return the explanation of a decision; without values if nothing was recorded ``at``."""
    said: dict[str, Any] = {"differences": (), "alternatives": (), "decision": None}
    if Mark.REMOVED in change.marks:
        gone = f"{change.target}: not configured since {rfc3339(change.time)}"
        return said | {"lines": (_plain(gone),)}
    try:
        entry = record.entry(change)
    except RecordError as error:
        lost = _plain(f"the rest cannot be read: {error}")
        return said | {"lines": (_plain(change.message), lost)}
    said = {
        "lines": tuple(explain(entry).splitlines()),
        "differences": tuple(_differences(record, change, entry)),
        "alternatives": alternatives(entry),
        "decision": whole(entry).document(),
    }
    return said if silent else said | {"values": tuple(_values(record, change, entry, at))}


def _plain(text: str) -> str:
    return printable(text, LONGEST_SENTENCE)


def _differences(record: DirectoryRecord, change: Change, entry: SyncResult) -> Iterator[str]:
    """Yield the differences from the previous change, and whether there is a lapse between them."""
    found = record.changes([change.target], 0.0, change.time + _AFTER, limit=1, before=change.id)
    if not found:
        yield "first recorded decision"
        return
    before = found[0]
    if Mark.REMOVED in before.marks:
        yield f"not configured before, since {rfc3339(before.time)}"
        return
    try:
        different = differences(record.entry(before), entry)
    except RecordError as error:
        yield f"the previous decision cannot be read: {error}"
        return
    away = record.lapses(change.target, before.time, change.time)
    for text in away:
        yield f"nothing was recorded from {rfc3339(text.begin)} to {rfc3339(text.end)}"
    yield from different
    if not different and not away:
        yield "no difference; a new process started to record"


# -- values --------------------------------------------------------------------------------------


def _values(record: DirectoryRecord, change: Change, entry: SyncResult, at: float) -> Iterator[str]:
    """Yield the numbers of the last sync at an instant, if it is later than the change."""
    last: Sample | None = None
    for sample in record.samples(change.target, at, at + _AFTER):
        if sample.time <= at:
            last = sample
    if last is None or last.time <= change.time:
        return
    metrics = entry.target.spec.metrics
    shown = [_number(metric, last, 2 + 2 * index) for index, metric in enumerate(metrics)]
    told = [text for text in shown if text]
    if told:
        stays = "" if change.desired is None else f"; replicas unchanged ({change.desired})"
        yield f"since {rfc3339(last.time)}: {'; '.join(told)}{stays}"


def _number(metric: MetricSpec, sample: Sample, index: int) -> str:
    if index + 1 >= len(sample.numbers):
        return ""
    name, value, proposal = wording.metric_name(metric), *sample.numbers[index : index + 2]
    if value is None:
        return f"{name}: no value"
    asks = "" if proposal is None else f" (asks for {proposal})"
    extremes = [values[index] for values in (sample.low, sample.high) if index < len(values)]
    known = [_value_text(metric, value) for value in extremes if value is not None]
    wide = len(known) == 2 and extremes[0] != extremes[1]
    within = f" ({known[0]} to {known[1]} in that minute)" if wide else ""
    return f"{name}: {_value_text(metric, value)}/{wording.target(metric)}{within}{asks}"


def _value_text(metric: MetricSpec, value: int) -> str:
    percent = metric.target.average_utilization is not None
    return f"{value}%" if percent else wording.quantity(metric, value)


# -- others --------------------------------------------------------------------------------------


def _others(record: DirectoryRecord, change: Change, after: Change | None) -> Iterator[str]:
    """Yield other clients that set the count shortly before a decision, with it, or at its end."""
    begin = change.time - _NEAR_SECONDS
    near = record.changes([change.target], begin, change.time + _AFTER, limit=_NEAR)
    last = () if after is None else (after,)
    theirs = [other for other in (*reversed(near), *last) if Mark.FOREIGN in other.marks]
    if len(theirs) > _MOST_OTHERS:
        yield f"other clients set the replicas {len(theirs)} times around this time; the last ones:"
    for other in theirs[-_MOST_OTHERS:]:
        yield f"{_who(record, other)}, seen at {rfc3339(other.time)}"


def _who(record: DirectoryRecord, change: Change) -> str:
    entry = record.entry_or_none(change)
    if entry is not None and entry.decision.foreign is not None:
        return wording.foreign(entry.decision.foreign)
    who = f'"{change.by}"' if change.by else "an unknown client"
    return f"{who} set the replicas to {change.current}"


# -- all targets ---------------------------------------------------------------------------------


def recorded_targets(record: DirectoryRecord) -> answers.TargetList:
    """Return the last state of all configured targets. Raises RecordError."""
    span = record.span()
    if span is None:
        raise RecordError("nothing is recorded yet")
    standings = record.standings()
    last = [record.change_at(target, span[1]) for target in record.targets()]
    targets = tuple(
        _recorded(change, standings[change.target].since, record)
        for change in last
        if change is not None and change.target in standings
    )
    return answers.TargetList(time=span[1], targets=targets)


def recorded_object(record: DirectoryRecord, target: str) -> str:
    """Return the last name of a target's object; empty for a target of a file."""
    last = record.changes([target], 0.0, math.inf, limit=2)
    change = next((change for change in last if Mark.REMOVED not in change.marks), None)
    entry = None if change is None else record.entry_or_none(change)
    return "" if entry is None else entry.target.object_name


def _recorded(change: Change, since: float, record: DirectoryRecord) -> answers.TargetState:
    target, entry = _plain(change.target), record.entry_or_none(change)
    results = () if entry is None else entry.decision.metrics
    hpa = None if entry is None else entry.decision.hpa
    controller = "" if entry is None else entry.decision.controller
    return answers.TargetState(
        **_standing(change) | {"target": target},
        **wording.key_parts(target)._asdict(),
        object_name="" if entry is None else entry.target.object_name,
        since=since,
        last_sync=None,
        metrics=tuple(metric_of(result.metric, result) for result in results),
        mode=Mode.SHADOW if Mark.SHADOW in change.marks else Mode.LIVE,
        controlled_by=printable(controller, LONGEST_SENTENCE) or None,
        hpa=None if hpa is None else hpa_answer(hpa),
    )


def _standing(row: Change) -> dict[str, Any]:
    return {
        "target": row.target,
        "state": row.state,
        "message": row.message,
        "current_replicas": row.current,
        "desired_replicas": row.desired,
        "min_replicas": row.min_replicas,
        "max_replicas": row.max_replicas,
    }


def change_of(row: Change, record: DirectoryRecord) -> answers.Change:
    """Return a change in the form of the API and the commands."""
    foreign = None
    if Mark.FOREIGN in row.marks and (entry := record.entry_or_none(row)) is not None:
        foreign = entry.decision.foreign
    return answers.Change(
        **_standing(row),
        id=row.id,
        time=row.time,
        marks=tuple(mark.word for mark in row.marks),
        by=row.by or None,
        replicas_before=None if foreign is None else foreign.before,
    )
