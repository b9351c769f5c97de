"""What counts as a change: a decision that differs from the one before is kept in full."""

from collections.abc import Hashable

from autoscaler.core.decision import Calculation, Decision, MetricFailure, MetricResult, Zone
from autoscaler.core.entry import Rules
from autoscaler.core.limits import TOO_MANY
from autoscaler.core.writes import NotWritten, WriteFailed, WriteOutcome
from autoscaler.record.rows import Mark, Numbers


def change_key(rules: Rules, decision: Decision, write: WriteOutcome | None) -> tuple[object, ...]:
    """Return what a decision has in common with those after it in which nothing has changed.

    These are the counts, the outcome, the reasons, limits, conditions, bounds, the pause, whether
    a metric failed, has a fallback, refills or is active: not its value, nor its proposal.  The
    rules, whose hash takes long, come first; all of it can be hashed.
    """
    limit, held, idle, pause = decision.limit, decision.stabilization, decision.idle, decision.pause
    return (
        rules,
        decision.current,
        decision.desired,
        decision.zone,
        decision.outcome,
        decision.min_replicas,
        decision.max_replicas,
        decision.reason,
        type(write),
        decision.foreign,
        tuple([(one.status, one.reason) for one in decision.conditions]),
        tuple([_of_metric(one) for one in decision.metrics]),
        None if held is None else (held.reason, held.before == held.after),
        None if limit is None else (limit.reason, limit.policy),
        None if pause is None else (pause, decision.paused_from is None),
        None if idle is None else (idle.asleep, idle.kept_awake),
        decision.held_until,
        decision.breaker is not None,
        decision.lasting_saturation is None,
        decision.bounds is not None and decision.bounds.missing != "",
    )


def _of_metric(one: MetricResult) -> Hashable:
    outcome = one.outcome
    how = outcome.reason if type(outcome) is MetricFailure else None
    return how, one.fallback is None, one.refill is None, one.activity


def numbers_of(decision: Decision) -> Numbers:
    """Return the numbers of a sample."""
    numbers: list[int | None] = [decision.current]
    numbers.append(None if decision.current is None else decision.desired)
    for one in decision.metrics:
        outcome = one.outcome
        if type(outcome) is Calculation:
            current = outcome.current
            value = current.average_utilization
            if value is None:
                value = current.average_value
            numbers.append(current.value if value is None else value)
        else:
            numbers.append(None)
        numbers.append(one.proposal)
    return tuple(numbers)


def marks_of(decision: Decision, write: WriteOutcome | None) -> Mark:
    """Return the marks of a decision."""
    marks = Mark(0)
    for mark, applies in (
        (Mark.WRITTEN, decision.written),
        (Mark.FOREIGN, decision.foreign is not None),
        (Mark.FAILED, _failed(decision, write)),
        (Mark.FALLBACK, any(one.fallback is not None for one in decision.metrics)),
        (Mark.PAUSED, decision.pause is not None),
        (Mark.IDLE, decision.zone is Zone.IDLE),
        (Mark.HELD, _is_held(decision)),
        (Mark.LIMITED, _is_limited(decision)),
        (Mark.AT_MAXIMUM, is_at_maximum(decision)),
        (Mark.BREAKER, decision.breaker is not None),
        (Mark.CONTROLLED, decision.zone is Zone.CONTROLLED),
        (Mark.CONTESTED, decision.held_until is not None),
        (Mark.DISABLED, decision.zone is Zone.DISABLED),
        (Mark.STANDBY, isinstance(write, NotWritten)),
    ):
        if applies:
            marks |= mark
    return marks


def _failed(decision: Decision, write: WriteOutcome | None) -> bool:
    return (
        isinstance(write, WriteFailed)
        or decision.zone is Zone.UNKNOWN
        or any(isinstance(one.outcome, MetricFailure) for one in decision.metrics)
        or (decision.zone is Zone.METRICS and decision.combination is None)
    )


def _is_held(decision: Decision) -> bool:
    held = decision.stabilization
    return held is not None and held.before != held.after


def _is_limited(decision: Decision) -> bool:
    limit = decision.limit
    return limit is not None and limit.before != limit.after


def is_at_maximum(decision: Decision) -> bool:
    """Return whether more is asked for than the maximum in force permits."""
    limit = decision.limit
    return limit is not None and limit.before > limit.after and limit.reason == TOO_MANY
