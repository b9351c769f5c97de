"""List and watch: keeps a cache of a collection up to date, on a thread of its own."""

import math
import random
import threading
from collections.abc import Callable
from dataclasses import dataclass, replace
from enum import Enum
from typing import Generic, TypeVar

from autoscaler import clock
from autoscaler.adapters.cluster.api import Api
from autoscaler.adapters.cluster.caches import Cache, OperatorNotes, WatchTimings
from autoscaler.adapters.cluster.failures import Failure
from autoscaler.adapters.cluster.watch_requests import WatchRequests
from autoscaler.core.observation import Unavailable
from autoscaler.core.text import rfc3339

M = TypeVar("M", bound=Cache)

_GONE = 410
_REFUSALS = frozenset({400, 403, 404, 405, 406, 415, 422})
_MALFORMED = 200
"""The status of a success that cannot be read."""
_LONGEST_RETRY_AFTER = 30.0
_PATH_SECONDS = 10.0
_MOST_DOUBLINGS = 16


class State(Enum):
    """How far a watch is."""

    STARTING = "the first list is not there yet"
    SYNCED = "the cache is, or was, complete"
    REFUSED = "the collection cannot be watched, and that is believed"


@dataclass(frozen=True, slots=True)
class _Trouble:
    """Since when (monotonic and Unix seconds) a watch is broken or refused, and why."""

    since: float
    wall: float
    reason: str


class Reflector(Generic[M]):
    """Keeps a cache of a collection as the API server has it.

    Lists, then watches from the list's resourceVersion.  A watch that ends or breaks is resumed
    where it was; 410 Gone, an event that cannot be read, and a break that lasted longer than
    the cache is trusted lead to a new list.  A refusal that lasts is tried again after minutes,
    and so is a defect of ours that ended the thread, both sooner at first.  ``changed`` is
    called, on the watch's thread, when `state` changes or `refused` becomes true.  A refusal before
    the first list is believed after ``first_refusal_believed`` seconds without another answer.
    """

    def __init__(
        self,
        api: Api,
        cache: M,
        pace: WatchTimings,
        notes: OperatorNotes,
        changed: Callable[["Reflector[M]"], None],
        *,
        first_refusal_believed: float = 0.0,
    ) -> None:
        self.cache = cache
        self.state = State.STARTING
        self._requests = WatchRequests(api, cache, pace)
        self._retrier = api.retrier
        self._pace = pace
        self._notes = notes
        self._changed = changed
        self._path = ""
        self._version: str | None = None
        self._trouble: _Trouble | None = None
        self._failures = 0
        self._ended = threading.Event()
        self._wanted = threading.Event()
        self._faults = 0
        self._refusals = 0
        self._was_open = False
        """Whether a watch was open since the last refusal that was believed."""
        self._first_refusal_believed = first_refusal_believed
        self._first_refusal: _Trouble | None = None
        """The first of the refusals that go on before the first list and are not believed yet."""
        self._given_up: str | None = None
        """Why the collection cannot be watched, in the state REFUSED."""
        self._thread = threading.Thread(target=self._run, name=f"watch {cache.name}", daemon=True)

    def start(self) -> None:
        """Begin, on the watch's own thread."""
        self._thread.start()

    def end(self) -> None:
        """Let the watch end soon: at once, unless it waits for a server to answer at all."""
        self._ended.set()
        self._requests.end()

    def join(self, timeout: float) -> None:
        """Wait for the thread's end, unless it is this one."""
        if self._thread is not threading.current_thread():
            self._thread.join(max(0.0, timeout))

    @property
    def alive(self) -> bool:
        """Whether the thread runs."""
        return self._thread.is_alive()

    def relist(self) -> None:
        """Have the cache filled anew, because it wants objects that it did not before."""
        self._wanted.set()
        self._requests.interrupt()

    def is_behind(self, seconds: float) -> bool:
        """Tell whether the cache has been getting no events for longer than that."""
        trouble = self._trouble
        return trouble is not None and clock.monotonic() - trouble.since > seconds

    @property
    def reason(self) -> str | None:
        """Why the cache gets nothing now; None while it does, or while nothing was tried."""
        trouble = self._trouble
        return self._given_up if trouble is None else trouble.reason

    @property
    def refused(self) -> bool:
        """Whether the server refuses the collection, be it believed or not."""
        return self.state is State.REFUSED or self._first_refusal is not None

    @property
    def believed_at(self) -> str | None:
        """When a refusal will be believed that is not yet, if it lasts; None without one."""
        first = self._first_refusal
        return None if first is None else rfc3339(first.wall + self._first_refusal_believed)

    @property
    def doubt(self) -> Unavailable | None:
        """Why the cache is too old to trust; None while it is not."""
        trouble = self._trouble
        if trouble is None or not self.is_behind(self._pace.trusted):
            return None
        return Unavailable(
            f"the watch of {self.cache.name} is broken since {rfc3339(trouble.wall)}: "
            f"{trouble.reason}"
        )

    def _run(self) -> None:
        try:
            while not self._ended.is_set():
                failure = self._step()
                if failure is not None and not self._ended.is_set():
                    self._take(failure)
        finally:
            if not self._ended.is_set():
                # A fault of ours ends the thread: without this the cache would silently grow old.
                try:
                    self._give_up("by a fault of the autoscaler")
                finally:
                    self._begin_again()

    def _begin_again(self) -> None:
        """Have another thread go on after a pause; this one ends by the fault, whose hook tells."""
        pause = self._long_pause(self._faults)
        self._faults = min(self._faults + 1, _MOST_DOUBLINGS)

        def run_later() -> None:
            self._ended.wait(pause)
            self._run()

        thread = threading.Thread(target=run_later, name=self._thread.name, daemon=True)
        try:
            thread.start()
        except RuntimeError:
            # There is a shortage of threads: this one goes on itself, and is told of when it ends.
            run_later()
        else:
            self._thread = thread

    def _long_pause(self, before: int) -> float:
        """Return how long to wait with what is not over soon, after so many such pauses."""
        return min(self._pace.refused_pause, self._pace.longest_pause * 2.0**before)

    def _step(self) -> Failure | None:
        # Whoever interrupts sets a flag first: after this either the flag is seen below, or the
        # next watch is interrupted.
        self._requests.resume()
        if self._ended.is_set():
            return None
        if self._wanted.is_set() and self.state is State.SYNCED:
            self._ended.wait(self._pace.gather)
        if self._wanted.is_set() or self.doubt is not None:
            self._version = None
        if self._version is None:
            return self._list()
        return self._follow(self._version)

    def _list(self) -> Failure | None:
        if self.state is State.SYNCED and self._trouble is None:
            # Until the list is in force the cache stays as it is now.
            self._trouble = _trouble_since(clock.monotonic(), "it is being listed anew")
        path = self.cache.path(clock.monotonic() + _PATH_SECONDS)
        if isinstance(path, Failure):
            return path
        self._path = path
        # What is wanted up to here will be in this list.
        self._wanted.clear()
        version = self._requests.list_all(path)
        if isinstance(version, str):
            self._version = version
            self._trouble = self._first_refusal = self._given_up = None
            if self.state is not State.SYNCED:
                self._notes.over(self.cache.name, f"{self.cache.name} can be watched now")
                self._enter(State.SYNCED)
            return None
        return version

    def _follow(self, version: str) -> Failure | None:
        before = self._trouble
        course = self._requests.follow(self._path, version, self._opened)
        if isinstance(course, Failure):
            return course
        self._version = course.version
        if course.worked:
            self._failures = 0
        if course.failure is not None:
            broken = _trouble_since(course.heard, course.failure.message)
            self._trouble = broken if course.worked else before or broken
        return course.failure

    def _opened(self) -> None:
        self._trouble = None
        self._refusals = 0
        self._was_open = True

    def _take(self, failure: Failure) -> None:
        """Note a failure and pause after it; a 429 lets all others wait as well."""
        self._retrier.hold_back(failure)
        if failure.status not in _REFUSALS:
            # A server that is not there may be a new one when it is back.
            self._first_refusal = None
        elif self._is_final():
            self._give_up(failure.message)
            self._ended.wait(self._long_pause(self._refusals))
            self._refusals = min(self._refusals + 1, _MOST_DOUBLINGS)
            return
        elif self.state is State.STARTING and self._first_refusal is None:
            self._first_refusal = _trouble_since(clock.monotonic(), failure.message)
            self._changed(self)
        if failure.status == _GONE:
            self._version = None
        if failure.status == _MALFORMED:
            name = self.cache.name
            self._notes.say(f"{name}, malformed", f"{name} is listed anew: {failure.message}")
        trouble = self._trouble or _trouble_since(clock.monotonic(), failure.message)
        self._trouble = replace(trouble, reason=failure.message)
        longest = min(self._pace.longest_pause, self._pace.first_pause * 2.0**self._failures)
        self._failures = min(self._failures + 1, _MOST_DOUBLINGS)
        pause = longest * random.uniform(0.5, 1.0)  # noqa: S311 - no secret
        pause = max(pause, min(failure.retry_after or 0.0, _LONGEST_RETRY_AFTER))
        self._ended.wait(min(pause, self._until_first_is_final()))

    def _is_final(self) -> bool:
        """Tell whether a refusal is believed: of what could be watched, not at once."""
        if self._was_open:
            return self.is_behind(self._pace.refusal_believed)
        if self.state is not State.STARTING or not self._first_refusal_believed:
            return True
        return self._first_refusal is not None and self._until_first_is_final() <= 0.0

    def _until_first_is_final(self) -> float:
        """Return the seconds until a refusal before the first list is believed, if there is one."""
        first = self._first_refusal
        if first is None:
            return math.inf
        return first.since + self._first_refusal_believed - clock.monotonic()

    def _give_up(self, reason: str) -> None:
        """Have everything read directly, for as long as the collection cannot be watched."""
        cache = self.cache
        self._version = self._trouble = self._first_refusal = None
        self._given_up = reason
        self._was_open = False
        self._failures = 0
        cache.clear()
        self._notes.say(cache.name, f"{cache.name} cannot be watched ({reason}): {cache.instead}")
        self._enter(State.REFUSED)

    def _enter(self, state: State) -> None:
        self.state = state
        self._changed(self)


def _trouble_since(instant: float, reason: str) -> _Trouble:
    return _Trouble(instant, clock.wall() - (clock.monotonic() - instant), reason)
