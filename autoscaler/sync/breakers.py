"""The scale-down breakers of all Prometheus servers, and the syncs that wait (semantics 8.7)."""

import threading
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future
from dataclasses import replace
from typing import NamedTuple

from autoscaler.core.breaker import CLOSED, Breaker, BreakerState, Trip
from autoscaler.core.history import shifted
from autoscaler.core.target import Target
from autoscaler.sync.down_counts import ServerCount, holds, released
from autoscaler.sync.ports import BreakerChange, BreakerNews


class BreakerStatus(NamedTuple):
    """The state of a server's breaker: it holds ``down`` targets ``until`` a Unix time."""

    server: str
    until: float | None
    down: int
    of: int


class Breakers:
    """Counts the targets that would scale down, and holds them if too many. Thread-safe.

    ``keep`` saves all states. It is called at each change that must survive a restart; for a trip
    immediately, even if the trip is reported later.
    """

    def __init__(self, keep: Callable[[Mapping[str, BreakerState]], None] = lambda _: None) -> None:
        # Also held while states are saved, so that an older state never overwrites a newer one.
        self._lock = threading.RLock()
        self._keep = keep
        self._ahead = 0.0
        """The seconds by which Unix time is ahead of `clock.steady`."""
        self._resumed: Mapping[str, BreakerState] = {}
        self._servers: dict[str, ServerCount] = {}
        self._of_target: dict[str, tuple[ServerCount, ...]] = {}
        self._begun = 0
        """The number of syncs that have begun."""
        self._waiting: dict[tuple[str, int], Future[None]] = {}
        """By server and sync: what to resume when it is known whether that breaker trips."""

    def resume(self, states: Mapping[str, BreakerState], wall: float, steady: float) -> None:
        """Continue with the states of an earlier run, as of ``wall``; must be called first."""
        self._ahead = wall - steady
        self._resumed = {
            name: shifted(state, -self._ahead)
            for name, state in states.items()
            if state.trip is None or wall < state.trip.until
        }

    @property
    def enabled(self) -> bool:
        """Whether there is a breaker; without one, syncs spend no time on it."""
        return bool(self._servers)

    def change(self, breaker: Breaker | None, targets: Sequence[Target]) -> list[BreakerNews]:
        """Watch these targets from now on; no changed or removed target may be in a sync.

        A trip continues unless its server has too few targets now, or there is no breaker.
        """
        with self._lock:
            old, self._of_target = self._servers, {}
            self._servers = {} if breaker is None else self._grouped(breaker, targets, old)
            for server in self._servers.values():
                for key in (*server.targets, *server.in_shadow):
                    self._of_target[key] = (*self._of_target.get(key, ()), server)
            self._resumed = {}
            for waiting in list(self._waiting):
                self._end_wait(waiting)
            news = [
                self._news(BreakerChange.REMOVED, server, server.reported)
                for name, server in old.items()
                if name not in self._servers and server.reported is not None
            ]
            for server in self._servers.values():
                if len(server.targets) < server.breaker.min_targets:
                    server.state = CLOSED
                if server.reported is None and server.state.trip is not None:
                    server.reported = server.state.trip
                    news.append(self._news(BreakerChange.RESUMED, server, server.reported))
                news += self._changed(server, BreakerChange.REMOVED)
            return self._save(news)

    def begin(self, targets: Sequence[Target], ahead: float) -> int:
        """Note that a sync begins; return its number.  Unix time is ``ahead`` of `clock.steady`."""
        with self._lock:
            self._ahead = ahead
            self._begun += 1
            for server in self._servers.values():
                server.begin(self._begun)
            for target in targets:
                for server in self._of_target.get(target.key, ()):
                    server.expect(self._begun, target.key)
            return self._begun

    def note(self, target: str, now: float, *, down: bool, in_shadow: bool = False) -> None:
        """Note whether a target was decided to scale down; one in shadow does not count."""
        with self._lock:
            for server in self._of_target.get(target, ()):
                if server.counts(target, in_shadow=in_shadow):
                    server.note(self._begun, target, down=down)
                if down or self._waiting or server.state is not CLOSED:
                    self._review(server, now)

    def undecided(self, sync: int, target: str, now: float) -> dict[str, Future[None]]:
        """Return futures by server: done when the count is complete, or after `give_up`."""
        with self._lock:
            futures = {}
            for server in self._of_target.get(target, ()):
                if server.state is not CLOSED:
                    self._review(server, now)
                if server.is_open(sync, now):
                    future = self._waiting.get((server.name, sync))
                    if future is None or future.done():
                        future = self._waiting[server.name, sync] = Future()
                    futures[server.name] = future
            return futures

    def give_up(self, sync: int, name: str, now: float) -> None:
        """End a sync's wait for a server: undecided targets do not count as down."""
        with self._lock:
            server = self._servers.get(name)
            if server is not None and server.give_up(sync):
                self._review(server, now)

    def holds(self, target: str, now: float) -> dict[str, float]:
        """Return the servers whose breakers hold a target, and the end of each hold."""
        with self._lock:
            return {
                server.name: server.state.trip.until
                for server in self._of_target.get(target, ())
                if server.state.trip is not None and holds(server.state, now)
            }

    def end(self, sync: int, now: float, *, stopped: bool = False) -> list[BreakerNews]:
        """Note the end of a sync, and return the changes; if ``stopped``, it proves nothing."""
        with self._lock:
            news = []
            for server in self._servers.values():
                server.end(sync)
                self._end_wait((server.name, sync))
                if server.state is not CLOSED and not stopped:
                    self._review(server, now)
                news += self._changed(server, BreakerChange.ENDED)
            return self._save(news)

    def release(self, name: str | None, now: float) -> list[BreakerNews]:
        """Release the targets of a server, or of all; return which breakers had tripped."""
        with self._lock:
            news: list[BreakerNews] = []
            for server in self._servers.values():
                if name in {None, server.name}:
                    server.state = released(server.breaker, server.state, now)
                    news += self._changed(server, BreakerChange.RELEASED)
            return self._save(news)

    def states(self) -> dict[str, BreakerState]:
        """Return all states that must survive the process, in Unix seconds."""
        with self._lock:
            return {
                name: shifted(server.state, self._ahead)
                for name, server in self._servers.items()
                if server.state != CLOSED
            }

    def statuses(self, now: float) -> list[BreakerStatus]:
        """Return the state of each server's breaker."""
        with self._lock:
            statuses = []
            for server in self._servers.values():
                until, down, trip = None, 0, server.state.trip
                if trip is not None and holds(server.state, now):
                    until, down = trip.until + self._ahead, len(server.down)
                statuses.append(BreakerStatus(server.name, until, down, len(server.targets)))
            return statuses

    # -- with the lock -----------------------------------------------------------------------

    def _grouped(
        self, breaker: Breaker, targets: Sequence[Target], old: Mapping[str, ServerCount]
    ) -> dict[str, ServerCount]:
        """Group targets by the servers that they read from; the state of targets stays.

        A target in shadow is not written, and does not count.
        """
        servers: dict[str, ServerCount] = {}
        for target in targets:
            if target.in_shadow:
                continue
            for name in {query.server for query in target.count_queries}:
                server = servers.setdefault(name, ServerCount(name, breaker))
                server.targets[target.key] = target
        for name, server in servers.items():
            if name in old:
                server.go_on_from(old[name])
            else:
                server.state = self._resumed.get(name, CLOSED)
        return servers

    def _review(self, server: ServerCount, now: float) -> None:
        """Trip or end the breaker, and release the waiting syncs if that is decided."""
        if server.review(self._begun, now):
            self._keep(self.states())
        for name, sync in list(self._waiting):
            if name == server.name and not server.is_open(sync, now):
                self._end_wait((name, sync))

    def _end_wait(self, waiting: tuple[str, int]) -> None:
        """Release the waiting syncs."""
        future = self._waiting.pop(waiting, None)
        # The driver may have cancelled it.
        if future is not None and future.set_running_or_notify_cancel():
            future.set_result(None)

    def _save(self, news: list[BreakerNews]) -> list[BreakerNews]:
        """Save the states if they have changed; return the changes."""
        if news:
            self._keep(self.states())
        return news

    def _changed(self, server: ServerCount, end: BreakerChange) -> list[BreakerNews]:
        """Return the changes of a server; ``end`` is the kind of the end of a trip."""
        trip, before = server.state.trip, server.reported
        if trip is None:
            server.reported = None
            return [] if before is None else [self._news(end, server, before)]
        if before is not None and before.at == trip.at:
            return []
        # It tripped as soon as there were too many; now all of them are counted.
        trip = replace(trip, down=max(trip.down, len(server.down)), query=server.query())
        server.state, server.reported = replace(server.state, trip=trip), trip
        change = BreakerChange.TRIPPED_AGAIN if trip.again else BreakerChange.TRIPPED
        return [self._news(change, server, trip)]

    def _news(self, change: BreakerChange, server: ServerCount, trip: Trip) -> BreakerNews:
        trip = shifted(trip, self._ahead)
        return BreakerNews(change, server.name, trip, len(server.down), len(server.targets))
