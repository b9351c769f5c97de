"""Writes whose outcome is not known, and what the next read tells (semantics 7.7).

A write that is about to be sent is noted in the history first.  Whoever reads that history
later, be it after a time-out or after a crash, learns from the scale whether it landed.
"""

from dataclasses import replace

from autoscaler.core.decision import Decision
from autoscaler.core.history import History, PendingWrite
from autoscaler.core.instants import AFTER_DUE_SECONDS
from autoscaler.core.landing import landed
from autoscaler.core.observation import Scale
from autoscaler.core.spec import HorizontalPodAutoscalerSpec


def intend(decision: Decision, history: History) -> History:
    """Note the write that the decision asks for, before it is sent."""
    scale = decision.scale
    if not isinstance(scale, Scale):
        return history
    pending = PendingWrite(
        scale.spec_replicas, decision.desired, decision.stamp, scale.resource_version
    )
    return replace(history, pending=pending)


def resolve(spec: HorizontalPodAutoscalerSpec, history: History, scale: Scale) -> History:
    """Find out from the scale what became of a write whose outcome was not known.

    As long as the object has the version that was to be replaced, the write may still arrive
    late.  Once it has another, the count tells: the old one says that the write did not land, and
    no longer can; any other says that it did, for somebody who sets a third count does so after
    it or before it, and a limit that counts the write is then at worst kept longer.
    """
    pending = history.pending
    if pending is None or scale.resource_version == pending.resource_version:
        return history
    if scale.spec_replicas == pending.before:
        return replace(history, pending=None)
    decided = pending.time + AFTER_DUE_SECONDS
    return landed(spec, history, pending.before, pending.after, pending.time, now=decided)
