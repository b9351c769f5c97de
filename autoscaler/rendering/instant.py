"""The explanation of any instant that is in the record: what held then, and why."""

from collections.abc import Iterator
from decimal import Decimal
from typing import Any

from autoscaler.core.classification import Mark
from autoscaler.core.decision import Decision, MetricFailure
from autoscaler.core.extensions import Mode
from autoscaler.core.holds import HOLD_QUERY
from autoscaler.core.observation import LONGEST_SENTENCE, Values
from autoscaler.core.spec import MetricSpec
from autoscaler.core.sync_result import SyncResult
from autoscaler.core.text import printable, rfc3339, time_of_day
from autoscaler.persistence.record import DirectoryRecord
from autoscaler.persistence.record.rows import (
    Change,
    RecordError,
    Sample,
)
from autoscaler.rendering import answers, wording
from autoscaler.rendering.alternatives import (
    PARTS,
    BoundKey,
    LeftOut,
    OtherBound,
    OtherValue,
    Without,
    alternatives_of,
)
from autoscaler.rendering.differences import differences
from autoscaler.rendering.explanation import explain
from autoscaler.rendering.hpa import hpa_answer
from autoscaler.rendering.record import metric_of, whole

_AFTER = 1e-3
"""Ends of a time are not part of it; instants are kept to the millisecond."""
_NEAR_SECONDS, _NEAR = 3600.0, 200
"""Others who wrote within this time before a decision are told, of so many changes."""
_MOST_OTHERS = 10
"""So many of their changes are named."""
_MOST_VALUES = 8
"""So many values are named of what would have had to be different; there may be many metrics."""


def explanation_at(record: DirectoryRecord, target: str, at: float) -> answers.Explanation | None:
    """Explain what held at an instant; None where nothing is recorded.  Raises RecordError."""
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
        values = (f"{since_then}; this is the last decision before that",)
    told: dict[str, Any] = {
        "lines": (),
        "values": values,
        "differences": (),
        "alternatives": (),
        "others": tuple(_others(record, change, after)),
        "decision": None,
    }
    if Mark.REMOVED in change.marks:
        gone = f"{target} is no longer configured, since {rfc3339(change.time)}"
        told["lines"] = (_plain(gone),)
    else:
        try:
            entry = record.entry(change)
        except RecordError as error:
            told["lines"] = (_plain(change.message), _plain(f"there is no more of it: {error}"))
        else:
            told |= {
                "lines": tuple(explain(entry).splitlines()),
                "values": values or tuple(_values(record, change, entry, at)),
                "differences": tuple(_differences(record, change, entry)),
                "alternatives": alternatives(entry),
                "decision": whole(entry).document(),
            }
    return answers.Explanation(
        target=target,
        at=at,
        time=change.time,
        until=None if after is None else after.time,
        recorded_until=away,
        state=change.state,
        message=change.message,
        **told,
    )


def _plain(text: str) -> str:
    return printable(text, LONGEST_SENTENCE)


def _differences(record: DirectoryRecord, change: Change, entry: SyncResult) -> Iterator[str]:
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


# -- values --------------------------------------------------------------------------------------


def _values(record: DirectoryRecord, change: Change, entry: SyncResult, at: float) -> Iterator[str]:
    """Yield the numbers of the last sync at an instant, if it came after the change."""
    last: Sample | None = None
    for sample in record.samples(change.target, at, at + _AFTER):
        if sample.time <= at:
            last = sample
    if last is None or last.time <= change.time:
        return
    metrics = entry.target.spec.metrics
    shown = [_number(metric, last, 2 + 2 * index) for index, metric in enumerate(metrics)]
    told = [one for one in shown if one]
    if told:
        stays = "" if change.desired is None else f"; the count stays at {change.desired}"
        yield f"since {rfc3339(last.time)}: {'; '.join(told)}{stays}"


def _number(metric: MetricSpec, sample: Sample, index: int) -> str:
    if index + 1 >= len(sample.numbers):
        return ""
    name, value, proposal = wording.metric_name(metric), *sample.numbers[index : index + 2]
    if value is None:
        return f"{name} has no value"
    asks = "" if proposal is None else f", which asks for {proposal}"
    extremes = [one[index] for one in (sample.low, sample.high) if index < len(one)]
    known = [_shown(metric, one) for one in extremes if one is not None]
    wide = len(known) == 2 and extremes[0] != extremes[1]
    within = f" ({known[0]} to {known[1]} in that minute)" if wide else ""
    return f"{name} is {_shown(metric, value)}/{wording.target(metric)}{within}{asks}"


def _shown(metric: MetricSpec, value: int) -> str:
    percent = metric.target.average_utilization is not None
    return f"{value}%" if percent else wording.quantity(metric, value)


# -- others --------------------------------------------------------------------------------------


def _others(record: DirectoryRecord, change: Change, after: Change | None) -> Iterator[str]:
    """Yield who else set the count shortly before a decision, with it, or at its end."""
    begin = change.time - _NEAR_SECONDS
    near = record.changes([change.target], begin, change.time + _AFTER, limit=_NEAR)
    last = () if after is None else (after,)
    theirs = [one for one in (*reversed(near), *last) if Mark.FOREIGN in one.marks]
    if len(theirs) > _MOST_OTHERS:
        yield f"others set the replicas {len(theirs)} times around then, the last times so:"
    for one in theirs[-_MOST_OTHERS:]:
        yield f"{_who(record, one)}, seen at {rfc3339(one.time)}"


def _who(record: DirectoryRecord, change: Change) -> str:
    entry = record.entry_or_none(change)
    if entry is not None and entry.decision.foreign is not None:
        return wording.foreign(entry.decision.foreign)
    who = f'"{change.by}"' if change.by else "somebody else"
    return f"{who} set the replicas to {change.current}"


# -- what would have had to be different --------------------------------------------------------


def alternatives(entry: SyncResult) -> tuple[str, ...]:
    """Return a sentence for each thing that would have changed the target's count."""
    told: list[str] = []
    values: list[str] = []
    for one in alternatives_of(entry):
        match one:
            case OtherValue():
                values.append(_value(one, entry))
            case OtherBound():
                told.append(_bound(one, entry.decision))
            case LeftOut(what, desired):
                without = f"without {_what(what, entry.decision)} it"
                goes = _goes(desired, entry.decision)
                told.append(f"{without} {goes}{_until(what, entry.decision)}")
    told += values[:_MOST_VALUES]
    return tuple(dict.fromkeys(told))


def _goes(desired: int, decision: Decision) -> str:
    stays = desired == decision.current
    return f"would have {'stayed at' if stays else 'gone to'} {desired}"


def _what(what: Without, decision: Decision) -> str:
    held = decision.stabilization
    if what is Without.RECOMMENDATION and held is not None and held.held_by is not None:
        by = wording.recommendation(held.held_by, decision.time)
        return f"{by}," if held.held_by.first else by
    if what is Without.FAILURES:
        failed = [
            wording.metric_name(result.metric)
            for result in decision.metrics
            if isinstance(result.outcome, MetricFailure) and result.fallback is None
        ]
        named = failed[0] if len(failed) == 1 else f"the {len(failed)} metrics"
        return f"{named}, which failed,"
    return {
        Without.RECOMMENDATION: "the earlier recommendations",
        Without.RECOMMENDATIONS: "the earlier recommendations",
        Without.GAP: "the gap in the readings",
        Without.POLICIES: "the limit of each step",
        Without.FALLBACK: "the fallback",
        Without.PAUSE: "the pause",
        Without.IDLE: "its `idle`",
        Without.REVERSALS: "the changes that others made against ours",
        Without.BREAKER: "the scale-down breaker",
        Without.HOLD: HOLD_QUERY,
    }[what]


def _until(what: Without, decision: Decision) -> str:
    held, limit, now = decision.stabilization, decision.limit, decision.time
    of_window = {Without.RECOMMENDATION, Without.RECOMMENDATIONS, Without.GAP}
    if what is Without.HOLD and decision.hold is None and decision.hold_refill is not None:
        return f"; that no longer counts from {time_of_day(decision.hold_refill.until, now)} on"
    if what in of_window and held is not None and held.until is not None:
        which = "that"
        if what is Without.RECOMMENDATIONS and held.held_by is not None:
            at = time_of_day(held.held_by.time, now)
            which = f"the last that holds it, {held.held_by.replicas} at {at},"
        return f"; {which} no longer counts from {time_of_day(held.until, now)} on"
    if what is Without.POLICIES and limit is not None and limit.until is not None:
        return f"; more is permitted from {time_of_day(limit.until, now)} on"
    if what is Without.BREAKER and decision.breaker is not None:
        return f"; that holds until {time_of_day(decision.breaker.until, now)}"
    if what is Without.REVERSALS and decision.held_until is not None:
        return f"; they count until {time_of_day(decision.held_until, now)}"
    return ""


def _bound(one: OtherBound, decision: Decision) -> str:
    then = f"it {_goes(one.desired, decision)}"
    if one.which is BoundKey.ASKED_MINIMUM:
        return f"if {one.which} had given {one.replicas} {then}"
    first = " first" if one.which is BoundKey.MAXIMUM and one.desired < one.replicas else ""
    return f"with a {one.which} of {one.replicas} {then}{first}"


def _value(one: OtherValue, entry: SyncResult) -> str:
    decision = entry.decision
    name = wording.metric_name(decision.metrics[one.index].metric)
    asks = f"{name} would have asked for {one.result.proposal}"
    return f"{_other(one, entry)}, {asks}, and the target {_goes(one.desired, decision)}"


def _other(one: OtherValue, entry: SyncResult) -> str:
    was, result = entry.decision.metrics[one.index], one.result
    read = entry.inputs.observation.readings[one.index]
    if isinstance(result.reading, Values) and isinstance(read, Values):
        then, now = (Decimal(sum(one.values)) / 1000 for one in (result.reading, read))
        return f"at {then:f} instead of {now:f}"
    word = "more" if (one.parts or 0) > 0 else "less"
    change = f"{abs(one.parts or 0) * 100 / PARTS:.10g}"
    before, after = wording.usage(was), wording.usage(result)
    shown = f" ({after} instead of {before})" if after != before else ""
    return f"with {change}% {word} load on each pod{shown}"


# -- all targets ---------------------------------------------------------------------------------


def recorded_targets(record: DirectoryRecord) -> answers.TargetList:
    """Return how all that are still configured stood last.  Raises RecordError."""
    span = record.span()
    if span is None:
        raise RecordError("nothing is recorded yet")
    standings = record.standings()
    last = [record.change_at(target, span[1]) for target in record.targets()]
    targets = tuple(
        _recorded(one, standings[one.target].since, record)
        for one in last
        if one is not None and one.target in standings
    )
    return answers.TargetList(time=span[1], targets=targets)


def _recorded(change: Change, since: float, record: DirectoryRecord) -> answers.TargetState:
    target, entry = _plain(change.target), record.entry_or_none(change)
    results = () if entry is None else entry.decision.metrics
    hpa = None if entry is None else entry.decision.hpa
    controller = "" if entry is None else entry.decision.controller
    return answers.TargetState(
        **_standing(change) | {"target": target},
        **wording.key_parts(target)._asdict(),
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
    """Return a change as the API and the commands show it."""
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
