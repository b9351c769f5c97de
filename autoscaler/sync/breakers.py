"""The scale-down breakers of all Prometheus servers, over all syncs (semantics 8.7).

Of each server's targets it is known whether they would go down, as of the last sync of each: so the
number of them is that of one period.  A sync only counts; nothing looks at all targets.
"""

import math
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
    """A sync, to the breakers: it began at an instant of `clock.steady`."""

    begun: float


@dataclass(slots=True)
class _Wait:
    """What one sync waits for: that enough of a server's targets were decided since it began."""

    undecided: int
    future: Future[None] | None = None

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
    decided: dict[str, float] = field(default_factory=dict)
    down: set[str] = field(default_factory=set)
    waits: dict[Turn, _Wait] = field(default_factory=dict)

    def query(self) -> str:
        """Return the PromQL that most of the targets share that would go down."""
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

    def begin(self, turn: Turn, ahead: float) -> None:
        """Note that a sync begins; the Unix time is ``ahead`` of `clock.steady` by so much."""
        with self._lock:
            self._ahead = ahead
            for server in self._servers.values():
                server.waits[turn] = _Wait(len(server.targets))

    def note(self, target: str, now: float, *, down: bool) -> None:
        """Note that a target was decided, and whether it would go down."""
        with self._lock:
            for server in self._of_target.get(target, ()):
                before, matters = server.decided.get(target, -math.inf), down
                server.decided[target] = now
                for turn, wait in server.waits.items():
                    wait.undecided -= before < turn.begun
                    matters = matters or wait.future is not None
                (server.down.add if down else server.down.discard)(target)
                if matters or server.state is not CLOSED:
                    self._review(server, now)

    def undecided(self, turn: Turn, target: str) -> dict[str, Future[None]]:
        """Return what a target that would go down has to wait for, by server.

        A future is done once it is known whether its server's breaker trips, or after `give_up`.
        """
        with self._lock:
            found = {}
            for server in self._of_target.get(target, ()):
                wait = server.waits.get(turn)
                if wait is not None and self._is_open(server, wait):
                    wait.future = wait.future or Future()
                    found[server.name] = wait.future
            return found

    def give_up(self, turn: Turn, name: str) -> None:
        """Let a sync wait for a server no longer: what is not decided does not count as down."""
        with self._lock:
            if (wait := self._servers[name].waits.get(turn)) is not None:
                wait.end()

    def hold(self, target: str, now: float) -> tuple[str, float] | None:
        """Return which server's breaker holds a target, and until when; None if none does."""
        with self._lock:
            trips = [
                (server.name, server.state.trip.until)
                for server in self._of_target.get(target, ())
                if server.state.trip is not None and now < server.state.trip.until
            ]
        return max(trips, key=lambda trip: trip[1], default=None)

    def end(self, turn: Turn) -> list[BreakerNews]:
        """Note that a sync has ended; return what has changed since the last one did."""
        with self._lock:
            news = []
            for server in self._servers.values():
                if (wait := server.waits.pop(turn, None)) is not None:
                    wait.end()
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
                if (trip := server.state.trip) is None or now >= trip.until
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
            server.decided = {key: before.decided.get(key, -math.inf) for key in server.targets}
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
        server.state = reviewed(
            self._breaker, server.state, len(server.down), len(server.targets), now
        )
        for wait in server.waits.values():
            if wait.future is not None and not self._is_open(server, wait):
                wait.end()

    def _is_open(self, server: _Server, wait: _Wait) -> bool:
        """Return whether the targets that a sync has not decided yet may still matter."""
        return (
            self._breaker is not None
            and server.state == CLOSED
            and wait.undecided > 0
            and not is_decided(self._breaker, len(server.down), wait.undecided, len(server.targets))
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
