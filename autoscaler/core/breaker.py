"""The scale-down breaker: too many targets of one server would go down at once (semantics 8.7).

A label that is renamed makes hundreds of queues look empty in one moment: no rule of a single
target can tell that from the end of their work; their number can, as of the last sync of each.
Instants are seconds of one clock, which need not be the Unix time.
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
    """Return whether a decision asks for fewer replicas; a pause at a count is a person's word."""
    if not decision.rescale or decision.in_shadow or decision.zone is Zone.PAUSED:
        return False
    return decision.desired < (decision.current or 0)


def held_back(
    decision: Decision, history: History, previous: History, server: str, until: float
) -> tuple[Decision, History]:
    """Return a scale-down and its history as the breaker of a server leaves them.

    The count stays, and the history is as after a limit that permits no change.  ``previous`` is
    that from before the decision, ``until`` in Unix seconds.
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
    held = replace(decision, desired=current, rescale=False, conditions=conditions, breaker=hold)
    return held, replace(history, conditions=conditions, desired_replicas=current)
