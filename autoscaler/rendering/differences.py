"""The differences between a decision and the previous one, the most important first.

Every difference that `record.changes.change_key` counts as a change has a sentence.
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
    Zone.METRICS: "metrics",
    Zone.DISABLED: "replicas 0 (disabled)",
    Zone.ABOVE_MAX: "maximum",
    Zone.BELOW_MIN: "minimum",
    Zone.UNKNOWN: "nothing (scale unknown)",
    Zone.PAUSED: "pause",
    Zone.IDLE: "idle rule",
}
_ACTIVITIES = {
    Activity.ACTIVE: "{}: active",
    Activity.INACTIVE: "{}: not active",
    Activity.UNKNOWN: "{}: activity unknown",
}
_OUTCOMES = {
    Outcome.OK: "all inputs are known again",
    Outcome.PARTIAL: "some inputs are missing",
    Outcome.BLOCKED: "no decision possible",
}


def differences(before: SyncResult, after: SyncResult) -> tuple[str, ...]:
    """Return a sentence for each difference."""
    old, new = before.decision, after.decision
    found = [*_count(old, new), *_move(before, after), *_zone(old, new)]
    found += _compared(target_rules.facts(old), target_rules.facts(new))
    found += [*_bounds(old, new), *_metrics(old, new)]
    found += _compared(_stages(before), _stages(after))
    found += [*_conditions(old, new), *_rules(before, after)]
    if not found and change_key(before) != change_key(after):
        found = ["same result, decided differently"]
    return tuple(printable(sentence, LONGEST_SENTENCE) for sentence in dict.fromkeys(found))


def _count(old: Decision, new: Decision) -> Iterator[str]:
    if new.current is None and old.scale != new.scale:
        scale = new.scale
        why = scale.message if isinstance(scale, ReadFailure) else "unknown"
        yield f"scale not read: {why}"
    elif old.current is None and new.current is not None:
        yield "scale read again"
    elif old.current != new.current and new.current is not None:
        yield f"replicas: {old.current} -> {new.current}"


def _move(before: SyncResult, after: SyncResult) -> Iterator[str]:
    """Yield the new desired count and the outcome of the write, if they have changed."""
    old, new = before.decision, after.decision
    moved, moves = old.desired != old.current, new.desired != new.current
    is_same = (old.current, old.desired, old.reason) == (new.current, new.desired, new.reason)
    if moves and new.current is not None and not is_same:
        why = wording.reason(new) or "as the metrics ask"
        yield f"desired replicas: {old.desired} -> {new.desired} ({why})"
    elif moved and not moves and old.current is not None and old.desired != new.desired:
        yield f"desired replicas: {old.desired} -> {new.desired} (no change needed)"
    fails_otherwise = isinstance(after.write, WriteFailure) and before.write != after.write
    if fails_otherwise or (type(before.write) is not type(after.write) and (moves or not moved)):
        yield _write(after)


def _write(after: SyncResult) -> str:
    word, write = write_word(after.write), after.write
    if word is None:
        return "nothing to write"
    if word == WRITTEN:
        return "count written"
    if isinstance(write, WriteFailure):
        word = write.message
    elif isinstance(write, WriteConflict):
        word = f"another client set {write.scale.spec_replicas}"
    return f"count not written: {word}"


def _zone(old: Decision, new: Decision) -> Iterator[str]:
    if old.zone is not new.zone:
        yield f"decided by: {_ZONES[old.zone]} -> {_ZONES[new.zone]}"
    if old.outcome is not new.outcome:
        yield _OUTCOMES[new.outcome]
    if old.reason != new.reason and new.desired == new.current and new.reason:
        was = f"{wording.reason(old)} -> " if old.reason else ""
        yield f"reason: {was}{wording.reason(new)}"
    elif old.reason and not new.reason:
        yield f"reason: {wording.reason(old)} -> none"


def _compared(old: Iterable[target_rules.Fact], new: Iterable[target_rules.Fact]) -> Iterator[str]:
    """Yield the facts that are new or changed, and then those that ended."""
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
            yield f"{name}: {words(old)} -> {words(new)}"


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
        yield f"{wording.plain(now.winner, new)} now asks for the most"


def _metric(old: MetricResult, new: MetricResult) -> Iterator[str]:
    name, was, now = wording.metric_name(new.metric), old.outcome, new.outcome
    if isinstance(now, MetricFailure):
        if not isinstance(was, MetricFailure):
            yield f"{name} failed: {now.message}"
        elif (was.reason, was.message) != (now.reason, now.message):
            yield f"{name} failed with another error: {now.message}"
    elif isinstance(was, MetricFailure):
        measured = wording.usage_and_target(new)
        yield f"{name}: read again, {measured} (asks for {new.proposal})"
    else:
        yield from _value(old, new, name)


def _of_metrics(of: Decision) -> Iterator[target_rules.Fact]:
    for metric in of.metrics:
        name = wording.metric_name(metric.metric)
        if metric.fallback is not None:
            told = target_rules.fallback(metric)
            yield f"fallback no longer used for {name}", None, told
        if metric.refill is not None:
            told = f"{name}: {wording.refill(metric.refill, of.time)}"
            yield f"{name}: readings are complete again after the gap", None, told
        if metric.activity is not None:
            told = _ACTIVITIES[metric.activity].format(name)
            yield f"{name}: activity no longer matters", metric.activity, told


def _value(old: MetricResult, new: MetricResult, name: str) -> Iterator[str]:
    was, now = wording.usage(old), wording.usage(new)
    if was == now and old.proposal == new.proposal:
        return
    value = f"{was} -> {now}" if was != now else now
    before = "" if old.proposal == new.proposal else f", was {old.proposal}"
    yield f"{name}: {value} (asks for {new.proposal}{before})"


# -- stages --------------------------------------------------------------------------------------


def _stages(of: SyncResult) -> Iterator[target_rules.Fact]:
    decision = of.decision
    held, limit, idle, hpa = decision.stabilization, decision.limit, decision.idle, decision.hpa
    if held is not None and held.before != held.after and held.reason != READY:
        kind = of_stabilization(held), is_held(decision)
        yield "no stabilization window applies", kind, reasons.hold(held, decision.time)
    if limit is not None and limit.before != limit.after:
        told = f"limited: {limit.before} -> {limit.after}, {reasons.restriction(limit, of)}"
        yield "no longer limited by a bound or policy", (limit.reason, limit.policy), told
    if (rounding := decision.rounding) is not None:
        yield "no longer rounded", None, target_rules.rounding(rounding)
    if idle is not None:
        told = "awake, may become idle"
        if idle.asleep:
            told = f"idle: {target_rules.asleep(decision)}"
        elif idle.kept_awake:
            told = "kept awake by the minimum of a schedule or query"
        yield "cannot become idle", of_idle(idle), told
    if hpa is not None:
        yield "no HPA to compare with", of_hpa(hpa), hpa_text(hpa)


def _conditions(old: Decision, new: Decision) -> Iterator[str]:
    was, now = (
        {condition.type: f"{condition.status} ({condition.reason})" for condition in of.conditions}
        for of in (old, new)
    )
    for type_ in dict.fromkeys((*now, *was)):
        if was.get(type_) != now.get(type_):
            yield f"{type_}: {was.get(type_, 'none')} -> {now.get(type_, 'none')}"


# -- the configuration ---------------------------------------------------------------------------


def _rules(before: SyncResult, after: SyncResult) -> Iterator[str]:
    if before.rules == after.rules:
        return
    changes = list(field_changes(written(before.target), written(after.target)))
    was, now = (defaults_of(rules.flags).document() for rules in (before, after))
    settings = list(field_changes(was, now))
    for change in (*changes[:_MOST_KEYS], *settings):
        values = f"{_value_text(change.before)} -> {_value_text(change.after)}"
        yield f"configuration {change.path}: {values}"
    if len(changes) > _MOST_KEYS:
        yield f"configuration: {len(changes) - _MOST_KEYS} more keys changed"
    if not changes and not settings:
        yield "configuration: queries changed"


def _value_text(value: object) -> str:
    return "not set" if value is None else printable(str(value), _LONGEST_VALUE)
