"""The sentence of a decision, for the log, pages, `plan`, `status` and Events.

`verdict` is the whole sentence; the other functions are its parts, which an explanation shows
separately: the restraint between the metrics and the count, and other rules that decide.
"""

from collections.abc import Mapping

from autoscaler.core.classification import (
    MISSING_BOUND,
    MISSING_HOLD,
    Restraint,
    failed_metrics,
    failure_of,
    limit_of,
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
"""The most metrics in one sentence."""


def verdict(result: SyncResult) -> str:
    """Return one sentence: the decision, its reason and the outcome of the write."""
    decision, restraint = result.decision, result.classified().restraint
    if decision.current is None:
        why = _failure(decision)
        sentence = f"unchanged, scale cannot be read: {why}"
    elif decision.rescale:
        sentence = _change(result, restraint)
    elif decision.zone is Zone.DISABLED:
        sentence = (
            f"disabled (replicas set to 0, minReplicas is {target_rules.min_replicas(decision)}): "
            "set replicas to 1 or more to resume"
            f"{target_rules.wanted(decision)}{_additions(decision, restraint)}"
        )
    else:
        sentence = _unchanged(result, restraint)
    if decision.shadow:
        return f"shadow: {sentence}"
    if decision.controller:
        return f"controlled by {_controller(decision)}: {sentence}"
    return sentence


def _controller(decision: Decision) -> str:
    """Return the other autoscaler's name, and why it cannot be checked now, if so."""
    why = decision.unchecked
    last = f" (last known, cannot be checked: {why})" if why else ""
    return f"{decision.controller}{last}"


def _failure(decision: Decision) -> str:
    failure = failure_of(decision)
    return "" if failure is None else failure.message


def _change(result: SyncResult, restraint: Restraint | None) -> str:
    decision, write = result.decision, result.write
    move = f"{decision.current} -> {decision.desired}"
    if isinstance(write, WriteConflict):
        other = f"another client set {write.scale.spec_replicas}"
        return f"{move} not written: {other}{_additions(decision, restraint)}"
    if isinstance(write, WriteFailure):
        return f"{move} not written: {printable(write.message, LONGEST_SENTENCE)}"
    restricted = _restricted(result, restraint)
    asked = f"; {_recommended(decision)}" if restricted and decision.combination is not None else ""
    why = f"{_why(decision, restraint)}{asked}{restricted}{_additions(decision, restraint)}"
    if isinstance(write, SkippedWrite) and write.reason is SkippedWriteReason.NOT_LEADING:
        return f"{move} left to the leader: {why}"
    return f"{'scaled' if isinstance(write, AcceptedWrite) else 'would scale'} {move}: {why}"


def _unchanged(result: SyncResult, restraint: Restraint | None) -> str:
    """Return the sentence of a decision that keeps the count: state, count and reason."""
    decision, count = result.decision, result.decision.current
    if restraint is Restraint.OTHERS:
        until = time_of_day(decision.held_until or 0.0, decision.time)
        wanted = "" if decision.limit is None else f" (would scale to {decision.limit.after})"
        why = f"other clients undo our changes, not written until {until}"
        return f"contested at {count}{wanted}: {why}"
    if decision.outcome is Outcome.BLOCKED:
        return f"unchanged ({count}): {_failed_metric(decision)}"
    if why := target_rules.prevented_move(decision, restraint):
        sentence = f"held at {count}{why}"
    elif restraint is Restraint.PAUSE and (paused := decision.pause) is not None:
        sentence = target_rules.pause(paused, decision.time, count)
        sentence += target_rules.prevented(decision)
    elif decision.zone is Zone.IDLE:
        sentence = f"idle at {count}: {target_rules.asleep(decision)}"
        if (limit := decision.limit) is not None and limit.after != limit.before:
            sentence += f"; {restriction(limit, result)}"
    elif bound := _bound_in_force(decision, restraint):
        window = _restricted(result, restraint, bounds=False)
        sentence = f"{bound}: {_recommended(decision)}{window}"
    elif restricted := _restricted(result, restraint):
        state = _STATES.get(restraint, "unchanged ({})").format(count)
        sentence = f"{state}: {_recommended(decision)}{restricted}"
    else:
        sentence = f"unchanged ({count}){_unmoved(decision)}"
    return sentence + _additions(decision, restraint)


_STATES: Mapping[Restraint | None, str] = {
    Restraint.STABILIZATION: "stabilizing at {}",
    Restraint.LIMIT: "limited at {}",
}
"""The start of a sentence about a count that does not follow the metrics."""


def _bound_in_force(decision: Decision, restraint: Restraint | None) -> str:
    """Return which bound keeps the count, and its origin; empty if none does."""
    combined, count = decision.combination, decision.current or 0
    if restraint is Restraint.LIMIT and limit_of(decision) == TOO_MANY:
        return f"at maximum ({target_rules.max_replicas(decision)})"
    if restraint is None and combined is not None and combined.after < count:
        is_minimum = count == decision.min_replicas
        return f"at minimum ({target_rules.min_replicas(decision)})" if is_minimum else ""
    return ""


def _unmoved(decision: Decision) -> str:
    """Return why a metric outside its tolerance asks for the current count."""
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
    """Return which pods count as idle or fully loaded in a ratio with assumed values."""
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


def _recommended(decision: Decision) -> str:
    combined = decision.combination
    return decision.reason if combined is None else f"metrics ask for {combined.after}"


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
    return f"partial: {_failed_metric(decision)}"


def _additions(decision: Decision, restraint: Restraint | None) -> str:
    """Return the rules that apply in addition; each part begins with a semicolon."""
    parts = [_partly(decision), *target_rules.parts_of_sentence(decision, restraint)]
    return "".join(f"; {part}" for part in parts if part)


# -- why it changes ------------------------------------------------------------------------------


def _why(decision: Decision, restraint: Restraint | None) -> str:
    combined, paused = decision.combination, decision.pause
    if paused is not None and restraint is Restraint.PAUSE:
        return target_rules.pause(paused, decision.time) + target_rules.prevented(decision)
    if decision.zone is Zone.IDLE:
        return f"idle, {target_rules.asleep(decision)}"
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
        return f"{wording.reason(decision)} ({value}, target {held_to})"
    if _wakes(decision):
        return wording.reason(decision)
    if (combined.after > combined.before) is not (decision.desired > combined.before):
        return "earlier recommendations"
    if combined.after > combined.before:
        measured = [
            f"{wording.reason(decision)} ({wording.usage_and_target(metric)})"
            if _agrees(metric, up=True)
            else _value_and_basis(metric, decision)
            for metric in decision.metrics
            if metric.name == combined.winner and metric.proposal == combined.after
        ]
        return measured[0] if measured else wording.reason(decision)
    return _lower_metrics(decision)


def _lower_metrics(decision: Decision) -> str:
    shown = [
        _metric_text(metric) if _agrees(metric, up=False) else _value_and_basis(metric, decision)
        for metric in decision.metrics[:_MOST_METRICS]
    ]
    if len(decision.metrics) > _MOST_METRICS:
        shown.append(f"{len(decision.metrics) - _MOST_METRICS} more")
    values = ", ".join(shown)
    if not all(_agrees(metric, up=False) for metric in decision.metrics):
        return values
    below = "below target" if len(decision.metrics) == 1 else "all metrics below target"
    return f"{below} ({values})"


def _metric_text(metric: MetricResult) -> str:
    value = wording.usage_and_target(metric) if metric.fallback is None else "fallback"
    return f"{wording.metric_name(metric.metric)} {value}"


def _agrees(metric: MetricResult, *, up: bool) -> bool:
    """Return whether the measured value alone explains a change in this direction."""
    outcome = metric.outcome
    if metric.fallback is not None or not isinstance(outcome, Calculation):
        return True
    return outcome.ratio > 1.0 if up else outcome.ratio < 1.0


def _value_and_basis(metric: MetricResult, decision: Decision) -> str:
    """Return a value whose ratio contradicts the change, and the count that decided instead."""
    return f"{_metric_text(metric)}{_basis(metric, decision)}"


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
    idle, current = decision.idle, decision.current
    if decision.zone is not Zone.METRICS or idle is None or idle.kept_awake:
        return False
    # A target on its way to idle wakes too.
    return idle.asleep or (idle.idle.gradual and (current or 0) < decision.min_replicas)


# -- what restricts it ---------------------------------------------------------------------------


def _restricted(result: SyncResult, restraint: Restraint | None, *, bounds: bool = True) -> str:
    """Return the restraint between the recommendation and the count, with or without bounds."""
    decision = result.decision
    stabilization, limit, combined = decision.stabilization, decision.limit, decision.combination
    if restraint is Restraint.PAUSE:
        return ""
    if restraint is Restraint.UNKNOWN_MINIMUM:
        return "; no scale-down, minReplicas is unknown"
    if combined is not None and combined.after == decision.desired:
        return ""
    parts = []
    if stabilization is not None and stabilization_holds(decision):
        parts.append(hold(stabilization, decision.time))
    if not bounds:
        pass
    elif limit is not None and limit.before != limit.after:
        parts.append(restriction(limit, result))
    elif stabilization is not None and not parts:
        parts += _bound(stabilization.before, decision)
    return "".join(f"; {part}" for part in parts)


def _bound(asked: int, decision: Decision) -> list[str]:
    """Return the bound that the metrics' count is outside of, if any."""
    if asked < decision.min_replicas:
        return [f"minReplicas is {target_rules.min_replicas(decision)}"]
    if asked > decision.max_replicas:
        return [f"maxReplicas is {target_rules.max_replicas(decision)}"]
    return []


# -- windows, bounds and rate limits -------------------------------------------------------------


def hold(stage: Stabilization, now: float) -> str:
    """Return the window that keeps a count, and its end."""
    until = "" if stage.until is None else f" until {time_of_day(stage.until, now)}"
    if stage.refill is not None:
        returned = time_of_day(stage.refill.returned, now)
        what = "first reading" if stage.refill.first else "first reading after a gap"
        why = f"{HOLD_QUERY} ended at" if stage.refill.after_hold else f"{what} at"
        return f"no scale-down{until} ({why} {returned})"
    direction = "scale-down" if stage.after > stage.before else "scale-up"
    by = stage.reason if stage.held_by is None else wording.recommendation(stage.held_by, now)
    return f"{direction} window keeps {stage.after}{until} ({by})"


def restriction(stage: Limit, result: SyncResult) -> str:
    """Return the bound or policy that limits the count, and when it permits more."""
    decision, now = result.decision, result.decision.time
    if stage.reason == TOO_FEW:
        return f"minReplicas is {target_rules.min_replicas(decision)}"
    if stage.reason == TOO_MANY:
        return f"maxReplicas is {target_rules.max_replicas(decision)}"
    direction = {SCALE_UP_LIMIT: "scaleUp", SCALE_DOWN_LIMIT: "scaleDown"}[stage.reason]
    if stage.unseen is not None:
        unseen = time_of_day(stage.unseen, now)
        text = (
            f"changes by another or an earlier instance until {unseen} are unknown, as after each "
            f"start, so the limit of {direction} counts as used up"
        )
    else:
        text = f"{_rule(stage, result.target.spec.behavior, direction)} permits {stage.allowed}"
    more = "" if stage.until is None else f", more from {time_of_day(stage.until, now)}"
    return text + more


def _rule(stage: Limit, behavior: Behavior | None, direction: str) -> str:
    if stage.policy is not None:
        return f"{direction} policy of {wording.policy(stage.policy, stage.start)}"
    if behavior is None:
        return "default scale-up limit (twice the replicas or 4 per sync)"
    rules = behavior.scale_up if direction == "scaleUp" else behavior.scale_down
    disabled = rules.select_policy is SelectPolicy.DISABLED
    return f"{direction}.selectPolicy Disabled" if disabled else direction
