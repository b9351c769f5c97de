"""Syncs of targets, and what is carried from one to the next."""

import threading
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Self

from autoscaler import clock
from autoscaler.core.history import History
from autoscaler.core.spec import Flags
from autoscaler.core.target import Target
from autoscaler.sync.histories import Histories
from autoscaler.sync.overlaps import Overlaps
from autoscaler.sync.ports import Ports
from autoscaler.sync.priority_pool import PriorityPool
from autoscaler.sync.query_lanes import QueryLanes
from autoscaler.sync.run import SyncRun, SyncTimes
from autoscaler.sync.state import Shared

WRITES_PER_SECOND = 100.0

_READS_AT_ONCE = 24
_WRITES_AT_ONCE = 24


class Syncer:
    """Syncs targets, and carries each one's history from one sync to the next.

    ``stop`` ends syncs early: writes in hand are finished, nothing new is begun.  Syncs of
    different targets may run at the same time.  ``known`` are the histories to go on with, by
    the clock at the beginning of ``steps``.
    """

    def __init__(
        self,
        flags: Flags,
        ports: Ports,
        stop: threading.Event,
        writes_per_second: float = WRITES_PER_SECOND,
        slow_seconds: float = 2.0,
        known: Mapping[str, History] | None = None,
        steps: clock.Steps | None = None,
    ) -> None:
        self.histories = Histories(
            ports.journal, known or {}, steps or clock.Steps(clock.wall(), clock.steady())
        )
        self._shared = Shared(
            flags=flags,
            ports=ports,
            stop=stop,
            histories=self.histories,
            overlaps=Overlaps(),
            queries=QueryLanes(slow_seconds),
            reads=PriorityPool("read", _READS_AT_ONCE, stop),
            writes=PriorityPool("write", _WRITES_AT_ONCE, stop, writes_per_second),
        )

    def __enter__(self) -> Self:
        """Return the syncer itself."""
        return self

    def __exit__(self, *_: object) -> None:
        """Wait for the calls in hand; those that have not begun are dropped."""
        self._shared.queries.close()
        for calls in (self._shared.reads, self._shared.writes):
            calls.shutdown()

    def register_cached(self, targets: Sequence[Target]) -> None:
        """Take in the selectors that are at hand, before any of the targets is synced."""
        self._shared.register_cached(targets)

    def change(
        self, flags: Flags, ports: Ports, targets: Sequence[Target], writes_per_second: float
    ) -> None:
        """Go on with other targets, flags and ports.  No sync may run meanwhile.

        A history follows its target's key: what is no longer there is forgotten, all else stays.
        """
        shared = self._shared
        shared.retain(targets)
        shared.writes.set_rate(writes_per_second)
        self._shared = replace(shared, flags=flags, ports=ports)

    def sync(
        self,
        targets: Sequence[Target],
        now: float,
        budget: float,
        *,
        steady: float | None = None,
        due: float | None = None,
    ) -> None:
        """Sync every target once, from the Unix time ``now`` on, within ``budget`` seconds.

        ``due`` is when the sync ought to have begun, by default ``now``.  If the clock was set
        since the last sync, which ``steady`` (of `clock.steady`, at ``now``) shows, windows and
        periods move with it.
        """
        seconds = clock.steady() if steady is None else steady
        step, as_of = self.histories.follow_clock(now, seconds)
        if step:
            self._shared.ports.reporter.clock_set(step)
        times = SyncTimes(now, now if due is None else due, as_of, seconds, budget)
        SyncRun(self._shared, targets, times).run()
