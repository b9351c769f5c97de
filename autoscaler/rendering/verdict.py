"""The state of a target after a sync, and the sentence that says what was decided and why.

Log, metrics, `plan` and `status` all take both from here.
"""

from enum import StrEnum

from autoscaler.core.decision import (
    Combination,
    Decision,
    MetricFailure,
    MetricResult,
    Outcome,
    Zone,
)
from autoscaler.core.limits import TOO_FEW
from autoscaler.core.observation import LONGEST_SENTENCE
from autoscaler.core.pauses import INVALID_ANNOTATION
from autoscaler.core.status import MIN_REPLICAS_UNKNOWN, SCALE_DOWN_BREAKER
from autoscaler.core.text import printable
from autoscaler.core.writes import NotWritten, NotWrittenReason, Superseded, WriteFailed, Written
from autoscaler.rendering import extension_words, wording
from autoscaler.rendering.restrictions import hold, restriction
from autoscaler.rendering.wording import time_of_day
from autoscaler.sync.ports import SyncResult

MISSING_BOUND = "MissingBound"
_MOST_METRICS = 5
"""At most so many metrics are named in one sentence."""


class State(StrEnum):
    """The state of a target; the first that applies."""

    FAILING = "failing"
    """The scale, a metric, the pods or the write failed."""
    CONTROLLED = "controlled"
    """Another autoscaler controls the target, and we write nothing."""
    CONTESTED = "contested"
    """Others undo our changes, and nothing is written for a while."""
    PAUSED = "paused"
    """Somebody paused it, or one direction of it."""
    DISABLED = "disabled"
    """Somebody set the replicas to zero."""
    LIMITED = "limited"
    """A bound or a rate limit permits less of a change than is wanted."""
    HELD = "held"
    """A stabilization window, a reading that has just returned, or the scale-down breaker permits
    less than is wanted."""
    IDLE = "idle"
    """No metric is active, and has not been for long enough."""
    OK = "ok"
    UNKNOWN = "unknown"
    """It was not synced yet."""


def state_of(result: SyncResult) -> State:
    """Return the state of a target.  It is quick, since each sync needs it of every target."""
    decision = result.decision
    if decision.zone is Zone.CONTROLLED or result.controller:
        state = State.CONTROLLED
    elif decision.held_until is not None:
        state = State.CONTESTED
    elif _fails(result):
        state = State.FAILING
    elif decision.pause is not None:
        state = State.PAUSED
    elif decision.zone is Zone.DISABLED:
        state = State.DISABLED
    elif decision.breaker is not None:
        state = State.HELD
    elif decision.zone is Zone.IDLE:
        state = State.IDLE
    elif _is_limited(decision):
        state = State.LIMITED
    elif _is_held(decision):
        state = State.HELD
    else:
        state = State.OK
    return state


def _fails(result: SyncResult) -> bool:
    """Return whether something failed that matters: under a pause only the write does."""
    decision = result.decision
    if type(result.write) is WriteFailed:
        return True
    if decision.zone is Zone.PAUSED:
        return False
    if decision.zone is Zone.IDLE:
        # Whether a reading that has just returned is active is not known either.
        return any(
            type(one.outcome) is MetricFailure and one.activity is not None
            for one in decision.metrics
        )
    return decision.outcome is not Outcome.OK


def _is_limited(decision: Decision) -> bool:
    """Return whether less of a change is permitted than is wanted; a minimum is no such limit."""
    stage = decision.limit
    if stage is None or stage.before == stage.after or stage.reason == TOO_FEW:
        return False
    return not _is_as_asked(decision)


def _is_held(decision: Decision) -> bool:
    """Return whether stabilization changes the count, and the bounds would not have."""
    stage = decision.stabilization
    if stage is None or stage.before == stage.after:
        return False
    within_bounds = min(max(stage.before, decision.min_replicas), decision.max_replicas)
    return within_bounds != decision.desired


def _is_as_asked(decision: Decision) -> bool:
    """Return whether the count is what the metrics ask for, whatever each stage did."""
    combined = decision.combination
    return combined is not None and combined.after == decision.desired


def cause_of(result: SyncResult, state: State) -> str:
    """Return the cause of a state, as the same text for all targets and syncs of that cause."""
    decision, stabilization = result.decision, result.decision.stabilization
    if state is State.FAILING:
        return _cause_of_failure(result)
    if state is State.PAUSED and decision.pause is not None:
        return decision.pause.by
    if state is State.LIMITED and decision.limit is not None:
        return decision.limit.reason
    if state is State.HELD and decision.breaker is not None:
        return SCALE_DOWN_BREAKER
    if state is State.HELD and stabilization is not None:
        return stabilization.reason
    return _CAUSES.get(state, "")


def _cause_of_failure(result: SyncResult) -> str:
    if isinstance(result.write, WriteFailed):
        return f"FailedRescale: {printable(result.write.message, LONGEST_SENTENCE)}"
    cause = ": ".join(failure_of(result.decision))
    in_use = any(one.fallback is not None for one in result.decision.metrics)
    return f"{cause} (a fallback is in use)" if in_use else cause


_CAUSES = {
    State.CONTROLLED: "another autoscaler controls them",
    State.CONTESTED: "others undo our changes",
}


def failure_of(decision: Decision) -> tuple[str, str]:
    """Return the HPA's reason why a decision is not ok, and a sentence; empty where it is."""
    for one in decision.metrics:
        if isinstance(one.outcome, MetricFailure):
            return one.outcome.reason, printable(one.outcome.message, LONGEST_SENTENCE)
    if decision.bounds is not None and decision.bounds.missing:
        return MISSING_BOUND, printable(decision.bounds.missing, LONGEST_SENTENCE)
    for event in decision.events:
        if event.type == "Warning" and event.reason != INVALID_ANNOTATION:
            return event.reason, event.message
    return "", ""


def verdict(result: SyncResult) -> str:
    """Return one sentence: what was decided, why, and what became of it."""
    if not result.controller:
        return _verdict(result)
    but = ", but" if result.decision.rescale else ";"
    return f"{_verdict(result)}{but} {result.controller} controls it: the daemon leaves it alone"


def _verdict(result: SyncResult) -> str:
    decision, write = result.decision, result.write
    current = decision.current
    if current is None:
        _, failure = failure_of(decision)
        return f"nothing is decided, since the scale cannot be read: {failure}"
    if not decision.rescale:
        return _unchanged(result, current)
    move = f"{current} -> {wording.counted(decision.desired, 'replica')}"
    if isinstance(write, Superseded):
        return f"{move} not written: somebody else set {write.scale.spec_replicas} meanwhile"
    if isinstance(write, WriteFailed):
        return f"{move} not written: {printable(write.message, LONGEST_SENTENCE)}"
    restriction = "" if _is_prevented(decision) else _restriction(result)
    asked = f"; {_asked(decision)}" if restriction and decision.combination is not None else ""
    why = f"{_why(decision)}{asked}{restriction}{_besides(decision)}"
    if isinstance(write, NotWritten) and write.reason is NotWrittenReason.NOT_LEADING:
        return f"{move} is left to the process that leads: {why}"
    because = ", since " if _active(decision) is not None else ": "
    return f"{'scaled' if isinstance(write, Written) else 'would scale'} {move}{because}{why}"


def _unchanged(result: SyncResult, current: int) -> str:
    decision = result.decision
    stays = f"stays at {wording.counted(current, 'replica')}"
    if decision.zone is Zone.DISABLED:
        least = extension_words.min_replicas(decision)
        return (
            f"disabled: somebody set the replicas to 0, and minReplicas is {least}; "
            "it goes on once they are set to 1 or more"
        )
    if decision.zone is Zone.CONTROLLED:
        return f"{stays}: {failure_of(decision)[1]}"
    if decision.held_until is not None or decision.breaker is not None:
        return stays + _held_back(decision)
    if decision.outcome is Outcome.BLOCKED:
        return f"{stays}: nothing can be decided: {_failed_metric(decision)}"
    if decision.zone is Zone.IDLE or _is_prevented(decision):
        return f"{stays}: {_why(decision)}{_besides(decision)}"
    restriction = _restriction(result)
    because = f": {_asked(decision)}{restriction}" if restriction else ""
    return f"{stays}{because}{_besides(decision)}"


def _held_back(decision: Decision) -> str:
    """Return why a change is not written: others undo ours, or the breaker has tripped."""
    if decision.held_until is not None:
        until = time_of_day(decision.held_until, decision.time)
        wanted = "" if decision.limit is None else f", not {decision.limit.after}"
        return f"{wanted}: nothing is written until {until}, since others undo our changes"
    held = decision.breaker
    if held is None:
        return ""
    return (
        f", not {held.replicas}: the scale-down breaker lets no target of "
        f"{wording.prometheus_server(held.server)} go down before "
        f"{time_of_day(held.until, decision.time)}{_besides(decision)}"
    )


def _is_prevented(decision: Decision) -> bool:
    """Return whether a pause decided, or prevented a change."""
    return decision.zone is Zone.PAUSED or decision.paused_from is not None


def _asked(decision: Decision) -> str:
    combined = decision.combination
    return decision.reason if combined is None else f"the metrics ask for {combined.after}"


def _failed_metric(decision: Decision) -> str:
    """Return which metric failed first and why; others that failed are counted."""
    _, failure = failure_of(decision)
    failed = [one for one in decision.metrics if isinstance(one.outcome, MetricFailure)]
    if not failed:
        return failure
    return f"{wording.metric_name(failed[0].metric)}: {failure}{_and_more(len(failed) - 1)}"


def _and_more(count: int) -> str:
    return f" (and {wording.counted(count, 'more metric')})" if count else ""


def _partly(decision: Decision) -> str:
    in_use = [one for one in decision.metrics if one.fallback is not None]
    if in_use:
        first, failure = in_use[0], failure_of(decision)[1]
        more = _and_more(len(in_use) - 1)
        return f"; {extension_words.fallback(first)}: {failure}{more}"
    # A bound that is missing is told by itself.
    if decision.outcome is not Outcome.PARTIAL or failure_of(decision)[0] in {"", MISSING_BOUND}:
        return ""
    return f"; not all metrics could be used: {_failed_metric(decision)}"


def _besides(decision: Decision) -> str:
    """Return what else there is to know: each part begins with a semicolon."""
    parts = [_partly(decision)]
    bounds, pause = decision.bounds, decision.pause
    if bounds is not None and bounds.missing:
        parts.append(f"; {bounds.missing}")
    if pause is not None and not _is_prevented(decision):
        parts.append(f"; {extension_words.pause(pause, decision.time)}")
    if pause is not None:
        wrong = [one.message for one in decision.events if one.reason == INVALID_ANNOTATION]
        parts += [f"; {message}" for message in wrong]
    idle = extension_words.goes_idle(decision)
    return "".join(parts) + (f"; {idle}" if idle else "")


# -- why it changes ------------------------------------------------------------------------------


def _why(decision: Decision) -> str:
    combined, pause = decision.combination, decision.pause
    if pause is not None and _is_prevented(decision):
        return extension_words.pause(pause, decision.time) + extension_words.prevented(decision)
    if decision.zone is Zone.IDLE:
        return extension_words.asleep(decision)
    return decision.reason if combined is None else _by_metrics(decision, combined)


def _by_metrics(decision: Decision, combined: Combination) -> str:
    winner = next((one for one in decision.metrics if one.name == combined.winner), None)
    if winner is not None and winner.fallback is not None:
        return f"fallback for {wording.metric_name(winner.metric)}"
    active = _active(decision)
    if active is not None:
        held_to = wording.target(active.metric)
        return f"{wording.reason(decision)}: {wording.usage(active)}, for {held_to}"
    if _wakes(decision):
        return wording.reason(decision)
    if (combined.after > combined.before) is not (decision.desired > combined.before):
        return "earlier recommendations stand"
    if combined.after > combined.before:
        measured = [
            f"{wording.reason(decision)}: {wording.usage_and_target(one)}"
            for one in decision.metrics
            if one.name == combined.winner and one.proposal == combined.after
        ]
        return measured[0] if measured else wording.reason(decision)
    shown = [_shown(one) for one in decision.metrics[:_MOST_METRICS]]
    if len(decision.metrics) > _MOST_METRICS:
        shown.append(f"{len(decision.metrics) - _MOST_METRICS} more")
    below = "below target" if len(decision.metrics) == 1 else "all metrics below target"
    return f"{below}: {', '.join(shown)}"


def _shown(one: MetricResult) -> str:
    value = wording.usage_and_target(one) if one.fallback is None else "by the fallback"
    return f"{wording.metric_name(one.metric)} {value}"


def _active(decision: Decision) -> MetricResult | None:
    """Return the metric that wakes a target, which need not be above its target."""
    if not _wakes(decision) or _is_prevented(decision):
        return None
    awake = (one for one in decision.metrics if decision.reason == f"{one.name} is active")
    return next(awake, None)


def _wakes(decision: Decision) -> bool:
    """Return whether a target that is asleep wakes up."""
    idle = decision.idle
    return (
        decision.zone is Zone.METRICS and idle is not None and idle.asleep and not idle.kept_awake
    )


# -- what restricts it ---------------------------------------------------------------------------


def _restriction(result: SyncResult) -> str:
    """Return what keeps the count from what the metrics ask for; empty where nothing does."""
    decision, parts = result.decision, []
    stabilization, limit = decision.stabilization, decision.limit
    if _is_held_by_unknown_minimum(decision):
        return "; nothing goes down, since minReplicas is not known"
    if stabilization is not None and _is_held(decision):
        parts.append(hold(stabilization, decision.time))
    if _is_as_asked(decision):
        return ""
    if limit is not None and limit.before != limit.after:
        parts.append(restriction(limit, result))
    elif stabilization is not None and not parts:
        parts += _bound(stabilization.before, decision)
    return "".join(f"; {part}" for part in parts)


def _bound(asked: int, decision: Decision) -> list[str]:
    """Return the bound that the metrics ask to pass, if any; the count is held at it anyway."""
    if asked < decision.min_replicas:
        return [f"minReplicas is {extension_words.min_replicas(decision)}"]
    if asked > decision.max_replicas:
        return [f"maxReplicas is {extension_words.max_replicas(decision)}"]
    return []


def _is_held_by_unknown_minimum(decision: Decision) -> bool:
    bounds = decision.bounds
    return (bounds is not None and bounds.hold_down) and any(
        one.reason == MIN_REPLICAS_UNKNOWN for one in decision.conditions
    )
