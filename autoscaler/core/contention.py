"""Changes of the replicas by others, and the hold after reversals (semantics 7.4, 7.5).

Two controllers that disagree would move a workload back and forth for ever.
"""

from dataclasses import replace

from autoscaler.core.decision import ForeignChange
from autoscaler.core.history import Contention, History
from autoscaler.core.observation import Scale
from autoscaler.core.spec import HorizontalPodAutoscalerSpec
from autoscaler.core.writes import applied

FIELD_MANAGER = "autoscaler"
"""The manager of our writes in an object's managedFields."""

HOLD_SECONDS = 600.0

MOST_LAG_SECONDS = 60.0
"""The most seconds that a watch cache may lag behind the cluster unnoticed."""


def note_changes(
    spec: HorizontalPodAutoscalerSpec,
    history: History,
    scale: Scale,
    now: float,
    *,
    sole_writer: bool,
    last_read: float | None = None,
) -> tuple[History, ForeignChange | None]:
    """Compare the scale with the last known count, by the table of semantics 7.4.

    ``sole_writer`` and ``last_read`` are those of `Observation`.  A change under our field manager
    is a write of another instance of ours if it is the object's only change since ``last_read``.
    Of several changes only the sum is known, so that none counts as ours.  If we were the sole
    writer, the change is one by an autoscaler with another Lease, or none.
    """
    before, current = history.contention.known, scale.spec_replicas
    ours = scale.replicas_by == FIELD_MANAGER
    changes = _changes_between(history.contention.generation, scale.generation)
    if before is None:
        unseen = ours or not sole_writer
    elif sole_writer:
        # The previous leader may have written it, if our cache lagged behind.
        unseen = ours and current != before
    else:
        unseen = changes is None or changes > 1
    foreign = None
    if before is not None and current != before:
        if sole_writer or not ours:
            history, foreign = _changed_by_others(history, scale, before, now)
        elif changes == 1:
            earliest = 0.0 if last_read is None else last_read - MOST_LAG_SECONDS
            history = applied(spec, history, before, current, now, earliest)
        else:
            contention = replace(history.contention, our_step=0)
            history = replace(history, contention=contention, zeroed_by_us=current == 0)
    if unseen:
        history = replace(history, unseen=now)
    contention = replace(history.contention, known=current, generation=scale.generation)
    if contention != history.contention:
        history = replace(history, contention=contention)
    return history, foreign


def _changes_between(before: int, after: int) -> int | None:
    """Return how often an object's spec was changed between two generations; None if unknown."""
    if not before or not after or after < before:
        return None
    return after - before


def _changed_by_others(
    history: History, scale: Scale, before: int, now: float
) -> tuple[History, ForeignChange]:
    current, contention = scale.spec_replicas, history.contention
    reversal = contention.our_step * (current - before) < 0
    recent = tuple(one for one in contention.reversals if one > now - HOLD_SECONDS)
    reversals = (*recent, now) if reversal else recent
    history = replace(history, contention=replace(contention, our_step=0, reversals=reversals))
    return history, ForeignChange(before, current, scale.replicas_by, reversal=reversal)


def held_until(contention: Contention, most: int, now: float) -> float | None:
    """Return until when ``most`` reversals hold the target; None if they do not, or it is 0."""
    last = contention.reversals[-most:]
    if most == 0 or len(last) < most or last[-1] - last[0] >= HOLD_SECONDS:
        return None
    until = last[-1] + HOLD_SECONDS
    return until if now < until else None
