"""Syncs targets again and again."""

import threading
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Self

from autoscaler.clock import Steps
from autoscaler.core.breaker import Breaker, BreakerState
from autoscaler.core.history import History
from autoscaler.core.spec import Flags
from autoscaler.core.target import Target
from autoscaler.sync.breakers import Breakers, BreakerStatus
from autoscaler.sync.calls import ClusterCalls, FairQueries
from autoscaler.sync.ports import BreakerNews, Ports
from autoscaler.sync.run import SyncRun, SyncStart
from autoscaler.sync.state import Histories, SyncState

USUAL_WRITES_PER_SECOND = 100.0


class Syncer:
    """Syncs targets, those of several syncs at the same time, and carries their histories on.

    ``stop`` ends syncs early: calls that run are finished, no other begins.  ``known`` are the
    histories to go on with, by the clock at the beginning of ``steps``.  ``writes_per_second`` are
    by cluster, `USUAL_WRITES_PER_SECOND` for one that has none.
    """

    def __init__(
        self,
        flags: Flags,
        ports: Ports,
        stop: threading.Event,
        writes_per_second: Mapping[str, float] | None = None,
        slow_seconds: float = 2.0,
        known: Mapping[str, History] | None = None,
        steps: Steps | None = None,
    ) -> None:
        steps = steps or Steps(ports.clock.wall(), ports.clock.steady())
        self.histories = Histories(ports.history_store, known or {}, steps)
        self._state = SyncState(
            flags=flags,
            ports=ports,
            stop=stop,
            histories=self.histories,
            queries=FairQueries(slow_seconds),
            cluster_calls=ClusterCalls(stop, _rates(ports, writes_per_second or {})),
            breakers=Breakers(),
        )

    def __enter__(self) -> Self:
        """Return the syncer itself."""
        return self

    def __exit__(self, *_: object) -> None:
        """Wait for the calls that run; those that have not begun are cancelled."""
        self._state.queries.close()
        self._state.cluster_calls.close()

    def register_cached(self, targets: Sequence[Target]) -> None:
        """Remember the cached selectors, before any of the targets is synced."""
        self._state.register_cached(targets)

    def change(
        self,
        flags: Flags,
        ports: Ports,
        targets: Sequence[Target],
        writes_per_second: Mapping[str, float],
        breaker: Breaker | None = None,
    ) -> None:
        """Go on with other targets, flags and ports; a target whose key stays keeps its history.

        No sync may run of one that is changed or removed; others go on with the ports of before.
        """
        self._state.retain(targets)
        self._state.cluster_calls.change(_rates(ports, writes_per_second))
        self._state = replace(self._state, flags=flags, ports=ports)
        self._state.tell(self._state.breakers.change(breaker, targets))

    def resume_absence(self, decided: Mapping[str, float]) -> None:
        """Go on from when an earlier run decided about targets last, by `clock.steady`."""
        self._state.last_sync.update(decided)

    def resume_breakers(
        self, known: Mapping[str, BreakerState], wall: float, steady: float
    ) -> None:
        """Go on with an earlier run's breakers, by a clock that is at both instants now."""
        self._state.breakers.resume(known, wall, steady)

    def release(self, server: str | None = None) -> list[BreakerNews]:
        """Let go what the breaker of a server holds, or of all; any thread may call this."""
        news = self._state.breakers.release(server, self._state.ports.clock.steady())
        self._state.tell(news)
        return news

    def breaker_statuses(self) -> list[BreakerStatus]:
        """Return how the scale-down breaker of each server stands."""
        return self._state.breakers.statuses(self._state.ports.clock.steady())

    def sync(
        self,
        targets: Sequence[Target],
        now: float,
        budget: float,
        *,
        steady: float | None = None,
        due: float | None = None,
        at: float | None = None,
    ) -> None:
        """Sync every target once, from the Unix time ``now`` on, within ``budget`` seconds.

        It was ``due``, by default ``now``; queries are evaluated as of ``at``, by default as of the
        servers' own now.  If the clock was set since the last sync, which ``steady`` (of
        `clock.steady`, at ``now``) shows, windows and periods move with it.
        """
        seconds = self._state.ports.clock.steady() if steady is None else steady
        step, as_of = self.histories.follow_clock(now, seconds)
        if step:
            self._state.ports.reporter.clock_set(step)
        times = SyncStart(now, now if due is None else due, as_of, seconds, budget, at)
        SyncRun(self._state, targets, times).run()


def _rates(ports: Ports, writes_per_second: Mapping[str, float]) -> dict[str, float]:
    return {name: writes_per_second.get(name, USUAL_WRITES_PER_SECOND) for name in ports.clusters}
