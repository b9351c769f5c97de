"""The two requests of a watch: a list in pages, and the lines of events after it."""

import random
import threading
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import TypedDict, cast

import urllib3

from autoscaler import clock
from autoscaler.adapters.cluster.api import Api
from autoscaler.adapters.cluster.caches import Cache, WatchTimings
from autoscaler.adapters.cluster.failures import (
    MALFORMED,
    RAISED,
    Failure,
    JsonObject,
    from_exception,
    malformed,
)
from autoscaler.adapters.cluster.received import MOST_MEMORY
from autoscaler.transport.parsing import TooMuch, parse

_SHORTEST_TIMEOUT = 0.001
_GRACE_SECONDS = 0.1
"""Between the time-out of the socket, and the end of an answer that drips."""
_CHUNK_BYTES = 1 << 18
MOST_LINE_BYTES = 16 << 20
"""Of a line.  An object of 1.5 MiB, as large as etcd takes them, has six times that in JSON where
every character is escaped."""


class LineTooLong(urllib3.exceptions.HTTPError):
    """A line is longer than it may be; the rest was not received."""

    def __init__(self) -> None:
        super().__init__(f"a line of more than {MOST_LINE_BYTES >> 20} MiB")


class Stream:
    """An open answer, read line by line on one thread; another one may cancel it.

    No line is waited for beyond ``until``, an instant of `autoscaler.clock.monotonic`: where the
    server was to end the answer before it, silence means that the connection is dead.
    """

    def __init__(self, response: urllib3.HTTPResponse, until: float) -> None:
        self._response = response
        self._until = until
        self._cancelled = threading.Event()
        # The time-out of a socket is that of each wait: the frame of a chunk may drip.
        self._timer = threading.Timer(until - clock.monotonic() + _GRACE_SECONDS, self._shut)
        self._timer.name = "watch-end"
        self._timer.daemon = True
        self._timer.start()
        self.heard = clock.monotonic()
        """When something was last received."""

    def __iter__(self) -> Iterator[bytes]:
        """Yield whole lines; the end of the answer, or its cancellation, ends them.

        Raises an HTTPError of urllib3: its TimeoutError when ``until`` is over, LineTooLong.
        """
        parts: list[bytes] = []
        size = 0
        while chunk := self._chunk():
            self.heard = clock.monotonic()
            first, *lines = chunk.split(b"\n")
            parts.append(first)
            size += len(first)
            if lines:
                whole = b"".join(parts)
                parts, size = [lines[-1]], len(lines[-1])
                yield from filter(None, (whole, *lines[:-1]))
            if size > MOST_LINE_BYTES:
                raise LineTooLong
        if size and not self._cancelled.is_set():
            raise urllib3.exceptions.ProtocolError("the answer ended inside a line")

    def _chunk(self) -> bytes:
        left = self._until - clock.monotonic()
        if left < _SHORTEST_TIMEOUT:
            raise urllib3.exceptions.TimeoutError("the answer did not end in time")
        connection = self._response.connection
        socket = connection.sock if connection is not None else None
        if socket is not None:
            socket.settimeout(left)
        try:
            return self._response.read1(_CHUNK_BYTES)
        except (urllib3.exceptions.HTTPError, OSError, ValueError):
            if clock.monotonic() >= self._until:
                raise urllib3.exceptions.TimeoutError("the answer did not end in time") from None
            raise

    def cancel(self) -> None:
        """End the iteration, which may be on another thread."""
        self._cancelled.set()
        self._shut()

    def _shut(self) -> None:
        # urllib3 raises these when the answer has ended already.
        with suppress(ValueError, RuntimeError, OSError):
            self._response.shutdown()

    def close(self) -> None:
        """Close the connection of an answer that was not read to its end."""
        self._timer.cancel()
        self._response.close()


_PAGE_SECONDS = 60.0
PAGE_SHRINKS = 4
"""A page that is too large is asked for again with so many times fewer objects."""
_WORKED_SECONDS = 1.0
"""A watch that lasted this long without an error worked."""
_LONGEST_MESSAGE, _LONGEST_CAUSE = 1000, 200
_RESUMABLE = frozenset({429, 500, 502, 503, 504})
_EVENTS = frozenset({"ADDED", "MODIFIED", "DELETED", "BOOKMARK"})

_ListMetadataJson = TypedDict(
    "_ListMetadataJson", {"continue": str, "resourceVersion": str}, total=False
)


class _ListJson(TypedDict, total=False):
    metadata: _ListMetadataJson
    items: list[JsonObject]


class _MetadataJson(TypedDict):
    resourceVersion: str


class _ObjectJson(TypedDict):
    metadata: _MetadataJson


class _StatusJson(TypedDict, total=False):
    code: int
    reason: str
    message: str


class _EventJson(TypedDict):
    type: str
    object: JsonObject


@dataclass(slots=True)
class Course:
    """How a watch went: ``version`` is where to resume, None for a new list."""

    version: str | None
    failure: Failure | None = None
    """Why it ended, unless in good order or because it was interrupted."""
    worked: bool = False
    heard: float = 0.0
    """The last instant at which the server was certainly there."""


class WatchRequests:
    """Sends the requests and feeds the cache, on one thread; another may interrupt."""

    def __init__(self, api: Api, cache: Cache, pace: WatchTimings) -> None:
        self._api = api
        self._cache = cache
        self._pace = pace
        self._lock = threading.Lock()
        self._stream: Stream | None = None
        self._interrupted = False
        self._ended = False

    def end(self) -> None:
        """End what is going on for good: a watch at once, a list after the page in hand."""
        self._ended = True
        self.interrupt()

    def interrupt(self) -> None:
        """End the watch that is going on, or else the next one; a list is finished."""
        with self._lock:
            self._interrupted = True
            if self._stream is not None:
                self._stream.cancel()

    def resume(self) -> None:
        """Allow watches again after an interruption."""
        with self._lock:
            self._interrupted = False

    def list_all(self, path: str) -> str | Failure | None:
        """Fill the cache; return the list's resourceVersion, None when ended."""
        self._cache.begin()
        limit = self._pace.page
        query: dict[str, str] = {}
        while not self._ended:
            page = self._page(path, query | {"limit": str(limit)})
            if isinstance(page, Failure):
                if not page.too_large or limit == 1:
                    return page
                limit = max(1, limit // PAGE_SHRINKS)
                continue
            if not page.get("continue"):
                self._cache.commit(page["resourceVersion"])
                return page["resourceVersion"]
            query["continue"] = page["continue"]
        return None

    def _page(self, path: str, query: dict[str, str]) -> _ListMetadataJson | Failure:
        answer = self._api.once("GET", path, clock.monotonic() + _PAGE_SECONDS, query=query)
        if isinstance(answer, Failure):
            return answer
        try:
            page = cast("_ListJson", answer)
            self._cache.add(page["items"])
            if not page["metadata"]["resourceVersion"]:
                raise ValueError("it has no resourceVersion")
        except MALFORMED as error:
            return self._unreadable("list", error)
        return page["metadata"]

    def follow(self, path: str, version: str, opened: Callable[[], None]) -> Course | Failure:
        """Feed the cache with the events after a resourceVersion, until the watch ends.

        The server ends it in good order after a random time, so that the watches of many
        clients do not end together.  ``opened`` is called when the server has agreed; Failure
        means that it did not.
        """
        pace = self._pace
        seconds = random.randint(pace.shortest_watch, pace.longest_watch)  # noqa: S311 - no secret
        query = {
            "watch": "true",
            "resourceVersion": version,
            "allowWatchBookmarks": "true",
            "timeoutSeconds": str(seconds),
        }
        response = self._api.stream(path, query, pace.head)
        if isinstance(response, Failure):
            return response
        opened()
        began = clock.monotonic()
        stream = Stream(response, began + seconds + pace.grace)
        course = Course(version, heard=began)
        with self._lock:
            self._stream = stream
        try:
            if not self._interrupted:
                self._consume(stream, course)
        finally:
            with self._lock:
                self._stream = None
            stream.close()
        course.worked = course.worked or clock.monotonic() - began >= _WORKED_SECONDS
        if self._interrupted:
            course.failure = None
        elif course.failure is None and not course.worked:
            course.failure = Failure(f"the API server {self._api.server} ended the watch at once")
        return course

    def _consume(self, stream: Stream, course: Course) -> None:
        try:
            for line in stream:
                course.failure = self._take(line, course)
                if course.failure is not None:
                    break
            course.heard = clock.monotonic()
        except urllib3.exceptions.TimeoutError:
            course.heard = stream.heard
            course.failure = Failure(
                f"the API server {self._api.server} did not end a watch in time"
            )
        except LineTooLong as error:
            course.heard = clock.monotonic()
            course.version = None
            course.failure = malformed(self._api.server, f"{error} in a watch")
        except RAISED as error:
            course.heard = clock.monotonic()
            failure = from_exception(error, self._api.server)
            message = self._api.said(failure.message, _LONGEST_MESSAGE)
            course.failure = replace(failure, message=message)

    def _take(self, line: bytes, course: Course) -> Failure | None:
        try:
            event = cast("_EventJson", parse(self._api.data(line), MOST_MEMORY))
            kind, obj = event["type"], event["object"]
            if kind == "ERROR":
                return self._error(cast("_StatusJson", obj), course)
            version = cast("_ObjectJson", obj)["metadata"]["resourceVersion"]
            if kind not in _EVENTS or not version:
                raise ValueError(f"type {kind}, resourceVersion {version}")
            self._cache.apply(kind, obj, version)
        except (TooMuch, *MALFORMED) as error:
            course.version = None
            return self._unreadable("watch event", error)
        course.version = version
        course.worked = True
        return None

    def _unreadable(self, what: str, error: Exception) -> Failure:
        cause = self._api.said(f"{type(error).__name__}: {error}", _LONGEST_CAUSE)
        return malformed(self._api.server, f"a {what} that cannot be read ({cause})")

    def _error(self, status: _StatusJson, course: Course) -> Failure:
        """Read the ERROR event that ends a watch; only what is transient lets it be resumed."""
        code = status.get("code", 0)
        if code not in _RESUMABLE:
            course.version = None
        message = self._api.said(
            str(status.get("message", "an error without a message")), _LONGEST_MESSAGE
        )
        reason = self._api.said(str(status.get("reason", "")), _LONGEST_CAUSE)
        return Failure(message, status=code or 500, reason=reason, transient=True)
