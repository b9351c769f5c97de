"""The requests of a watch: a list in pages, then the stream of events after it."""

import random
import threading
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from typing import cast

import urllib3

from autoscaler import clock
from autoscaler.kubernetes.api import MALFORMED, MOST_BYTES, MOST_MEMORY, Api, JsonObject, read_list
from autoscaler.kubernetes.failures import Failure, malformed
from autoscaler.token_bucket import TokenBucket
from autoscaler.transport.answers import DocumentTooLargeError, LineTooLong, lines_of, parse
from autoscaler.transport.network_errors import RAISED

_SHORTEST_TIMEOUT = 0.001
_GRACE_SECONDS = 0.1
"""How much later than a socket's timeout a slow answer is cut."""
_CHUNK_BYTES = 1 << 18
_SHORTEST_REST = 0.05
_PAGE_SECONDS = 60.0
_WORKED_SECONDS = 1.0
"""A watch that lasted this long without an error worked."""
_LONGEST_MESSAGE, _LONGEST_CAUSE = 1000, 200
OBJECT_BYTES = 300
"""The memory overhead of a cached object in bytes, in addition to its text."""
_RESUMABLE = frozenset({429, 500, 502, 503, 504})
_EVENTS = frozenset({"ADDED", "MODIFIED", "DELETED", "BOOKMARK"})


ALL = ""
"""The namespace of a watch of all namespaces."""


class OverBudgetError(Exception):
    """The cache of a cluster would exceed its budget."""


class ClusterBudget:
    """The bytes that are cached of one cluster, and the events of it that are read per second.

    It is for all caches of the cluster together: a server may list objects or send events without
    end, and must not exhaust the memory and CPU time of other clusters. Kubernetes' own scalability
    tests create 100 pods per second, each with a few changes.
    """

    def __init__(
        self, most: int = 1 << 30, per_second: float = 2000.0, burst: int = 10_000
    ) -> None:
        self._most = most
        self.kept = 0
        self._events = TokenBucket(burst, 1.0 / per_second)
        self._lock = threading.Lock()

    def add(self, change: int) -> None:
        """Add cached bytes, or subtract freed ones. Raises OverBudgetError."""
        with self._lock:
            if change > 0 and self.kept + change > self._most:
                raise OverBudgetError(
                    f"more than {self._most >> 20} MiB would have to be kept of this cluster"
                )
            self.kept += change

    def count_event(self) -> float:
        """Count an event; return the seconds to wait before the next one is read."""
        with self._lock:
            return self._events.reserve(clock.monotonic())


def weight(kept: object) -> int:
    """Return about how many bytes a value takes: its text, and the overhead of its objects."""
    return 0 if kept is None else OBJECT_BYTES + len(repr(kept))


class Cache(ABC):
    """A copy of a collection. One watch writes it; any thread may read it.

    A list fills a second copy, which `commit` puts in place of the first; events change the first.
    `add` and `apply` raise one of MALFORMED for unreadable data, and OverBudgetError.
    """

    def __init__(self, collection: str, namespace: str, instead: str, path: str = "") -> None:
        """``instead`` says what happens while the objects of one namespace cannot be watched."""
        self._path = path
        self.name = f'{collection} in namespace "{namespace}"' if namespace else collection
        """The collection, for messages: `deployments.apps in namespace "shop"`."""
        self.instead = instead if namespace else "each namespace is watched by itself"
        """What happens while it cannot be watched, for messages."""
        self.namespace = namespace
        self.selector: Mapping[str, str] = {}
        """The parameters of the requests that select objects of the collection."""
        self._lock = threading.Lock()
        self.budget = ClusterBudget()
        """The budget that all caches of one cluster share."""
        self._bytes = self._bytes_listed = 0

    def _count(self, before: int, after: int, *, listed: bool = False) -> None:
        """Count bytes that replace others, in the second copy or in the first."""
        change = after - before
        self.budget.add(change)
        if listed:
            self._bytes_listed += change
        else:
            self._bytes += change

    def _drop_listed(self) -> None:
        """Count the second copy as dropped."""
        self.budget.add(-self._bytes_listed)
        self._bytes_listed = 0

    def _use_listed(self) -> None:
        """Replace the first copy by the second in the count."""
        self.budget.add(-self._bytes)
        self._bytes, self._bytes_listed = self._bytes_listed, 0

    def path(self, deadline: float) -> str | Failure:  # noqa: ARG002 - of caches that ask
        """Return the path of the collection; called before each list, may send requests."""
        return self._path

    @abstractmethod
    def begin(self) -> None:
        """Begin a list; pages of an earlier one that was not committed are dropped."""

    @abstractmethod
    def add(self, items: list[JsonObject]) -> None:
        """Add a page of the list."""

    @abstractmethod
    def commit(self, version: str) -> None:
        """Use the list from now on; it is the collection at a resourceVersion."""

    @abstractmethod
    def apply(self, kind: str, obj: JsonObject, version: str) -> None:
        """Apply an event: ADDED, MODIFIED, DELETED, or BOOKMARK, which has only a version."""

    @abstractmethod
    def clear(self) -> None:
        """Forget all objects: the collection is no longer watched."""


@dataclass(frozen=True, slots=True)
class WatchTimings:
    """Times of a watch, in seconds, and the size of a page."""

    shortest_watch: int = 40
    longest_watch: int = 55
    """The range of the time after which the server is asked to end each watch."""
    grace: float = 5.0
    """How long after that a watch that has not ended counts as broken."""
    head: float = 10.0
    """The time for the head of an answer."""
    first_pause: float = 0.2
    longest_pause: float = 10.0
    """Bounds of the pauses between tries, which double."""
    refused_pause: float = 300.0
    """The longest pause after a refusal (forbidden, not served); the first is above."""
    refusal_confirmed_after: float = 30.0
    """How long refusals of a collection that was watched must last before they are confirmed: an
    API server that has just started refuses collections that it has not loaded yet."""
    first_refusal_confirmed_after: float = 60.0
    """The same for HorizontalPodAutoscalers that were never listed, in each namespace: one of them
    may control a target, so nothing is decided there until then."""
    trusted: float = 60.0
    """How long a cache is trusted while its watch is broken, or it is being listed again."""
    pods_trusted: float = 5.0
    """The same for pods: no resourceVersion protects a decision from an old list of them."""
    gather: float = 0.5
    """How long a requested list is delayed, so that it satisfies further requests too."""
    page: int = 500


class WatchStream:
    """An open answer, read by line until an instant of `clock.monotonic`; any thread may cancel."""

    def __init__(self, response: urllib3.HTTPResponse, until: float) -> None:
        self._response = response
        self._until = until
        self._cancelled = threading.Event()
        # A socket's timeout applies to each wait, and bytes may arrive one by one.
        self._timer = threading.Timer(until - clock.monotonic() + _GRACE_SECONDS, self._shut_down)
        self._timer.name = "watch-end"
        self._timer.daemon = True
        self._timer.start()
        self.heard = clock.monotonic()
        """The time of the last received data."""

    def __iter__(self) -> Iterator[bytes]:
        """Yield whole lines; raises urllib3's TimeoutError at ``until``, LineTooLong and others."""
        for line in lines_of(self._chunks(), MOST_BYTES):
            if self._cancelled.is_set():
                return  # This may be half a line.
            if line:
                yield line

    def _chunks(self) -> Iterator[bytes]:
        late = urllib3.exceptions.TimeoutError("the answer did not end in time")
        chunk = b"\n"
        while (left := self._until - clock.monotonic()) >= _SHORTEST_TIMEOUT:
            connection = self._response.connection
            if connection is not None and connection.sock is not None:
                connection.sock.settimeout(left)
            last = chunk
            try:
                chunk = self._response.read1(_CHUNK_BYTES)
            except (urllib3.exceptions.HTTPError, OSError, ValueError):
                if clock.monotonic() >= self._until:
                    raise late from None
                raise
            if not chunk:
                if not last.endswith(b"\n") and not self._cancelled.is_set():
                    raise urllib3.exceptions.ProtocolError("the answer ended inside a line")
                return
            self.heard = clock.monotonic()
            yield chunk
        raise late

    def rest(self, seconds: float) -> None:
        """Read nothing for a time, unless the stream is cancelled or its end comes first."""
        self._cancelled.wait(min(seconds, self._until - clock.monotonic()))

    def cancel(self) -> None:
        """End the iteration, from any thread."""
        self._cancelled.set()
        self._shut_down()

    def _shut_down(self) -> None:
        # urllib3 raises these if the answer has already ended.
        with suppress(ValueError, RuntimeError, OSError):
            self._response.shutdown()

    def close(self) -> None:
        """Close the connection of an answer that was not read to its end."""
        self._timer.cancel()
        self._response.close()


@dataclass(slots=True)
class WatchOutcome:
    """The outcome of a watch: ``version`` is where to resume; None requires a new list."""

    version: str | None
    failure: Failure | None = None
    """Why it ended; empty if the server ended it as requested, or it was interrupted."""
    worked: bool = False
    heard: float = 0.0
    """The last instant at which the server certainly answered."""


class WatchRequests:
    """Sends the requests and fills the cache, on one thread; others may interrupt."""

    def __init__(self, api: Api, cache: Cache, timings: WatchTimings) -> None:
        self._api = api
        self._cache = cache
        self._timings = timings
        self._lock = threading.Lock()
        self._stream: WatchStream | None = None
        self._interrupted = False
        self._ended = False

    def end(self) -> None:
        """End permanently: a watch immediately, a list after the page that is being read."""
        self._ended = True
        self.interrupt()

    def interrupt(self) -> None:
        """End the current watch, or else the next one; a list is completed."""
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

        def get(query: dict[str, str]) -> JsonObject | Failure:
            if self._ended:
                return Failure("the watch has ended")
            until = clock.monotonic() + _PAGE_SECONDS
            return self._api.once("GET", path, until, query=query)

        try:
            version = read_list(get, self._cache.add, {**self._cache.selector}, self._timings.page)
            if not version:
                raise ValueError("it has no resourceVersion")
        except MALFORMED as error:
            version = self._unreadable("list", error)
        except OverBudgetError as error:
            version = self._too_much(error)
        if isinstance(version, Failure):
            self._cache.begin()  # The pages so far cannot be used.
        else:
            self._cache.commit(version)
        return None if self._ended else version

    def follow(self, path: str, version: str, opened: Callable[[], None]) -> WatchOutcome | Failure:
        """Apply the events after a version until the watch ends; calls ``opened`` on acceptance."""
        timings = self._timings
        seconds = random.randint(timings.shortest_watch, timings.longest_watch)  # noqa: S311 - no secret
        query = {
            **self._cache.selector,
            "watch": "true",
            "resourceVersion": version,
            "allowWatchBookmarks": "true",
            "timeoutSeconds": str(seconds),
        }
        response = self._api.stream(path, query, timings.head)
        if isinstance(response, Failure):
            return response
        opened()
        began = clock.monotonic()
        stream = WatchStream(response, began + seconds + timings.grace)
        outcome = WatchOutcome(version, heard=began)
        with self._lock:
            self._stream = stream
        try:
            if not self._interrupted:
                self._consume(stream, outcome)
        finally:
            with self._lock:
                self._stream = None
            stream.close()
        outcome.worked = outcome.worked or clock.monotonic() - began >= _WORKED_SECONDS
        if self._interrupted:
            outcome.failure = None
        elif outcome.failure is None and not outcome.worked:
            outcome.failure = Failure(f"the API server {self._api.server} ended the watch at once")
        return outcome

    def _consume(self, stream: WatchStream, outcome: WatchOutcome) -> None:
        server = self._api.server
        try:
            for line in stream:
                outcome.failure = self._apply(line, outcome)
                if outcome.failure is not None:
                    break
                if (seconds := self._cache.budget.count_event()) > _SHORTEST_REST:
                    stream.rest(seconds)
        except urllib3.exceptions.TimeoutError:
            outcome.heard = stream.heard
            outcome.failure = Failure(f"the API server {server} did not end a watch in time")
            return
        except LineTooLong as error:
            outcome.version = None
            outcome.failure = malformed(server, f"{error} in a watch")
        except RAISED as error:
            outcome.failure = self._api.failed(error)
        outcome.heard = clock.monotonic()

    def _apply(self, line: bytes, outcome: WatchOutcome) -> Failure | None:
        try:
            event = cast("JsonObject", parse(self._api.redactor.data(line), MOST_MEMORY))
            kind, obj = event["type"], event["object"]
            if kind == "ERROR":
                return self._error(obj, outcome)
            version = obj["metadata"]["resourceVersion"]
            if kind not in _EVENTS or not version:
                raise ValueError(f"type {kind}, resourceVersion {version}")
            self._cache.apply(kind, obj, version)
        except OverBudgetError as error:
            outcome.version = None
            return self._too_much(error)
        except (DocumentTooLargeError, *MALFORMED) as error:
            outcome.version = None
            return self._unreadable("watch event", error)
        outcome.version = version
        outcome.worked = True
        return None

    def _too_much(self, error: OverBudgetError) -> Failure:
        return Failure(f"the API server {self._api.server} sent too many objects: {error}")

    def _unreadable(self, what: str, error: Exception) -> Failure:
        cause = self._api.redactor.line(f"{type(error).__name__}: {error}", _LONGEST_CAUSE)
        return malformed(self._api.server, f"a {what} that cannot be read ({cause})")

    def _error(self, status: JsonObject, outcome: WatchOutcome) -> Failure:
        """Read the ERROR event that ends a watch; only after a transient one it is resumed."""
        code = status.get("code", 0)
        if code not in _RESUMABLE:
            outcome.version = None
        said = str(status.get("message", "an error without a message"))
        message = self._api.redactor.line(said, _LONGEST_MESSAGE)
        return Failure(message, status=code or 500, transient=True)
