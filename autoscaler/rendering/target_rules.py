"""The text of a target's extensions: pauses, bounds, idling, fallbacks, holds.

It has what each rule adds to the sentence of a decision, to its explanation, to the differences
from the previous decision, and to its answers.
"""

from collections.abc import Iterator
from typing import Any

from autoscaler.core.bounds import KNOWN_SECONDS, MAX_QUERY, MIN_QUERY
from autoscaler.core.classification import Restraint
from autoscaler.core.decision import (
    Activity,
    Bound,
    Decision,
    MetricFailure,
    MetricResult,
    Removal,
    RemovalReason,
    Removals,
    Rounding,
    Saturation,
    Zone,
)
from autoscaler.core.extensions import FallbackBehavior, Pause, PauseMode
from autoscaler.core.guards import PAUSED, PAUSED_REPLICAS, PAUSED_UNTIL
from autoscaler.core.history import KnownBound
from autoscaler.core.observation import (
    DELETION_COST_QUERY,
    HOLD_QUERY,
    Gap,
    Observation,
    Scale,
    why_held,
)
from autoscaler.core.status import INVALID_ANNOTATION
from autoscaler.core.sync_result import SyncResult
from autoscaler.core.target import Query, Target
from autoscaler.core.text import rfc3339
from autoscaler.quantities import format_fine, format_milli
from autoscaler.rendering import answers, wording
from autoscaler.rendering.wording import time_of_day

# -- pauses, bounds, idling, fallbacks ------------------------------------------------------------

_PAUSED = {
    PauseMode.ALL: "paused",
    PauseMode.SCALE_DOWN: "scale-down paused",
    PauseMode.SCALE_UP: "scale-up paused",
}


def pause(pause: Pause, now: float, count: int | None = None) -> str:
    """Return the text of a pause: what, at which count, its source and its end."""
    at = "" if count is None else f" at {count}"
    until = "" if pause.until is None else f" until {time_of_day(pause.until, now)}"
    return f"{_PAUSED[pause.mode]}{at} by {pause.by}{until}"


def prevented(decision: Decision) -> str:
    """Return which count a pause prevents; empty if none."""
    if decision.paused_from is None:
        return ""
    return f"; would scale to {decision.paused_from}"


def min_replicas(decision: Decision) -> str:
    """Return the minimum in force, and its origin if it is not the target's own."""
    return _by(decision.min_replicas, None if decision.bounds is None else decision.bounds.minimum)


def max_replicas(decision: Decision) -> str:
    """Return the maximum in the same form."""
    return _by(decision.max_replicas, None if decision.bounds is None else decision.bounds.maximum)


def _by(replicas: int, bound: Bound | None) -> str:
    return str(replicas) if bound is None or not bound.by else f"{replicas} by {bound.by}"


def goes_idle(decision: Decision) -> str:
    """Return when a target that is awake goes idle; empty if it will not."""
    idle = decision.idle
    if idle is None or decision.zone is not Zone.METRICS:
        return ""
    if idle.active or idle.asleep or idle.kept_awake or idle.until <= decision.time:
        return ""
    return f"idle at {time_of_day(idle.until, decision.time)} unless a metric becomes active"


def asleep(decision: Decision) -> str:
    """Return why a target is idle."""
    idle = decision.idle
    if idle is None or not idle.active:
        since = "" if idle is None else f" since {time_of_day(idle.last_active, decision.time)}"
        return f"no metric active{since}"
    unknown = [metric for metric in decision.metrics if metric.activity is Activity.UNKNOWN]
    names = " or ".join(wording.metric_name(metric.metric) for metric in unknown)
    return f"activity of {names} unknown"


def activity(result: MetricResult, target: Target) -> str:
    """Return whether a metric is above its activation; empty if it is not part of `idle`."""
    if result.activity is None:
        return ""
    word = wording.ACTIVITY_WORDS[result.activity]
    if result.activity is Activity.UNKNOWN:
        return f"{word}: an awake target stays awake, an idle target stays idle"
    exact = wording.exactly(result)
    value = f"{exact} is " if exact else ""
    above = "above" if result.activity is Activity.ACTIVE else "not above"
    activations = dict(zip(target.spec.metrics, target.extensions.activations, strict=False))
    activation = format_fine(activations.get(result.metric, 0))
    return f"{word}: {value}{above} the activation threshold {activation}"


def fallback(result: MetricResult) -> str:
    """Return the replicas that a fallback asks for; empty if it does not apply."""
    use = result.fallback
    if use is None:
        return ""
    name, syncs = wording.metric_name(result.metric), wording.counted(use.syncs, "sync")
    failed = f"{name} failed in {syncs}"
    if _is_read(result):
        return f"{failed}, its partial reading asks for at least {use.proposal}"
    return f"{failed}, fallback asks for {use.proposal}"


def _is_read(result: MetricResult) -> bool:
    """Return whether an incomplete reading gives the proposal in place of a fallback."""
    return isinstance(result.outcome, MetricFailure) and result.outcome.at_least == result.proposal


def fallback_rule(result: MetricResult) -> str:
    """Return in brackets what a fallback depends on; empty for a plain count, or if unused."""
    settings = None if result.fallback is None else result.fallback.fallback
    if settings is None or settings.behavior is FallbackBehavior.STATIC or _is_read(result):
        return ""
    if settings.behavior is FallbackBehavior.CURRENT_REPLICAS:
        return " (the current count)"
    higher = settings.behavior is FallbackBehavior.CURRENT_REPLICAS_IF_HIGHER
    word = "higher" if higher else "lower"
    return f" ({settings.replicas}, or the current count if {word})"


def wanted(decision: Decision) -> str:
    """Return which metric asks for replicas of a target scaled to zero by others; else empty."""
    metric = decision.wanted_by
    return "" if metric is None else f"; {wording.metric_name(metric)} asks for replicas meanwhile"


def saturation(saturation: Saturation, now: float) -> str:
    """Return the number of missing replicas, and the start of it."""
    missing = wording.counted(saturation.missing, "replica")
    return f"{missing} below demand since {time_of_day(saturation.since, now)}: {saturation.reason}"


def rounding(stage: Rounding) -> str:
    """Return how a count becomes a multiple, or why it does not change."""
    of = stage.multiple_of
    if stage.after % of:
        return f"{stage.before} not applied (no multiple of {of} between it and {stage.after})"
    return f"{stage.before} rounded to {stage.after}, a multiple of {of}"


def removed_pods(removals: Removals) -> str:
    """Return the first pods that a scale-down removes, and why Kubernetes chooses others."""
    gap = removals.gap
    why = "" if gap is None else f" ({DELETION_COST_QUERY}: {gap.detail})"
    others = removals.count - len(removals.pods)
    if not removals.pods:
        return f"Kubernetes chooses the pods{why}"
    names = wording.some(tuple([pod.pod for pod in removals.pods]))
    chosen = f"; Kubernetes chooses {wording.counted(others, 'pod')}{why}" if others else ""
    return f"removes {names}{chosen}"


# -- in the sentence of a decision -----------------------------------------------------------------


def prevented_move(decision: Decision, restraint: Restraint | None) -> str:
    """Return which count a rule prevents, and why; empty if none does."""
    if restraint is Restraint.QUERY and (hold := decision.hold) is not None:
        return f" (would scale to {hold.replicas}): {why_held(hold.reading)}"
    if restraint is Restraint.BREAKER and (breaker := decision.breaker) is not None:
        server, until = wording.prometheus_server(breaker.server), breaker.until
        held = f"scale-down breaker of {server} until {time_of_day(until, decision.time)}"
        return f" (would scale to {breaker.replicas}): {held}"
    return ""


def parts_of_sentence(decision: Decision, restraint: Restraint | None) -> Iterator[str]:
    """Yield what the rules add to a sentence, except what the restraint already says."""
    bounds, paused = decision.bounds, decision.pause
    if bounds is not None:
        yield bounds.missing
    if decision.hold is not None and restraint is not Restraint.QUERY:
        yield why_held(decision.hold.reading)
    if paused is not None and restraint is not Restraint.PAUSE:
        yield pause(paused, decision.time)
    if paused is not None:
        yield from (
            event.message for event in decision.events if event.reason == INVALID_ANNOTATION
        )
    yield goes_idle(decision)
    stage = decision.rounding
    if stage is not None and stage.after == decision.desired and restraint is not Restraint.PAUSE:
        yield rounding(stage)
    if decision.removals is not None:
        yield removed_pods(decision.removals)


# -- in its explanation ----------------------------------------------------------------------------


def stages(result: SyncResult) -> dict[str, list[str]]:
    """Return the lines of each rule, by label."""
    decision = result.decision
    return {"paused": _pause(decision), "idle": _idle(decision), "hold": _hold(result)}


def _pause(decision: Decision) -> list[str]:
    lines = []
    if decision.pause is not None:
        lines.append(pause(decision.pause, decision.time) + prevented(decision))
        lines += [event.message for event in decision.events if event.reason == INVALID_ANNOTATION]
    given = dict(decision.scale.annotations) if isinstance(decision.scale, Scale) else {}
    if PAUSED_UNTIL in given and PAUSED not in given and PAUSED_REPLICAS not in given:
        lines.append(f"{PAUSED_UNTIL} has no effect without {PAUSED} or {PAUSED_REPLICAS}")
    return lines


def _idle(decision: Decision) -> list[str]:
    idle = decision.idle
    if idle is None:
        return []
    last = f"last active, or possibly active, at {rfc3339(idle.last_active)}"
    if decision.zone is Zone.IDLE:
        return [f"idle, {asleep(decision)}; idle.replicas is {idle.idle.replicas}"]
    if idle.kept_awake:
        return [f"kept awake: minReplicas is {min_replicas(decision)}"]
    if decision.zone is Zone.METRICS and idle.asleep:
        return ["waking up: a metric is active"]
    goes = goes_idle(decision)
    return [f"awake; {goes}" if goes else "awake", last]


def _hold(result: SyncResult) -> list[str]:
    decision, asked = result.decision, result.target.hold
    lines = []
    if (hold := decision.hold) is not None:
        prevented = "" if hold.replicas is None else f"; would scale to {hold.replicas}"
        lines.append(why_held(hold.reading) + prevented)
    elif asked is not None:
        lines.append(f"{HOLD_QUERY} returns nothing: no hold")
    if (refill := decision.hold_refill) is not None:
        lines.append(wording.refill(refill, decision.time))
    if asked is not None:
        of = "" if asked.selector is None else f", series {wording.selector(asked.selector)}"
        lines.append(f"{HOLD_QUERY}{at_server(asked.query)}: {asked.query.promql}{of}")
    return lines


def removed_pods_lines(result: SyncResult) -> Iterator[str]:
    """Yield the pods that a scale-down removes, by reason, and the query of their values."""
    removals, query = result.decision.removals, result.target.deletion_cost
    if query is None:
        return
    if removals is None and result.given is not None:
        yield from _deletion_costs(result.given.observation)
    elif removals is not None:
        for reason, heading in _REMOVED_FIRST.items():
            pods = tuple([_removed(pod) for pod in removals.pods if pod.reason is reason])
            if pods:
                yield f"{heading}: {wording.some(pods, _MOST_PODS)}"
        if others := removals.count - len(removals.pods):
            of = "" if removals.gap is not None else ", of the pods without a cost"
            yield f"{wording.counted(others, 'pod')} that Kubernetes chooses{of}"
        if removals.gap is not None:
            yield f"{removals.gap.kind.value}: {removals.gap.detail}"
    yield f"{DELETION_COST_QUERY}{at_server(query)}: {query.promql}"


def _deletion_costs(seen: Observation) -> Iterator[str]:
    """Yield whether a scale-down would have values."""
    reading = seen.deletion_costs
    if isinstance(reading, Gap):
        yield f"no scale-down now; {reading.kind.value}: {reading.detail}"
    elif reading is not None:
        count = wording.counted(len(reading.samples), "pod")
        yield f"no scale-down now; {count} with a value"


_MOST_PODS = 10
"""The most pods that a line names."""

_REMOVED_FIRST = {
    RemovalReason.NOT_READY: "not running and ready",
    RemovalReason.OTHER_COST: "with a negative cost of another client",
    RemovalReason.LOWEST_VALUE: "with the lowest values",
}
"""The reasons in the order in which Kubernetes removes the pods."""


def _removed(pod: Removal) -> str:
    value = "" if pod.value is None else f"value {format_milli(pod.value)}, "
    return pod.pod if pod.cost is None else f"{pod.pod} ({value}cost {pod.cost})"


def bounds_lines(result: SyncResult) -> list[str]:
    """Return the bounds in force, their origin, and missing ones."""
    decision, target = result.decision, result.target
    low, high = min_replicas(decision), max_replicas(decision)
    lines, bounds = [f"minReplicas {low}, maxReplicas {high}"], decision.bounds
    if bounds is not None and bounds.missing:
        down = "; no scale-down meanwhile" if bounds.hold_down else ""
        lines.append(f"{bounds.missing}{down}")
    if bounds is not None:
        of_min = (MIN_QUERY, bounds.of_min_query, bounds.minimum)
        of_max = (MAX_QUERY, bounds.of_max_query, bounds.maximum)
        lines += _asked_bound(target.min_replicas_query, *of_min, decision.time)
        lines += _asked_bound(target.max_replicas_query, *of_max, decision.time)
    return lines


def _asked_bound(
    query: Query | None, name: str, found: KnownBound | None, bound: Bound, now: float
) -> Iterator[str]:
    if query is None:
        return
    gives = ""
    if found is not None:
        gives = f" gives {found.replicas}"
        if bound.by.startswith(name) and bound.replicas != found.replicas:
            gives += f" ({bound.replicas} within the other bounds)"
        if found.time < now:
            gives += f" (last read, valid until {time_of_day(found.time + KNOWN_SECONDS, now)})"
    yield f"{name}{at_server(query)}{gives}: {query.promql}"


def at_server(query: Query) -> str:
    """Return the server of a query as text; empty for the default server."""
    return f" at server {query.server}" if query.server else ""


# -- in what differs from the decision before ------------------------------------------------------

Fact = tuple[str, object, str]
"""The sentence of its end, what identifies it, and the sentence of the fact."""
PART_OF = {
    "the pause no longer prevents a change": "no longer paused",
    f"{HOLD_QUERY} no longer prevents a scale-down": f"{HOLD_QUERY} no longer holds",
}
"""Ends that are not shown if the other one is."""


def facts(of: Decision) -> Iterator[Fact]:
    """Yield the facts that decide in addition to the metrics."""
    if of.foreign is not None:
        ended = "no other client set the replicas between these decisions"
        yield ended, (of.stamp, of.foreign), wording.foreign(of.foreign)
    if of.pause is not None:
        yield "no longer paused", of.pause, pause(of.pause, of.time)
    if of.pause is not None and of.paused_from is not None:
        count = wording.counted(of.paused_from, "replica")
        yield "the pause no longer prevents a change", None, f"without the pause: {count}"
    if of.bounds is not None and (missing := of.bounds.missing):
        yield "all bounds are known again", missing, f"bound missing: {missing}"
    if of.wanted_by is not None:
        asks = wanted(of).removeprefix("; ")
        yield "no metric asks for replicas any more", of.wanted_by, asks
    if (lasting := of.lasting_saturation) is not None:
        told = saturation(lasting, of.time)
        yield "no longer below demand", None, told
    yield from _prevents_moves(of)


def _prevents_moves(of: Decision) -> Iterator[Fact]:
    if of.breaker is not None:
        until, wanted = time_of_day(of.breaker.until, of.time), of.breaker.replicas
        holds = f"held by the scale-down breaker until {until}; would scale to {wanted}"
        yield "no longer held by the scale-down breaker", None, holds
    if (hold := of.hold) is not None:
        kind = (hold.reading.gap and hold.reading.gap.detail, hold.reading.holds)
        yield f"{HOLD_QUERY} no longer holds", kind, why_held(hold.reading)
        if hold.replicas is not None:
            goes = f"without {HOLD_QUERY}: scale to {hold.replicas}"
            yield f"{HOLD_QUERY} no longer prevents a scale-down", None, goes
    if of.hold_refill is not None:
        refill = f"{HOLD_QUERY}: {wording.refill(of.hold_refill, of.time)}"
        yield "readings are complete again after the hold", None, refill
    if of.held_until is not None:
        until = time_of_day(of.held_until, of.time)
        undone = f"contested: other clients undo our changes, not written until {until}"
        yield "no longer contested", of.held_until, undone


# -- in its answers --------------------------------------------------------------------------------


def fields_of(decision: Decision) -> dict[str, Any]:
    """Return the answers about a target's extensions."""
    fields: dict[str, Any] = {}
    if (bounds := decision.bounds) is not None:
        fields["min_replicas_by"] = bounds.minimum.by or None
        fields["max_replicas_by"] = bounds.maximum.by or None
        fields["missing_bound"] = bounds.missing or None
    if (pause := decision.pause) is not None:
        prevented = {"prevented_replicas": decision.paused_from}
        fields["pause"] = answers.Pause.model_validate(pause).model_copy(update=prevented)
    if (idle := decision.idle) is not None:
        goes = {"goes_idle": idle.until if goes_idle(decision) else None}
        fields["idle"] = answers.Idle.model_validate(idle).model_copy(update=goes)
    if (hold := decision.hold) is not None:
        fields["hold"] = answers.Hold(
            message=why_held(hold.reading),
            series=hold.reading.series,
            prevented_replicas=hold.replicas,
        )
    return fields
