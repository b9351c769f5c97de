"""Writes of the scale: recorded before they are sent, and settled by their outcome.

A write is recorded in the history before it is sent.  After a time-out or a crash, the next read
of the scale shows whether it was applied (semantics 7.7).  A write that was applied becomes
conditions, events and scale events (semantics 1.5, 4.4).
"""

from dataclasses import dataclass, replace
from enum import StrEnum

from autoscaler.core.decision import Decision, Event
from autoscaler.core.history import Contention, History, PendingWrite, ScaleEvent
from autoscaler.core.instants import AFTER_DUE_SECONDS
from autoscaler.core.limits import Changes, record_event, release_after_write
from autoscaler.core.observation import LONGEST_SENTENCE, ConditionStatus, Scale
from autoscaler.core.spec import HorizontalPodAutoscalerSpec
from autoscaler.core.status import ABLE_TO_SCALE, with_condition
from autoscaler.core.text import printable


class NotWrittenReason(StrEnum):
    """Why a write was left out on purpose."""

    PLANNED = "planned"
    """`autoscaler plan` writes nothing."""
    NOT_LEADING = "not leading"
    """Another process leads, and writes."""


@dataclass(frozen=True, slots=True)
class Written:
    """The API server accepted the write; ``scale`` is its answer."""

    scale: Scale


@dataclass(frozen=True, slots=True)
class Superseded:
    """Another client changed the count between our read and our write; its count stands."""

    scale: Scale
    uncertain: bool = False
    """Whether our own request may have been applied before it."""


@dataclass(frozen=True, slots=True)
class WriteFailed:
    """Nothing was written, or it is not known whether; the message is for the operator."""

    message: str
    unknown: bool = False
    """Whether the request may have been applied all the same."""


@dataclass(frozen=True, slots=True)
class NotWritten:
    """The write was left out on purpose."""

    reason: NotWrittenReason


WriteOutcome = Written | Superseded | WriteFailed | NotWritten


# -- before it is sent ---------------------------------------------------------------------------


def intend(decision: Decision, history: History) -> History:
    """Record the write that the decision asks for as pending, before it is sent."""
    scale = decision.scale
    if not isinstance(scale, Scale):
        return history
    pending = PendingWrite(
        scale.spec_replicas, decision.desired, decision.stamp, scale.resource_version
    )
    return replace(history, pending=pending)


def resolve(spec: HorizontalPodAutoscalerSpec, history: History, scale: Scale) -> History:
    """Settle a pending write, whose outcome was not known, by the scale as it is now.

    As long as the object has the version that the write was to replace, the write may still
    arrive.  With another version, the old count means that it was not applied and no longer can
    be.  Any other count is taken as applied: if another client set it instead, a limit that counts
    the write is at worst kept longer.
    """
    pending = history.pending
    if pending is None or scale.resource_version == pending.resource_version:
        return history
    if scale.spec_replicas == pending.before:
        return replace(history, pending=None)
    decided = pending.time + AFTER_DUE_SECONDS
    return applied(spec, history, pending.before, pending.after, pending.time, now=decided)


# -- once it is known ----------------------------------------------------------------------------


def settle_write(
    spec: HorizontalPodAutoscalerSpec,
    decision: Decision,
    write: WriteOutcome,
    history: History,
    previous: History,
    earlier: PendingWrite | None,
) -> tuple[Decision, History]:
    """Return the decision and the history after the outcome of the write.

    ``history`` has this write as pending, ``previous`` is the history from before the decision,
    and ``earlier`` is an earlier write that may still be applied.
    """
    if isinstance(write, Written):
        return settle(spec, decision, history)
    if isinstance(write, Superseded):
        pending = earlier or (history.pending if write.uncertain else None)
        error = f"somebody else set the replicas to {write.scale.spec_replicas} meanwhile"
        decision, history = settle_failure(decision, history, previous, error, pending)
        return decision, resolve(spec, history, write.scale)
    if isinstance(write, WriteFailed):
        pending = history.pending if write.unknown else earlier
        return settle_failure(decision, history, previous, write.message, pending)
    return decision, replace(history, pending=earlier)


def settle(
    spec: HorizontalPodAutoscalerSpec, decision: Decision, history: History
) -> tuple[Decision, History]:
    """Record that the API server accepted the write; it counts from the decision's stamp."""
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
    history = applied(spec, history, current, desired, decision.stamp, now=now)
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
    """Record that nothing was written, as far as is known.

    No scale event is stored, and the desired count stays the ``previous`` one; this sync's
    recommendation remains.  ``pending`` is a write, this one or an earlier one, that may have been
    applied nevertheless; the next read of the scale shows whether it was.
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


def applied(
    spec: HorizontalPodAutoscalerSpec,
    history: History,
    before: int,
    after: int,
    time: float,
    earliest: float | None = None,
    now: float | None = None,
) -> History:
    """Record that our write changed the replicas from ``before`` to ``after`` at ``time``.

    If another instance of the autoscaler wrote, it did so between ``earliest`` and ``time``.  Ages
    of earlier events are taken at ``now``, by default at ``time``.
    """
    ups, downs = history.scale_ups, history.scale_downs
    event = ScaleEvent(abs(after - before), time, earliest=earliest)
    if spec.behavior is not None:
        if after > before:
            ups = record_event(ups, spec.behavior.scale_up, event, now)
        else:
            downs = record_event(downs, spec.behavior.scale_down, event, now)
    generation = history.contention.generation
    return replace(
        history,
        scale_ups=ups,
        scale_downs=downs,
        desired_replicas=after,
        last_scale_time=time,
        zeroed_by_us=after == 0,
        pending=None,
        contention=Contention(
            after,
            after - before,
            history.contention.reversals,
            # The API server counts each change of a spec.
            generation + 1 if generation else 0,
        ),
    )
