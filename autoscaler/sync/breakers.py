"""The scale-down breakers of all Prometheus servers, over all syncs (semantics 8.7).

Of each server's targets it is known whether they would go down, as of the last sync of each: so the
number of them is that of one period.  What a sync that runs has yet to decide does not count.
A decision only counts; nothing looks at all targets.
"""

import threading
from collections.abc import Mapping, Sequence
from concurrent.futures import Future
from dataclasses import dataclass, field, replace
from typing import NamedTuple

from autoscaler.core.breaker import (
    CLOSED,
    Breaker,
    BreakerState,
    Trip,
    holds,
    is_decided,
    most_shared,
    moved,
    released,
    reviewed,
)
from autoscaler.core.target import Target
from autoscaler.sync.ports import BreakerChange, BreakerNews


class BreakerStatus(NamedTuple):
    """How the breaker of a server stands.

    While it is tripped it holds the ``down`` targets ``until`` a Unix time; else that is None.
    """

    server: str
    until: float | None
    down: int
    of: int


@dataclass(frozen=True, slots=True, eq=False)
class Turn:
    """A sync, to the breakers: how many had begun with it."""

    number: int


@dataclass(slots=True)
class _Wait:
    """What one sync waits for: that enough of a server's targets were decided since it began.

    ``down`` are those of the decided ones that would go down, ``awaited`` the sync's own targets
    that it has not decided.
    """

    undecided: int
    awaited: set[str] = field(default_factory=set)
    down: set[str] = field(default_factory=set)
    future: Future[None] | None = None
    given_up: bool = False

    def end(self) -> None:
        """Let those that wait go on."""
        if self.future is not None:
            # The driver may have cancelled it.
            if self.future.set_running_or_notify_cancel():
                self.future.set_result(None)
            self.future = None


@dataclass(slots=True)
class _Server:
    """The targets that read from a server, and its breaker; instants are of `clock.steady`."""

    name: str
    targets: dict[str, Target]
    state: BreakerState = CLOSED
    told: Trip | None = None
    """The trip that was reported last, while it has not ended."""
    decided: dict[str, int] = field(default_factory=dict)
    """By target, how many syncs had begun when it was decided last."""
    down: set[str] = field(default_factory=set)
    """Those whose last sync decided on fewer replicas."""
    outdated: set[str] = field(default_factory=set)
    """Those of ``down`` that are awaited."""
    over: int | None = None
    """How many syncs had begun when the trip was first seen to be over."""
    waits: dict[Turn, _Wait] = field(default_factory=dict)

    def begin(self, turn: Turn, target: str) -> None:
        """Await what a sync decides on a target."""
        self.waits[turn].awaited.add(target)
        if target in self.down:
            self.outdated.add(target)

    def note(self, turns: int, target: str, *, down: bool) -> None:
        """Note whether a target would go down, after so many syncs had begun."""
        before = self.decided.get(target, 0)
        self.decided[target] = turns
        self.outdated.discard(target)
        (self.down.add if down else self.down.discard)(target)
        for turn, wait in self.waits.items():
            wait.undecided -= before < turn.number
            wait.awaited.discard(target)
            (wait.down.add if down else wait.down.discard)(target)

    def await_no_longer(self, wait: _Wait) -> None:
        """Let what a sync has not decided count as staying."""
        self.outdated -= wait.awaited
        self.down -= wait.awaited
        wait.awaited.clear()

    def review(self, breaker: Breaker, turns: int, now: float) -> bool:
        """Set the state to that of ``now``, and return whether the breaker has tripped.

        A trip that is over is kept until the syncs that run by then have decided their targets;
        those that begin later do not prolong it.
        """
        before, count = self.state, len(self.down) - len(self.outdated)
        if before.trip is not None and self.over is None and not holds(before, now):
            self.over = turns
        last = turns if self.over is None else self.over
        complete = not any(w.awaited for turn, w in self.waits.items() if turn.number <= last)
        of = len(self.targets)
        self.state = reviewed(breaker, before, count, of, now, is_complete=complete)
        if self.state.trip == before.trip:
            return False
        self.over = None
        return self.state.trip is not None

    def query(self) -> str:
        """Return the PromQL that the targets share most that would go down."""
        return most_shared(
            [one.promql for one in self.targets[key].all_queries if one.server == self.name]
            for key in self.targets
            if key in self.down
        )


class Breakers:
    """Counts which targets would go down, and holds them while these are too many.

    Any thread may call any method.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._breaker: Breaker | None = None
        self._ahead = 0.0
        """By how many seconds the Unix time is ahead of `clock.steady`."""
        self._known: dict[str, BreakerState] = {}
        self._servers: dict[str, _Server] = {}
        self._of_target: dict[str, tuple[_Server, ...]] = {}
        self._turns = 0
        self._tripped = False
        """Whether any has tripped since `take_tripped`."""

    def resume(self, known: Mapping[str, BreakerState], wall: float, steady: float) -> None:
        """Go on with what an earlier run left, by a clock that is at ``wall`` and ``steady`` now.

        To be called before anything else.
        """
        self._ahead = wall - steady
        self._known = {
            name: moved(state, -self._ahead)
            for name, state in known.items()
            if state.trip is None or wall < state.trip.until
        }

    @property
    def enabled(self) -> bool:
        """Whether there is a breaker."""
        return self._breaker is not None

    def change(self, breaker: Breaker | None, targets: Sequence[Target]) -> list[BreakerNews]:
        """Watch these targets from now on; call it while no sync runs.

        A trip goes on as it is, unless its server has too few targets now, or there is no breaker.
        """
        with self._lock:
            old, self._breaker = self._servers, breaker
            self._servers = self._grouped(targets if breaker else (), old)
            self._of_target = self._servers_of_each()
            news = [
                self._news(BreakerChange.REMOVED, server, server.told)
                for name, server in old.items()
                if name not in self._servers and server.told is not None
            ]
            for server in self._servers.values():
                if breaker is not None and len(server.targets) < breaker.min_targets:
                    server.state = CLOSED
                if server.told is None and server.state.trip is not None:
                    server.told = server.state.trip
                    news.append(self._news(BreakerChange.RESUMED, server, server.told))
                news += self._changed(server, BreakerChange.REMOVED)
            return news

    def begin(self, targets: Sequence[Target], ahead: float) -> Turn:
        """Note that a sync of some targets begins, and return what it is called from now on.

        No other sync may decide on these until `end`.  The Unix time is ``ahead`` of `clock.steady`
        by so much.
        """
        with self._lock:
            self._ahead = ahead
            self._turns += 1
            turn = Turn(self._turns)
            for server in self._servers.values():
                server.waits[turn] = _Wait(len(server.targets))
            for target in targets:
                for server in self._of_target.get(target.key, ()):
                    server.begin(turn, target.key)
            return turn

    def note(self, target: str, now: float, *, down: bool) -> None:
        """Note that a target was decided, and whether it would go down."""
        with self._lock:
            for server in self._of_target.get(target, ()):
                server.note(self._turns, target, down=down)
                matters = down or any(wait.future for wait in server.waits.values())
                if matters or server.state is not CLOSED:
                    self._review(server, now)

    def take_tripped(self) -> bool:
        """Return whether any has tripped since the last call: then `states` are to be kept."""
        with self._lock:
            tripped, self._tripped = self._tripped, False
            return tripped

    def undecided(self, turn: Turn, target: str, now: float) -> dict[str, Future[None]]:
        """Return what a target that would go down has to wait for, by server.

        A future is done once it is known whether its server's breaker trips, or after `give_up`.
        """
        with self._lock:
            found = {}
            for server in self._of_target.get(target, ()):
                if server.state is not CLOSED:
                    self._review(server, now)
                wait = server.waits.get(turn)
                if wait is not None and self._is_open(server, wait, now):
                    if wait.future is None or wait.future.done():
                        wait.future = Future()
                    found[server.name] = wait.future
            return found

    def give_up(self, turn: Turn, name: str, now: float) -> None:
        """Let a sync wait for a server no longer: what is not decided does not count as down."""
        with self._lock:
            server = self._servers[name]
            if (wait := server.waits.get(turn)) is not None:
                wait.given_up = True
                server.await_no_longer(wait)
                self._review(server, now)

    def hold(self, target: str, now: float) -> tuple[str, float] | None:
        """Return which server's breaker holds a target, and until when; None if none does."""
        with self._lock:
            trips = [
                (server.name, server.state.trip.until)
                for server in self._of_target.get(target, ())
                if server.state.trip is not None and holds(server.state, now)
            ]
        return max(trips, key=lambda trip: trip[1], default=None)

    def end(self, turn: Turn, now: float, *, stopped: bool = False) -> list[BreakerNews]:
        """Note that a sync has ended; return what has changed since the last one did.

        What it has not decided does not count as down; if it was ``stopped``, it says nothing.
        """
        with self._lock:
            news = []
            for server in self._servers.values():
                if (wait := server.waits.pop(turn, None)) is not None:
                    wait.end()
                    server.await_no_longer(wait)
                if server.state is not CLOSED and not stopped:
                    self._review(server, now)
                news += self._changed(server, BreakerChange.ENDED)
            return news

    def release(self, name: str | None, now: float) -> list[BreakerNews]:
        """Let the targets of a server go, or of all; return which breakers had tripped."""
        with self._lock:
            news: list[BreakerNews] = []
            for server in self._servers.values():
                if self._breaker is not None and name in {None, server.name}:
                    server.state = released(self._breaker, server.state, now)
                    news += self._changed(server, BreakerChange.RELEASED)
            return news

    def states(self) -> dict[str, BreakerState]:
        """Return all states that must outlive the process, in Unix seconds."""
        with self._lock:
            return {
                name: moved(server.state, self._ahead)
                for name, server in self._servers.items()
                if server.state != CLOSED
            }

    def statuses(self, now: float) -> list[BreakerStatus]:
        """Return how each server's breaker stands."""
        with self._lock:
            return [
                BreakerStatus(server.name, None, 0, len(server.targets))
                if (trip := server.state.trip) is None or not holds(server.state, now)
                else BreakerStatus(
                    server.name, trip.until + self._ahead, len(server.down), len(server.targets)
                )
                for server in self._servers.values()
            ]

    # -- with the lock -----------------------------------------------------------------------

    def _grouped(self, targets: Sequence[Target], old: Mapping[str, _Server]) -> dict[str, _Server]:
        """Divide targets by the servers that they read from; what is known of them stays."""
        servers: dict[str, _Server] = {}
        for target in targets:
            for name in {query.server for query in target.all_queries}:
                server = servers.setdefault(name, _Server(name, {}))
                server.targets[target.key] = target
        for name, server in servers.items():
            before = old.get(name)
            if before is None:
                server.state = self._known.pop(name, CLOSED)
                continue
            server.state, server.told = before.state, before.told
            server.down = before.down & server.targets.keys()
            server.decided = {key: before.decided.get(key, 0) for key in server.targets}
        self._known = {}
        return servers

    def _servers_of_each(self) -> dict[str, tuple[_Server, ...]]:
        found: dict[str, tuple[_Server, ...]] = {}
        for server in self._servers.values():
            for key in server.targets:
                found[key] = (*found.get(key, ()), server)
        return found

    def _review(self, server: _Server, now: float) -> None:
        """Let the breaker trip or end, and those that wait go on where that is known."""
        if self._breaker is None:
            return
        self._tripped |= server.review(self._breaker, self._turns, now)
        for wait in server.waits.values():
            if wait.future is not None and not self._is_open(server, wait, now):
                wait.end()

    def _is_open(self, server: _Server, wait: _Wait, now: float) -> bool:
        """Return whether the targets that a sync has not decided yet may still matter."""
        return (
            self._breaker is not None
            and not wait.given_up
            and not holds(server.state, now)
            and server.state.released_until is None
            and wait.undecided > 0
            and not is_decided(self._breaker, len(wait.down), wait.undecided, len(server.targets))
        )

    def _changed(self, server: _Server, end: BreakerChange) -> list[BreakerNews]:
        """Return what is to be reported of a server; ``end`` is what the end of a trip is."""
        trip, told = server.state.trip, server.told
        if trip is None:
            server.told = None
            return [] if told is None else [self._news(end, server, told)]
        if told is not None and told.at == trip.at:
            return []
        # It tripped as soon as there were too many; now all of them are known.
        trip = replace(trip, down=max(trip.down, len(server.down)), query=server.query())
        server.state, server.told = replace(server.state, trip=trip), trip
        change = BreakerChange.TRIPPED_AGAIN if trip.again else BreakerChange.TRIPPED
        return [self._news(change, server, trip)]

    def _news(self, change: BreakerChange, server: _Server, trip: Trip) -> BreakerNews:
        trip = moved(BreakerState(trip), self._ahead).trip or trip
        return BreakerNews(change, server.name, trip, len(server.down), len(server.targets))
