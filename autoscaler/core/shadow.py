"""A target in shadow is decided and never written: by `mode: shadow`, or beside another autoscaler.

It follows whoever writes its count (semantics 7.6, 8.10).
"""

from dataclasses import replace

from autoscaler.core.contention import KUBECTL, MOST_LAG_SECONDS
from autoscaler.core.guards import Guards
from autoscaler.core.history import Contention, History, Recommendation
from autoscaler.core.observation import Scale
from autoscaler.core.reconcile import DecisionContext
from autoscaler.core.writes import applied, spec_changes

CONTROLLED_BY_OTHER = "ControlledByOther"


def followed(context: DecisionContext, history: History, scale: Scale) -> History:
    """Take a change of the count for a write of ours, so that the policies count it.

    It counts from the last sync, which found the old count, or else from now.  What a person sets
    is none, as in the HPA.  Of several changes only the sum is known.
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


def handed_over(
    context: DecisionContext, guards: Guards, history: History
) -> tuple[Guards, History]:
    """Note who controls the target from now on.

    One that was live and is taken by another autoscaler is worth an event, once.  The count that
    the other one leaves holds scale-downs for one window; the rest of the history is the shadow's.
    """
    before, now = history.controller, guards.controller
    if guards.shadow or now == before:
        taken = history.taken and not guards.shadow
    elif now:
        taken = history.taken if before else history.recommendations is not None
    else:
        taken = False
        kept = _of_window_up(context, history)
        history = replace(history, recommendations=kept, unobserved=True)
        guards = replace(guards, is_back=True)
    if taken and not history.taken:
        message = f"{now} controls this target too; nothing is written until that is gone"
        context.status.warn(CONTROLLED_BY_OTHER, message)
    if (now, taken) != (before, history.taken):
        history = replace(history, controller=now, taken=taken)
    return replace(guards, taken=taken), history


def _of_window_up(context: DecisionContext, history: History) -> tuple[Recommendation, ...] | None:
    """Return the recommendations that still keep the target from scaling up; None without any."""
    behavior = context.spec.behavior
    window = behavior and behavior.scale_up.stabilization_window_seconds
    cutoff = context.now - (window or 0)
    kept = (one for one in history.recommendations or () if one.time > cutoff)
    return tuple(one for one in kept if not one.only_down) or None
