"""Limits the duration of a whole exchange, no matter which part of it is slow."""

import math
import socket
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from functools import cache, partial
from queue import Empty, SimpleQueue
from typing import Any, TypeVar, cast

from urllib3.connection import HTTPConnection
from urllib3.connectionpool import HTTPConnectionPool
from urllib3.exceptions import HTTPError
from urllib3.poolmanager import pool_classes_by_scheme

from autoscaler import clock


class RequestSocket:
    """The socket of one request until a `clock.monotonic`, for another thread to close."""

    def __init__(self, until: float = math.inf, connects: "Deadline | None" = None) -> None:
        self.until = until
        self.connects = connects
        self._lock = threading.Lock()
        self._socket: socket.socket | None = None
        self.is_cut = False

    @contextmanager
    def followed(self) -> Iterator[None]:
        """Track the requests that this thread sends in the block."""
        _current.request = self
        try:
            yield
        finally:
            _current.request = None

    def use(self, sock: socket.socket | None) -> None:
        """Set the socket in use; None when other requests may use it."""
        with self._lock:
            self._socket = sock
            if self.is_cut:
                self._shut_down()

    def cut(self) -> None:
        """End the request at once, or as soon as it has a socket."""
        with self._lock:
            self.is_cut = True
            self._shut_down()

    def _shut_down(self) -> None:
        # TLS within a proxy's TLS is not a socket, but has one.
        sock = getattr(self._socket, "socket", self._socket)
        if sock is not None:
            with suppress(OSError):
                # Not through the TLS layer, which the other thread is using.
                socket.socket.shutdown(sock, socket.SHUT_RDWR)


class _ThreadDeadline(threading.local):
    request: RequestSocket | None = None
    """The deadline of this thread's call."""


_current = _ThreadDeadline()


def _set_socket(sock: socket.socket | None) -> None:
    if _current.request is not None:
        _current.request.use(sock)


class _CuttableConnection(HTTPConnection):
    def connect(self) -> None:
        request = _current.request
        if request is None or request.connects is None:
            super().connect()
        else:
            request.connects.run(request.until - clock.monotonic(), self._connect)
        _set_socket(self.sock)

    def _connect(self) -> None:
        """Connect; a connection that no request waits for is closed."""
        super().connect()
        if _current.request is not None and _current.request.is_cut:
            self.close()

    def request(self, *args: Any, **named: Any) -> None:
        _set_socket(self.sock)  # The deadline of an earlier request, if any.
        super().request(*args, **named)

    def _tunnel(self) -> None:
        _set_socket(self.sock)  # A proxy answers first.
        super()._tunnel()


class _CuttablePool(HTTPConnectionPool):
    def _put_conn(self, conn: Any) -> None:
        _set_socket(None)  # From now on another request may use it.
        super()._put_conn(conn)


@cache
def _cuttable(pool: type[HTTPConnectionPool]) -> type[HTTPConnectionPool]:
    connection = type("Connection", (_CuttableConnection, pool.ConnectionCls), {})
    return type("Pool", (_CuttablePool, pool), {"ConnectionCls": connection})


def cuttable(pools: Mapping[str, type[HTTPConnectionPool]]) -> dict[str, type[HTTPConnectionPool]]:
    """Return variants of these classes for urllib3's PoolManager; their sockets can be cut."""
    return {scheme: _cuttable(pool) for scheme, pool in pools.items()}  # type: ignore[arg-type] # a class has a hash


POOLS = cuttable(pool_classes_by_scheme)
"""The usual ones."""


T = TypeVar("T")

GRACE_SECONDS = 0.05
"""How long after a socket's timeout, whose error says what was slow, an exchange is cut."""
_SLICE_SECONDS = 0.2
"""How soon a stop is noticed."""
_IDLE_SECONDS = 0.5
"""How long an idle thread waits for work: a new thread for each request would double the cost."""


class DeadlineExceededError(HTTPError):
    """The work did not end in time; its thread ends by itself."""


class StoppedError(Exception):
    """The stop was set while the work was awaited; its thread ends by itself."""


class Deadline:
    """Runs work on other threads, one task at a time on each, and waits only for a limited time.

    No timeout of a socket limits the resolver, a header that arrives byte by byte, or an endless
    `100 Continue`. When a caller stops waiting, the socket of its request is cut; this does not end
    work on files or in another library. There are at most ``most_threads`` threads, including
    abandoned ones. After ``stop`` is set, no caller waits.
    """

    def __init__(
        self, most_threads: int, stop: threading.Event | None = None, *, name: str = "request"
    ) -> None:
        self._free = threading.BoundedSemaphore(most_threads)
        self._stop = stop
        self._name = name
        self._lock = threading.Lock()
        self._tasks: SimpleQueue[Callable[[], None]] = SimpleQueue()
        self._idle = 0
        """The idle threads that no task has been assigned to."""

    def run(self, seconds: float, work: Callable[[], T]) -> T:
        """Return or raise what the work does; Expired after ``seconds``, Stopped after the stop."""
        until = clock.monotonic() + seconds
        while not self._free.acquire(timeout=self._slice(until)):
            """Every thread is busy."""
        outcome: SimpleQueue[tuple[T | None, BaseException | None]] = SimpleQueue()
        request = RequestSocket()
        try:
            self._begin(partial(_carry_out, work, outcome, request))
        except BaseException:  # Such as a lack of threads.
            self._free.release()
            raise
        result, error = None, None
        try:
            while True:
                with suppress(Empty):
                    result, error = outcome.get(timeout=self._slice(until))
                    break
            if error is not None:
                raise error
        except (DeadlineExceededError, StoppedError):
            request.cut()
            raise
        finally:
            # A raised exception refers to this frame; a reference back would be a cycle, which
            # keeps the answer in memory until a garbage collection.
            del outcome, error
        return cast("T", result)

    def _begin(self, task: Callable[[], None]) -> None:
        with self._lock:
            is_one_idle = self._idle > 0
            self._idle -= is_one_idle
        if not is_one_idle:
            threading.Thread(target=self._serve, name=self._name, daemon=True).start()
        self._tasks.put(task)

    def _serve(self) -> None:
        while True:
            try:
                task = self._tasks.get(timeout=_IDLE_SECONDS)
            except Empty:
                with self._lock:
                    if self._idle:
                        self._idle -= 1
                        return
                continue  # A task has been assigned.
            task()
            del task
            # This order never creates too many threads.
            with self._lock:
                self._idle += 1
            self._free.release()

    def _slice(self, until: float) -> float:
        left = until - clock.monotonic()
        if left <= 0:
            raise DeadlineExceededError
        if self._stop is None:
            return left
        if self._stop.is_set():
            raise StoppedError
        return min(left, _SLICE_SECONDS)


def _carry_out(
    work: Callable[[], T],
    outcome: SimpleQueue[tuple[T | None, BaseException | None]],
    request: RequestSocket,
) -> None:
    with request.followed():
        try:
            outcome.put((work(), None))
        except BaseException as error:  # noqa: BLE001 - raised again in the waiting thread
            outcome.put((None, error))


class RequestDeadline:
    """Sends requests on the calling threads, and cuts their sockets after the deadline.

    It is cheaper than a `Deadline`, for work that waits only for connections of `cuttable` pools;
    one of ``most_threads`` other threads creates each connection, and may be abandoned.
    """

    def __init__(self, most_threads: int, *, name: str) -> None:
        self._connects = Deadline(most_threads, name=name)
        self._name = f"{name}-end"
        self._changed = threading.Condition(threading.Lock())
        self._requests: set[RequestSocket] = set()
        self._looks_at: float | None = None
        """When the cutting thread looks for expired requests; None without such a thread."""

    def run(self, seconds: float, work: Callable[[], T]) -> T:
        """Return or raise what the work does; raises Expired after ``seconds``."""
        request = RequestSocket(clock.monotonic() + seconds, self._connects)
        self._add(request)
        try:
            with request.followed():
                result = work()
        except Exception:
            if not request.is_cut:
                raise
        else:
            if not request.is_cut:
                return result
        finally:
            with self._changed:
                self._requests.discard(request)
        # Without the context: the error that the cut caused is not the reason.
        raise DeadlineExceededError

    def _add(self, request: RequestSocket) -> None:
        with self._changed:
            if self._looks_at is None:
                threading.Thread(target=self._cut, name=self._name, daemon=True).start()
                self._looks_at = request.until
            elif request.until < self._looks_at:
                self._changed.notify()
            self._requests.add(request)

    def _cut(self) -> None:
        """Cut expired requests, until there is nothing to watch for a moment."""
        with self._changed:
            idle = False
            while self._requests or not idle:
                idle = not self._requests
                now = clock.monotonic()
                for request in [request for request in self._requests if request.until <= now]:
                    request.cut()
                    self._requests.discard(request)
                ends = (request.until for request in self._requests)
                self._looks_at = min(ends, default=now + _IDLE_SECONDS)
                self._changed.wait(self._looks_at - now)
            self._looks_at = None
