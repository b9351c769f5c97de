"""Results of targets that have more than the HPA's spec, synced in a timeline."""

from autoscaler.core.extensions import (
    NO_EXTENSIONS,
    Extensions,
    Fallback,
    FallbackBehavior,
    Idle,
    Pause,
    Schedule,
)
from autoscaler.core.observation import OpenWindow
from autoscaler.core.spec import HorizontalPodAutoscalerSpec
from autoscaler.core.target import Target
from autoscaler.core.writes import Written
from autoscaler.sync.ports import SyncResult
from tests.core.builders import BASE, average, external, spec
from tests.core.timeline import Timeline

QUEUE = external(average("10"))
NOTHING = float("nan")
"""Of the query of a bound."""

PAUSED = Extensions(pause=Pause())
IDLE = Extensions(idle=Idle(0, 60.0), activations=(5000,))
FALLBACK = Extensions(fallback=Fallback(6, 2))
OFFICE_HOURS = Schedule("office-hours", "0 8 * * *", "0 18 * * *", "Europe/Berlin", 5, 8)
GRADUALLY = Schedule("sale", "0 8 * * *", "0 18 * * *", "Europe/Berlin", 15, gradual=True)


def lower(replicas: int) -> Extensions:
    """Return a fallback to a count, or the current one, from the first failure on."""
    return Extensions(fallback=Fallback(replicas, 1, FallbackBehavior.CURRENT_REPLICAS_IF_LOWER))


def opened(schedule: Schedule) -> OpenWindow:
    """Return the schedule as it is while it is open."""
    return OpenWindow(schedule, BASE + 3600, "18:00 Europe/Berlin")


def target(
    extensions: Extensions = NO_EXTENSIONS,
    of: HorizontalPodAutoscalerSpec | None = None,
    *,
    replicas: int,
) -> Timeline:
    """Begin the timeline of a target of one queue, 10 messages each replica, 1 to 20 of them."""
    return Timeline(of or spec(QUEUE, maximum=20), replicas=replicas, extensions=extensions)


def result(timeline: Timeline) -> SyncResult:
    """Return the result of the last sync, whose write was taken."""
    decision = timeline.decision
    assert decision is not None
    of = Target("shop", timeline.spec, (), extensions=timeline.extensions)
    return SyncResult(of, decision, Written(decision.scale) if decision.rescale else None)  # type: ignore[arg-type] # it was read
