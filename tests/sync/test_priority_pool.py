"""Writes in order of urgency, at a limiter, and none after a stop."""

import threading
from collections.abc import Callable, Iterator
from concurrent.futures import CancelledError, Future, wait
from contextlib import contextmanager
from functools import partial

import pytest

from autoscaler import clock
from autoscaler.sync.calls import PriorityPool
from autoscaler.sync.run import write_urgency
from tests.worlds.waiting import wait_until


def test_scale_ups_come_first_and_larger_relative_changes_before_smaller() -> None:
    """From zero is the most urgent; 2 to 8 before 10 to 20; every way up before any way down."""
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
    pool = PriorityPool("call", at_once, stop or threading.Event(), per_second)
    yield lambda urgency, call: pool.submit((urgency, 0.0), "shop", call)
    pool.shutdown()
    assert pool._held == {}


def nothing() -> None:
    """Be a call."""


def test_waiting_calls_run_in_order_of_urgency() -> None:
    """While one call holds the only thread, later and more urgent ones overtake."""
    held = threading.Event()
    order: list[int] = []
    with calling(1) as submit:
        first = submit(9, lambda: held.wait(10))
        futures = [submit(number, partial(order.append, number)) for number in (3, 1, 2)]
        held.set()
        assert first.result(10)
        wait(futures, timeout=10)
    assert order == [1, 2, 3]


def test_calls_beyond_the_burst_wait_for_the_pace() -> None:
    """At 20 a second, 210 calls are a burst of 200 and half a second for the other 10."""
    begun = clock.monotonic()
    with calling(8, per_second=20.0) as submit:
        assert not wait([submit(0, nothing) for _ in range(210)], timeout=10).not_done
    assert clock.monotonic() - begun >= 0.4


def test_after_a_stop_no_call_begins() -> None:
    """The call in hand is finished; the one that waits is cancelled."""
    stop, held, begun = threading.Event(), threading.Event(), threading.Event()

    def hold() -> str:
        begun.set()
        held.wait(10)
        return "finished"

    with calling(1, stop) as submit:
        in_hand = submit(0, hold)
        assert begun.wait(10)
        waiting = submit(0, nothing)
        stop.set()
        held.set()
        assert in_hand.result(10) == "finished"
        with pytest.raises(CancelledError):
            waiting.result(10)


def test_an_error_of_a_call_belongs_to_its_future() -> None:
    """The thread survives it, and the next call runs."""
    with calling(1) as submit:
        broken, fine = submit(0, lambda: 1 // 0), submit(0, lambda: "fine")
        with pytest.raises(ZeroDivisionError):
            broken.result(10)
        assert fine.result(10) == "fine"


def test_more_urgent_calls_overtake_while_the_pace_holds_all_back() -> None:
    """The burst is spent; of what waits for a turn the most urgent goes first."""
    order: list[int] = []
    with calling(2, per_second=1.0) as submit:
        futures = [submit(0, nothing) for _ in range(10)]
        futures += [submit(urgency, partial(order.append, urgency)) for urgency in (5, 1)]
        wait(futures, timeout=30)
    assert order == [1, 5]


def test_a_stop_while_the_pace_holds_back_ends_at_once() -> None:
    """A call that waits for a turn minutes away is cancelled."""
    stop = threading.Event()
    with calling(2, stop, per_second=0.01) as submit:
        submit(0, nothing).result(10)
        waiting = submit(0, nothing)
        begun = clock.monotonic()
        stop.set()
        with pytest.raises(CancelledError):
            waiting.result(10)
    assert clock.monotonic() - begun < 5.0


def test_calls_that_were_dropped_while_they_were_held_cost_nobody_a_turn() -> None:
    """A namespace that was full at one sync's end writes at full width in the next one."""
    ran: list[int] = []
    release = threading.Event()
    with calling(3) as submit:
        first = [submit(0, lambda: release.wait(20)) for _ in range(50)]
        wait_until("two calls to run", lambda: sum(one.running() for one in first) == 2)
        for held in first:
            held.cancel()
        second = [submit(0, partial(ran.append, number)) for number in range(30)]
        release.set()
        wait(second, timeout=20)
    assert sorted(ran) == list(range(30))
