"""What follows from the answer to a write: conditions, events, history (semantics 1.5)."""

from dataclasses import replace

from autoscaler.core.conditions import ABLE_TO_SCALE, with_condition
from autoscaler.core.decision import Decision, Event
from autoscaler.core.history import History, PendingWrite
from autoscaler.core.landing import landed
from autoscaler.core.limits import Changes, release_after_write
from autoscaler.core.observation import LONGEST_SENTENCE, ConditionStatus
from autoscaler.core.printable import printable
from autoscaler.core.spec import HorizontalPodAutoscalerSpec


def settle(
    spec: HorizontalPodAutoscalerSpec, decision: Decision, history: History
) -> tuple[Decision, History]:
    """Take in that the API server accepted the write; it counts as of the decision's stamp."""
    current, desired, now = decision.current or 0, decision.desired, decision.time
    conditions = with_condition(
        decision.conditions,
        ABLE_TO_SCALE,
        ConditionStatus.TRUE,
        "SucceededRescale",
        f"the scale was updated from {current} to {desired} replicas",
        now,
    )
    event = Event("Normal", "SuccessfulRescale", f"New size: {desired}; reason: {decision.reason}")
    history = landed(spec, history, current, desired, decision.stamp, now=now)
    limited = decision.limit
    if spec.behavior is not None and limited is not None:
        changes = Changes(history.scale_ups, history.scale_downs, history.unseen)
        limited = release_after_write(limited, spec.behavior, changes, now)
    settled = replace(
        decision,
        limit=limited,
        conditions=conditions,
        events=(*decision.events, event),
        written=True,
    )
    return settled, replace(history, conditions=conditions)


def settle_failure(
    decision: Decision,
    history: History,
    previous: History,
    error: str,
    pending: PendingWrite | None = None,
) -> tuple[Decision, History]:
    """Take in that nothing was written, as far as is known.

    No scale event is stored, and the desired count stays the ``previous`` one; this sync's
    recommendation remains.  ``pending`` is the write that may have landed all the same, this one
    or one before it: the next read of the scale tells.
    """
    error = printable(error, LONGEST_SENTENCE)
    conditions = with_condition(
        decision.conditions,
        ABLE_TO_SCALE,
        ConditionStatus.FALSE,
        "FailedUpdateScale",
        f"the scale could not be updated: {error}",
        decision.time,
    )
    event = Event(
        "Warning",
        "FailedRescale",
        f"New size: {decision.desired}; reason: {decision.reason}; error: {error}",
    )
    settled = replace(decision, conditions=conditions, events=(*decision.events, event))
    return settled, replace(
        history,
        conditions=conditions,
        desired_replicas=previous.desired_replicas,
        pending=pending,
    )
