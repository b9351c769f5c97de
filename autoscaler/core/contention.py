"""Changes by others, and the hold after reversals (semantics 7.4, 7.5)."""

from dataclasses import replace

from autoscaler.core.decision import ForeignChange
from autoscaler.core.history import Contention, History
from autoscaler.core.observation import Scale
from autoscaler.core.reconcile import DecisionContext
from autoscaler.core.status import ABLE_TO_SCALE
from autoscaler.core.writes import FIELD_MANAGER, applied, spec_changes

KUBECTL = "kubectl"
"""The field managers of all its commands begin so: a person set the count."""

REPLICAS_CONTESTED = "ReplicasContested"

HOLD_SECONDS = 600.0
MOST_LAG_SECONDS = 60.0
"""The most seconds that a watch cache may lag behind the cluster unnoticed."""


def note_changes(
    context: DecisionContext, history: History, scale: Scale
) -> tuple[History, ForeignChange | None]:
    """Compare the scale with the last known count, by the table of semantics 7.4.

    A change under our field manager is a write of another instance of ours if it is the object's
    only change since the last read; of several only the sum is known, and none counts as ours.
    If we were the sole writer, it is one by an autoscaler with another Lease.
    """
    now, observation = context.now, context.observation
    sole_writer, last_read = observation.sole_writer, observation.last_read
    before, current = history.contention.known, scale.spec_replicas
    ours, is_unknown = scale.replicas_by == FIELD_MANAGER, not scale.replicas_by
    changes = spec_changes(history, scale)
    if before is None:
        unseen = ours or not sole_writer
    elif sole_writer:
        # The previous leader may have written it, if our cache lagged behind.
        unseen = current != before and ours
    else:
        unseen = changes is None or changes > 1 or (is_unknown and current != before)
    foreign = None
    if before is not None and current != before:
        if sole_writer or not (ours or is_unknown):
            history, foreign = _changed_by_others(history, scale, before, now)
        elif ours and changes == 1:
            earliest = 0.0 if last_read is None else last_read - MOST_LAG_SECONDS
            history = applied(context.spec, history, before, current, now, earliest)
        else:
            contention = replace(history.contention, our_step=0)
            history = replace(history, contention=contention, zeroed_by_us=current == 0)
    if unseen:
        history = replace(history, unseen=now)
    contention = replace(history.contention, known=current, generation=scale.generation)
    if contention != history.contention:
        history = replace(history, contention=contention)
    return history, foreign


def _changed_by_others(
    history: History, scale: Scale, before: int, now: float
) -> tuple[History, ForeignChange]:
    current, contention = scale.spec_replicas, history.contention
    reversal = contention.our_step * (current - before) < 0
    recent = tuple(at for at in contention.reversals if at > now - HOLD_SECONDS)
    reversals = (*recent, now) if reversal else recent
    history = replace(history, contention=replace(contention, our_step=0, reversals=reversals))
    return history, ForeignChange(before, current, scale.replicas_by, reversal=reversal)


def contested_until(context: DecisionContext, contention: Contention) -> float | None:
    """Return until when reversals hold the target; None if they do not (semantics 7.5)."""
    most, status = context.flags.hold_after_reversals, context.status
    last = contention.reversals[-most:]
    if most == 0 or len(last) < most or last[-1] - last[0] >= HOLD_SECONDS:
        return None
    until = last[-1] + HOLD_SECONDS
    if until <= context.now:
        return None
    message = (
        f"others undid our changes {most} times within {HOLD_SECONDS:g} seconds; nothing is "
        f"written until {HOLD_SECONDS:g} seconds after the last time"
    )
    status.set_false(ABLE_TO_SCALE, REPLICAS_CONTESTED, message)
    status.warn(REPLICAS_CONTESTED, message)
    return until
