"""Whose turn it is where there is no time for all queries."""

import socket
import threading
import time
from collections.abc import Callable
from concurrent.futures import wait
from contextlib import ExitStack, closing
from functools import partial

from autoscaler import clock
from autoscaler.adapters.prometheus import PrometheusReader
from autoscaler.core.series import QueryFailure, QueryResult
from autoscaler.core.target import QueryKey
from autoscaler.sync.calls import NOT_BEGUN, FairQueries
from tests.adapters.prometheus.reading import settings
from tests.worlds.cluster.cluster import eventually
from tests.worlds.memory import answer


def of(promql: str, server: str = "") -> QueryKey:
    """Return a query of a server, by default of the default one."""
    return QueryKey(server, promql)


QUERIES = [of(f"q{number}") for number in range(60)]
FOR_EVER = float("inf")
AT_ONCE = 16


class Server:
    """Answers at once unless it is to wait, and remembers what it was asked."""

    def __init__(self) -> None:
        self.lock = threading.Lock()
        self.asked: set[str] = set()
        self.wait: Callable[[], object] = lambda: None

    def query(self, promql: str, at: float | None, deadline: float) -> QueryResult | QueryFailure:  # noqa: ARG002 - port
        """Fit `MetricsReader`."""
        with self.lock:
            self.asked.add(promql)
        self.wait()
        return answer(1.0)


def test_what_had_no_turn_comes_first_the_next_time() -> None:
    """However many queries there is no time for, each has its turn before any has its second."""
    server = Server()
    with closing(FairQueries(2.0)) as asker:
        for sync in range(3):
            order = asker.in_order(QUERIES)
            in_time, late = order[:20], order[20:]
            for promql in in_time:
                assert asker.ask(server, promql, None, FOR_EVER).result() == answer(1.0)
            for promql in late:
                over = asker.ask(server, promql, None, clock.monotonic())
                assert over.result() == QueryFailure(NOT_BEGUN)
            assert len(server.asked) == 20 * (sync + 1)


def test_who_is_asked_no_more_is_forgotten() -> None:
    """A query that returns is new again."""
    server = Server()
    with closing(FairQueries(2.0)) as asker:
        for promql in ("a", "b"):
            asker.ask(server, of(promql), None, FOR_EVER).result()
        a, b, new = of("a"), of("b"), of("new")
        assert asker.in_order([b, a, new]) == [new, a, b]
        asker.retain({a})
        assert asker.in_order([a, b]) == [b, a]


def test_turns_hold_across_syncs() -> None:
    """While a sync has many queries waiting, one of another sync that had no turn comes next."""
    server, release = Server(), threading.Semaphore(0)
    with closing(FairQueries(2.0)) as asker, ExitStack() as stack:
        stack.callback(release.release, 2 * len(QUERIES))
        for promql in QUERIES:
            asker.ask(server, promql, None, FOR_EVER).result()
        server.asked.clear()
        server.wait = release.acquire
        waiting = [asker.ask(server, promql, None, FOR_EVER) for promql in asker.in_order(QUERIES)]
        begun = eventually(lambda: len(server.asked), lambda count: count == AT_ONCE)
        new = asker.ask(server, of("new"), None, FOR_EVER)
        release.release()
        eventually(lambda: len(server.asked), lambda count: count == begun + 1)
        assert "new" in server.asked
        release.release(len(QUERIES))
        assert all(future.result() == answer(1.0) for future in (*waiting, new))


def test_the_end_drops_what_has_not_begun() -> None:
    """It waits for the queries in hand, and asks no other."""
    server, release = Server(), threading.Event()
    server.wait = lambda: release.wait(30)
    asker = FairQueries(2.0)
    futures = [asker.ask(server, promql, None, FOR_EVER) for promql in QUERIES]
    eventually(lambda: len(server.asked), lambda count: count == AT_ONCE)
    end = threading.Thread(target=asker.close)
    end.start()
    assert wait(futures, timeout=0.2).done == set()
    release.set()
    end.join(30)
    assert len(server.asked) == AT_ONCE
    assert sum(future.cancelled() for future in futures) == len(QUERIES) - AT_ONCE


def test_who_was_cut_short_late_comes_first_the_next_time() -> None:
    """Three times sixteen queries, each of more than a third of a sync's time: none is left out."""
    queries, answered = QUERIES[: 3 * AT_ONCE], set[QueryKey]()

    class Cut(Server):
        def query(
            self, promql: str, at: float | None, deadline: float
        ) -> QueryResult | QueryFailure:
            left = deadline - clock.monotonic()
            time.sleep(max(0.0, min(0.2, left)))
            return QueryFailure("late") if left < 0.2 else super().query(promql, at, deadline)

    server = Cut()
    with closing(FairQueries(0.0)) as asker:
        for _ in range(20):
            deadline = clock.monotonic() + 0.55
            asked = [
                (one, asker.ask(server, one, None, deadline)) for one in asker.in_order(queries)
            ]
            answered |= {one for one, future in asked if future.result() == answer(1.0)}
            if answered == set(queries):
                break
    assert answered == set(queries)


def test_who_gave_up_just_before_the_end_was_cut_short_too() -> None:
    """The reader of metrics is back a moment before the end, with what it knows of the delay."""
    silent = socket.create_server(("127.0.0.1", 0))
    with silent, closing(FairQueries(0.0)) as asker:
        options = settings(f"http://127.0.0.1:{silent.getsockname()[1]}")
        reader = PrometheusReader(options, threading.Event())
        now = clock.monotonic()
        own = asker._of("")
        ask = partial(own._ask, reader, "late", None, now + 1.0)
        outcome = own._served.serve("late", now - 5.0, now + 1.0, ask, ask)
        assert isinstance(outcome, QueryFailure)
        assert asker.in_order([of("late"), of("new")]) == [of("late"), of("new")]
        assert own.urgency("late") == own.urgency("new")
