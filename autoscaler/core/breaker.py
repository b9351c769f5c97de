"""The scale-down breaker: stops a server's scale-downs if too many targets ask for one at once.

Source: semantics 8.7. A renamed label makes hundreds of queues look empty at the same moment. No
rule of a single target can tell that from finished work; the number of targets that would scale
down, each as of its last sync, can. Instants are seconds of one clock, which need not be Unix time.
"""

from dataclasses import dataclass, replace

from autoscaler.core.decision import BreakerHold, Decision, Zone
from autoscaler.core.history import Count, History, Instant
from autoscaler.core.spec import ConditionStatus
from autoscaler.core.status import SCALE_DOWN_BREAKER, SCALING_LIMITED, StatusRecorder


@dataclass(frozen=True, slots=True)
class Breaker:
    """The settings: a share in percent, a number of targets, and seconds."""

    share: int = 30
    min_targets: int = 20
    hold: float = 600.0


@dataclass(frozen=True, slots=True)
class Trip:
    """The breaker of one server holds every scale-down from the instant ``at`` to ``until``.

    ``down`` of ``of`` targets would go down; ``query`` is the PromQL that these share most.
    ``again`` counts the trips that came directly before this one.
    """

    at: Instant
    until: Instant
    down: Count
    of: Count
    query: str = ""
    again: Count = 0


@dataclass(frozen=True, slots=True)
class BreakerState:
    """The state of the breaker of one server; it does not trip before ``released_until``."""

    trip: Trip | None = None
    released_until: Instant | None = None


CLOSED = BreakerState()


# -- one decision --------------------------------------------------------------------------------


def goes_down(decision: Decision) -> bool:
    """Return whether a decision scales down by metrics; a count set by a pause does not count."""
    if not decision.rescale or decision.in_shadow or decision.zone is Zone.PAUSED:
        return False
    return decision.desired < (decision.current or 0)


def held_back(
    decision: Decision, history: History, previous: History, server: str, until: float
) -> tuple[Decision, History]:
    """Return a scale-down and its history after the breaker has prevented it.

    The count stays, and the history is the same as after a limit that permits no change.
    ``previous`` is the history before the decision; ``until`` is in Unix seconds.
    """
    current = decision.current or 0
    whose = f"the Prometheus server {server}" if server else "Prometheus"
    message = (
        f"too many of the targets that read from {whose} would go down at once; the scale-down "
        "breaker lets none of them"
    )
    status = StatusRecorder(decision.conditions, decision.time, previous.conditions)
    status.override(SCALING_LIMITED, ConditionStatus.TRUE, SCALE_DOWN_BREAKER, message)
    conditions, hold = status.conditions, BreakerHold(server, until, decision.desired)
    held = replace(
        decision,
        desired=current,
        rescale=False,
        conditions=conditions,
        breaker=hold,
        removals=None,
    )
    return held, replace(history, conditions=conditions, desired_replicas=current)
