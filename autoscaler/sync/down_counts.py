"""The number of targets of a Prometheus server that would scale down, and its breaker (8.7).

Syncs are numbered in the order in which they begin.
"""

from collections import Counter
from dataclasses import dataclass, field, replace

from autoscaler.core.breaker import CLOSED, Breaker, BreakerState, Trip
from autoscaler.core.target import Target


def most_down(breaker: Breaker, of: int) -> int:
    """Return how many targets of one server may scale down in one period."""
    return of if of < breaker.min_targets else of * breaker.share // 100


def holds(state: BreakerState, now: float) -> bool:
    """Return whether scale-downs are held at ``now``; an ended trip may not be reviewed yet."""
    return state.trip is not None and now < state.trip.until


def reviewed(
    breaker: Breaker,
    state: BreakerState,
    down: int,
    of: int,
    now: float,
    *,
    is_complete: bool = True,
) -> BreakerState:
    """Return the state at ``now``, if ``down`` of ``of`` targets would scale down.

    A trip lasts for its full time. If there are still too many at its end, the breaker trips again.
    "Not too many" needs a complete count, and until then the trip stays.
    """
    trip, free_until = state.trip, state.released_until
    if holds(state, now) or (free_until is not None and now < free_until):
        return state
    if down > most_down(breaker, of):
        again = 0 if trip is None else trip.again + 1
        return BreakerState(Trip(now, now + breaker.hold, down, of, again=again))
    return CLOSED if trip is None or is_complete else state


def released(breaker: Breaker, state: BreakerState, now: float) -> BreakerState:
    """Return the state after an operator released the targets: it does not trip for one hold."""
    return state if state.trip is None else BreakerState(None, now + breaker.hold)


@dataclass(slots=True)
class SyncCount:
    """One sync's view of a server: how many of its targets are undecided since the sync began.

    ``down`` are the decided targets that would scale down, ``awaited`` the sync's own targets that
    it has not decided yet.
    """

    undecided: int
    awaited: set[str] = field(default_factory=set)
    down: set[str] = field(default_factory=set)
    given_up: bool = False


@dataclass(slots=True)
class ServerCount:
    """The targets that read from a server, the number that would scale down, and the breaker."""

    name: str
    breaker: Breaker
    targets: dict[str, Target] = field(default_factory=dict)
    in_shadow: dict[str, Target] = field(default_factory=dict)
    """Targets that also read from it, but are not written now and do not count."""
    state: BreakerState = CLOSED
    reported: Trip | None = None
    """The last reported trip, while it has not ended."""
    decided: dict[str, int] = field(default_factory=dict)
    """By target: the number of syncs that had begun when it was last decided."""
    down: set[str] = field(default_factory=set)
    """The targets whose last sync decided on fewer replicas."""
    outdated: set[str] = field(default_factory=set)
    """The awaited targets among ``down``."""
    over: int | None = None
    """The number of syncs that had begun when the trip was first seen to have ended."""
    syncs: dict[int, SyncCount] = field(default_factory=dict)
    """The running syncs, by their numbers."""

    def go_on_from(self, before: "ServerCount") -> None:
        """Take over the state of targets that existed before."""
        for key in before.in_shadow.keys() & self.targets.keys():
            self.in_shadow[key] = self.targets.pop(key)
        kept = self.targets.keys()
        self.state, self.reported = before.state, before.reported
        self.over = before.over if before.syncs else None
        self.down, self.outdated = before.down & kept, before.outdated & kept
        self.decided = {key: before.decided.get(key, 0) for key in kept}
        for number, sync in before.syncs.items():
            self.syncs[number] = replace(
                sync,
                undecided=sum(begun < number for begun in self.decided.values()),
                awaited=sync.awaited & kept,
                down=sync.down & kept,
            )

    def counts(self, target: str, *, in_shadow: bool) -> bool:
        """Return whether a target counts, given whether it is in shadow."""
        if in_shadow and target in self.targets:
            self.in_shadow[target] = self.targets.pop(target)
            decided = self.decided.pop(target, 0)
            self.down.discard(target)
            self.outdated.discard(target)
            for number, sync in self.syncs.items():
                sync.undecided -= decided < number
                sync.awaited.discard(target)
                sync.down.discard(target)
        elif not in_shadow and target in self.in_shadow:
            self.targets[target] = self.in_shadow.pop(target)
            for sync in self.syncs.values():
                sync.undecided += 1
        return target in self.targets

    def begin(self, number: int) -> None:
        """Start counting for a sync that begins."""
        self.syncs[number] = SyncCount(len(self.targets))

    def expect(self, number: int, target: str) -> None:
        """Await the decision of a sync on a target."""
        if target in self.targets:
            self.syncs[number].awaited.add(target)
        if target in self.down:
            self.outdated.add(target)

    def note(self, begun: int, target: str, *, down: bool) -> None:
        """Note whether a target would scale down; ``begun`` syncs had begun before."""
        before = self.decided.get(target, 0)
        self.decided[target] = begun
        self.outdated.discard(target)
        (self.down.add if down else self.down.discard)(target)
        for number, sync in self.syncs.items():
            sync.undecided -= before < number
            sync.awaited.discard(target)
            (sync.down.add if down else sync.down.discard)(target)

    def give_up(self, number: int) -> bool:
        """End a sync's wait: undecided targets are not down; return whether the sync runs."""
        sync = self.syncs.get(number)
        if sync is None:
            return False
        sync.given_up = True
        self.outdated -= sync.awaited
        self.down -= sync.awaited
        sync.awaited.clear()
        return True

    def end(self, number: int) -> None:
        """Stop counting for a sync that has ended."""
        if self.give_up(number):
            del self.syncs[number]

    def review(self, begun: int, now: float) -> bool:
        """Update the state to ``now``, and return whether the breaker has tripped.

        ``begun`` is the number of syncs that have begun. An ended trip stays until the syncs that
        run at that time have decided their targets; later syncs do not prolong it.
        """
        before, count = self.state, len(self.down) - len(self.outdated)
        if before.trip is not None and self.over is None and not holds(before, now):
            self.over = begun
        last = begun if self.over is None else self.over
        complete = not any(sync.awaited for number, sync in self.syncs.items() if number <= last)
        of = len(self.targets)
        self.state = reviewed(self.breaker, before, count, of, now, is_complete=complete)
        if self.state.trip == before.trip:
            return False
        self.over = None
        return self.state.trip is not None

    def is_open(self, number: int, now: float) -> bool:
        """Return whether targets undecided since a sync began may still trip the breaker."""
        sync = self.syncs.get(number)
        return (
            sync is not None
            and not sync.given_up
            and not holds(self.state, now)
            and self.state.released_until is None
            and sync.undecided > 0
            and len(sync.down) + sync.undecided > most_down(self.breaker, len(self.targets))
        )

    def query(self) -> str:
        """Return the PromQL that most of the targets in ``down`` share; the first of equals."""
        counts = Counter(
            promql
            for key, target in self.targets.items()
            if key in self.down
            for server, promql in dict.fromkeys(query.key for query in target.count_queries)
            if server == self.name
        )
        return max(counts, key=counts.__getitem__, default="")
