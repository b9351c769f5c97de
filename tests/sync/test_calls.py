"""Calls in order of urgency, at a limited rate and without starvation; none after a stop."""

import socket
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import CancelledError, Future, wait
from contextlib import ExitStack, closing, contextmanager
from dataclasses import dataclass, field
from functools import partial

import pytest

from autoscaler import clock
from autoscaler.core.observation import Pod, ReadFailure, Scale
from autoscaler.core.series import QueryFailure, QueryResult
from autoscaler.core.spec import ScaleTargetRef
from autoscaler.core.target import QueryKey
from autoscaler.prometheus import PrometheusReader
from autoscaler.sync.calls import NOT_BEGUN, FairQueries, PriorityPool
from autoscaler.sync.run import write_urgency
from tests.adapters.prometheus.reading import settings
from tests.sync.test_servers import Server
from tests.worlds.cluster.cluster import eventually
from tests.worlds.memory import T0, Memory, answer, external, per_pod, queue
from tests.worlds.waiting import wait_until


def test_scale_ups_come_first_and_larger_relative_changes_before_smaller() -> None:
    moves = [(10, 5), (10, 20), (8, 1), (0, 1), (2, 8), (4, 0)]
    assert sorted(moves, key=lambda move: write_urgency(*move)) == [
        (0, 1),
        (2, 8),
        (10, 20),
        (4, 0),
        (8, 1),
        (10, 5),
    ]


@contextmanager
def calling(
    at_once: int, stop: threading.Event | None = None, per_second: float | None = None
) -> Iterator[Callable[[int, Callable[[], object]], Future[object]]]:
    """Give what submits a call of an urgency to a pool, all in one group."""
    pool = PriorityPool("call", at_once, stop or threading.Event())
    if per_second is not None:
        pool.set_rate(per_second)
    yield lambda urgency, call: pool.submit((urgency, 0.0), "shop", call)
    pool.shutdown()
    assert pool._held == {}


def nothing() -> None:
    """Be a call."""


def test_waiting_calls_run_in_order_of_urgency() -> None:
    """While one call holds the only thread, later and more urgent ones overtake."""
    release = threading.Event()
    order: list[int] = []
    with calling(1) as submit:
        first = submit(9, lambda: release.wait(10))
        futures = [submit(number, partial(order.append, number)) for number in (3, 1, 2)]
        release.set()
        assert first.result(10)
        wait(futures, timeout=10)
    assert order == [1, 2, 3]


def test_calls_beyond_the_burst_wait_for_the_pace() -> None:
    begun = clock.monotonic()
    with calling(8, per_second=20.0) as submit:
        assert not wait([submit(0, nothing) for _ in range(210)], timeout=10).not_done
    assert clock.monotonic() - begun >= 0.4


def test_after_a_stop_no_call_begins() -> None:
    stop, release, begun = threading.Event(), threading.Event(), threading.Event()

    def hold() -> str:
        begun.set()
        release.wait(10)
        return "finished"

    with calling(1, stop) as submit:
        in_hand = submit(0, hold)
        assert begun.wait(10)
        waiting = submit(0, nothing)
        stop.set()
        release.set()
        assert in_hand.result(10) == "finished"
        with pytest.raises(CancelledError):
            waiting.result(10)


def test_an_error_of_a_call_belongs_to_its_future() -> None:
    with calling(1) as submit:
        broken, fine = submit(0, lambda: 1 // 0), submit(0, lambda: "fine")
        with pytest.raises(ZeroDivisionError):
            broken.result(10)
        assert fine.result(10) == "fine"


def test_more_urgent_calls_overtake_while_the_pace_holds_all_back() -> None:
    order: list[int] = []
    with calling(2, per_second=1.0) as submit:
        futures = [submit(0, nothing) for _ in range(10)]
        futures += [submit(urgency, partial(order.append, urgency)) for urgency in (5, 1)]
        wait(futures, timeout=30)
    assert order == [1, 5]


def test_a_stop_while_the_pace_holds_back_ends_at_once() -> None:
    stop = threading.Event()
    with calling(2, stop, per_second=0.01) as submit:
        submit(0, nothing).result(10)
        waiting = submit(0, nothing)
        begun = clock.monotonic()
        stop.set()
        with pytest.raises(CancelledError):
            waiting.result(10)
    assert clock.monotonic() - begun < 5.0


def test_cancelled_calls_of_a_full_group_cost_no_turn() -> None:
    ran: list[int] = []
    release = threading.Event()
    with calling(3) as submit:
        first = [submit(0, lambda: release.wait(20)) for _ in range(50)]
        wait_until("two calls", lambda: sum(call.running() for call in first) == 2)
        for held in first:
            held.cancel()
        second = [submit(0, partial(ran.append, number)) for number in range(30)]
        release.set()
        wait(second, timeout=20)
    assert sorted(ran) == list(range(30))


key = partial(QueryKey, "")
"""Makes a query of the default server."""
QUERIES = [key(f"q{number}") for number in range(60)]
FOR_EVER = float("inf")
AT_ONCE = 16


def test_queries_without_a_turn_come_first_the_next_time() -> None:
    server = Server()
    with closing(FairQueries(2.0)) as asker:
        for sync in range(3):
            order = asker.in_order(QUERIES)
            in_time, late = order[:20], order[20:]
            for promql in in_time:
                assert asker.ask(server, promql, FOR_EVER).result() == answer(90.0)
            for promql in late:
                over = asker.ask(server, promql, clock.monotonic())
                assert over.result() == QueryFailure(NOT_BEGUN)
            assert len(set(server.queried)) == 20 * (sync + 1)


def test_a_query_that_is_removed_is_forgotten() -> None:
    server = Server()
    with closing(FairQueries(2.0)) as asker:
        for promql in ("a", "b"):
            asker.ask(server, key(promql), FOR_EVER).result()
        a, b, new = key("a"), key("b"), key("new")
        assert asker.in_order([b, a, new]) == [new, a, b]
        asker.retain({a})
        assert asker.in_order([a, b]) == [b, a]


def test_turns_hold_across_syncs() -> None:
    server, release = Server(), threading.Semaphore(0)
    with closing(FairQueries(2.0)) as asker, ExitStack() as stack:
        stack.callback(release.release, 2 * len(QUERIES))
        for promql in QUERIES:
            asker.ask(server, promql, FOR_EVER).result()
        server.queried.clear()
        server.wait = lambda _: release.acquire()
        waiting = [asker.ask(server, promql, FOR_EVER) for promql in asker.in_order(QUERIES)]
        begun = eventually(lambda: len(server.queried), lambda count: count == AT_ONCE)
        new = asker.ask(server, key("new"), FOR_EVER)
        release.release()
        eventually(lambda: len(server.queried), lambda count: count == begun + 1)
        assert "new" in server.queried
        release.release(len(QUERIES))
        assert all(future.result() == answer(90.0) for future in (*waiting, new))


def test_the_end_cancels_queries_that_have_not_begun() -> None:
    server, release = Server(), threading.Event()
    server.wait = lambda _: release.wait(30)
    asker = FairQueries(2.0)
    futures = [asker.ask(server, promql, FOR_EVER) for promql in QUERIES]
    eventually(lambda: len(server.queried), lambda count: count == AT_ONCE)
    end = threading.Thread(target=asker.close)
    end.start()
    assert wait(futures, timeout=0.2).done == set()
    release.set()
    end.join(30)
    assert len(server.queried) == AT_ONCE
    assert sum(future.cancelled() for future in futures) == len(QUERIES) - AT_ONCE


def test_queries_that_were_cut_short_come_first_the_next_time() -> None:
    """Each of the 48 queries has an answer in the end, though a sync has time for at most 32."""
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
            order = asker.in_order(queries)
            futures = [asker.ask(server, query, deadline) for query in order]
            answers = zip(order, (future.result() for future in futures), strict=True)
            answered |= {query for query, result in answers if result == answer(90.0)}
            if answered == set(queries):
                break
    assert answered == set(queries)


def test_a_query_that_gave_up_just_before_the_end_was_cut_short() -> None:
    """The reader of metrics returns a moment before the end."""
    silent = socket.create_server(("127.0.0.1", 0))
    with silent, closing(FairQueries(0.0)) as asker:
        options = settings(f"http://127.0.0.1:{silent.getsockname()[1]}")
        reader = PrometheusReader(options, threading.Event())
        now = clock.monotonic()
        ask = partial(asker._ask, reader, key("late"), now + 1.0)
        outcome = asker._served.serve(key("late"), now - 5.0, now + 1.0, ask, ask)
        assert isinstance(outcome, QueryFailure)
        assert asker.in_order([key("late"), key("new")]) == [key("late"), key("new")]
        assert asker._served.urgency(key("late")) == asker._served.urgency(key("new"))


LATE = ReadFailure("too late")
MANY = 20
"""The most syncs; a few should be enough."""

NAMES = [f"w{number}" for number in range(60)]


@dataclass
class Slow(Memory):
    """Reads slowly, and not at all after the deadline."""

    seconds: float = 0.0
    read: set[str] = field(default_factory=set)

    def cached_scale(self, namespace: str, ref: ScaleTargetRef) -> Scale | ReadFailure | None:
        """Wait so long that the first reads have begun."""
        time.sleep(0.001)
        return super().cached_scale(namespace, ref)

    def read_scale(
        self, namespace: str, ref: ScaleTargetRef, deadline: float
    ) -> Scale | ReadFailure:
        in_time = self._in_time(ref.name, deadline)
        return super().read_scale(namespace, ref, deadline) if in_time else LATE

    def list_pods(
        self, namespace: str, selector: str, deadline: float
    ) -> tuple[Pod, ...] | ReadFailure:
        in_time = self._in_time(selector, deadline)
        return super().list_pods(namespace, selector, deadline) if in_time else LATE

    def _in_time(self, what: str, deadline: float) -> bool:
        if clock.monotonic() >= deadline:
            return False
        time.sleep(self.seconds)
        self.read.add(what)
        return True


@pytest.mark.parametrize("seconds", [0.1, 0.5])
@pytest.mark.parametrize("scales_cached", [False, True], ids=["scales", "pods"])
def test_reads_that_had_no_turn_come_first_the_next_time(
    seconds: float, *, scales_cached: bool
) -> None:
    """A sync has time for half of the sixty direct reads, or for the first ones alone."""
    metric = queue(30.0, **dict.fromkeys(NAMES, 1))
    answers = metric.answers | {"rps": answer(30.0)}
    world = Slow(answers, metric.scales, scales_cached=scales_cached, seconds=seconds)
    targets = [(per_pod if scales_cached else external)("shop", name) for name in NAMES]
    with world.syncer() as syncer:
        for sync in range(MANY):
            syncer.sync(targets, T0 + 15 * sync, budget=0.4 if scales_cached else 0.6)
            if len(world.read) == len(NAMES):
                break
    assert len(world.read) == len(NAMES)
