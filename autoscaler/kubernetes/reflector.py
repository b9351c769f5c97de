"""List and watch: keeps a cache of a collection up to date, on its own thread."""

import math
import threading
from collections.abc import Callable
from dataclasses import dataclass, replace
from enum import Enum
from typing import Generic, TypeVar

from autoscaler import clock
from autoscaler.core.observation import ReadFailure
from autoscaler.core.text import rfc3339
from autoscaler.kubernetes.api import Api
from autoscaler.kubernetes.failures import Failure
from autoscaler.kubernetes.watch_requests import Cache, WatchRequests, WatchTimings
from autoscaler.transport.retries import GrowingPause

CacheT = TypeVar("CacheT", bound=Cache)

_GONE = 410
_REFUSALS = frozenset({400, 403, 404, 405, 406, 415, 422})
_MALFORMED = 200
"""The status of a success that cannot be read."""
_LONGEST_RETRY_AFTER = 30.0
_PATH_SECONDS = 10.0


class WatchState(Enum):
    """The state of a watch."""

    STARTING = "starting"
    """The first list is not complete yet."""
    SYNCED = "synced"
    """The cache is, or was, complete."""
    REFUSED = "refused"
    """The collection cannot be watched, and that is confirmed."""


@dataclass(frozen=True, slots=True)
class _Outage:
    """The start of an outage or refusal of a watch (monotonic and Unix seconds), and the reason."""

    since: float
    wall: float
    reason: str


class OperatorNotes:
    """Sends each new sentence on a topic, and a last one when the topic is resolved."""

    def __init__(self, send: Callable[[bool, str], None]) -> None:
        self._send = send
        self._last_sent: dict[str, str] = {}
        self._lock = threading.Lock()

    def notify(self, topic: str, sentence: str) -> None:
        """Send a sentence unless it equals the last one on its topic."""
        with self._lock:
            if self._last_sent.get(topic) == sentence:
                return
            self._last_sent[topic] = sentence
        self._send(False, sentence)  # noqa: FBT003 - as the observer has it

    def resolved(self, topic: str, sentence: str) -> None:
        """Report that a topic is resolved, if a sentence was sent on it."""
        with self._lock:
            if self._last_sent.pop(topic, None) is None:
                return
        self._send(True, sentence)  # noqa: FBT003 - as the observer has it

    def forget(self, topic: str) -> None:
        """Forget a topic that no longer matters."""
        with self._lock:
            self._last_sent.pop(topic, None)


class Reflector(Generic[CacheT]):
    """Lists a collection, and watches it from the list's resourceVersion, to keep a cache of it.

    A watch that ends or breaks is resumed at its last version; 410 Gone, an unreadable event, and a
    break that is longer than the cache is trusted cause a new list. After a confirmed refusal, or
    an exception that ended the thread, the pauses grow to minutes. ``changed`` is called, on the
    watch's thread, when `state` changes or `refused` becomes true. A refusal before the first list
    is confirmed after ``first_refusal_confirmed_after`` seconds without another answer.
    """

    def __init__(
        self,
        api: Api,
        cache: CacheT,
        timings: WatchTimings,
        notes: OperatorNotes,
        changed: Callable[["Reflector[CacheT]"], None],
        *,
        first_refusal_confirmed_after: float = 0.0,
    ) -> None:
        self.cache = cache
        self.state = WatchState.STARTING
        self._requests = WatchRequests(api, cache, timings)
        self._retrier = api.retrier
        self._timings = timings
        self._notes = notes
        self._changed = changed
        self._path = ""
        self._resource_version: str | None = None
        self._outage: _Outage | None = None
        self._pause = GrowingPause(timings.first_pause, timings.longest_pause, jitter=True)
        self._pause_after_refusal = GrowingPause(timings.longest_pause, timings.refused_pause)
        self._pause_after_defect = GrowingPause(timings.longest_pause, timings.refused_pause)
        self._ended = threading.Event()
        self._relist_requested = threading.Event()
        self._distrusted: ReadFailure | None = None
        """Why the cache does not count until a list that begins after this."""
        self._opened_since_refusal = False
        """Whether a watch has been open since the last confirmed refusal."""
        self._first_refusal_confirmed_after = first_refusal_confirmed_after
        self._first_refusal: _Outage | None = None
        """The first refusal before the first list, until it is confirmed."""
        self._refusal_reason: str | None = None
        """Why the collection cannot be watched, in the state REFUSED."""
        self.refusal_status: int | None = None
        """The HTTP status of the last confirmed refusal."""
        self._thread = threading.Thread(target=self._run, name=f"watch {cache.name}", daemon=True)

    def start(self) -> None:
        """Start, on the watch's own thread."""
        self._thread.start()

    def end(self) -> None:
        """End the watch soon: immediately, unless it waits for the head of an answer."""
        self._ended.set()
        self._requests.end()

    def join(self, timeout: float) -> None:
        """Wait for the thread to end, unless it is this one."""
        if self._thread is not threading.current_thread():
            self._thread.join(max(0.0, timeout))

    @property
    def alive(self) -> bool:
        """Whether the thread runs."""
        return self._thread.is_alive()

    def relist(self) -> None:
        """Request a new list, because the cache needs more objects than before."""
        self._relist_requested.set()
        self._requests.interrupt()

    def distrust(self, why: str) -> None:
        """Invalidate the cache until it has been listed again, and request that."""
        self._distrusted = ReadFailure(f"{self.cache.name} is being listed again: {why}")
        self.relist()

    @property
    def distrusted(self) -> ReadFailure | None:
        """Why the cache does not count now, although it was listed; else None."""
        return self._distrusted if self.state is WatchState.SYNCED else None

    def is_behind(self, seconds: float) -> bool:
        """Return whether the watch has been down (broken, or listing) for over ``seconds``."""
        outage = self._outage
        return outage is not None and clock.monotonic() - outage.since > seconds

    @property
    def reason(self) -> str | None:
        """Why the cache gets no events now; None if it does, and before the first try."""
        outage = self._outage
        return self._refusal_reason if outage is None else outage.reason

    @property
    def refused(self) -> bool:
        """Whether the server refuses the collection, confirmed or not."""
        return self.state is WatchState.REFUSED or self._first_refusal is not None

    @property
    def confirmed_at(self) -> str | None:
        """When the first refusal will be confirmed if it lasts; None without an unconfirmed one."""
        first = self._first_refusal
        return None if first is None else rfc3339(first.wall + self._first_refusal_confirmed_after)

    @property
    def stale_reason(self) -> ReadFailure | None:
        """Why the cache is too old to trust; None if it is not."""
        if self.distrusted is not None:
            return self.distrusted
        outage = self._outage
        if outage is None or not self.is_behind(self._timings.trusted):
            return None
        since = f"the watch of {self.cache.name} has been broken since {rfc3339(outage.wall)}"
        return ReadFailure(f"{since}: {outage.reason}")

    def _run(self) -> None:
        try:
            while not self._ended.is_set():
                failure = self._step()
                if failure is not None and not self._ended.is_set():
                    self._pause_after(failure)
        finally:
            if not self._ended.is_set():
                # An unexpected exception ends the thread: the cache would silently become stale.
                try:
                    self._fall_back_to_reads("a fault of the autoscaler; its log has the details")
                finally:
                    self._restart_later()

    def _restart_later(self) -> None:
        """Start another thread after a pause; this one ends, with its traceback in the log."""
        pause = self._pause_after_defect.next()

        def run_later() -> None:
            self._ended.wait(pause)
            self._run()

        thread = threading.Thread(target=run_later, name=self._thread.name, daemon=True)
        try:
            thread.start()
        except RuntimeError:
            # No thread can be started: this one continues, and its traceback is logged later.
            run_later()
        else:
            self._thread = thread

    def _step(self) -> Failure | None:
        # Every interruption sets a flag first, so either the flag is seen below or the next watch
        # is interrupted.
        self._requests.resume()
        if self._ended.is_set():
            return None
        hurried = self.distrusted is not None
        if self._relist_requested.is_set() and self.state is WatchState.SYNCED and not hurried:
            self._ended.wait(self._timings.gather)
        if self._relist_requested.is_set() or self.stale_reason is not None:
            self._resource_version = None
        if self._resource_version is None:
            return self._list()
        return self._follow(self._resource_version)

    def _list(self) -> Failure | None:
        if self.state is WatchState.SYNCED and self._outage is None:
            # Until the list is complete the cache stays as it is now.
            self._outage = _outage_since(clock.monotonic(), "it is being listed again")
        path = self.cache.path(clock.monotonic() + _PATH_SECONDS)
        if isinstance(path, Failure):
            return path
        self._path = path
        # This list satisfies all requests until now.
        self._relist_requested.clear()
        distrusted = self._distrusted
        version = self._requests.list_all(path)
        if not isinstance(version, str):
            return version
        self._resource_version = version
        self._outage = self._first_refusal = self._refusal_reason = None
        if distrusted is not None and self._distrusted is distrusted:
            self._distrusted = None
            self._changed(self)
        if self.state is not WatchState.SYNCED:
            self._notes.resolved(self.cache.name, f"{self.cache.name} can be watched now")
            self.state = WatchState.SYNCED
            self._changed(self)
        return None

    def _follow(self, version: str) -> Failure | None:
        before = self._outage
        outcome = self._requests.follow(self._path, version, self._opened)
        if isinstance(outcome, Failure):
            return outcome
        self._resource_version = outcome.version
        if outcome.worked:
            self._pause.reset()
        if outcome.failure is not None:
            broken = _outage_since(outcome.heard, outcome.failure.message)
            self._outage = broken if outcome.worked else before or broken
        return outcome.failure

    def _opened(self) -> None:
        self._outage = None
        self._pause_after_refusal.reset()
        self._opened_since_refusal = True

    def _pause_after(self, failure: Failure) -> None:
        """Record a failure and pause; a 429 also delays all other requests."""
        self._retrier.hold_back(failure)
        if failure.status not in _REFUSALS:
            # A server that was down may first refuse requests when it returns.
            self._first_refusal = None
        elif self._is_final():
            self.refusal_status = failure.status
            self._fall_back_to_reads(failure.message)
            self._ended.wait(self._pause_after_refusal.next())
            return
        elif self.state is WatchState.STARTING and self._first_refusal is None:
            self._first_refusal = _outage_since(clock.monotonic(), failure.message)
            self._changed(self)
        if failure.status == _GONE:
            self._resource_version = None
        if failure.status == _MALFORMED:
            name = self.cache.name
            self._notes.notify(f"{name}, malformed", f"{name} is listed again: {failure.message}")
        outage = self._outage or _outage_since(clock.monotonic(), failure.message)
        self._outage = replace(outage, reason=failure.message)
        pause = max(self._pause.next(), min(failure.retry_after or 0.0, _LONGEST_RETRY_AFTER))
        self._ended.wait(min(pause, self._until_first_is_final()))

    def _is_final(self) -> bool:
        """Return whether a refusal is confirmed; later if the collection was watched before."""
        if self._opened_since_refusal:
            return self.is_behind(self._timings.refusal_confirmed_after)
        if self.state is not WatchState.STARTING or not self._first_refusal_confirmed_after:
            return True
        return self._first_refusal is not None and self._until_first_is_final() <= 0.0

    def _until_first_is_final(self) -> float:
        """Return the seconds until a refusal before the first list is confirmed, or infinity."""
        first = self._first_refusal
        if first is None:
            return math.inf
        return first.since + self._first_refusal_confirmed_after - clock.monotonic()

    def _fall_back_to_reads(self, reason: str) -> None:
        """Clear the cache: objects are read directly while the collection cannot be watched."""
        cache = self.cache
        self._resource_version = self._outage = self._first_refusal = None
        self._refusal_reason = reason
        self._opened_since_refusal = False
        self._pause.reset()
        cache.clear()
        sentence = f"{cache.name} cannot be watched ({reason}): {cache.instead}"
        self._notes.notify(cache.name, sentence)
        self.state = WatchState.REFUSED
        self._changed(self)


def _outage_since(instant: float, reason: str) -> _Outage:
    return _Outage(instant, clock.wall() - (clock.monotonic() - instant), reason)
