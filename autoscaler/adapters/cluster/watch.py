"""List and watch: keeps a copy of a collection up to date, on a thread of its own."""

import json
import random
import threading
from collections.abc import Callable
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from enum import Enum
from typing import Generic, TypedDict, TypeVar, cast

import urllib3

from autoscaler import clock
from autoscaler.adapters.cluster.api import Api
from autoscaler.adapters.cluster.failures import Failure, JsonObject, from_exception, malformed
from autoscaler.adapters.cluster.mirrors import Mirror, Notes, Pace
from autoscaler.adapters.cluster.pods import MALFORMED
from autoscaler.adapters.cluster.streams import Stream
from autoscaler.core.observation import Unavailable

M = TypeVar("M", bound=Mirror)

_GONE = 410
_REFUSALS = frozenset({400, 403, 404, 405, 406, 415, 422})
_PROVEN_SECONDS = 1.0
"""A watch that lasted this long without an error worked."""
_LONGEST_RETRY_AFTER = 30.0
_PATH_SECONDS = 10.0

_ListMetadataJson = TypedDict(
    "_ListMetadataJson", {"continue": str, "resourceVersion": str}, total=False
)


class _ListJson(TypedDict, total=False):
    metadata: _ListMetadataJson
    items: list[JsonObject]


class _MetadataJson(TypedDict):
    resourceVersion: str


class _StatusJson(TypedDict, total=False):
    code: int
    reason: str
    message: str


class State(Enum):
    """How far a watch is."""

    STARTING = "the first list is not there yet"
    SYNCED = "the copy is, or was, complete"
    REFUSED = "the collection cannot be watched"


@dataclass(frozen=True, slots=True)
class _Trouble:
    """Since when (monotonic and Unix seconds) a watch is broken, and why."""

    since: float
    wall: float
    reason: str


class Watch(Generic[M]):
    """Keeps a mirror of a collection (a `Mirror`) as the API server has it.

    Lists, then watches from the list's resourceVersion.  A watch that ends or breaks is resumed
    where it was; 410 Gone, an event that cannot be read, and a break that lasted longer than
    the copy is trusted lead to a new list.  A refusal is tried again after minutes.  ``changed``
    is called, on the watch's thread, when `state` changes.
    """

    def __init__(
        self, api: Api, mirror: M, pace: Pace, notes: Notes, changed: Callable[["Watch[M]"], None]
    ) -> None:
        self.mirror = mirror
        self.state = State.STARTING
        self._api = api
        self._pace = pace
        self._notes = notes
        self._changed = changed
        self._path = ""
        self._version: str | None = None
        self._trouble: _Trouble | None = None
        self._failures = 0
        self._lock = threading.Lock()
        self._stream: Stream | None = None
        self._ended = threading.Event()
        self._wanted = threading.Event()
        self._thread = threading.Thread(target=self._run, name=f"watch {mirror.name}", daemon=True)

    def start(self) -> None:
        """Begin, on the watch's own thread."""
        self._thread.start()

    def end(self) -> None:
        """Let the watch end soon: at once, unless it waits for a server to answer at all."""
        self._ended.set()
        self._interrupt()

    def join(self, timeout: float) -> None:
        """Wait for the thread's end, unless it is this one."""
        if self._thread is not threading.current_thread():
            self._thread.join(max(0.0, timeout))

    def relist(self) -> None:
        """Have the mirror filled anew, because it wants objects that it did not before."""
        self._wanted.set()
        self._interrupt()

    @property
    def doubt(self) -> Unavailable | None:
        """Why the copy is too old to trust; None while it is not."""
        trouble = self._trouble
        if trouble is None or clock.monotonic() - trouble.since <= self._pace.trusted:
            return None
        since = datetime.fromtimestamp(int(trouble.wall), UTC).isoformat().replace("+00:00", "Z")
        return Unavailable(
            f"the watch of {self.mirror.name} is broken since {since}: {trouble.reason}"
        )

    def _interrupt(self) -> None:
        with self._lock:
            if self._stream is not None:
                self._stream.cancel()

    def _run(self) -> None:
        try:
            while not self._ended.is_set():
                failure = self._step()
                if failure is not None and not self._ended.is_set():
                    self._take(failure)
        finally:
            if not self._ended.is_set():
                # A fault of ours ended the thread: without it the copy would silently grow old.
                self._give_up("by a fault of the autoscaler")

    def _step(self) -> Failure | None:
        if self._wanted.is_set() and self.state is State.SYNCED:
            self._ended.wait(self._pace.gather)
        if self._wanted.is_set() or self.doubt is not None:
            self._version = None
        if self._version is None:
            return self._list()
        return self._follow(self._version)

    # -- list ------------------------------------------------------------------------------

    def _list(self) -> Failure | None:
        path = self.mirror.path(clock.monotonic() + _PATH_SECONDS)
        if isinstance(path, Failure):
            # A kind that is unknown, or has no scale, has no HTTP status.
            return path if path.transient or path.status else replace(path, status=404)
        self._path = path
        self._wanted.clear()
        self.mirror.begin()
        query = {"limit": str(self._pace.page)}
        while not self._ended.is_set():
            metadata = self._page(query)
            if isinstance(metadata, Failure):
                return metadata
            token = metadata.get("continue")
            if not token:
                self._commit(metadata["resourceVersion"])
                break
            query["continue"] = token
        return None

    def _page(self, query: dict[str, str]) -> _ListMetadataJson | Failure:
        answer = self._api.once("GET", self._path, clock.monotonic() + _PATH_SECONDS, query=query)
        if isinstance(answer, Failure):
            return answer
        try:
            page = cast("_ListJson", answer)
            self.mirror.add(page["items"])
            if not page["metadata"]["resourceVersion"]:
                raise ValueError("it has no resourceVersion")
        except MALFORMED as error:
            return self._unreadable("list", error)
        return page["metadata"]

    def _commit(self, version: str) -> None:
        self.mirror.commit(version)
        self._version = version
        self._trouble = None
        if self.state is not State.SYNCED:
            self.state = State.SYNCED
            self._notes.over(self.mirror.name, f"{self.mirror.name} can be watched now")
            self._changed(self)

    # -- watch -----------------------------------------------------------------------------

    def _follow(self, version: str) -> Failure | None:
        pace = self._pace
        seconds = random.randint(pace.shortest_watch, pace.longest_watch)  # noqa: S311 - no secret
        query = {
            "watch": "true",
            "resourceVersion": version,
            "allowWatchBookmarks": "true",
            "timeoutSeconds": str(seconds),
        }
        response = self._api.stream(self._path, query, pace.head)
        if isinstance(response, Failure):
            return response
        began, before = clock.monotonic(), self._trouble
        stream = Stream(response, began + seconds + pace.grace)
        with self._lock:
            self._stream = stream
        self._trouble = None
        try:
            failure = self._consume(stream)
        finally:
            with self._lock:
                self._stream = None
            stream.close()
        proven = stream.heard > began or clock.monotonic() - began >= _PROVEN_SECONDS
        if self._ended.is_set() or self._wanted.is_set():
            return None
        if failure is None and not proven:
            failure = Failure(f"the API server {self._api.server} ended the watch at once")
        if failure is not None and failure.status:
            # An ERROR event was heard, but nothing that would end an earlier trouble.
            self._trouble = before
        elif proven:
            self._failures = 0
        return failure

    def _consume(self, stream: Stream) -> Failure | None:
        """Take in the events until the watch ends; say why, unless it ended in good order."""
        if self._ended.is_set() or self._wanted.is_set():
            return None
        try:
            for line in stream:
                failure = self._event(line)
                if failure is not None:
                    return failure
        except urllib3.exceptions.TimeoutError:
            self._trouble = self._trouble_since(stream.heard, "")
            silent = clock.monotonic() - stream.heard
            return Failure(f"the API server {self._api.server} was silent for {silent:.0f} s")
        except urllib3.exceptions.HTTPError as error:
            return from_exception(error, self._api.server, 0.0)
        return None

    def _event(self, line: bytes) -> Failure | None:
        try:
            event = json.loads(line)
            kind, obj = event["type"], event["object"]
            if kind == "ERROR":
                return self._error(obj)
            version = cast("_MetadataJson", obj["metadata"])["resourceVersion"]
            if kind not in {"ADDED", "MODIFIED", "DELETED", "BOOKMARK"} or not version:
                raise ValueError(f"type {kind}, resourceVersion {version}")
            self.mirror.apply(kind, obj, version)
        except MALFORMED as error:
            self._version = None
            return self._unreadable("watch event", error)
        self._version = version
        return None

    def _error(self, status: _StatusJson) -> Failure:
        code, message = status.get("code", 0), status.get("message", "no message")
        if code not in {429, 500, 503, 504}:
            self._version = None
        reason = status.get("reason", "")
        return Failure(message, status=code or 500, reason=reason, transient=True)

    # -- failures --------------------------------------------------------------------------

    def _unreadable(self, what: str, error: Exception) -> Failure:
        failure = malformed(self._api.server, f"a {what} that cannot be read")
        cause = f"{type(error).__name__}: {error}"
        self._notes.say(
            f"{self.mirror.name} {what}", f"{self.mirror.name}: {failure.message} ({cause})"
        )
        return failure

    def _take(self, failure: Failure) -> None:
        if failure.status == _GONE:
            self._version = None
        elif failure.status in _REFUSALS:
            self._give_up(failure.message)
            self._ended.wait(self._pace.refused_pause)
            return
        trouble = self._trouble or self._trouble_since(clock.monotonic(), failure.message)
        self._trouble = replace(trouble, reason=failure.message)
        longest = min(self._pace.longest_pause, self._pace.first_pause * 2.0**self._failures)
        self._failures = min(self._failures + 1, 16)
        pause = longest * random.uniform(0.5, 1.0)  # noqa: S311 - no secret
        self._ended.wait(max(pause, min(failure.retry_after or 0.0, _LONGEST_RETRY_AFTER)))

    def _trouble_since(self, instant: float, reason: str) -> _Trouble:
        return _Trouble(instant, clock.wall() - (clock.monotonic() - instant), reason)

    def _give_up(self, reason: str) -> None:
        """Have everything read directly, for as long as the collection cannot be watched."""
        mirror = self.mirror
        self._version = self._trouble = None
        self._failures = 0
        mirror.clear()
        self._notes.say(
            mirror.name, f"{mirror.name} cannot be watched ({reason}): {mirror.instead}"
        )
        self.state = State.REFUSED
        self._changed(self)
