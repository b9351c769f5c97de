"""What was decided and why, as sentences: of the log, the pages, `plan`, `status` and Events.

`verdict` is the whole sentence; the others are its parts, which an explanation tells one by one:
what keeps a count from what the metrics ask for, and what decides besides the metrics.
"""

from autoscaler.core.classification import (
    MISSING_BOUND,
    MISSING_HOLD,
    Restraint,
    failed_metrics,
    failure_of,
    stabilization_holds,
)
from autoscaler.core.decision import (
    SCALE_DOWN_LIMIT,
    SCALE_UP_LIMIT,
    TOO_FEW,
    TOO_MANY,
    Calculation,
    Combination,
    Decision,
    Formula,
    Limit,
    MetricResult,
    Outcome,
    Stabilization,
    Zone,
)
from autoscaler.core.observation import HOLD_QUERY, LONGEST_SENTENCE, Scale
from autoscaler.core.spec import Behavior, SelectPolicy
from autoscaler.core.sync_result import SyncResult
from autoscaler.core.text import printable
from autoscaler.core.writes import (
    AcceptedWrite,
    SkippedWrite,
    SkippedWriteReason,
    WriteConflict,
    WriteFailure,
)
from autoscaler.rendering import target_rules, wording
from autoscaler.rendering.wording import time_of_day

_MOST_METRICS = 5
"""At most so many metrics are named in one sentence."""


def verdict(result: SyncResult) -> str:
    """Return one sentence: what was decided, why, and what became of it."""
    decision, restraint = result.decision, result.classified().restraint
    if decision.current is None:
        why = _failure(decision)
        sentence = f"nothing is decided, since the scale cannot be read: {why}"
    elif decision.rescale:
        sentence = _change(result, restraint)
    elif decision.zone is Zone.DISABLED:
        sentence = (
            "disabled: somebody set the replicas to 0, and minReplicas is "
            f"{target_rules.min_replicas(decision)}; it goes on once they are set to 1 or more"
            f"{target_rules.wanted(decision)}{_besides(decision, restraint)}"
        )
    else:
        count = wording.counted(decision.current, "replica")
        sentence = f"stays at {count}{_why_unchanged(result, restraint)}"
    if decision.shadow:
        return f"in shadow: {sentence}"
    if decision.controller:
        return f"controlled by {_controller(decision)}: {sentence}"
    return sentence


def _controller(decision: Decision) -> str:
    """Name the other autoscaler, and say why it cannot be checked now, if so."""
    why = decision.unchecked
    last = f" (as last known; it cannot be checked now: {why})" if why else ""
    return f"{decision.controller}{last}"


def _failure(decision: Decision) -> str:
    failure = failure_of(decision)
    return "" if failure is None else failure.message


def _change(result: SyncResult, restraint: Restraint | None) -> str:
    decision, write = result.decision, result.write
    move = f"{decision.current} -> {wording.counted(decision.desired, 'replica')}"
    if isinstance(write, WriteConflict):
        other = f"somebody else set {write.scale.spec_replicas} meanwhile"
        return f"{move} not written: {other}{_besides(decision, restraint)}"
    if isinstance(write, WriteFailure):
        return f"{move} not written: {printable(write.message, LONGEST_SENTENCE)}"
    restricted = _restricted(result, restraint)
    asked = f"; {_asked(decision)}" if restricted and decision.combination is not None else ""
    why = f"{_why(decision, restraint)}{asked}{restricted}{_besides(decision, restraint)}"
    if isinstance(write, SkippedWrite) and write.reason is SkippedWriteReason.NOT_LEADING:
        return f"{move} is left to the process that leads: {why}"
    because = ", since " if _active(decision, restraint) is not None else ": "
    return f"{'scaled' if isinstance(write, AcceptedWrite) else 'would scale'} {move}{because}{why}"


def _why_unchanged(result: SyncResult, restraint: Restraint | None) -> str:
    decision = result.decision
    if restraint is Restraint.OTHERS:
        until = time_of_day(decision.held_until or 0.0, decision.time)
        wanted = "" if decision.limit is None else f", not {decision.limit.after}"
        return f"{wanted}: nothing is written until {until}, since others undo our changes"
    if decision.outcome is Outcome.BLOCKED:
        return f": nothing can be decided: {_failed_metric(decision)}"
    if why := target_rules.prevented_move(decision, restraint):
        return why + _besides(decision, restraint)
    if decision.zone is Zone.IDLE or restraint is Restraint.PAUSE:
        why = f": {_why(decision, restraint)}"
    else:
        restricted = _restricted(result, restraint)
        why = f": {_asked(decision)}{restricted}" if restricted else _unmoved(decision)
    return why + _besides(decision, restraint)


def _unmoved(decision: Decision) -> str:
    """Return why a metric whose ratio is not tolerated asks for the current count."""
    combined = decision.combination
    if combined is None or combined.after != decision.current:
        return ""
    for metric in decision.metrics:
        outcome = metric.outcome
        if metric.name != combined.winner or metric.fallback is not None:
            continue
        if isinstance(outcome, Calculation) and not decision.tolerance.covers(outcome.ratio):
            is_above = outcome.ratio > 1.0
            value = f": {wording.metric_name(metric.metric)} is {wording.usage_and_target(metric)}"
            if outcome.rule in {Formula.REBALANCED, Formula.REBALANCED_AWAY}:
                return f"{value}, but {_filled_in(outcome, is_above=is_above)}"
            if is_above:
                return f"{value}{_basis(metric, decision)}"
    return ""


def _filled_in(outcome: Calculation, *, is_above: bool) -> str:
    """Return which pods count as idle or as fully loaded in a ratio with pods filled in."""
    groups = outcome.groups
    kinds = [("without a sample", () if groups is None else groups.missing)]
    if groups is not None and is_above:
        kinds.append(("not ready", groups.unready))
    parts = [
        f"{wording.counted(len(pods), 'pod')} {what} ({wording.some(pods)})"
        for what, pods in kinds
        if pods
    ]
    return f"{' and '.join(parts)} count as {'idle' if is_above else 'fully loaded'}"


def _asked(decision: Decision) -> str:
    combined = decision.combination
    return decision.reason if combined is None else f"the metrics ask for {combined.after}"


def _failed_metric(decision: Decision) -> str:
    failed = failed_metrics(decision)
    name = f"{wording.metric_name(failed[0].metric)}: " if failed else ""
    return f"{name}{_failure(decision)}{_and_more(len(failed) - 1)}"


def _and_more(count: int) -> str:
    return f" (and {wording.counted(count, 'more metric')})" if count > 0 else ""


def _partly(decision: Decision) -> str:
    in_use = [metric for metric in decision.metrics if metric.fallback is not None]
    if in_use:
        more = _and_more(len(in_use) - 1)
        return f"{target_rules.fallback(in_use[0])}: {_failure(decision)}{more}"
    failure = failure_of(decision)
    if decision.outcome is not Outcome.PARTIAL or failure is None:
        return ""
    if failure.reason in {MISSING_BOUND, MISSING_HOLD}:
        return ""
    return f"not all metrics could be used: {_failed_metric(decision)}"


def _besides(decision: Decision, restraint: Restraint | None) -> str:
    """Return what else there is to know: each part begins with a semicolon."""
    parts = [_partly(decision), *target_rules.parts_of_sentence(decision, restraint)]
    return "".join(f"; {part}" for part in parts if part)


# -- why it changes ------------------------------------------------------------------------------


def _why(decision: Decision, restraint: Restraint | None) -> str:
    combined, paused = decision.combination, decision.pause
    if paused is not None and restraint is Restraint.PAUSE:
        return target_rules.pause(paused, decision.time) + target_rules.prevented(decision)
    if decision.zone is Zone.IDLE:
        return target_rules.asleep(decision)
    return (
        decision.reason
        if combined is None
        else _by_metrics(decision, combined, _active(decision, restraint))
    )


def _by_metrics(decision: Decision, combined: Combination, active: MetricResult | None) -> str:
    winner = next((metric for metric in decision.metrics if metric.name == combined.winner), None)
    if winner is not None and winner.fallback is not None:
        return f"fallback for {wording.metric_name(winner.metric)}"
    if active is not None:
        held_to = wording.target(active.metric)
        value = wording.usage(active)
        if value == "0":
            value = wording.exactly(active) or value
        return f"{wording.reason(decision)}: {value}, for {held_to}"
    if _wakes(decision):
        return wording.reason(decision)
    if (combined.after > combined.before) is not (decision.desired > combined.before):
        return "earlier recommendations stand"
    if combined.after > combined.before:
        measured = [
            f"{wording.reason(decision)}: {wording.usage_and_target(metric)}"
            if _agrees(metric, up=True)
            else _value_and_basis(metric, decision)
            for metric in decision.metrics
            if metric.name == combined.winner and metric.proposal == combined.after
        ]
        return measured[0] if measured else wording.reason(decision)
    return _lower_metrics(decision)


def _lower_metrics(decision: Decision) -> str:
    shown = [
        _shown(metric) if _agrees(metric, up=False) else _value_and_basis(metric, decision)
        for metric in decision.metrics[:_MOST_METRICS]
    ]
    if len(decision.metrics) > _MOST_METRICS:
        shown.append(f"{len(decision.metrics) - _MOST_METRICS} more")
    values = ", ".join(shown)
    if not all(_agrees(metric, up=False) for metric in decision.metrics):
        return values
    below = "below target" if len(decision.metrics) == 1 else "all metrics below target"
    return f"{below}: {values}"


def _shown(metric: MetricResult) -> str:
    value = wording.usage_and_target(metric) if metric.fallback is None else "by the fallback"
    return f"{wording.metric_name(metric.metric)} {value}"


def _agrees(metric: MetricResult, *, up: bool) -> bool:
    """Return whether the measured value alone explains a change in this direction."""
    outcome = metric.outcome
    if metric.fallback is not None or not isinstance(outcome, Calculation):
        return True
    return outcome.ratio > 1.0 if up else outcome.ratio < 1.0


def _value_and_basis(metric: MetricResult, decision: Decision) -> str:
    """Return a value whose ratio contradicts the change, and the count that decided instead."""
    return f"{_shown(metric)}{_basis(metric, decision)}"


def _basis(metric: MetricResult, decision: Decision) -> str:
    """Return the count that a metric multiplies or divides by, and the proposal."""
    outcome, scale = metric.outcome, decision.scale
    if not isinstance(outcome, Calculation):
        return ""
    status = scale.status_replicas if isinstance(scale, Scale) else 0
    if outcome.multiplier is not None:
        over = f", over {wording.counted(outcome.multiplier, 'ready pod')}"
    elif outcome.rule in {Formula.WITHIN_TOLERANCE, Formula.SURGE}:
        return f" is within tolerance; status.replicas is {status}"
    else:
        over = f", over {wording.counted(status, 'replica')} in status.replicas"
    at_least = "at least " if outcome.rule is Formula.ABOVE_TARGET else ""
    return f"{over}, asks for {at_least}{outcome.proposal}"


def _active(decision: Decision, restraint: Restraint | None) -> MetricResult | None:
    if not _wakes(decision) or restraint is Restraint.PAUSE:
        return None
    awake = (metric for metric in decision.metrics if decision.reason == f"{metric.name} is active")
    return next(awake, None)


def _wakes(decision: Decision) -> bool:
    idle = decision.idle
    return (
        decision.zone is Zone.METRICS and idle is not None and idle.asleep and not idle.kept_awake
    )


# -- what restricts it ---------------------------------------------------------------------------


def _restricted(result: SyncResult, restraint: Restraint | None) -> str:
    """Return what keeps the count from what the metrics ask for; empty where nothing does."""
    decision = result.decision
    stabilization, limit, combined = decision.stabilization, decision.limit, decision.combination
    if restraint is Restraint.PAUSE:
        return ""
    if restraint is Restraint.UNKNOWN_MINIMUM:
        return "; nothing goes down, since minReplicas is not known"
    if combined is not None and combined.after == decision.desired:
        return ""
    parts = []
    if stabilization is not None and stabilization_holds(decision):
        parts.append(hold(stabilization, decision.time))
    if limit is not None and limit.before != limit.after:
        parts.append(restriction(limit, result))
    elif stabilization is not None and not parts:
        parts += _bound(stabilization.before, decision)
    return "".join(f"; {part}" for part in parts)


def _bound(asked: int, decision: Decision) -> list[str]:
    """Return the bound that the metrics ask to pass, if any; the count is held at it anyway."""
    if asked < decision.min_replicas:
        return [f"minReplicas is {target_rules.min_replicas(decision)}"]
    if asked > decision.max_replicas:
        return [f"maxReplicas is {target_rules.max_replicas(decision)}"]
    return []


# -- windows, bounds and rate limits -------------------------------------------------------------


def hold(stage: Stabilization, now: float) -> str:
    """Return what holds a count away from the proposal, and until when."""
    until = "" if stage.until is None else f" until {time_of_day(stage.until, now)}"
    if stage.refill is not None:
        what = "the first reading was" if stage.refill.first else "a reading returned after a gap"
        returned = time_of_day(stage.refill.returned, now)
        if stage.refill.after_hold:
            return f"nothing goes down{until}, since {HOLD_QUERY} held it until {returned}"
        return f"nothing goes down{until}, since {what} at {returned}"
    if stage.held_by is None:
        return f"held at {stage.after}{until} ({stage.reason})"
    by = wording.recommendation(stage.held_by, now)
    return f"held at {stage.after}{until} by {by}"


def restriction(stage: Limit, result: SyncResult) -> str:
    """Return which bound or rate limit permits no more, and from when on it does."""
    decision, now = result.decision, result.decision.time
    if stage.reason == TOO_FEW:
        return f"minReplicas is {target_rules.min_replicas(decision)}"
    if stage.reason == TOO_MANY:
        return f"maxReplicas is {target_rules.max_replicas(decision)}"
    direction = {SCALE_UP_LIMIT: "scaleUp", SCALE_DOWN_LIMIT: "scaleDown"}[stage.reason]
    if stage.unseen is not None:
        unseen = time_of_day(stage.unseen, now)
        text = (
            f"what other instances of this autoscaler changed until {unseen} is not known, "
            f"and counts as all that {direction} permits"
        )
    else:
        text = f"{_rule(stage, result.target.spec.behavior, direction)} permits {stage.allowed} now"
    more = "" if stage.until is None else f", more from {time_of_day(stage.until, now)} on"
    return text + more


def _rule(stage: Limit, behavior: Behavior | None, direction: str) -> str:
    if stage.policy is not None:
        return f"the {direction} policy of {wording.policy(stage.policy, stage.start)}"
    if behavior is None:
        return "the HPA's limit of twice the replicas or 4 for each step without behavior"
    rules = behavior.scale_up if direction == "scaleUp" else behavior.scale_down
    disabled = rules.select_policy is SelectPolicy.DISABLED
    return f"{direction}.selectPolicy Disabled" if disabled else direction
