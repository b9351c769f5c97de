"""Changes of the count by other clients, and their consequences (semantics 7.4 to 7.6, 8.10).

A target in shadow (`mode: shadow`, or controlled by another autoscaler) is never written; its
history follows the other client's changes.
"""

from dataclasses import replace

from autoscaler.core.decision import ForeignChange
from autoscaler.core.history import Contention, History, Recommendation
from autoscaler.core.observation import Scale
from autoscaler.core.status import ABLE_TO_SCALE, DecisionContext
from autoscaler.core.writes import FIELD_MANAGER, applied, spec_changes

KUBECTL = "kubectl"
"""The prefix of the field managers of all kubectl commands: a person set the count."""

REPLICAS_CONTESTED, CONTROLLED_BY_OTHER = "ReplicasContested", "ControlledByOther"

HOLD_SECONDS = 600.0
MOST_LAG_SECONDS = 60.0
"""The maximum delay of a watch cache behind the cluster, in seconds, that is not detected."""


def note_changes(
    context: DecisionContext, history: History, scale: Scale
) -> tuple[History, ForeignChange | None]:
    """Compare the scale with the last known count, by the table of semantics 7.4.

    A change under our field manager is a write of another instance if it is the object's only
    change since the last read. Of several changes only the sum is known, so none counts as ours. If
    this instance was the only writer, a change under our field manager counts as one by others: an
    autoscaler with another Lease, or none.
    """
    now, observation = context.now, context.observation
    sole_writer, last_read = observation.sole_writer, observation.last_read
    before, current = history.contention.known, scale.spec_replicas
    ours, is_unknown = scale.replicas_by == FIELD_MANAGER, not scale.replicas_by
    changes = spec_changes(history, scale)
    if before is None:
        unseen = ours or not sole_writer
    elif sole_writer:
        # The previous leader may have written it while the watch cache lagged behind.
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
    """Return the end of the hold after reversals, in Unix seconds; None without one (7.5)."""
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


# -- a target in shadow -------------------------------------------------------------------------


def handed_over(
    context: DecisionContext, history: History, controller: str, *, shadow: bool
) -> History:
    """Note which autoscaler controls the target from now on; ``shadow``: its mode is shadow.

    A live target that another autoscaler takes over causes one event. When the other autoscaler has
    gone, its last count prevents scale-downs for one window; the rest of the history stays.
    """
    before = history.controller
    if shadow or controller == before:
        taken = history.taken and not shadow
    elif controller:
        taken = history.taken if before else history.recommendations is not None
    else:
        taken, kept = False, _of_window_up(context, history)
        history = replace(history, recommendations=kept, unobserved=True)
    if taken and not history.taken:
        message = f"{controller} controls this target too; nothing is written while it exists"
        context.status.warn(CONTROLLED_BY_OTHER, message)
    if (controller, taken) == (before, history.taken):
        return history
    return replace(history, controller=controller, taken=taken)


def followed(context: DecisionContext, history: History, scale: Scale) -> History:
    """Record another client's change as if it were our write, so that the policies count it.

    It counts from the last sync, which found the previous count, or else from now. A change by a
    person does not count, as in the HPA. Of several changes only the sum is known.
    """
    observation = context.observation
    before, current = history.contention.known, scale.spec_replicas
    if before is None:
        unseen = not observation.sole_writer
    else:
        unseen = current != before and spec_changes(history, scale) not in {None, 0, 1}
    if before not in {None, current} and not scale.replicas_by.startswith(KUBECTL):
        time, last_read = context.now, observation.last_read
        if last_read is not None:
            syncs = [recommendation.time for recommendation in history.recommendations or ()]
            time = max([*syncs, last_read - MOST_LAG_SECONDS])
        history = applied(context.spec, history, before or 0, current, time, now=context.now)
    if unseen:
        history = replace(history, unseen=context.now)
    contention = Contention(current, generation=scale.generation)
    if (contention, history.zeroed_by_us) == (history.contention, False):
        return history
    return replace(history, contention=contention, zeroed_by_us=False)


def _of_window_up(context: DecisionContext, history: History) -> tuple[Recommendation, ...] | None:
    """Return the recommendations that still prevent a scale-up; None without any."""
    behavior = context.spec.behavior
    window = behavior and behavior.scale_up.stabilization_window_seconds
    cutoff = context.now - (window or 0)
    kept = (entry for entry in history.recommendations or () if entry.time > cutoff)
    return tuple(entry for entry in kept if not entry.only_down) or None
