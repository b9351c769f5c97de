"""The state of a target after a sync, and the sentence that says what was decided and why.

Log, metrics, `plan` and `status` all take both from here.
"""

from enum import StrEnum

from autoscaler.core.breaker import SCALE_DOWN_BREAKER
from autoscaler.core.decision import Decision, Limit, MetricFailure, Outcome, Stabilization, Zone
from autoscaler.core.limits import SCALE_DOWN_LIMIT, SCALE_UP_LIMIT, TOO_FEW, TOO_MANY
from autoscaler.core.observation import LONGEST_SENTENCE
from autoscaler.core.spec import Behavior, HorizontalPodAutoscalerSpec, SelectPolicy
from autoscaler.core.text import printable, rfc3339
from autoscaler.core.writes import NotWritten, NotWrittenReason, Superseded, WriteFailed, Written
from autoscaler.rendering import wording
from autoscaler.sync.ports import SyncResult

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
    DISABLED = "disabled"
    """Somebody set the replicas to zero."""
    LIMITED = "limited"
    """A bound or a rate limit permits less of a change than is wanted."""
    HELD = "held"
    """A stabilization window, a reading that has just returned, or the scale-down breaker permits
    less than is wanted."""
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
    elif decision.outcome is not Outcome.OK or type(result.write) is WriteFailed:
        state = State.FAILING
    elif decision.zone is Zone.DISABLED:
        state = State.DISABLED
    elif decision.breaker is not None:
        state = State.HELD
    elif _is_limited(decision):
        state = State.LIMITED
    elif _is_held(decision):
        state = State.HELD
    else:
        state = State.OK
    return state


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
    decision = result.decision
    if state is State.FAILING:
        if isinstance(result.write, WriteFailed):
            return f"FailedRescale: {printable(result.write.message, LONGEST_SENTENCE)}"
        return ": ".join(failure_of(decision))
    if state is State.LIMITED and decision.limit is not None:
        return decision.limit.reason
    if decision.breaker is not None:
        return SCALE_DOWN_BREAKER
    if state is State.HELD and decision.stabilization is not None:
        return decision.stabilization.reason
    return _CAUSES.get(state, "")


_CAUSES = {
    State.CONTROLLED: "another autoscaler controls them",
    State.CONTESTED: "others undo our changes",
}


def failure_of(decision: Decision) -> tuple[str, str]:
    """Return the HPA's reason why a decision is not ok, and a sentence; empty where it is."""
    for one in decision.metrics:
        if isinstance(one.outcome, MetricFailure):
            return one.outcome.reason, printable(one.outcome.message, LONGEST_SENTENCE)
    for event in decision.events:
        if event.type == "Warning":
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
    restriction = _restriction(result)
    asked = f"; the metrics ask for {_asked(decision)}" if restriction else ""
    why = f": {_why(decision)}{asked}{restriction}{_partly(decision)}"
    if isinstance(write, NotWritten) and write.reason is NotWrittenReason.NOT_LEADING:
        return f"{move} is left to the process that leads{why}"
    return f"{'scaled' if isinstance(write, Written) else 'would scale'} {move}{why}"


def _unchanged(result: SyncResult, current: int) -> str:
    decision = result.decision
    stays = f"stays at {wording.counted(current, 'replica')}"
    if decision.zone is Zone.DISABLED:
        least = decision.min_replicas
        return (
            f"disabled: somebody set the replicas to 0, and minReplicas is {least}; "
            "it goes on once they are set to 1 or more"
        )
    if decision.zone is Zone.CONTROLLED:
        return f"{stays}: {failure_of(decision)[1]}"
    if decision.held_until is not None:
        until = time_of_day(decision.held_until, decision.time)
        wanted = "" if decision.limit is None else f", not {decision.limit.after}"
        return f"{stays}{wanted}: nothing is written until {until}, since others undo our changes"
    if decision.breaker is not None:
        held, until = decision.breaker, time_of_day(decision.breaker.until, decision.time)
        server = wording.prometheus_server(held.server)
        return (
            f"{stays}, not {held.replicas}: the scale-down breaker lets no target of {server} go "
            f"down before {until}{_partly(decision)}"
        )
    if decision.outcome is Outcome.BLOCKED:
        return f"{stays}: nothing can be decided: {_failed_metric(decision)}"
    restriction = _restriction(result)
    asked = "" if decision.combination is None else f": the metrics ask for {_asked(decision)}"
    return stays + (f"{asked}{restriction}" if restriction else "") + _partly(decision)


def _asked(decision: Decision) -> int:
    combined = decision.combination
    return decision.desired if combined is None else combined.after


def _failed_metric(decision: Decision) -> str:
    """Return which metric failed first and why; others that failed are counted."""
    _, failure = failure_of(decision)
    failed = [one for one in decision.metrics if isinstance(one.outcome, MetricFailure)]
    if not failed:
        return failure
    more = f" (and {wording.counted(len(failed) - 1, 'more metric')})" if failed[1:] else ""
    return f"{wording.metric_name(failed[0].metric)}: {failure}{more}"


def _partly(decision: Decision) -> str:
    if decision.outcome is not Outcome.PARTIAL:
        return ""
    return f"; not all metrics could be used: {_failed_metric(decision)}"


# -- why it changes ------------------------------------------------------------------------------


def _why(decision: Decision) -> str:
    combined = decision.combination
    if combined is None:
        return decision.reason
    if (combined.after > combined.before) is not (decision.desired > combined.before):
        return "earlier recommendations stand"
    if combined.after > combined.before:
        measured = [
            f"{wording.reason(decision)}: {wording.usage_and_target(one)}"
            for one in decision.metrics
            if one.name == combined.winner and one.proposal == combined.after
        ]
        return measured[0] if measured else wording.reason(decision)
    shown = [
        f"{wording.metric_name(one.metric)} {wording.usage_and_target(one)}"
        for one in decision.metrics[:_MOST_METRICS]
    ]
    if len(decision.metrics) > _MOST_METRICS:
        shown.append(f"{len(decision.metrics) - _MOST_METRICS} more")
    below = "below target" if len(decision.metrics) == 1 else "all metrics below target"
    return f"{below}: {', '.join(shown)}"


# -- what restricts it ---------------------------------------------------------------------------


def _restriction(result: SyncResult) -> str:
    """Return what keeps the count from what the metrics ask for; empty where nothing does."""
    decision, parts = result.decision, []
    stabilization, limit = decision.stabilization, decision.limit
    if stabilization is not None and _is_held(decision):
        parts.append(hold(stabilization, decision.time))
    if _is_as_asked(decision):
        return ""
    if limit is not None and limit.before != limit.after:
        parts.append(restriction(limit, result.target.spec, decision.time))
    elif stabilization is not None and not parts:
        parts += _bound(stabilization.before, decision)
    return "".join(f"; {part}" for part in parts)


def _bound(asked: int, decision: Decision) -> list[str]:
    """Return the bound that the metrics ask to pass, if any; the count is held at it anyway."""
    if asked < decision.min_replicas:
        return [f"minReplicas is {decision.min_replicas}"]
    return [f"maxReplicas is {decision.max_replicas}"] if asked > decision.max_replicas else []


def hold(stage: Stabilization, now: float) -> str:
    """Return what holds a count away from the proposal, and until when."""
    until = "" if stage.until is None else f" until {time_of_day(stage.until, now)}"
    if stage.refill is not None:
        what = "the first reading was" if stage.refill.first else "a reading returned after a gap"
        returned = time_of_day(stage.refill.returned, now)
        return f"nothing goes down{until}, since {what} at {returned}"
    if stage.held_by is None:
        return f"held at {stage.after}{until} ({stage.reason})"
    count, at = stage.held_by.replicas, time_of_day(stage.held_by.time, now)
    if stage.held_by.first:
        return f"held at {stage.after}{until} by the count of {count} at the first sync, {at}"
    return f"held at {stage.after}{until} by the recommendation of {count} at {at}"


def restriction(stage: Limit, spec: HorizontalPodAutoscalerSpec, now: float) -> str:
    """Return which bound or rate limit permits no more, and from when on it does."""
    if stage.reason == TOO_FEW:
        return f"minReplicas is {spec.min_replicas}"
    if stage.reason == TOO_MANY:
        return f"maxReplicas is {spec.max_replicas}"
    direction = {SCALE_UP_LIMIT: "scaleUp", SCALE_DOWN_LIMIT: "scaleDown"}[stage.reason]
    if stage.unseen is not None:
        unseen = time_of_day(stage.unseen, now)
        text = (
            f"what other instances of this autoscaler changed until {unseen} is not known, "
            f"and counts as all that {direction} permits"
        )
    else:
        text = f"{_rule(stage, spec.behavior, direction)} permits {stage.allowed} now"
    more = "" if stage.until is None else f", more from {time_of_day(stage.until, now)} on"
    return text + more


def _rule(stage: Limit, behavior: Behavior | None, direction: str) -> str:
    if stage.policy is not None:
        policy = stage.policy
        percent = policy.type == "Percent"
        amount = f"{policy.value}%" if percent else wording.counted(policy.value, "pod")
        return f"the {direction} policy of {amount} per {policy.period_seconds} s"
    if behavior is None:
        return "the HPA's limit of twice the replicas or 4 for each step without behavior"
    rules = behavior.scale_up if direction == "scaleUp" else behavior.scale_down
    disabled = rules.select_policy is SelectPolicy.DISABLED
    return f"{direction}.selectPolicy Disabled" if disabled else direction


def time_of_day(time: float, now: float) -> str:
    """Format a Unix time near ``now`` as its time of day in UTC; with the date on another day."""
    text = rfc3339(time)
    return text[11:] if text[:10] == rfc3339(now)[:10] else text
