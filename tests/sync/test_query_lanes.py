"""Whose turn it is where there is no time for all queries."""

import socket
import threading
import time
from collections.abc import Callable
from concurrent.futures import wait
from contextlib import ExitStack, closing

from autoscaler import clock
from autoscaler.adapters.prometheus import PrometheusOptions, PrometheusReader
from autoscaler.core.series import QueryFailure, QueryResult
from autoscaler.sync.query_lanes import NO_TURN, QueryLanes
from tests.contract.cluster import eventually
from tests.sync.world import answer

QUERIES = [f"q{number}" for number in range(60)]
FOR_EVER = float("inf")
AT_ONCE = 16


class Server:
    """Answers at once unless it is to wait, and remembers what it was asked."""

    def __init__(self) -> None:
        self.lock = threading.Lock()
        self.asked: set[str] = set()
        self.wait: Callable[[], object] = lambda: None

    def query(self, promql: str, deadline: float) -> QueryResult | QueryFailure:  # noqa: ARG002 - port
        """Fit `MetricsReader`."""
        with self.lock:
            self.asked.add(promql)
        self.wait()
        return answer(1.0)


def test_what_had_no_turn_comes_first_the_next_time() -> None:
    """However many queries there is no time for, each has its turn before any has its second."""
    server = Server()
    with closing(QueryLanes(2.0)) as lanes:
        for sync in range(3):
            order = lanes.by_turn(QUERIES)
            in_time, late = order[:20], order[20:]
            for promql in in_time:
                assert lanes.ask(server, promql, FOR_EVER).result() == answer(1.0)
            for promql in late:
                over = lanes.ask(server, promql, clock.monotonic())
                assert over.result() == QueryFailure(NO_TURN)
            assert len(server.asked) == 20 * (sync + 1)


def test_who_is_asked_no_more_is_forgotten() -> None:
    """A query that returns is new again."""
    server = Server()
    with closing(QueryLanes(2.0)) as lanes:
        for promql in ("a", "b"):
            lanes.ask(server, promql, FOR_EVER).result()
        assert lanes.by_turn(["b", "a", "new"]) == ["new", "a", "b"]
        lanes.retain({"a"})
        assert lanes.by_turn(["a", "b"]) == ["b", "a"]


def test_turns_hold_across_syncs() -> None:
    """While a sync has many queries waiting, one of another sync that had no turn comes next."""
    server, release = Server(), threading.Semaphore(0)
    with closing(QueryLanes(2.0)) as lanes, ExitStack() as stack:
        stack.callback(release.release, 2 * len(QUERIES))
        for promql in QUERIES:
            lanes.ask(server, promql, FOR_EVER).result()
        server.asked.clear()
        server.wait = release.acquire
        waiting = [lanes.ask(server, promql, FOR_EVER) for promql in lanes.by_turn(QUERIES)]
        begun = eventually(lambda: len(server.asked), lambda count: count == AT_ONCE)
        new = lanes.ask(server, "new", FOR_EVER)
        release.release()
        eventually(lambda: len(server.asked), lambda count: count == begun + 1)
        assert "new" in server.asked
        release.release(len(QUERIES))
        assert all(future.result() == answer(1.0) for future in (*waiting, new))


def test_the_end_drops_what_has_not_begun() -> None:
    """It waits for the queries in hand, and asks no other."""
    server, release = Server(), threading.Event()
    server.wait = lambda: release.wait(30)
    lanes = QueryLanes(2.0)
    futures = [lanes.ask(server, promql, FOR_EVER) for promql in QUERIES]
    eventually(lambda: len(server.asked), lambda count: count == AT_ONCE)
    end = threading.Thread(target=lanes.close)
    end.start()
    assert wait(futures, timeout=0.2).done == set()
    release.set()
    end.join(30)
    assert len(server.asked) == AT_ONCE
    assert sum(future.cancelled() for future in futures) == len(QUERIES) - AT_ONCE


def test_who_was_cut_short_late_comes_first_the_next_time() -> None:
    """Three times sixteen queries, each of more than a third of a sync's time: none is left out."""
    queries, answered = QUERIES[: 3 * AT_ONCE], set[str]()

    class Cut(Server):
        def query(self, promql: str, deadline: float) -> QueryResult | QueryFailure:
            left = deadline - clock.monotonic()
            time.sleep(max(0.0, min(0.2, left)))
            return QueryFailure("late") if left < 0.2 else super().query(promql, deadline)

    server = Cut()
    with closing(QueryLanes(0.0)) as lanes:
        for _ in range(20):
            deadline = clock.monotonic() + 0.55
            asked = [(one, lanes.ask(server, one, deadline)) for one in lanes.by_turn(queries)]
            answered |= {one for one, future in asked if future.result() == answer(1.0)}
            if answered == set(queries):
                break
    assert answered == set(queries)


def test_who_gave_up_just_before_the_end_was_cut_short_too() -> None:
    """The reader of metrics is back a moment before the end, with what it knows of the delay."""
    silent = socket.create_server(("127.0.0.1", 0))
    with silent, closing(QueryLanes(0.0)) as lanes:
        options = PrometheusOptions(f"http://127.0.0.1:{silent.getsockname()[1]}")
        reader = PrometheusReader(options, threading.Event())
        now = clock.monotonic()
        outcome = lanes._ask(reader, "late", now - 5.0, now + 1.0)
        assert isinstance(outcome, QueryFailure)
        assert lanes.by_turn(["late", "new"]) == ["late", "new"]
        assert lanes._turns.urgency("late") == lanes._turns.urgency("new")
