"""A bound on time for work that cannot be interrupted, and the sockets that end it."""

import socket
import threading
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from queue import Empty, SimpleQueue
from typing import Any, Never, TypeVar

from urllib3.connection import HTTPConnection, HTTPSConnection
from urllib3.connectionpool import HTTPConnectionPool, HTTPSConnectionPool
from urllib3.response import HTTPResponse

from autoscaler import clock

_current = threading.local()


class InHand:
    """One request's socket, from when its answer is awaited until others may use it."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._socket: socket.socket | None = None
        self._over = False

    def begin(self) -> None:
        """Take in the requests that this thread sends from now on."""
        _current.request = self

    def end(self) -> None:
        """Take in no more."""
        _current.request = None

    def takes(self, sock: socket.socket | None) -> None:
        """Take in the socket on which an answer is awaited; None once it is not ours any more."""
        with self._lock:
            self._socket = sock
            if self._over:
                self._end()

    def cut(self) -> None:
        """End the request: its thread notices at once, however its header drips.

        One that has no socket yet ends when it has.
        """
        with self._lock:
            self._over = True
            self._end()

    def _end(self) -> None:
        # TLS within the TLS of a proxy is no socket, but has one.
        sock = getattr(self._socket, "socket", self._socket)
        if sock is not None:
            with suppress(OSError):
                # Not by the TLS layer, which the other thread is in.
                socket.socket.shutdown(sock, socket.SHUT_RDWR)


def _awaited(sock: socket.socket | None) -> None:
    request: InHand | None = getattr(_current, "request", None)
    if request is not None:
        request.takes(sock)


class _Connection(HTTPConnection):
    def getresponse(self) -> HTTPResponse:  # type: ignore[override] # as urllib3's own
        _awaited(self.sock)
        return super().getresponse()


class _TlsConnection(_Connection, HTTPSConnection):
    def _tunnel(self) -> None:
        _awaited(self.sock)  # a proxy answers first
        super()._tunnel()


class _Pool(HTTPConnectionPool):
    ConnectionCls = _Connection

    def _put_conn(self, conn: Any) -> None:
        _awaited(None)  # from now on another request may use it
        super()._put_conn(conn)


class _TlsPool(_Pool, HTTPSConnectionPool):
    ConnectionCls = _TlsConnection


POOLS = {"http": _Pool, "https": _TlsPool}


T = TypeVar("T")

GRACE_SECONDS = 0.05
"""Between the time-out of a socket, which knows better what was slow, and the end of the work."""
_SLICE_SECONDS = 0.2
"""How soon a stop is noticed."""
_IDLE_SECONDS = 0.5
"""How long a thread waits for more work: to begin one for each of a thousand writes would double
their cost."""

_Inbox = SimpleQueue[Callable[[], None]]


class Expired(Exception):  # noqa: N818 - an outcome, as queue.Empty
    """The work is not done in time; its thread is left to end by itself."""


class Stopped(Exception):  # noqa: N818 - as above
    """The work is not waited for any more; its thread is left to end by itself."""


def in_words(seconds: float, timeout: float) -> str:
    """Say how much time there was.

    What a deadline left of a ``timeout`` differs each time, and a failure's text must not.
    """
    return f"within {timeout:g} s" if seconds >= timeout else "in time"


class Deadline:
    """Runs work on other threads, one at a time on each, and waits no longer than told.

    No time-out of a socket covers the resolver (whose own patience is 5 s per server, try and
    search domain), a header that comes byte by byte, or a `100 Continue` without end.  The socket
    of a request that is not waited for any more is cut, so that its thread ends.  At most
    ``most_threads`` exist at once, those counted that were left behind.  Once ``stop`` is set
    nothing is waited for; without one all is.
    """

    def __init__(
        self, most_threads: int, stop: threading.Event | None = None, *, name: str = "request"
    ) -> None:
        self._free = threading.BoundedSemaphore(most_threads)
        self._stop = stop
        self._name = name
        self._lock = threading.Lock()
        self._idle: list[_Inbox] = []

    def run(self, seconds: float, work: Callable[[], T]) -> T:
        """Return what the work returns, or raise what it raises.

        Raises Expired after ``seconds``, Stopped soon after the stop.
        """
        until = clock.monotonic() + seconds
        while not self._free.acquire(timeout=self._slice(until)):
            """Every thread is at work."""
        outcome: SimpleQueue[Callable[[], T]] = SimpleQueue()
        in_hand = InHand()
        try:
            self._begin(partial(self._carry_out, work, outcome, in_hand))
        except BaseException:  # such as a shortage of threads
            self._free.release()
            raise
        try:
            return self._wait_for(outcome, until)()
        except (Expired, Stopped):
            in_hand.cut()
            raise
        finally:
            # What was raised holds this frame, and must not be held by it: see `Tries.run`.
            del outcome

    def _wait_for(self, outcome: SimpleQueue[Callable[[], T]], until: float) -> Callable[[], T]:
        while True:
            try:
                return outcome.get(timeout=self._slice(until))
            except Empty:
                continue

    def _begin(self, task: Callable[[], None]) -> None:
        with self._lock:
            inbox = self._idle.pop() if self._idle else None
        if inbox is not None:
            inbox.put(task)
            return
        inbox = SimpleQueue()
        inbox.put(task)
        threading.Thread(target=self._serve, args=(inbox,), name=self._name, daemon=True).start()

    def _serve(self, inbox: _Inbox) -> None:
        while True:
            try:
                task = inbox.get(timeout=_IDLE_SECONDS)
            except Empty:
                with self._lock:
                    if inbox in self._idle:
                        self._idle.remove(inbox)
                        return
                continue  # a task is on its way
            task()
            del task
            # In this order there are never too many threads.
            with self._lock:
                self._idle.append(inbox)
            self._free.release()

    def _carry_out(
        self, work: Callable[[], T], outcome: SimpleQueue[Callable[[], T]], in_hand: InHand
    ) -> None:
        in_hand.begin()
        try:
            outcome.put(partial(_give, work()))
        except BaseException as error:  # noqa: BLE001 - raised again in the waiting thread
            outcome.put(partial(_throw, error))
        finally:
            in_hand.end()

    def _slice(self, until: float) -> float:
        left = until - clock.monotonic()
        if left <= 0:
            raise Expired
        if self._stop is None:
            return left
        if self._stop.is_set():
            raise Stopped
        return min(left, _SLICE_SECONDS)


def _give(result: T) -> T:
    return result


def _throw(error: BaseException) -> Never:
    try:
        raise error
    finally:
        del error  # the frame is held by it
