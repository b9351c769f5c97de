"""What differs between a decision and the one before it, in sentences, the most important first.

All that `record.changes.change_key` calls a change has a sentence.
"""

from collections.abc import Iterable, Iterator

from autoscaler.config.comparison import field_changes
from autoscaler.config.written import written
from autoscaler.core.decision import (
    READY,
    Activity,
    Decision,
    MetricFailure,
    MetricResult,
    Outcome,
    Zone,
)
from autoscaler.core.observation import LONGEST_SENTENCE, ReadFailure
from autoscaler.core.sync_result import SyncResult
from autoscaler.core.text import printable
from autoscaler.core.writes import WriteConflict, WriteFailure
from autoscaler.persistence.record.changes import (
    change_key,
    is_held,
    of_hpa,
    of_idle,
    of_stabilization,
)
from autoscaler.rendering import reasons, target_rules, wording
from autoscaler.rendering.hpa import hpa_text
from autoscaler.rendering.record import WRITTEN, defaults_of, write_word

_MOST_KEYS = 10
_LONGEST_VALUE = 100

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
    found = [*_count(old, new), *_move(before, after), *_zone(old, new)]
    found += _compared(target_rules.facts(old), target_rules.facts(new))
    found += [*_bounds(old, new), *_metrics(old, new)]
    found += _compared(_stages(before), _stages(after))
    found += [*_conditions(old, new), *_rules(before, after)]
    if not found and change_key(before) != change_key(after):
        found = ["the same is decided in another way"]
    return tuple(printable(sentence, LONGEST_SENTENCE) for sentence in dict.fromkeys(found))


def _count(old: Decision, new: Decision) -> Iterator[str]:
    if new.current is None and old.scale != new.scale:
        scale = new.scale
        why = scale.message if isinstance(scale, ReadFailure) else "it is unknown"
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
    fails_otherwise = isinstance(after.write, WriteFailure) and before.write != after.write
    if fails_otherwise or (type(before.write) is not type(after.write) and (moves or not moved)):
        yield _write(after)


def _write(after: SyncResult) -> str:
    word, write = write_word(after.write), after.write
    if word is None:
        return "there is nothing to write now"
    if word == WRITTEN:
        return "the count was written"
    if isinstance(write, WriteFailure):
        word = write.message
    elif isinstance(write, WriteConflict):
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


def _compared(old: Iterable[target_rules.Fact], new: Iterable[target_rules.Fact]) -> Iterator[str]:
    """Say what was not so, was otherwise, or has ended."""
    was, now = ({end: (what, told) for end, what, told in facts} for facts in (old, new))
    yield from (fact[1] for end, fact in now.items() if end not in was or was[end][0] != fact[0])
    ended = [end for end in was if end not in now]
    yield from (end for end in ended if target_rules.PART_OF.get(end) not in ended)


def _bounds(old: Decision, new: Decision) -> Iterator[str]:
    for name, words, attribute in (
        ("minReplicas", target_rules.min_replicas, "min_replicas"),
        ("maxReplicas", target_rules.max_replicas, "max_replicas"),
    ):
        if getattr(old, attribute) != getattr(new, attribute) or words(old) != words(new):
            yield f"{name} is {words(new)}, before {words(old)}"


# -- metrics -------------------------------------------------------------------------------------


def _metrics(old: Decision, new: Decision) -> Iterator[str]:
    if not new.metrics or not old.metrics:
        return
    for metric, other in zip(old.metrics, new.metrics, strict=False):
        if metric.metric == other.metric:
            yield from _metric(metric, other)
    yield from _compared(_of_metrics(old), _of_metrics(new))
    now, was = new.combination, old.combination
    if now is not None and was is not None and now.winner != was.winner and now.winner:
        yield f"{wording.plain(now.winner, new)} asks for the most now"


def _metric(old: MetricResult, new: MetricResult) -> Iterator[str]:
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


def _of_metrics(of: Decision) -> Iterator[target_rules.Fact]:
    for metric in of.metrics:
        name = wording.metric_name(metric.metric)
        if metric.fallback is not None:
            told = target_rules.fallback(metric)
            yield f"the fallback stands for {name} no longer", None, told
        if metric.refill is not None:
            told = f"{name}: {wording.refill(metric.refill, of.time)}"
            yield f"{name} counts in full again after its gap", None, told
        if metric.activity is not None:
            told = _ACTIVITIES[metric.activity].format(name)
            yield f"whether {name} is active does not matter now", metric.activity, told


def _value(old: MetricResult, new: MetricResult, name: str) -> Iterator[str]:
    was, now = wording.usage(old), wording.usage(new)
    if was == now and old.proposal == new.proposal:
        return
    value = f"is {now}, before {was}" if was != now else f"is still {now}"
    before = " as before" if old.proposal == new.proposal else f", before {old.proposal}"
    yield f"{name} {value}, and asks for {new.proposal}{before}"


# -- stages --------------------------------------------------------------------------------------


def _stages(of: SyncResult) -> Iterator[target_rules.Fact]:
    decision = of.decision
    held, limit, idle, hpa = decision.stabilization, decision.limit, decision.idle, decision.hpa
    if held is not None and held.before != held.after and held.reason != READY:
        kind = of_stabilization(held), is_held(decision)
        yield "stabilization holds it no longer", kind, reasons.hold(held, decision.time)
    if limit is not None and limit.before != limit.after:
        told = f"limited from {limit.before} to {limit.after}: {reasons.restriction(limit, of)}"
        yield "neither a bound nor a policy limits it any more", (limit.reason, limit.policy), told
    if idle is not None:
        told = "it is awake, and may go idle"
        if idle.asleep:
            told = target_rules.asleep(decision)
        elif idle.kept_awake:
            told = "a minimum of a schedule or a query keeps it awake"
        yield "it cannot go idle now", of_idle(idle), told
    if hpa is not None:
        yield "no HPA is compared with it now", of_hpa(hpa), hpa_text(hpa)


def _conditions(old: Decision, new: Decision) -> Iterator[str]:
    was, now = (
        {condition.type: f"{condition.status} ({condition.reason})" for condition in of.conditions}
        for of in (old, new)
    )
    for type_ in dict.fromkeys((*now, *was)):
        if was.get(type_) != now.get(type_):
            before = f", before {was[type_]}" if type_ in was else ""
            yield f"condition {type_}: {now.get(type_, 'none')}{before}"


# -- the configuration ---------------------------------------------------------------------------


def _rules(before: SyncResult, after: SyncResult) -> Iterator[str]:
    if before.rules == after.rules:
        return
    changes = list(field_changes(written(before.target), written(after.target)))
    was, now = (defaults_of(rules.flags).document() for rules in (before, after))
    settings = list(field_changes(was, now))
    for change in (*changes[:_MOST_KEYS], *settings):
        values = f"{_shown(change.after)}, before {_shown(change.before)}"
        yield f"the configuration: {change.path} is {values}"
    if len(changes) > _MOST_KEYS:
        yield f"the configuration: {len(changes) - _MOST_KEYS} more keys are different"
    if not changes and not settings:
        yield "the configuration: its queries are others, or are asked otherwise"


def _shown(value: object) -> str:
    return "absent" if value is None else printable(str(value), _LONGEST_VALUE)
