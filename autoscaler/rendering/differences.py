"""What differs between a decision and the one before it, in sentences, the most important first.

All that `record.changes.change_key` calls a change has a sentence.
"""

from collections.abc import Iterator

from autoscaler.config.written import field_changes, written
from autoscaler.core.decision import (
    Activity,
    Decision,
    MetricFailure,
    MetricResult,
    Outcome,
    Stabilization,
    Zone,
)
from autoscaler.core.holds import HOLD_QUERY, why_held
from autoscaler.core.normalize import READY
from autoscaler.core.observation import LONGEST_SENTENCE, Unavailable
from autoscaler.core.spec import Flags
from autoscaler.core.sync_result import SyncResult
from autoscaler.core.text import printable, time_of_day
from autoscaler.core.writes import Superseded, WriteFailed
from autoscaler.persistence.record.changes import is_held, of_hpa, of_idle, of_stabilization
from autoscaler.rendering import reasons, wording
from autoscaler.rendering.hpa import hpa_text
from autoscaler.rendering.record import WRITTEN, write_word

_MOST_KEYS = 10
_LONGEST_VALUE = 100

_UNASKED, _ASKED = "the metrics were not asked", "the metrics were asked"
_NO_WINDOW, _NOT_HELD = (
    "no earlier recommendation was looked at",
    "no earlier recommendation holds it",
)
_NO_LIMITS, _WITHIN = "bounds and policies had nothing to do", "within bounds and policies"
_NO_IDLING = "whether it is idle was not looked at"
_NOT_FOREIGN = "no other client set the replicas between these two decisions"
_FOLLOWING = frozenset(
    {_NOT_FOREIGN, _UNASKED, _ASKED, _NO_WINDOW, _NOT_HELD, _NO_LIMITS, _WITHIN, _NO_IDLING}
)
"""What follows from other differences, and is told only where there are none."""

_ZONES = {
    Zone.METRICS: "the metrics decide",
    Zone.DISABLED: "it is switched off, since its replicas were set to zero",
    Zone.ABOVE_MAX: "it is above its maximum",
    Zone.BELOW_MIN: "it is below its minimum",
    Zone.UNKNOWN: "its scale is unknown",
    Zone.PAUSED: "it is paused",
    Zone.IDLE: "no metric is active, and it is idle",
}
_ACTIVITIES = {
    None: "whether {} is active does not matter now",
    Activity.ACTIVE: "{} is active",
    Activity.INACTIVE: "{} is not active",
    Activity.UNKNOWN: "it is not known whether {} is active",
}
_OUTCOMES = {
    Outcome.OK: "everything is known again",
    Outcome.PARTIAL: "only a part of what it needs is known",
    Outcome.BLOCKED: "nothing could be decided",
}


def differences(before: SyncResult, after: SyncResult) -> tuple[str, ...]:
    """Return a sentence for each thing that differs."""
    old, new = before.decision, after.decision
    found = [*_count(old, new), *_move(before, after), *_zone(old, new), *_standing(old, new)]
    for compare in (_bounds, _metrics, _stabilization):
        found += compare(old, new)
    found += [*_limits(before, after), *_idle(old, new), *_hpa(old, new), *_conditions(old, new)]
    found += _rules(before, after)
    told = [one for one in found if one not in _FOLLOWING] or found or _marks(before, after)
    return tuple(printable(one, LONGEST_SENTENCE) for one in dict.fromkeys(told))


def _count(old: Decision, new: Decision) -> Iterator[str]:
    if new.current is None and old.scale != new.scale:
        scale = new.scale
        why = scale.message if isinstance(scale, Unavailable) else "it is unknown"
        yield f"the scale is not read: {why}"
    elif old.current is None and new.current is not None:
        yield "the scale is read again"
    elif old.current != new.current and new.current is not None:
        yield f"it has {wording.counted(new.current, 'replica')}, before {old.current}"


def _move(before: SyncResult, after: SyncResult) -> Iterator[str]:
    """Say what is to be written, and what became of it, where that was not so before."""
    old, new = before.decision, after.decision
    moved, moves = old.desired != old.current, new.desired != new.current
    is_same = (old.current, old.desired, old.reason) == (new.current, new.desired, new.reason)
    if moves and new.current is not None and not is_same:
        yield f"it is to go to {new.desired}: {wording.reason(new) or 'as the metrics ask'}"
    elif moved and not moves and old.current is not None:
        yield f"it is to stay there; before, it was to go from {old.current} to {old.desired}"
    fails_otherwise = isinstance(after.write, WriteFailed) and before.write != after.write
    if fails_otherwise or (type(before.write) is not type(after.write) and (moves or not moved)):
        yield _write(after)


def _hpa(old: Decision, new: Decision) -> Iterator[str]:
    """Say what is new of the HPA that controls it."""
    hpa, before = new.hpa, old.hpa
    if of_hpa(before) == of_hpa(hpa):
        return
    if hpa is None:
        yield "no HPA is compared with it now"
    elif before is None or before.name != hpa.name:
        yield f"beside it: {hpa_text(hpa)}"
    else:
        wanted, wants = (
            "nothing" if one.status is None else f"{one.status.desired_replicas}"
            for one in (before, hpa)
        )
        yield f"its HPA wants {wants} replicas, before {wanted}"


def _write(after: SyncResult) -> str:
    word, write = write_word(after.write), after.write
    if word is None:
        return "there is nothing to write now"
    if word == WRITTEN:
        return "the count was written"
    if isinstance(write, WriteFailed):
        word = write.message
    elif isinstance(write, Superseded):
        word = f"somebody else set {write.scale.spec_replicas} meanwhile"
    return f"the count was not written: {word}"


def _zone(old: Decision, new: Decision) -> Iterator[str]:
    if old.zone is not new.zone:
        yield f"{_ZONES[new.zone]}, before: {_ZONES[old.zone]}"
    if old.outcome is not new.outcome:
        yield _OUTCOMES[new.outcome]
    if old.reason != new.reason and new.desired == new.current and new.reason:
        yield f"the reason is now: {wording.reason(new)}"
    elif old.reason and not new.reason:
        yield f"the reason is no longer: {wording.reason(old)}"


def _standing(old: Decision, new: Decision) -> Iterator[str]:
    """Say what besides the metrics decides, where that was not so, was otherwise, or has ended."""
    was, now = (
        {end: (what, told) for end, what, told in (*_besides_metrics(one), *_prevents_moves(one))}
        for one in (old, new)
    )
    yield from (fact[1] for end, fact in now.items() if end not in was or was[end][0] != fact[0])
    ended = [end for end in was if end not in now]
    yield from (end for end in ended if _PART_OF.get(end) not in ended)


_PART_OF = {
    "the pause prevents nothing now": "it is paused no longer",
    f"{HOLD_QUERY} prevents nothing now": f"{HOLD_QUERY} holds nothing any more",
}
"""Which ends are not told beside another."""

_Fact = tuple[str, object, str]
"""The sentence of its end, what makes it another one, and the sentence of what is so."""


def _besides_metrics(of: Decision) -> Iterator[_Fact]:
    if of.foreign is not None:
        who = wording.foreign(of.foreign)
        yield _NOT_FOREIGN, (of.stamp, of.foreign), who
    if of.pause is not None:
        yield "it is paused no longer", of.pause, reasons.pause(of.pause, of.time)
    if of.pause is not None and of.paused_from is not None:
        count = wording.counted(of.paused_from, "replica")
        yield "the pause prevents nothing now", None, f"without the pause it would have {count}"
    if of.bounds is not None and (missing := of.bounds.missing):
        yield "no bound is missing any more", missing, f"a bound is missing: {missing}"
    if of.wanted_by is not None:
        asks = reasons.wanted(of).removeprefix("; ")
        yield "no metric asks for replicas of it any more", of.wanted_by, asks
    if (lasting := of.lasting_saturation) is not None:
        told = reasons.saturation(lasting, of.time)
        yield "no replicas are missing any more", None, told


def _prevents_moves(of: Decision) -> Iterator[_Fact]:
    if of.breaker is not None:
        until, wanted = time_of_day(of.breaker.until, of.time), of.breaker.replicas
        holds = f"the scale-down breaker holds it until {until}; it would go to {wanted}"
        yield "the scale-down breaker holds it no longer", None, holds
    if (hold := of.hold) is not None:
        kind = (hold.reading.gap and hold.reading.gap.detail, hold.reading.holds)
        yield f"{HOLD_QUERY} holds nothing any more", kind, why_held(hold.reading)
        if hold.replicas is not None:
            goes = f"without {HOLD_QUERY} it would go to {hold.replicas}"
            yield f"{HOLD_QUERY} prevents nothing now", None, goes
    if of.hold_refill is not None:
        refill = f"{HOLD_QUERY}: {wording.refill(of.hold_refill, of.time)}"
        yield "the readings count in full again after the hold", None, refill
    if of.held_until is not None:
        until = time_of_day(of.held_until, of.time)
        undone = f"others undo our changes: nothing is written until {until}"
        yield "the hold after the changes of others has ended", of.held_until, undone


def _bounds(old: Decision, new: Decision) -> Iterator[str]:
    for name, words, attribute in (
        ("minReplicas", reasons.min_replicas, "min_replicas"),
        ("maxReplicas", reasons.max_replicas, "max_replicas"),
    ):
        if getattr(old, attribute) != getattr(new, attribute) or words(old) != words(new):
            yield f"{name} is {words(new)}, before {words(old)}"


# -- metrics -------------------------------------------------------------------------------------


def _metrics(old: Decision, new: Decision) -> Iterator[str]:
    if not new.metrics or not old.metrics:
        if len(new.metrics) != len(old.metrics):
            yield _ASKED if new.metrics else _UNASKED
        return
    for one, other in zip(old.metrics, new.metrics, strict=False):
        if one.metric == other.metric:
            yield from _metric(one, other, new.time)
    now, was = new.combination, old.combination
    if now is not None and was is not None and now.winner != was.winner and now.winner:
        yield f"{wording.plain(now.winner, new)} asks for the most now"


def _metric(old: MetricResult, new: MetricResult, time: float) -> Iterator[str]:
    name, was, now = wording.metric_name(new.metric), old.outcome, new.outcome
    if isinstance(now, MetricFailure):
        if not isinstance(was, MetricFailure):
            yield f"{name} fails: {now.message}"
        elif (was.reason, was.message) != (now.reason, now.message):
            yield f"{name} fails otherwise: {now.message}"
    elif isinstance(was, MetricFailure):
        measured = wording.usage_and_target(new)
        yield f"{name} is read again: {measured}, and asks for {new.proposal}"
    else:
        yield from _value(old, new, name)
    if (old.fallback is None) != (new.fallback is None):
        yield reasons.fallback(new) or f"the fallback stands for {name} no longer"
    if old.refill is None and new.refill is not None:
        yield f"{name}: {wording.refill(new.refill, time)}"
    elif old.refill is not None and new.refill is None:
        yield f"{name} counts in full again after its gap"
    if old.activity is not new.activity:
        yield _ACTIVITIES[new.activity].format(name)


def _value(old: MetricResult, new: MetricResult, name: str) -> Iterator[str]:
    was, now = wording.usage(old), wording.usage(new)
    if was == now and old.proposal == new.proposal:
        return
    value = f"is {now}, before {was}" if was != now else f"is still {now}"
    before = " as before" if old.proposal == new.proposal else f", before {old.proposal}"
    yield f"{name} {value}, and asks for {new.proposal}{before}"


# -- stages --------------------------------------------------------------------------------------


def _stabilization(old: Decision, new: Decision) -> Iterator[str]:
    was, now = old.stabilization, new.stabilization
    if of_stabilization(was) == of_stabilization(now) and is_held(old) == is_held(new):
        return
    if now is None:
        yield _NO_WINDOW
    elif _holds(now):
        yield reasons.hold(now, new.time)
    else:
        yield "stabilization holds it no longer" if _holds(was) else _NOT_HELD


def _holds(stage: Stabilization | None) -> bool:
    return stage is not None and stage.before != stage.after and stage.reason != READY


def _limits(before: SyncResult, after: SyncResult) -> Iterator[str]:
    was, now = before.decision.limit, after.decision.limit
    if was is not None and now is not None and (was.reason, was.policy) == (now.reason, now.policy):
        return
    if now is not None and now.before != now.after:
        yield f"limited from {now.before} to {now.after}: {reasons.restriction(now, after)}"
    elif was is not None and was.before != was.after:
        yield "neither a bound nor a policy limits it any more"
    elif was is not None and now is not None:
        yield f"limits: {now.reason}"
    elif was is not now:
        yield _NO_LIMITS if now is None else _WITHIN


def _idle(old: Decision, new: Decision) -> Iterator[str]:
    was, now = old.idle, new.idle
    if of_idle(was) == of_idle(now):
        return
    if now is None:
        yield _NO_IDLING
    elif now.asleep and (was is None or not was.asleep):
        yield reasons.asleep(new)
    elif was is not None and was.asleep and not now.asleep:
        yield "it is awake"
    elif now.kept_awake and (was is None or not was.kept_awake):
        yield "a minimum of a schedule or a query keeps it awake"
    else:
        yield "it may go idle" if was is None else "it may go idle again"


def _conditions(old: Decision, new: Decision) -> Iterator[str]:
    was = {
        condition.type: f"{condition.status} ({condition.reason})" for condition in old.conditions
    }
    now = {
        condition.type: f"{condition.status} ({condition.reason})" for condition in new.conditions
    }
    for type_, value in now.items():
        if was.get(type_) != value:
            before = f", before {was[type_]}" if type_ in was else ""
            yield f"condition {type_}: {value}{before}"
    for type_ in was:
        if type_ not in now:
            yield f"there is no condition {type_} any more"
    if [*was] != [*now] and was.keys() == now.keys():
        yield "the conditions stand in another order"


def _marks(before: SyncResult, after: SyncResult) -> list[str]:
    """Say what is so now, and was not; what is more than that has a sentence of its own."""
    old, new = before.classified(), after.classified()
    gone, begun = old.marks & ~new.marks, new.marks & ~old.marks
    told = [f"now: {word}" for mark, word in wording.MARK_WORDS.items() if mark in begun]
    told += [f"no longer: {word}" for mark, word in wording.MARK_WORDS.items() if mark in gone]
    if not told and old.cause != new.cause:
        told.append(f"the cause is now: {new.cause or 'none'}")
    return told


# -- the configuration ---------------------------------------------------------------------------


def _rules(before: SyncResult, after: SyncResult) -> Iterator[str]:
    if before.rules == after.rules:
        return
    changes = list(field_changes(written(before.target), written(after.target)))
    settings = list(field_changes(_settings(before.flags), _settings(after.flags)))
    for change in (*changes[:_MOST_KEYS], *settings):
        now, was = _shown(change.after), _shown(change.before)
        yield f"the configuration: {change.path} is {now}, before {was}"
    if len(changes) > _MOST_KEYS:
        yield f"the configuration: {len(changes) - _MOST_KEYS} more keys are different"
    if not changes and not settings:
        yield "the configuration: its queries are others, or are asked otherwise"


def _settings(flags: Flags) -> dict[str, object]:
    return {
        "tolerance": flags.tolerance,
        "downscaleStabilization": flags.downscale_stabilization,
        "cpuInitializationPeriod": flags.cpu_initialization_period,
        "initialReadinessDelay": flags.initial_readiness_delay,
    }


def _shown(value: object) -> str:
    return "absent" if value is None else printable(str(value), _LONGEST_VALUE)
