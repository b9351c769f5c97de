"""Which calls come first where there is no time for all: those served longest ago."""

import math
import threading
from collections.abc import Callable, Iterable
from collections.abc import Set as AbstractSet
from concurrent.futures import Future
from functools import partial
from typing import TypeVar

from autoscaler import clock
from autoscaler.core.series import QueryFailure, QueryResult
from autoscaler.core.target import QueryKey
from autoscaler.sync.ports import MetricsReader
from autoscaler.sync.priority_pool import PriorityPool, Urgency

R = TypeVar("R")

NOT_BEGUN = "no turn came before the end of the sync; the next one tries again"

_QUERIES_AT_ONCE = 16
"""In each of the two pools of a server."""

_END_SECONDS = 0.1
"""So long before its deadline a reader gives up, to be back by then."""


class LeastRecentlyServed:
    """When the call of each key was last served, so that none is passed over for ever.

    A call that began in the second half of its time and was cut short by its deadline was not
    served: else the same ones might come last, and be cut short, each time.  Thread-safe.
    """

    def __init__(self) -> None:
        self._last: dict[str, float] = {}

    def submit(
        self,
        pool: PriorityPool,
        key: str,
        group: str,
        deadline: float,
        call: Callable[[], R],
        late: Callable[[], R],
    ) -> Future[R]:
        """Run a key's call in a group of a pool; ``late`` instead after the deadline."""
        serve = partial(self.serve, key, clock.monotonic(), deadline, call, late)
        return pool.submit(self.urgency(key), group, serve)

    def serve(
        self, key: str, asked: float, deadline: float, call: Callable[[], R], late: Callable[[], R]
    ) -> R:
        """Run a key's call now, which was submitted at the instant ``asked``."""
        begun, before = clock.monotonic(), self._last.get(key, -math.inf)
        if begun >= deadline:
            return late()
        self._last[key] = begun
        result = call()
        if clock.monotonic() >= deadline - _END_SECONDS and begun - asked > deadline - begun:
            self._last[key] = before
        return result

    def urgency(self, key: str) -> Urgency:
        """Return how urgent a key's call is: the more so the longer ago it was served."""
        return 0, self._last.get(key, -math.inf)

    def in_order(self, keys: Iterable[str]) -> list[str]:
        """Return the keys, the most urgent first."""
        return sorted(keys, key=self.urgency)

    def retain(self, keys: AbstractSet[str]) -> None:
        """Forget all other keys."""
        for gone in list(self._last):
            if gone not in keys:
                del self._last[gone]


class Queries:
    """Asks queries on threads.  Each server has its own, and so costs only its own queries time."""

    def __init__(self, slow_seconds: float) -> None:
        self._slow_seconds = slow_seconds
        self._stop = threading.Event()
        self._lock = threading.Lock()
        self._servers: dict[str, _QueriesOfServer] = {}

    def in_order(self, queries: Iterable[QueryKey]) -> list[QueryKey]:
        """Return the queries in the order in which those of each server should be asked."""
        return sorted(queries, key=lambda query: self._of(query.server).urgency(query.promql))

    def ask(
        self, metrics: MetricsReader, query: QueryKey, deadline: float
    ) -> Future[QueryResult | QueryFailure]:
        """Ask one query; a QueryFailure if it could not begin before the deadline."""
        return self._of(query.server).ask(metrics, query.promql, deadline)

    def retain(self, asked: AbstractSet[QueryKey]) -> None:
        """Forget what is known of queries that are not asked any more.  None of them may run."""
        for server, queries in list(self._servers.items()):
            left = {query.promql for query in asked if query.server == server}
            queries.retain(left)
            if not left:
                del self._servers[server]
                queries.close()

    def close(self) -> None:
        """Wait for the queries that run; those that have not begun are cancelled."""
        self._stop.set()
        for queries in self._servers.values():
            queries.close()

    def _of(self, server: str) -> "_QueriesOfServer":
        known = self._servers.get(server)
        if known is not None:
            return known
        with self._lock:
            new = _QueriesOfServer(server, self._slow_seconds, self._stop)
            return self._servers.setdefault(server, new)


class _QueriesOfServer:
    """Asks the queries of one server; those that were slow last time have threads of their own.

    So they delay only each other.  Slow is what took more than ``slow_seconds``.
    """

    def __init__(self, server: str, slow_seconds: float, stop: threading.Event) -> None:
        self._slow_seconds = slow_seconds
        self._slow: set[str] = set()
        self._served = LeastRecentlyServed()
        self._quick_pool = PriorityPool(f"query {server}".rstrip(), _QUERIES_AT_ONCE, stop)
        self._slow_pool = PriorityPool(f"slow-query {server}".rstrip(), _QUERIES_AT_ONCE, stop)

    def urgency(self, promql: str) -> Urgency:
        return self._served.urgency(promql)

    def ask(
        self, metrics: MetricsReader, promql: str, deadline: float
    ) -> Future[QueryResult | QueryFailure]:
        pool = self._slow_pool if promql in self._slow else self._quick_pool
        call = partial(self._ask, metrics, promql, deadline)
        return self._served.submit(
            pool, promql, promql, deadline, call, partial(QueryFailure, NOT_BEGUN)
        )

    def retain(self, asked: AbstractSet[str]) -> None:
        self._slow.intersection_update(asked)
        self._served.retain(asked)

    def close(self) -> None:
        for pool in (self._quick_pool, self._slow_pool):
            pool.shutdown()

    def _ask(
        self, metrics: MetricsReader, promql: str, deadline: float
    ) -> QueryResult | QueryFailure:
        begun = clock.monotonic()
        answer = metrics.query(promql, deadline)
        slow = clock.monotonic() - begun > self._slow_seconds
        (self._slow.add if slow else self._slow.discard)(promql)
        return answer
