"""The bound on time that no socket's time-out gives."""

import gc
import threading
import time
import weakref

import pytest

from autoscaler.adapters.prometheus import PrometheusReader
from autoscaler.adapters.prometheus.failures import QueryError
from autoscaler.core.series import QueryResult
from autoscaler.transport.deadline import Deadline, Expired, Stopped
from tests.adapters.prometheus.reading import ask, failed, query_threads
from tests.controlplane.waiting import wait_until


def test_outcome() -> None:
    """What the work returns or raises is the caller's."""
    deadline = Deadline(1, threading.Event())
    assert deadline.run(10, lambda: 42) == 42
    for error in (KeyError("mine"), TimeoutError("the work's own")):

        def work(error: Exception = error) -> None:
            raise error

        with pytest.raises(type(error)) as caught:
            deadline.run(10, work)
        assert caught.value is error


def test_work_that_does_not_end() -> None:
    """The caller is back in time, and the threads left behind are limited."""
    deadline = Deadline(2, threading.Event())
    release = threading.Event()
    before = threading.enumerate()
    begin = time.monotonic()
    for _ in range(3):
        with pytest.raises(Expired):
            deadline.run(0.1, release.wait)
    assert time.monotonic() - begin < 10.0
    alive = [thread for thread in threading.enumerate() if thread not in before]
    assert len(alive) == 2
    release.set()
    for thread in alive:
        thread.join(timeout=10)
    assert deadline.run(10, lambda: "free again") == "free again"


@pytest.mark.parametrize("busy", [False, True])
def test_stop(*, busy: bool) -> None:
    """A stop ends the wait for work, and for a thread to do it, within a moment."""
    stop, release = threading.Event(), threading.Event()
    deadline = Deadline(1, stop)
    if busy:
        with pytest.raises(Expired):
            deadline.run(0.05, release.wait)
    timer = threading.Timer(0.1, stop.set)
    timer.start()
    begin = time.monotonic()
    with pytest.raises(Stopped):
        deadline.run(60, release.wait)
    assert time.monotonic() - begin < 20.0
    timer.join()
    release.set()
    for thread in query_threads():
        thread.join(timeout=10)


class _Body(bytearray):
    """What the frames of a query hold of an answer."""


def test_a_failed_query_leaves_nothing_to_the_garbage_collector(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """With collections made rare, what was read of a refused answer is freed at once."""
    kept: list[weakref.ref[_Body]] = []

    def exchange(*_: object) -> QueryResult:
        chunks = _Body(1 << 20)
        kept.append(weakref.ref(chunks))
        raise QueryError(f"{len(chunks)} bytes are too many")

    monkeypatch.setattr(PrometheusReader, "_exchange", exchange)
    gc.collect()
    gc.disable()
    try:
        assert "too many" in failed(ask("http://127.0.0.1:1", "x"))
        # The thread that carried the query out may have to end first.
        wait_until("the answer is freed", lambda: all(one() is None for one in kept))
    finally:
        gc.enable()


def test_a_shortage_of_threads_takes_no_place(monkeypatch: pytest.MonkeyPatch) -> None:
    """What could not be begun is over: the places are free once there are threads again."""
    deadline = Deadline(1, threading.Event())

    def refuse(_thread: threading.Thread) -> None:
        raise RuntimeError("can't start new thread")

    with monkeypatch.context() as shortage:
        shortage.setattr(threading.Thread, "start", refuse)
        for _ in range(3):
            with pytest.raises(RuntimeError):
                deadline.run(1, lambda: 42)
    assert deadline.run(10, lambda: 42) == 42
