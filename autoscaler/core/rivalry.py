"""Others who set the replicas: noticing them, and holding when they undo what we do.

Two controllers that disagree move a workload back and forth for ever.  After some reversals of
our writes within ten minutes we hold for ten minutes, and say so.
"""

from dataclasses import replace

from autoscaler.core.decision import ForeignChange
from autoscaler.core.history import History, Rivalry
from autoscaler.core.landing import landed
from autoscaler.core.observation import Scale
from autoscaler.core.spec import HorizontalPodAutoscalerSpec

FIELD_MANAGER = "autoscaler"
"""The name under which our writes stand in an object's managedFields."""

HOLD_SECONDS = 600.0


def observe(
    spec: HorizontalPodAutoscalerSpec, history: History, scale: Scale, now: float, *, alone: bool
) -> tuple[History, ForeignChange | None]:
    """Compare the count with the one that we knew.

    Unless we were ``alone``, a change under our own name was made by whoever leads, or led before
    us: it counts as our own write, made now.  If we were, it was made by an autoscaler with which
    we share no Lease, and that is somebody else like any other.
    """
    rivalry, current = history.rivalry, scale.spec_replicas
    if rivalry.known is None or rivalry.known == current:
        if rivalry.known is None:
            history = replace(history, rivalry=replace(rivalry, known=current))
        return history, None
    if not alone and scale.replicas_by == FIELD_MANAGER:
        return landed(spec, history, rivalry.known, current, now), None
    change = ForeignChange(
        rivalry.known,
        current,
        scale.replicas_by,
        reversal=rivalry.our_step * (current - rivalry.known) < 0,
    )
    recent = tuple(one for one in rivalry.reversals if one > now - HOLD_SECONDS)
    reversals = (*recent, now) if change.reversal else recent
    return replace(history, rivalry=Rivalry(current, 0, reversals)), change


def held_until(rivalry: Rivalry, most: int, now: float) -> float | None:
    """Return until when nothing is written, after ``most`` reversals (0: any number may be).

    None where nothing holds us.
    """
    last = rivalry.reversals[-most:]
    if most == 0 or len(last) < most or last[-1] - last[0] >= HOLD_SECONDS:
        return None
    until = last[-1] + HOLD_SECONDS
    return until if now < until else None
