"""The scale-down breaker: too many targets of one server would go down at once (semantics 8.7).

A label that is renamed makes hundreds of queues look empty in one moment.  No rule of a single
target can tell that from the end of their work; their number can.

Instants are seconds of one clock, which need not be the Unix time.
"""

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, replace

from autoscaler.core.decision import BreakerHold, Decision, Zone
from autoscaler.core.history import History
from autoscaler.core.observation import ConditionStatus
from autoscaler.core.status import SCALE_DOWN_BREAKER, SCALING_LIMITED, overridden


@dataclass(frozen=True, slots=True)
class Breaker:
    """The settings: a share in percent, a number of targets, and seconds."""

    share: int = 30
    min_targets: int = 20
    hold: float = 600.0

    def most_down(self, of: int) -> int:
        """Return how many of the targets of one server may go down in one period."""
        return of if of < self.min_targets else of * self.share // 100


@dataclass(frozen=True, slots=True)
class Trip:
    """The breaker of one server holds every scale-down from the instant ``at`` to ``until``.

    ``down`` of ``of`` targets would go down; ``query`` is the PromQL that these share most.
    ``again`` counts the trips that came directly before this one.
    """

    at: float
    until: float
    down: int
    of: int
    query: str = ""
    again: int = 0


@dataclass(frozen=True, slots=True)
class BreakerState:
    """How the breaker of one server stands; it does not trip before ``released_until``."""

    trip: Trip | None = None
    released_until: float | None = None


CLOSED = BreakerState()


def reviewed(
    breaker: Breaker,
    state: BreakerState,
    down: int,
    of: int,
    now: float,
    *,
    is_complete: bool = True,
) -> BreakerState:
    """Return the state at ``now``, when ``down`` of the ``of`` targets of the server would go down.

    A trip lasts for its time.  If still too many would go down at its end, the breaker trips again;
    that they are not too many is said once the count ``is_complete``, and the trip kept until then.
    """
    trip, free_until = state.trip, state.released_until
    if trip is not None and now < trip.until:
        return state
    if free_until is not None and now < free_until:
        return state
    if down > breaker.most_down(of):
        again = 0 if trip is None else trip.again + 1
        return BreakerState(Trip(now, now + breaker.hold, down, of, again=again))
    return CLOSED if trip is None or is_complete else state


def holds(state: BreakerState, now: float) -> bool:
    """Return whether nothing goes down at ``now``; a trip that is over may not be reviewed yet."""
    return state.trip is not None and now < state.trip.until


def is_decided(breaker: Breaker, down: int, undecided: int, of: int) -> bool:
    """Return whether it is certain that the breaker does not trip.

    ``undecided`` of the targets may still turn out to go down, besides the ``down`` that would.
    """
    return down + undecided <= breaker.most_down(of)


def released(breaker: Breaker, state: BreakerState, now: float) -> BreakerState:
    """Return the state after an operator let the targets go: it does not trip for one hold."""
    return state if state.trip is None else BreakerState(None, now + breaker.hold)


def most_shared(queries: Iterable[Iterable[str]]) -> str:
    """Return the PromQL that the most of some targets have; the first of equal ones."""
    counts = Counter(promql for of_one in queries for promql in dict.fromkeys(of_one))
    return max(counts, key=lambda promql: counts[promql], default="")


def moved(state: BreakerState, seconds: float) -> BreakerState:
    """Move every instant by so many seconds."""
    trip, until = state.trip, state.released_until
    return BreakerState(
        trip and replace(trip, at=trip.at + seconds, until=trip.until + seconds),
        None if until is None else until + seconds,
    )


def goes_down(decision: Decision) -> bool:
    """Return whether a decision asks for fewer replicas; a pause at a count is a person's word."""
    if not decision.rescale or decision.zone is Zone.PAUSED:
        return False
    return decision.desired < (decision.current or 0)


def held_back(
    decision: Decision, history: History, previous: History, server: str, until: float
) -> tuple[Decision, History]:
    """Return a scale-down and its history as the breaker of a server leaves them.

    The count stays, and the history is as after a limit that permits no change: the recommendation
    is in it, and nothing was written.  ``previous`` is the history from before the decision,
    ``until`` in Unix seconds.
    """
    current = decision.current or 0
    whose = f"the Prometheus server {server}" if server else "Prometheus"
    message = (
        f"too many of the targets that read from {whose} would go down at once; the scale-down "
        "breaker lets none of them"
    )
    conditions = overridden(
        decision.conditions,
        previous.conditions,
        SCALING_LIMITED,
        ConditionStatus.TRUE,
        SCALE_DOWN_BREAKER,
        message,
        decision.time,
    )
    held = replace(
        decision,
        desired=current,
        rescale=False,
        conditions=conditions,
        breaker=BreakerHold(server, until, decision.desired),
    )
    return held, replace(history, conditions=conditions, desired_replicas=current)
