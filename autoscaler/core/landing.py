"""What a write leaves in the history once it is known to have landed (semantics 1.5, 4.4)."""

from dataclasses import replace

from autoscaler.core.history import Contention, History, ScaleEvent
from autoscaler.core.limits import record_event
from autoscaler.core.spec import HorizontalPodAutoscalerSpec


def landed(
    spec: HorizontalPodAutoscalerSpec,
    history: History,
    before: int,
    after: int,
    time: float,
    earliest: float | None = None,
    now: float | None = None,
) -> History:
    """Take in that the replicas went from one count to another by our write at an instant.

    A write by another instance of ours was between ``earliest`` and ``time``.  Ages of earlier
    events are taken at ``now``, by default at ``time``.
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
