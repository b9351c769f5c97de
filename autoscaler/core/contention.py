"""Others who set the replicas, and holding when they undo what we do (semantics 7.4, 7.5).

Two controllers that disagree move a workload back and forth for ever.  After some reversals of
our writes within ten minutes we hold for ten minutes, and say so.
"""

from dataclasses import replace

from autoscaler.core.decision import ForeignChange
from autoscaler.core.history import Contention, History
from autoscaler.core.observation import Scale
from autoscaler.core.spec import HorizontalPodAutoscalerSpec
from autoscaler.core.writes import applied

FIELD_MANAGER = "autoscaler"
"""The name under which our writes stand in an object's managedFields."""

HOLD_SECONDS = 600.0


MOST_LAG_SECONDS = 60.0
"""How much older than the cluster what is watched may be, without anybody knowing."""


def observe(
    spec: HorizontalPodAutoscalerSpec,
    history: History,
    scale: Scale,
    now: float,
    *,
    alone: bool,
    looked: float | None = None,
) -> tuple[History, ForeignChange | None]:
    """Compare the scale with the one that we knew; ``alone`` and ``looked`` as in `Observation`.

    A change under our own name by whoever leads, or led before us, counts as our own write if it
    was the only change of the object since the last look.  Of several changes only the sum is
    known, which may be anybody's: none of it counts as ours, and writes of ours may be among them.
    If we were ``alone``, a change under our name was made by an autoscaler with which we share no
    Lease, and that is somebody else like any other.
    """
    contention, current = history.contention, scale.spec_replicas
    before, ours = contention.known, scale.replicas_by == FIELD_MANAGER
    changes = _changes_between(contention.generation, scale.generation)
    foreign = None
    if before is None:
        unseen = ours or not alone
    elif alone:
        # Under our name: the leader before us may have written it, if our copy was behind.
        unseen = ours and current != before
    else:
        unseen = changes is None or changes > 1
    if before is not None and current != before:
        if alone or not ours:
            history, foreign = _changed_by_other(history, scale, before, now)
        elif changes == 1:
            earliest = 0.0 if looked is None else looked - MOST_LAG_SECONDS
            history = applied(spec, history, before, current, now, earliest)
        else:
            history = replace(
                history, contention=replace(contention, our_step=0), zeroed_by_us=current == 0
            )
    if unseen:
        history = replace(history, unseen=now)
    contention = replace(history.contention, known=current, generation=scale.generation)
    return history if contention == history.contention else replace(
        history, contention=contention
    ), foreign


def _changes_between(before: int, after: int) -> int | None:
    """Return how often an object's spec was changed; None where its generations do not tell."""
    if not before or not after or after < before:
        return None
    return after - before


def _changed_by_other(
    history: History, scale: Scale, before: int, now: float
) -> tuple[History, ForeignChange]:
    current, contention = scale.spec_replicas, history.contention
    reversal = contention.our_step * (current - before) < 0
    recent = tuple(one for one in contention.reversals if one > now - HOLD_SECONDS)
    reversals = (*recent, now) if reversal else recent
    history = replace(history, contention=replace(contention, our_step=0, reversals=reversals))
    return history, ForeignChange(before, current, scale.replicas_by, reversal=reversal)


def held_until(contention: Contention, most: int, now: float) -> float | None:
    """Return until when nothing is written, after ``most`` reversals (0: any number may be).

    None where nothing holds us.
    """
    last = contention.reversals[-most:]
    if most == 0 or len(last) < most or last[-1] - last[0] >= HOLD_SECONDS:
        return None
    until = last[-1] + HOLD_SECONDS
    return until if now < until else None
