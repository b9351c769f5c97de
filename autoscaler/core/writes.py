"""Writes of the scale: recorded before they are sent, and settled by their outcome.

After a timeout or a crash, the next read of the scale shows whether a recorded write was applied
(semantics 7.7). An applied write becomes conditions, events and scale events (semantics 1.5, 4.4).
"""

from dataclasses import dataclass, replace
from enum import StrEnum

from autoscaler.core.decision import Decision, Event
from autoscaler.core.history import UNKNOWN, Contention, History, PendingWrite, ScaleEvent
from autoscaler.core.normalize import record_event, release_after_write
from autoscaler.core.observation import LONGEST_SENTENCE, Scale
from autoscaler.core.quick import changed
from autoscaler.core.spec import HorizontalPodAutoscalerSpec
from autoscaler.core.status import ABLE_TO_SCALE, DecisionContext, StatusRecorder
from autoscaler.core.text import printable

FIELD_MANAGER = "autoscaler"
"""The field manager of this daemon's writes in an object's managedFields."""

AFTER_DUE_SECONDS = 0.001
"""The least time from a sync's stamp to its decision: more than the error of a double."""


class SkippedWriteReason(StrEnum):
    """Why a write was omitted on purpose."""

    PLANNED = "planned"
    """`autoscaler plan` writes nothing."""
    NOT_LEADING = "not leading"
    """Another process is the leader, and writes."""
    SHADOW = "shadow"
    """The target is in shadow (`Decision.in_shadow`)."""


@dataclass(frozen=True, slots=True)
class UnsetCosts:
    """The pods that did not get their deletion cost (semantics 8.14).

    ``why`` is empty if each one is gone, or has a cost of another client.
    """

    pods: tuple[str, ...] = ()
    why: str = ""


@dataclass(frozen=True, slots=True)
class AcceptedWrite:
    """The API server accepted the write; ``scale`` is its answer."""

    scale: Scale
    unset_costs: UnsetCosts | None = None


@dataclass(frozen=True, slots=True)
class WriteConflict:
    """Another client changed the count between our read and our write; its count remains."""

    scale: Scale
    uncertain: bool = False
    """Whether our own request may have been applied before that."""


@dataclass(frozen=True, slots=True)
class WriteFailure:
    """Nothing was written, or the outcome is unknown; the message is for the operator."""

    message: str
    unknown: bool = False
    """Whether the request may still have been applied."""
    resource_version: str = ""
    """The version that it was meant to replace, if not the decision's."""


@dataclass(frozen=True, slots=True)
class SkippedWrite:
    """The write was omitted on purpose."""

    reason: SkippedWriteReason


WriteOutcome = AcceptedWrite | WriteConflict | WriteFailure | SkippedWrite


# -- before it is sent ---------------------------------------------------------------------------


def intend(decision: Decision, history: History) -> History:
    """Record the write that the decision asks for as pending, before it is sent.

    A write that is already pending replaces the same version, so either may succeed.
    """
    scale, pending, after = decision.scale, history.pending, decision.desired
    if not isinstance(scale, Scale):
        return history
    if pending is None:
        before, version = scale.spec_replicas, scale.resource_version
        pending = PendingWrite(before, after, decision.stamp, version)
    elif after != pending.after:
        others = tuple(count for count in (*pending.others, pending.after) if count != after)
        pending = replace(pending, after=after, others=others)
    return changed(history, pending=pending)


def resolve(context: DecisionContext, history: History, scale: Scale) -> History:
    """Settle a pending write with an unknown outcome, by the scale as it is now.

    While the object has the version that the write was meant to replace, the write may still
    arrive. Otherwise it was applied before this read, or never will be. If another instance may
    have written too, `note_changes` counts the sum of both changes.
    """
    pending, count, now = history.pending, scale.spec_replicas, context.now
    if pending is None or scale.resource_version == pending.resource_version:
        return history
    if context.observation.sole_writer:
        # It may be another client's if it is unknown who set the count.
        earliest = {FIELD_MANAGER: pending.time, "": UNKNOWN}.get(scale.replicas_by)
        if earliest is not None and count in {pending.after, *pending.others}:
            before, stamp = pending.before, context.stamp
            return applied(context.spec, history, before, count, stamp, earliest, now)
        if spec_changes(history, scale) not in {0, 1}:
            # It may have been applied before another client changed the count.
            history = changed(history, unseen=now)
    return changed(history, pending=None)


def spec_changes(history: History, scale: Scale) -> int | None:
    """Return how often the object's spec has changed since the last read; None if unknown."""
    known = history.contention.generation
    return scale.generation - known if 0 < known <= scale.generation else None


# -- once it is known ----------------------------------------------------------------------------


def settle_write(
    spec: HorizontalPodAutoscalerSpec,
    decision: Decision,
    write: WriteOutcome,
    history: History,
    previous: History,
    earlier: PendingWrite | None,
) -> tuple[Decision, History]:
    """Return the decision and the history, which has this write as pending, after its outcome.

    ``previous`` is the history before the decision, ``earlier`` a write that may still be applied.
    """
    if isinstance(write, AcceptedWrite):
        unset, removals = write.unset_costs, decision.removals
        if unset is not None and removals is not None:
            decision = changed(decision, removals=removals.without(unset.pods, unset.why))
        return settle(spec, decision, history)
    if isinstance(write, WriteConflict):
        pending = history.pending if write.uncertain else earlier
        error = f"another client set the replicas to {write.scale.spec_replicas}"
        return settle_failure(decision, history, previous, error, pending)
    if isinstance(write, WriteFailure):
        pending, version = history.pending if write.unknown else earlier, write.resource_version
        if pending is not None and version:
            pending = replace(pending, resource_version=version)
        return settle_failure(decision, history, previous, write.message, pending)
    return decision, changed(history, pending=earlier)


def settle(
    spec: HorizontalPodAutoscalerSpec, decision: Decision, history: History
) -> tuple[Decision, History]:
    """Record that the API server accepted the write; it counts from the decision's stamp."""
    current, desired, now = decision.current or 0, decision.desired, decision.time
    status = StatusRecorder(decision.conditions, now)
    replicas = "replica" if desired == 1 else "replicas"
    message = f"the scale was updated from {current} to {desired} {replicas}"
    status.set_true(ABLE_TO_SCALE, "SucceededRescale", message)
    event = Event("Normal", "SuccessfulRescale", f"New size: {desired}; reason: {decision.reason}")
    history = applied(spec, history, current, desired, decision.stamp, now=now)
    limited = decision.limit
    if spec.behavior is not None and limited is not None:
        limited = release_after_write(limited, spec.behavior, history, now)
    conditions, events = status.conditions, (*decision.events, event)
    settled = changed(decision, limit=limited, conditions=conditions, events=events, written=True)
    return settled, changed(history, conditions=conditions)


def settle_failure(
    decision: Decision,
    history: History,
    previous: History,
    error: str,
    pending: PendingWrite | None = None,
) -> tuple[Decision, History]:
    """Record that nothing was written, unless ``pending`` was; the recommendation remains."""
    error = printable(error, LONGEST_SENTENCE)
    status = StatusRecorder(decision.conditions, decision.time)
    message = f"the scale could not be updated: {error}"
    status.set_false(ABLE_TO_SCALE, "FailedUpdateScale", message)
    size = f"New size: {decision.desired}; reason: {decision.reason}"
    event = Event("Warning", "FailedRescale", f"{size}; error: {error}")
    conditions = status.conditions
    events = (*decision.events, event)
    settled = changed(decision, conditions=conditions, events=events, removals=None)
    return settled, changed(
        history, conditions=conditions, desired_replicas=previous.desired_replicas, pending=pending
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

    If another instance of the autoscaler wrote, it did so between ``earliest`` and ``time``. Ages
    of earlier events are measured at ``now``, by default ``time``.
    """
    ups, downs = history.scale_ups, history.scale_downs
    event = ScaleEvent(abs(after - before), time, earliest=earliest)
    if spec.behavior is not None:
        if after > before:
            ups = record_event(ups, spec.behavior.scale_up, event, now)
        else:
            downs = record_event(downs, spec.behavior.scale_down, event, now)
    # The API server counts each change of a spec.
    generation = history.contention.generation and history.contention.generation + 1
    return changed(
        history,
        scale_ups=ups,
        scale_downs=downs,
        desired_replicas=after,
        last_scale_time=time,
        zeroed_by_us=after == 0,
        pending=None,
        contention=Contention(after, after - before, history.contention.reversals, generation),
    )
