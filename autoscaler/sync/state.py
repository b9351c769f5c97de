"""The state that a daemon's syncs share, and their threads."""

import threading
from collections.abc import Callable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from concurrent.futures import Future
from typing import Self, TypeVar

from autoscaler import clock
from autoscaler.core.breaker import Breaker
from autoscaler.core.decision import Decision
from autoscaler.core.history import History, shifted
from autoscaler.core.observation import Scale
from autoscaler.core.spec import Flags
from autoscaler.core.target import Target
from autoscaler.sync.breakers import Breakers, BreakerStatus
from autoscaler.sync.calls import ClusterCalls, FairQueries, LeastRecentlyServed
from autoscaler.sync.overlaps import Overlaps
from autoscaler.sync.ports import BreakerNews, HistoryStore, Ports

R = TypeVar("R")


class Histories:
    """The history of each target; a store keeps it beyond the process.

    If the system's clock is set, all histories move with it. A sync that runs meanwhile continues
    with the clock ``as_of`` its beginning.
    """

    def __init__(
        self, store: HistoryStore, known: Mapping[str, History], steps: clock.Steps
    ) -> None:
        """Continue with ``known``, as of the clock at the beginning of ``steps``."""
        self._store = store
        self._by_target = dict(known)
        self._lock = threading.RLock()
        self._steps = steps
        self._moved = 0.0

    @property
    def as_of(self) -> float:
        """An identity of the current clock: the seconds by which it was set so far."""
        return self._moved

    def follow_clock(self, wall: float, steady: float) -> tuple[float, float]:
        """Move with the clock if it was set; return by how many seconds, and `as_of`."""
        with self._lock:
            total = self._steps.total(wall, steady)
            step = total - self._moved
            if step:
                self._moved = total
                for key, history in self._by_target.items():
                    self._by_target[key] = shifted(history, step)
                self._store.shift(step)
            return step, self._moved

    def get(self, target: str, as_of: float) -> History:
        """Return a target's history; an empty one for a new target."""
        with self._lock:
            return _moved(self._by_target.get(target, History()), as_of - self._moved)

    def snapshot(self, wall: float, steady: float) -> Mapping[str, History]:
        """Return all histories, by the current clock."""
        with self._lock:
            by_target = dict(self._by_target)
            ahead = self._steps.total(wall, steady) - self._moved
        return {key: _moved(history, ahead) for key, history in by_target.items()}

    def put(self, target: str, history: History, as_of: float) -> History:
        """Store a target's history until the next sync; return it by the current clock."""
        with self._lock:
            moved = self._by_target[target] = _moved(history, self._moved - as_of)
            return moved

    def intend(self, target: str, history: History, as_of: float) -> Future[None]:
        """Store a history whose write is about to be sent; done when the store has it."""
        with self._lock:
            return self._store.intend(target, self.put(target, history, as_of))

    def keep(self, decisions: Mapping[str, Decision], as_of: float) -> None:
        """Pass the histories of a sync to the store."""
        with self._lock:
            step = self._moved - as_of
            self._store.keep(
                [
                    (target, self._by_target[target], decision.time + step)
                    for target, decision in decisions.items()
                ]
            )

    def retain(self, targets: AbstractSet[str]) -> None:
        """Forget all targets but these."""
        with self._lock:
            gone = self._by_target.keys() - targets
            for target in gone:
                del self._by_target[target]
            if gone:
                self._store.drop(gone)


def _moved(history: History, seconds: float) -> History:
    return shifted(history, seconds) if seconds else history


USUAL_WRITES_PER_SECOND = 100.0


class SyncState:
    """What all syncs share; syncs of different targets may use it at the same time.

    ``stop`` ends syncs early: running calls are finished, no other begins. ``known`` are the
    histories to continue, by the clock at the beginning of ``steps``. ``writes_per_second`` are by
    cluster, by default `USUAL_WRITES_PER_SECOND`.
    """

    def __init__(
        self,
        flags: Flags,
        ports: Ports,
        stop: threading.Event,
        writes_per_second: Mapping[str, float] | None = None,
        slow_seconds: float = 2.0,
        known: Mapping[str, History] | None = None,
        steps: clock.Steps | None = None,
    ) -> None:
        steps = steps or clock.Steps(ports.clock.wall(), ports.clock.steady())
        self.flags = flags
        self.ports = ports
        self.stop = stop
        self.histories = Histories(ports.history_store, known or {}, steps)
        self.queries = FairQueries(slow_seconds)
        self.cluster_calls = ClusterCalls(stop, _rates(ports, writes_per_second or {}))
        self.breakers = Breakers(
            lambda states: self.ports.history_store.keep_breakers(states)  # noqa: PLW0108 - these ports are replaced
        )
        self.overlaps = Overlaps()
        self.last_sync: dict[str, float] = {}
        """When the last sync of each target, by any process, began (`clock.steady`)."""
        self.last_read: dict[str, float] = {}
        """When the last sync of this process that read its scale began."""
        self.scale_read_order = LeastRecentlyServed[str]()
        self.pod_read_order = LeastRecentlyServed[str]()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        """Wait for running calls, and cancel the others."""
        self.queries.close()
        self.cluster_calls.close()

    def change(
        self,
        flags: Flags,
        ports: Ports,
        targets: Sequence[Target],
        writes_per_second: Mapping[str, float],
        breaker: Breaker | None = None,
    ) -> None:
        """Continue with other targets, flags and ports; histories stay with their keys.

        No changed or removed target may be in a sync; other syncs keep the previous ports.
        """
        keys = {target.key for target in targets}
        self.queries.retain({query.key for target in targets for query in target.all_queries})
        for store in (self.histories, self.overlaps, self.scale_read_order, self.pod_read_order):
            store.retain(keys)
        for instants in (self.last_sync, self.last_read):
            for gone in instants.keys() - keys:
                del instants[gone]
        self.cluster_calls.change(_rates(ports, writes_per_second))
        self.flags, self.ports = flags, ports
        ports.reporter.configure(targets, flags)
        self.report_breakers(self.breakers.change(breaker, targets))

    def read(
        self,
        target: Target,
        reads: LeastRecentlyServed[str],
        deadline: float,
        call: Callable[[], R],
    ) -> Future[R]:
        """Read for one target on a thread; a call past its deadline returns a failure at once."""
        pool = self.cluster_calls.reads[target.cluster]
        return reads.submit(pool, target.key, target.namespace, deadline, call, call)

    def register_cached(self, targets: Sequence[Target]) -> None:
        """Remember the cached selectors of targets without a known selector."""
        for target in targets:
            if target.key not in self.overlaps:
                ref = target.spec.scale_target_ref
                cluster = self.ports.clusters[target.cluster]
                scale = cluster.cached_scale(target.namespace, ref)
                if isinstance(scale, Scale):
                    self.overlaps.register(target.key, target.place, scale.selector)

    # -- scale-down breakers -----------------------------------------------------------------

    def release(self, server: str | None = None) -> list[BreakerNews]:
        """Release the targets that the breaker of one server holds, or of each. Thread-safe."""
        news = self.breakers.release(server, self.ports.clock.steady())
        self.report_breakers(news)
        return news

    def breaker_statuses(self) -> list[BreakerStatus]:
        """Return the state of each server's scale-down breaker."""
        return self.breakers.statuses(self.ports.clock.steady())

    def report_breakers(self, news: Sequence[BreakerNews]) -> None:
        """Report changes of the scale-down breakers."""
        for change in news:
            self.ports.reporter.breaker_changed(change)


def _rates(ports: Ports, writes_per_second: Mapping[str, float]) -> dict[str, float]:
    return {name: writes_per_second.get(name, USUAL_WRITES_PER_SECOND) for name in ports.clusters}
