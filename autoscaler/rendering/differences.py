"""What differs between a decision and the one before it, in sentences, the most important first.

All that `record.changes.change_key` calls a change has a sentence.
"""

from collections.abc import Iterator

from autoscaler.config.written import field_changes, written
from autoscaler.core.classification import classify
from autoscaler.core.decision import (
    Activity,
    Decision,
    MetricFailure,
    MetricResult,
    Outcome,
    QueryHold,
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
from autoscaler.record.changes import of_idle, of_stabilization
from autoscaler.rendering import reasons, wording
from autoscaler.rendering.reasons import hold, restriction
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
_FOLLOWS = frozenset({_UNASKED, _ASKED, _NO_WINDOW, _NOT_HELD, _NO_LIMITS, _WITHIN, _NO_IDLING})
"""What follows from other differences, and is told only where there are none."""

_ZONES = {
    Zone.METRICS: "the metrics decide",
    Zone.DISABLED: "it is switched off, since its replicas were set to zero",
    Zone.ABOVE_MAX: "it is above its maximum",
    Zone.BELOW_MIN: "it is below its minimum",
    Zone.CONTROLLED: "another autoscaler controls it",
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
    found: list[str] = []
    for compare in (
        *(_count, _zone, _pause, _bounds, _metrics),
        *(_stabilization, _limits, _held, _idle, _conditions, _rules),
    ):
        found += compare(before, after)
    told = [one for one in found if one not in _FOLLOWS] or found or _marks(before, after)
    return tuple(printable(one, LONGEST_SENTENCE) for one in dict.fromkeys(told))


def _count(before: SyncResult, after: SyncResult) -> Iterator[str]:
    old, new = before.decision, after.decision
    if new.current is None and old.scale != new.scale:
        scale = new.scale
        why = scale.message if isinstance(scale, Unavailable) else "it is unknown"
        yield f"the scale is not read: {why}"
    elif old.current is None and new.current is not None:
        yield "the scale is read again"
    elif old.current != new.current and new.current is not None:
        yield f"it has {wording.counted(new.current, 'replica')}, before {old.current}"
    if new.foreign is not None:
        yield wording.foreign(new.foreign)
    elif old.foreign is not None:
        yield "nobody else has set the replicas since"
    yield from _move(before, after)


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


def _zone(before: SyncResult, after: SyncResult) -> Iterator[str]:
    old, new = before.decision, after.decision
    if old.zone is not new.zone:
        yield f"{_ZONES[new.zone]}, before: {_ZONES[old.zone]}"
    if old.outcome is not new.outcome:
        yield _OUTCOMES[new.outcome]
    if old.reason != new.reason and new.desired == new.current and new.reason:
        yield f"the reason is now: {wording.reason(new)}"
    elif old.reason and not new.reason:
        yield f"the reason is no longer: {wording.reason(old)}"


def _pause(before: SyncResult, after: SyncResult) -> Iterator[str]:
    old, new = before.decision, after.decision
    if new.pause is None:
        if old.pause is not None:
            yield "it is paused no longer"
        return
    if old.pause != new.pause:
        yield reasons.pause(new.pause, new.time)
    if old.paused_from is None and new.paused_from is not None:
        yield f"without the pause it would have {wording.counted(new.paused_from, 'replica')}"
    elif old.paused_from is not None and new.paused_from is None:
        yield "the pause prevents nothing now"


def _bounds(before: SyncResult, after: SyncResult) -> Iterator[str]:
    old, new = before.decision, after.decision
    for name, words, attribute in (
        ("minReplicas", reasons.min_replicas, "min_replicas"),
        ("maxReplicas", reasons.max_replicas, "max_replicas"),
    ):
        if getattr(old, attribute) != getattr(new, attribute) or words(old) != words(new):
            yield f"{name} is {words(new)}, before {words(old)}"
    was_missing = "" if old.bounds is None else old.bounds.missing
    missing = "" if new.bounds is None else new.bounds.missing
    if was_missing != missing:
        yield f"a bound is missing: {missing}" if missing else "no bound is missing any more"


# -- metrics -------------------------------------------------------------------------------------


def _metrics(before: SyncResult, after: SyncResult) -> Iterator[str]:
    old, new = before.decision.metrics, after.decision.metrics
    if not new or not old:
        if len(new) != len(old):
            yield _ASKED if new else _UNASKED
        return
    for one, other in zip(old, new, strict=False):
        if one.metric == other.metric:
            yield from _metric(one, other, after.decision)
    winner, was = after.decision.combination, before.decision.combination
    if winner is not None and was is not None and winner.winner != was.winner and winner.winner:
        yield f"{wording.plain(winner.winner, after.decision)} asks for the most now"


def _metric(old: MetricResult, new: MetricResult, decision: Decision) -> Iterator[str]:
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
        yield f"{name}: {wording.refill(new.refill, decision.time)}"
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


def _stabilization(before: SyncResult, after: SyncResult) -> Iterator[str]:
    old, new = before.decision.stabilization, after.decision.stabilization
    if of_stabilization(old) == of_stabilization(new):
        return
    if new is None:
        yield _NO_WINDOW
    elif _holds(new):
        yield hold(new, after.decision.time)
    elif old is not None and _holds(old):
        yield "stabilization holds it no longer"
    else:
        yield _NOT_HELD


def _holds(stage: Stabilization) -> bool:
    return stage.before != stage.after and stage.reason != READY


def _held(before: SyncResult, after: SyncResult) -> Iterator[str]:
    """Say what else keeps it from a change: the breaker, others, too little room."""
    old, new = before.decision, after.decision
    if old.breaker is None and new.breaker is not None:
        until, wanted = time_of_day(new.breaker.until, new.time), new.breaker.replicas
        yield f"the scale-down breaker holds it until {until}; it would go to {wanted}"
    elif old.breaker is not None and new.breaker is None:
        yield "the scale-down breaker holds it no longer"
    yield from _query_hold(old.hold, new.hold)
    if old.hold_refill is None and new.hold_refill is not None:
        yield f"{HOLD_QUERY}: {wording.refill(new.hold_refill, new.time)}"
    elif old.hold_refill is not None and new.hold_refill is None:
        yield "the readings count in full again after the hold"
    if new.held_until is not None and old.held_until != new.held_until:
        until = time_of_day(new.held_until, new.time)
        yield f"others undo our changes: nothing is written until {until}"
    elif old.held_until is not None and new.held_until is None:
        yield "the hold after the changes of others has ended"
    if old.wanted_by != new.wanted_by:
        asks = reasons.wanted(new).removeprefix("; ")
        yield asks or "no metric asks for replicas of it any more"
    was, lasting = old.lasting_saturation, new.lasting_saturation
    if was is None and lasting is not None:
        yield reasons.saturation(lasting, new.time)
    elif was is not None and lasting is None:
        yield "no replicas are missing any more"


def _query_hold(old: QueryHold | None, new: QueryHold | None) -> Iterator[str]:
    """Say that `holdScaleDownQuery` holds, for another reason, or no longer; what it prevents."""
    if new is None:
        if old is not None:
            yield f"{HOLD_QUERY} holds nothing any more"
        return
    if old is None or _kind_of(old) != _kind_of(new):
        yield why_held(new.reading)
    if new.replicas is not None and (old is None or old.replicas is None):
        yield f"without {HOLD_QUERY} it would go to {new.replicas}"
    elif new.replicas is None and old is not None and old.replicas is not None:
        yield f"{HOLD_QUERY} prevents nothing now"


def _kind_of(hold: QueryHold) -> tuple[str | None, bool]:
    gap = hold.reading.gap
    return None if gap is None else gap.detail, hold.reading.holds


def _limits(before: SyncResult, after: SyncResult) -> Iterator[str]:
    old, new = before.decision.limit, after.decision.limit
    limited = new is not None and new.before != new.after
    limited_before = old is not None and old.before != old.after
    if old is not None and new is not None and (old.reason, old.policy) == (new.reason, new.policy):
        return
    if new is not None and limited:
        yield f"limited from {new.before} to {new.after}: {restriction(new, after)}"
    elif limited_before:
        yield "neither a bound nor a policy limits it any more"
    elif (old is None) != (new is None):
        yield _NO_LIMITS if new is None else _WITHIN
    elif old is not None and new is not None:
        yield f"limits: {new.reason}"


def _idle(before: SyncResult, after: SyncResult) -> Iterator[str]:
    old, new = before.decision.idle, after.decision.idle
    if of_idle(old) == of_idle(new):
        return
    if new is None:
        yield _NO_IDLING
    elif new.asleep and (old is None or not old.asleep):
        yield reasons.asleep(after.decision)
    elif old is not None and old.asleep and not new.asleep:
        yield "it is awake"
    elif new.kept_awake and (old is None or not old.kept_awake):
        yield "a minimum of a schedule or a query keeps it awake"
    else:
        yield "it may go idle again" if old is not None else "it may go idle"


def _conditions(before: SyncResult, after: SyncResult) -> Iterator[str]:
    old = {one.type: one for one in before.decision.conditions}
    new = {one.type: one for one in after.decision.conditions}
    for type_, one in new.items():
        was = old.get(type_)
        if was is None:
            yield f"condition {type_}: {one.status} ({one.reason})"
        elif (was.status, was.reason) != (one.status, one.reason):
            is_now, before_that = f"{one.status} ({one.reason})", f"{was.status} ({was.reason})"
            yield f"condition {type_}: {is_now}, before {before_that}"
    for type_ in old.keys() - new.keys():
        yield f"there is no condition {type_} any more"
    if [*old] != [*new] and old.keys() == new.keys():
        yield "the conditions stand in another order"


def _marks(before: SyncResult, after: SyncResult) -> list[str]:
    """Say what is so now, and was not; what is more than that has a sentence of its own."""
    old, new = (classify(entry.decision, entry.write) for entry in (before, after))
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
        yield "the configuration: the target is asked for otherwise"


def _settings(flags: Flags) -> dict[str, object]:
    return {
        "tolerance": flags.tolerance,
        "downscaleStabilization": flags.downscale_stabilization,
        "cpuInitializationPeriod": flags.cpu_initialization_period,
        "initialReadinessDelay": flags.initial_readiness_delay,
    }


def _shown(value: object) -> str:
    return "absent" if value is None else printable(str(value), _LONGEST_VALUE)
