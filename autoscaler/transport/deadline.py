"""A limit on the time of a whole exchange, whatever part of it is slow."""

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


class RequestSocket:
    """The socket of one request while its answer is awaited, so that another thread can cut it."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._socket: socket.socket | None = None
        self._is_cut = False

    def begin(self) -> None:
        """Follow the requests that this thread sends from now on."""
        _current.request = self

    def end(self) -> None:
        """Follow no more requests of this thread."""
        _current.request = None

    def use(self, sock: socket.socket | None) -> None:
        """Set the socket on which the answer is awaited; None once others may use it."""
        with self._lock:
            self._socket = sock
            if self._is_cut:
                self._shut_down()

    def cut(self) -> None:
        """End the request; a thread that waits for its answer returns at once.

        A request that has no socket yet ends when it gets one.
        """
        with self._lock:
            self._is_cut = True
            self._shut_down()

    def _shut_down(self) -> None:
        # TLS inside the TLS of a proxy is not a socket, but has one.
        sock = getattr(self._socket, "socket", self._socket)
        if sock is not None:
            with suppress(OSError):
                # Not through the TLS layer, which the other thread is using.
                socket.socket.shutdown(sock, socket.SHUT_RDWR)


def _set_socket(sock: socket.socket | None) -> None:
    request: RequestSocket | None = getattr(_current, "request", None)
    if request is not None:
        request.use(sock)


class _Connection(HTTPConnection):
    def getresponse(self) -> HTTPResponse:  # type: ignore[override] # as urllib3's own
        _set_socket(self.sock)
        return super().getresponse()


class _TlsConnection(_Connection, HTTPSConnection):
    def _tunnel(self) -> None:
        _set_socket(self.sock)  # a proxy answers first
        super()._tunnel()


class _Pool(HTTPConnectionPool):
    ConnectionCls = _Connection

    def _put_conn(self, conn: Any) -> None:
        _set_socket(None)  # from now on another request may use it
        super()._put_conn(conn)


class _TlsPool(_Pool, HTTPSConnectionPool):
    ConnectionCls = _TlsConnection


POOLS = {"http": _Pool, "https": _TlsPool}
"""Pool classes for urllib3's PoolManager whose sockets a Deadline can cut."""


T = TypeVar("T")

GRACE_SECONDS = 0.05
"""How long after a socket's time-out, whose error says what was slow, an exchange is cut."""
_SLICE_SECONDS = 0.2
"""How soon a stop is noticed."""
_IDLE_SECONDS = 0.5
"""How long a thread waits for more work: starting one for each of a thousand writes would double
their cost."""

_Inbox = SimpleQueue[Callable[[], None]]


class Expired(Exception):  # noqa: N818 - an outcome, as queue.Empty
    """The work did not end in time; its thread is left to end by itself."""


class Stopped(Exception):  # noqa: N818 - as above
    """The stop was set while the work was awaited; its thread is left to end by itself."""


class Deadline:
    """Runs work on other threads, one task at a time on each, and waits no longer than told.

    No time-out of a socket covers the resolver (5 s per server, try and search domain), a header
    that arrives byte by byte, or an endless `100 Continue`.  When a caller stops waiting the socket
    of the request is cut, so that its thread ends.  At most ``most_threads`` exist at once,
    abandoned ones included.  Once ``stop`` is set, no caller waits; without a ``stop`` all do.
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

        Raises Expired after ``seconds``, and Stopped soon after the stop.
        """
        until = clock.monotonic() + seconds
        while not self._free.acquire(timeout=self._slice(until)):
            """Every thread is busy."""
        outcome: SimpleQueue[Callable[[], T]] = SimpleQueue()
        request = RequestSocket()
        try:
            self._begin(partial(self._carry_out, work, outcome, request))
        except BaseException:  # such as a shortage of threads
            self._free.release()
            raise
        try:
            return self._wait_for(outcome, until)()
        except (Expired, Stopped):
            request.cut()
            raise
        finally:
            # A raised exception refers to this frame; a reference back would be a cycle, which
            # keeps the answer until a garbage collection.
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
        self, work: Callable[[], T], outcome: SimpleQueue[Callable[[], T]], request: RequestSocket
    ) -> None:
        request.begin()
        try:
            outcome.put(partial(_give, work()))
        except BaseException as error:  # noqa: BLE001 - raised again in the waiting thread
            outcome.put(partial(_throw, error))
        finally:
            request.end()

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
        del error  # as above: the exception refers to this frame
