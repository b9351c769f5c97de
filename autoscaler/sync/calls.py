"""Calls on threads: the most urgent first, with room for each group, and without starvation."""

import heapq
import itertools
import math
import threading
from collections import Counter
from collections.abc import Callable, Hashable, Iterable, Mapping
from collections.abc import Set as AbstractSet
from concurrent.futures import Future, ThreadPoolExecutor
from functools import partial
from typing import Any, Generic, NamedTuple, TypeVar

from autoscaler import clock
from autoscaler.core.series import QueryFailure, QueryResult
from autoscaler.core.target import QueryKey
from autoscaler.sync.ports import MetricsReader
from autoscaler.token_bucket import TokenBucket

R = TypeVar("R")
K = TypeVar("K", bound=Hashable)

Urgency = tuple[int, float]
"""The order of calls: smaller values first."""


class _WaitingCall(NamedTuple):
    """A waiting call; the unique ``number`` ensures that later fields are never compared."""

    urgency: Urgency
    number: int
    group: str
    future: Future[Any]
    call: Callable[[], Any]


def _drop_cancelled(waiting: list[_WaitingCall]) -> None:
    """Drop cancelled calls from the top."""
    while waiting and waiting[0].future.cancelled():
        heapq.heappop(waiting)


class PriorityPool:
    """Runs calls on ``at_once`` threads in order of urgency, at a limited rate if one is set.

    The next call is chosen when a thread is free and the rate permits one. One ``group`` (such as a
    namespace) has at most two thirds of the threads, so that a slow one leaves room for the others.
    After ``stop`` is set no other call begins.
    """

    def __init__(self, name: str, at_once: int, stop: threading.Event) -> None:
        self._threads = ThreadPoolExecutor(at_once, name)
        self._most_of_a_group = max(1, at_once * 2 // 3)
        self._bucket: TokenBucket | None = None
        self._stop = stop
        self._lock = threading.Lock()
        self._numbers = itertools.count()
        self._waiting: list[_WaitingCall] = []
        self._held: dict[str, list[_WaitingCall]] = {}
        """By group: calls that wait until a call of the same group has ended."""
        self._running: Counter[str] = Counter()

    def set_rate(self, per_second: float) -> None:
        """Run at most ``rate`` calls per second from now on, after a burst for ten seconds."""
        most, seconds = max(1.0, per_second * 10.0), 1.0 / per_second
        if self._bucket is None or self._bucket.refill_seconds != seconds:
            self._bucket = TokenBucket(most, seconds, clock.monotonic())

    def submit(self, how_urgent: Urgency, group: str, call: Callable[[], R]) -> Future[R]:
        """Submit a call; its future may be cancelled until the call begins."""
        waiting = _WaitingCall(how_urgent, next(self._numbers), group, Future(), call)
        with self._lock:
            heapq.heappush(self._waiting, waiting)
        self._threads.submit(self._work)
        return waiting.future

    def shutdown(self) -> None:
        """Wait for running calls, and cancel the others."""
        self._threads.shutdown(cancel_futures=True)
        for waiting in (*self._waiting, *itertools.chain(*self._held.values())):
            waiting.future.cancel()

    def _work(self) -> None:
        while self._run_most_urgent():
            """Also run calls that waited for a place in their group."""

    def _run_most_urgent(self) -> bool:
        """Run the most urgent call, if any; return whether a held call may run now."""
        with self._lock:
            _drop_cancelled(self._waiting)
            if not self._waiting:
                return False
            bucket = self._bucket
            wait = 0.0 if bucket is None else bucket.reserve(clock.monotonic())
        if wait > 0:
            self._stop.wait(wait)
        chosen = self._choose(bucket)
        if chosen is None:
            return False
        try:
            result = chosen.call()
        except BaseException as error:  # noqa: BLE001 - the future has it
            chosen.future.set_exception(error)
        else:
            chosen.future.set_result(result)
        return self._release(chosen.group)

    def _choose(self, bucket: TokenBucket | None) -> _WaitingCall | None:
        """Take the most urgent call whose group has room; hold the others of a full group.

        Without such a call the token returns to the ``bucket``.
        """
        with self._lock:
            while self._waiting:
                waiting = heapq.heappop(self._waiting)
                if waiting.future.cancelled():
                    continue
                if self._running[waiting.group] >= self._most_of_a_group:
                    heapq.heappush(self._held.setdefault(waiting.group, []), waiting)
                elif self._stop.is_set():
                    waiting.future.cancel()
                elif waiting.future.set_running_or_notify_cancel():
                    self._running[waiting.group] += 1
                    return waiting
            if bucket is not None:
                bucket.give_back()
        return None

    def _release(self, group: str) -> bool:
        """Move a group's most urgent held call to the waiting ones; return whether one exists."""
        with self._lock:
            self._running -= Counter((group,))
            waiting = self._held.get(group, [])
            _drop_cancelled(waiting)
            if waiting:
                heapq.heappush(self._waiting, heapq.heappop(waiting))
            if not waiting:
                self._held.pop(group, None)
            return bool(self._waiting)


NOT_BEGUN = "no turn came before the end of the sync; the next one tries again"

_QUERIES_AT_ONCE = 16
"""The number of threads of each of the two pools of a server."""

_END_SECONDS = 0.1
"""How long before its deadline a reader gives up, so that it returns in time."""


class LeastRecentlyServed(Generic[K]):
    """The time at which the call of each key was last served, so that none starves. Thread-safe.

    A call that began in the second half of its time and was ended by its deadline does not count as
    served: otherwise the same calls might be last, and end early, each time.
    """

    def __init__(self) -> None:
        self._last: dict[K, float] = {}

    def submit(
        self,
        pool: PriorityPool,
        key: K,
        group: str,
        deadline: float,
        call: Callable[[], R],
        late: Callable[[], R],
    ) -> Future[R]:
        """Run a key's call in a group of a pool; return ``late`` after the deadline."""
        serve = partial(self.serve, key, clock.monotonic(), deadline, call, late)
        return pool.submit(self.urgency(key), group, serve)

    def serve(
        self, key: K, since: float, deadline: float, call: Callable[[], R], late: Callable[[], R]
    ) -> R:
        """Run a key's call now; it was submitted at the instant ``since``."""
        begun, before = clock.monotonic(), self._last.get(key, -math.inf)
        if begun >= deadline:
            return late()
        self._last[key] = begun
        result = call()
        if clock.monotonic() >= deadline - _END_SECONDS and begun - since > deadline - begun:
            self._last[key] = before
        return result

    def urgency(self, key: K) -> Urgency:
        """Return the urgency of a key's call: it rises with the time since the key was served."""
        return 0, self._last.get(key, -math.inf)

    def retain(self, keys: AbstractSet[K]) -> None:
        """Forget all other keys."""
        for gone in set(self._last) - keys:
            del self._last[gone]


_CALLS_AT_ONCE, _FEWEST_AT_ONCE, _OF_ALL_AT_ONCE = 24, 2, 192
"""Threads of one kind for one API server: the most, the fewest with many clusters, and the sum."""


class ClusterCalls:
    """Threads for calls to API servers; each cluster has its own.

    A slow cluster delays only its own targets. The more clusters there are, the fewer threads each
    has.
    """

    def __init__(self, stop: threading.Event, writes_per_second: Mapping[str, float]) -> None:
        self._stop = stop
        self.reads: dict[str, PriorityPool] = {}
        self.writes: dict[str, PriorityPool] = {}
        """By cluster: the pool of its calls."""
        self.change(writes_per_second)

    def change(self, writes_per_second: Mapping[str, float]) -> None:
        """Continue with these clusters, at their rates; no call of another one may be running."""
        at_once = _OF_ALL_AT_ONCE // max(1, len(writes_per_second))
        at_once = min(_CALLS_AT_ONCE, max(_FEWEST_AT_ONCE, at_once))

        def pools_of(kind: str, before: Mapping[str, PriorityPool]) -> dict[str, PriorityPool]:
            return {
                name: before.get(name)
                or PriorityPool(f"{kind} {name}".rstrip(), at_once, self._stop)
                for name in writes_per_second
            }

        before = self.reads, self.writes
        # Replaced as a whole: syncs of other clusters run meanwhile.
        self.reads, self.writes = pools_of("read", self.reads), pools_of("write", self.writes)
        for name, per_second in writes_per_second.items():
            self.writes[name].set_rate(per_second)
        for pools in before:
            for gone in pools.keys() - writes_per_second.keys():
                pools[gone].shutdown()

    def close(self) -> None:
        """Wait for running calls, and cancel the others."""
        for pool in (*self.reads.values(), *self.writes.values()):
            pool.shutdown()


class FairQueries:
    """Asks queries on threads; each server has its own.

    A slow server delays only its own queries. Queries that took more than ``slow_seconds`` last
    time have separate threads.
    """

    def __init__(self, slow_seconds: float) -> None:
        self._slow_seconds = slow_seconds
        self._stop = threading.Event()
        self._lock = threading.Lock()
        self._pools: dict[str, tuple[PriorityPool, PriorityPool]] = {}
        """By server: the pools for fast and for slow queries."""
        self._slow: set[QueryKey] = set()
        self._served = LeastRecentlyServed[QueryKey]()

    def in_order(self, queries: Iterable[QueryKey]) -> list[QueryKey]:
        """Return the queries of each server in the order in which to ask them."""
        return sorted(queries, key=self._served.urgency)

    def ask(
        self, metrics: MetricsReader, query: QueryKey, deadline: float
    ) -> Future[QueryResult | QueryFailure]:
        """Ask one query; return a QueryFailure if it could not begin before the deadline."""
        pool = self._pools_of(query.server)[query in self._slow]
        call = partial(self._ask, metrics, query, deadline)
        late = partial(QueryFailure, NOT_BEGUN)
        return self._served.submit(pool, query, query.promql, deadline, call, late)

    def retain(self, queries: AbstractSet[QueryKey]) -> None:
        """Forget queries that are no longer asked. None of them may be running."""
        self._slow.intersection_update(queries)
        self._served.retain(queries)
        left = {query.server for query in queries}
        with self._lock:
            gone = [self._pools.pop(server) for server in self._pools.keys() - left]
        for pool in itertools.chain(*gone):
            pool.shutdown()

    def close(self) -> None:
        """Wait for running queries, and cancel the others."""
        self._stop.set()
        for pool in itertools.chain(*self._pools.values()):
            pool.shutdown()

    def _pools_of(self, server: str) -> tuple[PriorityPool, PriorityPool]:
        with self._lock:
            if server not in self._pools:
                names = (f"{kind} {server}".rstrip() for kind in ("query", "slow-query"))
                quick, slow = (PriorityPool(name, _QUERIES_AT_ONCE, self._stop) for name in names)
                self._pools[server] = quick, slow
            return self._pools[server]

    def _ask(
        self, metrics: MetricsReader, query: QueryKey, deadline: float
    ) -> QueryResult | QueryFailure:
        begun = clock.monotonic()
        answer = metrics.query(query.promql, None, deadline)
        slow = clock.monotonic() - begun > self._slow_seconds
        (self._slow.add if slow else self._slow.discard)(query)
        return answer
