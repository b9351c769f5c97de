"""Where queries wait for their answers."""

import threading
from collections.abc import Iterable
from collections.abc import Set as AbstractSet
from concurrent.futures import Future
from functools import partial

from autoscaler import clock
from autoscaler.core.series import QueryFailure, QueryResult
from autoscaler.sync.fair_calls import LeastRecentlyServed
from autoscaler.sync.ports import MetricsReader
from autoscaler.sync.priority_pool import PriorityPool

NO_TURN = "no turn came before the end of the sync; the next one tries again"

_AT_ONCE = 16
"""Queries in hand, in each of the two lanes."""


class QueryLanes:
    """Asks queries on threads: those that were slow last time queue by themselves.

    So they keep nobody waiting but each other.  Slow is what took more than ``slow_seconds``.
    Where there is no time for all, those come first whose last turn is longest ago, whichever sync
    asks them.
    """

    def __init__(self, slow_seconds: float) -> None:
        self._slow_seconds = slow_seconds
        self._slow: set[str] = set()
        self._turns = LeastRecentlyServed()
        self._stop = threading.Event()
        self._quick_lane = PriorityPool("query", _AT_ONCE, self._stop)
        self._slow_lane = PriorityPool("slow-query", _AT_ONCE, self._stop)

    def by_turn(self, queries: Iterable[str]) -> list[str]:
        """Return the queries in the order in which they should be asked."""
        return self._turns.in_order(queries)

    def ask(
        self, metrics: MetricsReader, promql: str, deadline: float
    ) -> Future[QueryResult | QueryFailure]:
        """Ask one query when its turn comes, which is a QueryFailure after the deadline."""
        lane = self._slow_lane if promql in self._slow else self._quick_lane
        call = partial(self._ask, metrics, promql, clock.monotonic(), deadline)
        return lane.submit(self._turns.urgency(promql), promql, call)

    def retain(self, asked: AbstractSet[str]) -> None:
        """Forget what is known of queries that are not asked any more."""
        self._slow.intersection_update(asked)
        self._turns.retain(asked)

    def close(self) -> None:
        """Wait for the queries in hand; those that have not begun are dropped."""
        self._stop.set()
        for lane in (self._quick_lane, self._slow_lane):
            lane.shutdown()

    def _ask(
        self, metrics: MetricsReader, promql: str, asked: float, deadline: float
    ) -> QueryResult | QueryFailure:
        begun = clock.monotonic()
        if begun >= deadline:
            # It was not asked, so that nothing is known of how slow it is.
            return QueryFailure(NO_TURN)
        with self._turns.take(promql, asked, deadline):
            answer = metrics.query(promql, deadline)
        slow = clock.monotonic() - begun > self._slow_seconds
        (self._slow.add if slow else self._slow.discard)(promql)
        return answer
