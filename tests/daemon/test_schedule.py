"""Ticks: at once, none overlapping, a late one said, an error survived, a stop that waits."""

import threading
from collections.abc import Callable

import structlog
from structlog.testing import CapturingLogger

from autoscaler.daemon.schedule import Tick, run_periodically
from tests.controlplane.waiting import wait_until

PERIOD = 0.2


def run(tick: Callable[[], None], until: Callable[[CapturingLogger], bool]) -> CapturingLogger:
    """Run ticks until the condition holds, then stop; return what was logged."""
    stop, log = threading.Event(), CapturingLogger()
    thread = threading.Thread(target=run_periodically, args=([Tick(tick, PERIOD)], stop, log))
    thread.start()
    try:
        wait_until("the condition of the test", lambda: until(log), timeout=20)
    finally:
        stop.set()
        thread.join(20)
    assert not thread.is_alive()
    return log


def test_the_first_tick_comes_at_once_and_others_follow() -> None:
    """Three ticks happen without anybody waiting a period for the first."""
    ticks: list[int] = []
    log = run(lambda: ticks.append(1), lambda _log: len(ticks) >= 3)
    assert log.calls == []


def test_a_tick_never_overlaps_itself_and_a_late_loop_says_so() -> None:
    """While a tick lasts several periods no other begins, and each one left out is a warning."""
    running = threading.Lock()
    release = threading.Event()
    overlaps: list[int] = []

    def tick() -> None:
        if not running.acquire(blocking=False):
            overlaps.append(1)
            return
        release.wait(20)
        running.release()

    def late(log: CapturingLogger) -> bool:
        if len(log.calls) >= 2:
            release.set()
        return release.is_set()

    log = run(tick, late)
    assert overlaps == []
    assert {call.method_name for call in log.calls} == {"warning"}
    assert log.calls[0].args == ("sync_late",)
    assert [call.kwargs["late_since_start"] for call in log.calls[:2]] == [1, 2]


def test_a_tick_that_was_late_still_runs() -> None:
    """After a tick of several periods the next one comes: lateness never skips it for good."""
    ticks: list[int] = []
    pause = threading.Event()

    def tick() -> None:
        ticks.append(1)
        if len(ticks) == 1:
            pause.wait(4 * PERIOD)

    run(tick, lambda _log: len(ticks) >= 3)


def test_an_error_in_a_tick_is_logged_and_the_next_tick_comes() -> None:
    """A defect does not end the daemon: it is an error line with the exception."""
    ticks: list[int] = []

    def tick() -> None:
        ticks.append(1)
        if len(ticks) == 1:
            raise ValueError("a defect")

    log = run(tick, lambda _log: len(ticks) >= 2)
    assert log.calls[0].method_name == "error"
    assert isinstance(log.calls[0].kwargs["exc_info"], ValueError)


def test_stopping_waits_for_the_tick_in_hand() -> None:
    """The scheduler returns only after the running tick has ended."""
    begun, ended = threading.Event(), threading.Event()
    stop = threading.Event()

    def tick() -> None:
        begun.set()
        stop.wait(20)
        ended.set()

    thread = threading.Thread(
        target=run_periodically, args=([Tick(tick, 60.0)], stop, structlog.get_logger())
    )
    thread.start()
    assert begun.wait(20)
    stop.set()
    thread.join(20)
    assert ended.is_set()
