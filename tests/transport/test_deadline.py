"""The bound on time that no socket's time-out gives."""

import threading
import time
import weakref
from contextlib import closing
from functools import partial
from socket import socket, socketpair

import pytest
from urllib3.util import connection

from autoscaler.transport import deadline as deadlines
from autoscaler.transport.deadline import (
    POOLS,
    Deadline,
    DeadlineExceededError,
    RequestDeadline,
    RequestSocket,
    StoppedError,
)
from tests.adapters.prometheus.reading import query_threads
from tests.worlds.waiting import wait_until


def cuttable_socket() -> RequestSocket:
    request = deadlines._current.request
    assert request is not None
    return request


def never_answered(ours: socket) -> bytes:
    """Wait for the other end of a socket, which can be cut."""
    cuttable_socket().use(ours)
    return ours.recv(1)


KINDS = [Deadline(1, threading.Event()), RequestDeadline(1, name="request")]


@pytest.mark.parametrize("deadline", KINDS, ids=lambda kind: type(kind).__name__)
def test_the_caller_gets_the_result_or_the_error_of_the_work(
    deadline: Deadline | RequestDeadline,
) -> None:
    assert deadline.run(10, lambda: 42) == 42
    for error in (KeyError("mine"), TimeoutError("the work's own")):

        def work(error: Exception = error) -> None:
            raise error

        with pytest.raises(type(error)) as caught:
            deadline.run(10, work)
        assert caught.value is error


def test_the_caller_does_not_wait_for_endless_work() -> None:
    deadline = Deadline(2, threading.Event())
    release = threading.Event()
    before = threading.enumerate()
    begin = time.monotonic()
    for _ in range(3):
        with pytest.raises(DeadlineExceededError):
            deadline.run(0.1, release.wait)
    assert time.monotonic() - begin < 10.0
    alive = [thread for thread in threading.enumerate() if thread not in before]
    assert len(alive) == 2
    release.set()
    for thread in alive:
        thread.join(timeout=10)
    assert deadline.run(10, lambda: "free again") == "free again"


@pytest.mark.parametrize("busy", [False, True])
def test_a_stop_ends_the_wait(*, busy: bool) -> None:
    stop, release = threading.Event(), threading.Event()
    deadline = Deadline(1, stop)
    if busy:
        with pytest.raises(DeadlineExceededError):
            deadline.run(0.05, release.wait)
    timer = threading.Timer(0.1, stop.set)
    timer.start()
    begin = time.monotonic()
    with pytest.raises(StoppedError):
        deadline.run(60, release.wait)
    assert time.monotonic() - begin < 20.0
    timer.join()
    release.set()
    for thread in query_threads():
        thread.join(timeout=10)


class _Body(bytearray):
    """The part of an answer that frames refer to."""


@pytest.mark.usefixtures("no_garbage_collection")
def test_the_memory_of_failed_work_is_freed_at_once() -> None:
    bodies: list[weakref.ref[_Body]] = []

    def refuse() -> None:
        chunks = _Body(1 << 20)
        bodies.append(weakref.ref(chunks))
        raise ValueError(f"{len(chunks)} bytes are too many")

    with pytest.raises(ValueError, match="too many"):
        Deadline(1, threading.Event()).run(10, refuse)
    # The thread that carried the work out may have to end first.
    wait_until("answer freed", lambda: all(body() is None for body in bodies))


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


@pytest.mark.parametrize("is_second", [False, True])
def test_a_request_is_cut_on_the_thread_that_sends_it(*, is_second: bool) -> None:
    deadline = RequestDeadline(1, name="request")
    ours, theirs = socketpair()
    done = threading.Event()
    other = threading.Thread(target=deadline.run, args=(60, done.wait))
    if is_second:
        other.start()
    with ours, theirs:
        begun = time.monotonic()
        with pytest.raises(DeadlineExceededError) as caught:
            deadline.run(0.2, partial(never_answered, ours))
        assert 0.15 < time.monotonic() - begun < 5.0
        # Whatever the cut causes: the reason is the time.
        assert caught.value.__context__ is None
    assert deadline.run(10, lambda: not cuttable_socket().is_cut)
    done.set()
    if is_second:
        other.join()


def test_a_connection_after_the_deadline_is_closed(monkeypatch: pytest.MonkeyPatch) -> None:
    resolved = threading.Event()
    ours, theirs = socketpair()

    def connect(*_: object, **__: object) -> socket:
        assert resolved.wait(20)
        return ours

    monkeypatch.setattr(connection, "create_connection", connect)
    deadline, pool = RequestDeadline(1, name="late"), POOLS["http"]("127.0.0.1", 1)
    with ours, theirs, closing(pool):
        with pytest.raises(DeadlineExceededError):
            deadline.run(0.2, lambda: pool.request("GET", "/", retries=False))
        resolved.set()
        theirs.settimeout(10)
        assert theirs.recv(1) == b""
