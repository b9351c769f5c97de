"""A target in shadow follows whoever writes its count, and is never written (semantics 8.10)."""

from dataclasses import replace

from autoscaler.core.contention import KUBECTL, MOST_LAG_SECONDS
from autoscaler.core.history import Contention, History
from autoscaler.core.observation import Scale
from autoscaler.core.reconcile import DecisionContext
from autoscaler.core.writes import applied


def followed(context: DecisionContext, history: History, scale: Scale) -> History:
    """Take a change of the count for a write of ours, so that the policies count it.

    It counts from the last sync, which found the old count, or else from now.  What a person sets
    is none, as in the HPA.
    """
    before, current = history.contention.known, scale.spec_replicas
    by_hand = scale.replicas_by.startswith(KUBECTL)
    if before is not None and current != before and not by_hand:
        time, last_read = context.now, context.observation.last_read
        if last_read is not None:
            syncs = [recommendation.time for recommendation in history.recommendations or ()]
            time = max([*syncs, last_read - MOST_LAG_SECONDS])
        history = applied(context.spec, history, before, current, time, now=context.now)
    contention = Contention(current, generation=scale.generation)
    if (contention, history.zeroed_by_us, history.controller) == (history.contention, False, ""):
        return history
    return replace(history, contention=contention, zeroed_by_us=False, controller="")
