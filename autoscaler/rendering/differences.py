"""What differs between a decision and the one before it, in sentences, the most important first.

All that `record.changes.change_key` calls a change has a sentence.
"""

from collections.abc import Iterator, Mapping, Sequence

from autoscaler.core.decision import (
    Activity,
    Calculation,
    Decision,
    IdleStatus,
    MetricFailure,
    MetricResult,
    Outcome,
    Stabilization,
    Zone,
)
from autoscaler.core.entry import Entry
from autoscaler.core.normalize import READY
from autoscaler.core.observation import LONGEST_SENTENCE, Unavailable
from autoscaler.core.spec import Flags
from autoscaler.core.text import printable
from autoscaler.core.writes import Superseded, WriteFailed
from autoscaler.rendering import extension_words, wording
from autoscaler.rendering.configuration import as_written, duration
from autoscaler.rendering.record import WRITTEN, write_word
from autoscaler.rendering.restrictions import hold, restriction
from autoscaler.rendering.wording import time_of_day
from autoscaler.sync.ports import SyncResult

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

_OUTCOMES = {
    Outcome.OK: "everything is known again",
    Outcome.PARTIAL: "only a part of what it needs is known",
    Outcome.BLOCKED: "nothing could be decided",
}


def differences(before: Entry, after: Entry) -> tuple[str, ...]:
    """Return a sentence for each thing that differs."""
    found: list[str] = []
    for compare in (
        *(_count, _zone, _pause, _bounds, _metrics),
        *(_stabilization, _limits, _held, _idle, _conditions, _rules),
    ):
        found += compare(before, after)
    told = [one for one in found if one not in _FOLLOWS] or found
    return tuple(printable(one, LONGEST_SENTENCE) for one in dict.fromkeys(told))


def _count(before: Entry, after: Entry) -> Iterator[str]:
    old, new = before.decision, after.decision
    if old.current != new.current:
        if old.current is None or new.current is None:
            yield "the scale is read again" if old.current is None else _unread(new)
        else:
            yield f"it has {wording.counted(new.current, 'replica')}, before {old.current}"
    if new.foreign is not None:
        yield wording.foreign(new.foreign)
    elif old.foreign is not None:
        yield "nobody else has set the replicas since"
    yield from _move(before, after)


def _move(before: Entry, after: Entry) -> Iterator[str]:
    """Say what is to be written, and what became of it, where that was not so before."""
    old, new = before.decision, after.decision
    moved, moves = old.desired != old.current, new.desired != new.current
    is_same = (old.current, old.desired, old.reason) == (new.current, new.desired, new.reason)
    if moves and new.current is not None and not is_same:
        yield f"it is to go to {new.desired}: {wording.reason(new) or 'as the metrics ask'}"
    elif moved and not moves and old.current is not None:
        yield f"it is to stay there; before, it was to go from {old.current} to {old.desired}"
    if type(before.write) is not type(after.write) and (moves or not moved):
        yield _write(after)


def _unread(decision: Decision) -> str:
    scale = decision.scale
    why = scale.message if isinstance(scale, Unavailable) else "it is unknown"
    return f"the scale is not read: {why}"


def _write(after: Entry) -> str:
    word = write_word(after.write)
    if word is None:
        return "there is nothing to write now"
    write = after.write
    if isinstance(write, WriteFailed):
        return f"the count was not written: {write.message}"
    if isinstance(write, Superseded):
        return f"the count was not written: somebody else set {write.scale.spec_replicas} meanwhile"
    return "the count was written" if word == WRITTEN else f"the count was not written: {word}"


def _zone(before: Entry, after: Entry) -> Iterator[str]:
    old, new = before.decision, after.decision
    if old.zone is not new.zone:
        zones = {
            Zone.METRICS: "the metrics decide",
            Zone.DISABLED: "it is switched off, since its replicas were set to zero",
            Zone.ABOVE_MAX: "it is above its maximum",
            Zone.BELOW_MIN: "it is below its minimum",
            Zone.CONTROLLED: "another autoscaler controls it",
            Zone.UNKNOWN: "its scale is unknown",
            Zone.PAUSED: "it is paused",
            Zone.IDLE: "no metric is active, and it is idle",
        }
        yield f"{zones[new.zone]}, before: {zones[old.zone]}"
    if old.outcome is not new.outcome:
        yield _OUTCOMES[new.outcome]
    if old.reason != new.reason and new.desired == new.current and new.reason:
        yield f"the reason is now: {wording.reason(new)}"
    elif old.reason and not new.reason:
        yield f"the reason is no longer: {wording.reason(old)}"


def _pause(before: Entry, after: Entry) -> Iterator[str]:
    old, new = before.decision, after.decision
    if old.pause != new.pause:
        now = new.time
        yield (
            "it is paused no longer" if new.pause is None else extension_words.pause(new.pause, now)
        )
    if new.pause is not None and (old.paused_from is None) != (new.paused_from is None):
        wanted = new.paused_from
        yield (
            "the pause prevents nothing now"
            if wanted is None
            else f"without the pause it would have {wording.counted(wanted, 'replica')}"
        )


def _bounds(before: Entry, after: Entry) -> Iterator[str]:
    old, new = before.decision, after.decision
    for name, words, attribute in (
        ("minReplicas", extension_words.min_replicas, "min_replicas"),
        ("maxReplicas", extension_words.max_replicas, "max_replicas"),
    ):
        if getattr(old, attribute) != getattr(new, attribute) or words(old) != words(new):
            yield f"{name} is {words(new)}, before {words(old)}"
    was_missing = "" if old.bounds is None else old.bounds.missing
    missing = "" if new.bounds is None else new.bounds.missing
    if (was_missing == "") != (missing == ""):
        yield f"a bound is missing: {missing}" if missing else "no bound is missing any more"


# -- metrics -------------------------------------------------------------------------------------


def _metrics(before: Entry, after: Entry) -> Iterator[str]:
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
    name = wording.metric_name(new.metric)
    match old.outcome, new.outcome:
        case Calculation(), MetricFailure(message=message):
            yield f"{name} fails: {message}"
        case MetricFailure(reason=was), MetricFailure(reason=reason, message=message):
            if was != reason:
                yield f"{name} fails otherwise: {message}"
        case MetricFailure(), Calculation():
            asks = f"asks for {new.proposal}"
            yield f"{name} is read again: {wording.usage_and_target(new)}, and {asks}"
        case Calculation(), Calculation():
            yield from _value(old, new, name)
    if (old.fallback is None) != (new.fallback is None):
        yield extension_words.fallback(new) or f"the fallback stands for {name} no longer"
    if old.refill is None and new.refill is not None:
        yield f"{name}: {wording.refill(new.refill, decision.time)}"
    elif old.refill is not None and new.refill is None:
        yield f"{name} counts in full again after its gap"
    if old.activity is not new.activity:
        yield _activity(new.activity, name)


def _activity(activity: Activity | None, name: str) -> str:
    if activity is None:
        return f"whether {name} is active does not matter now"
    return {
        Activity.ACTIVE: f"{name} is active",
        Activity.INACTIVE: f"{name} is not active",
        Activity.UNKNOWN: f"it is not known whether {name} is active",
    }[activity]


def _value(old: MetricResult, new: MetricResult, name: str) -> Iterator[str]:
    was, now = wording.usage(old), wording.usage(new)
    if was == now and old.proposal == new.proposal:
        return
    value = f"is {now}, before {was}" if was != now else f"is still {now}"
    asks = f"asks for {new.proposal}"
    if old.proposal == new.proposal:
        yield f"{name} {value}, and {asks} as before"
    else:
        yield f"{name} {value}, and {asks}, before {old.proposal}"


# -- stages --------------------------------------------------------------------------------------


def _stabilization(before: Entry, after: Entry) -> Iterator[str]:
    old, new = before.decision.stabilization, after.decision.stabilization
    if _of_stage(old) == _of_stage(new):
        return
    if new is None:
        yield _NO_WINDOW
    elif _holds(new):
        yield hold(new, after.decision.time)
    elif old is not None and _holds(old):
        yield "stabilization holds it no longer"
    else:
        yield _NOT_HELD


def _of_stage(stage: Stabilization | None) -> tuple[str, bool] | None:
    return None if stage is None else (stage.reason, stage.before == stage.after)


def _holds(stage: Stabilization) -> bool:
    """Return whether it holds the count; where a target wakes up, it is only raised."""
    return stage.before != stage.after and stage.reason != READY


def _held(before: Entry, after: Entry) -> Iterator[str]:
    """Say what else keeps it from a change: the breaker, others, too little room."""
    old, new = before.decision, after.decision
    if old.breaker is None and new.breaker is not None:
        until, wanted = time_of_day(new.breaker.until, new.time), new.breaker.replicas
        yield f"the scale-down breaker holds it until {until}; it would go to {wanted}"
    elif old.breaker is not None and new.breaker is None:
        yield "the scale-down breaker holds it no longer"
    if new.held_until is not None and old.held_until != new.held_until:
        until = time_of_day(new.held_until, new.time)
        yield f"others undo our changes: nothing is written until {until}"
    elif old.held_until is not None and new.held_until is None:
        yield "the hold after the changes of others has ended"
    was, lasting = old.lasting_saturation, new.lasting_saturation
    if was is None and lasting is not None:
        yield extension_words.saturation(lasting, new.time)
    elif was is not None and lasting is None:
        yield "no replicas are missing any more"


def _limits(before: Entry, after: Entry) -> Iterator[str]:
    old, new = before.decision.limit, after.decision.limit
    limited = new is not None and new.before != new.after
    limited_before = old is not None and old.before != old.after
    if old is not None and new is not None and (old.reason, old.policy) == (new.reason, new.policy):
        return
    if new is not None and limited:
        result = SyncResult(after.rules.target, after.decision, after.write)
        yield f"limited from {new.before} to {new.after}: {restriction(new, result)}"
    elif limited_before:
        yield "neither a bound nor a policy limits it any more"
    elif (old is None) != (new is None):
        yield _NO_LIMITS if new is None else _WITHIN
    elif old is not None and new is not None:
        yield f"limits: {new.reason}"


def _idle(before: Entry, after: Entry) -> Iterator[str]:
    old, new = before.decision.idle, after.decision.idle
    if _of_idle(old) == _of_idle(new):
        return
    if new is None:
        yield _NO_IDLING
    elif new.asleep and (old is None or not old.asleep):
        yield extension_words.asleep(after.decision)
    elif old is not None and old.asleep and not new.asleep:
        yield "it is awake"
    elif new.kept_awake and (old is None or not old.kept_awake):
        yield "a minimum of a schedule or a query keeps it awake"
    else:
        yield "it may go idle again" if old is not None else "it may go idle"


def _of_idle(idle: IdleStatus | None) -> tuple[bool, bool] | None:
    return None if idle is None else (idle.asleep, idle.kept_awake)


def _conditions(before: Entry, after: Entry) -> Iterator[str]:
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


# -- the configuration ---------------------------------------------------------------------------


def _rules(before: Entry, after: Entry) -> Iterator[str]:
    if before.rules == after.rules:
        return
    old, new = as_written(before.rules.target), as_written(after.rules.target)
    paths = list(_paths(old, new, ""))
    for path, was, now in paths[:_MOST_KEYS]:
        yield f"the configuration: {path} is {_shown(now)}, before {_shown(was)}"
    if len(paths) > _MOST_KEYS:
        yield f"the configuration: {len(paths) - _MOST_KEYS} more keys are different"
    settings = list(_flags(before.rules.flags, after.rules.flags))
    yield from settings
    if not paths and not settings:
        yield "the configuration: the target is asked for otherwise"


def _flags(old: Flags, new: Flags) -> Iterator[str]:
    """Name the settings of all targets that are different, as they are written in YAML."""
    for key, was, now in (
        ("tolerance", f"{old.tolerance:g}", f"{new.tolerance:g}"),
        ("downscaleStabilization", *_both(old, new, "downscale_stabilization")),
        ("cpuInitializationPeriod", *_both(old, new, "cpu_initialization_period")),
        ("initialReadinessDelay", *_both(old, new, "initial_readiness_delay")),
    ):
        if was != now:
            yield f"the configuration: {key} is {now}, before {was}"


def _both(old: Flags, new: Flags, name: str) -> tuple[str, str]:
    return duration(getattr(old, name)), duration(getattr(new, name))


def _paths(old: object, new: object, path: str) -> Iterator[tuple[str, object, object]]:
    """Yield each key whose value differs, with both values; None where there is none."""
    if isinstance(old, Mapping) and isinstance(new, Mapping):
        for key in dict.fromkeys((*old, *new)):
            yield from _paths(old.get(key), new.get(key), f"{path}.{key}" if path else str(key))
    elif isinstance(old, Sequence) and isinstance(new, Sequence) and len(old) == len(new):
        if isinstance(old, str) or isinstance(new, str):
            if old != new:
                yield path, old, new
            return
        for index, (one, other) in enumerate(zip(old, new, strict=True)):
            yield from _paths(one, other, f"{path}[{index}]")
    elif old != new:
        yield path, old, new


def _shown(value: object) -> str:
    return "absent" if value is None else printable(str(value), _LONGEST_VALUE)
