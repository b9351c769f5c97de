"""List and watch: keeps a cache of a collection up to date, on its own thread."""

import math
import threading
from collections.abc import Callable
from dataclasses import dataclass, replace
from enum import Enum
from typing import Generic, TypeVar

from autoscaler import clock
from autoscaler.adapters.cluster.api import Api
from autoscaler.adapters.cluster.failures import Failure
from autoscaler.adapters.cluster.watch_requests import Cache, WatchRequests, WatchTimings
from autoscaler.core.observation import Unavailable
from autoscaler.core.text import rfc3339
from autoscaler.transport.retries import GrowingPause

M = TypeVar("M", bound=Cache)

_GONE = 410
_REFUSALS = frozenset({400, 403, 404, 405, 406, 415, 422})
_MALFORMED = 200
"""The status of a success that cannot be read."""
_LONGEST_RETRY_AFTER = 30.0
_PATH_SECONDS = 10.0


class OperatorNotes:
    """Sentences for the operator on topics, each said once until its topic is over.

    ``say`` gets whether the sentence is good news, and the sentence.
    """

    def __init__(self, say: Callable[[bool, str], None]) -> None:
        self._say = say
        self._said: dict[str, str] = {}
        self._lock = threading.Lock()

    def say(self, topic: str, sentence: str) -> None:
        """Say a sentence unless it is the last one said of its topic."""
        with self._lock:
            if self._said.get(topic) == sentence:
                return
            self._said[topic] = sentence
        self._tell(ok=False, sentence=sentence)

    def over(self, topic: str, sentence: str) -> None:
        """Say that a topic is over, if anything was said of it."""
        with self._lock:
            if self._said.pop(topic, None) is None:
                return
        self._tell(ok=True, sentence=sentence)

    def forget(self, topic: str) -> None:
        """Forget what was said of a topic that does not matter any more."""
        with self._lock:
            self._said.pop(topic, None)

    def _tell(self, *, ok: bool, sentence: str) -> None:
        self._say(ok, sentence)


class State(Enum):
    """The state of a watch."""

    STARTING = "the first list is not complete yet"
    SYNCED = "the cache is, or was, complete"
    REFUSED = "the collection cannot be watched, and that is believed"


@dataclass(frozen=True, slots=True)
class _Trouble:
    """Since when a watch is broken or refused (monotonic and Unix seconds), and why."""

    since: float
    wall: float
    reason: str


class Reflector(Generic[M]):
    """Keeps a cache of a collection as the API server has it.

    Lists, then watches from the list's resourceVersion.  A watch that ends or breaks is resumed
    where it was; 410 Gone, an event that cannot be read, and a break that lasted longer than
    the cache is trusted lead to a new list.  After a refusal that lasts, or a defect of ours that
    ended the thread, it tries again after pauses that grow to minutes.  ``changed`` is called, on
    the watch's thread, when `state` changes or `refused` becomes true.  A refusal before the first
    list is believed after ``first_refusal_believed`` seconds without another answer.
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
        self._pause = GrowingPause(pace.first_pause, pace.longest_pause, jitter=True)
        self._pause_after_refusal = GrowingPause(pace.longest_pause, pace.refused_pause)
        self._pause_after_defect = GrowingPause(pace.longest_pause, pace.refused_pause)
        self._ended = threading.Event()
        self._wanted = threading.Event()
        self._was_open = False
        """Whether a watch has been open since the last refusal that was believed."""
        self._first_refusal_believed = first_refusal_believed
        self._first_refusal: _Trouble | None = None
        """The first of the refusals before the first list, while they are not believed yet."""
        self._given_up: str | None = None
        """Why the collection cannot be watched, in the state REFUSED."""
        self._thread = threading.Thread(target=self._run, name=f"watch {cache.name}", daemon=True)

    def start(self) -> None:
        """Begin, on the watch's own thread."""
        self._thread.start()

    def end(self) -> None:
        """End the watch soon: at once, unless it waits for the head of an answer."""
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
        """Fill the cache again, because it wants objects that it did not before."""
        self._wanted.set()
        self._requests.interrupt()

    def is_behind(self, seconds: float) -> bool:
        """Return whether the cache has had no events for more than ``seconds``."""
        trouble = self._trouble
        return trouble is not None and clock.monotonic() - trouble.since > seconds

    @property
    def reason(self) -> str | None:
        """Why the cache gets no events now; None while it does, and before the first try."""
        trouble = self._trouble
        return self._given_up if trouble is None else trouble.reason

    @property
    def refused(self) -> bool:
        """Whether the server refuses the collection, whether that is believed or not."""
        return self.state is State.REFUSED or self._first_refusal is not None

    @property
    def believed_at(self) -> str | None:
        """When a refusal that lasts will be believed; None if there is none, or it is already."""
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
                    self._pause_after(failure)
        finally:
            if not self._ended.is_set():
                # A defect of ours ends the thread; without this the cache would silently grow old.
                try:
                    self._give_up("by a fault of the autoscaler")
                finally:
                    self._begin_again()

    def _begin_again(self) -> None:
        """Go on in another thread after a pause; this one ends with its traceback in the log."""
        pause = self._pause_after_defect.next()

        def run_later() -> None:
            self._ended.wait(pause)
            self._run()

        thread = threading.Thread(target=run_later, name=self._thread.name, daemon=True)
        try:
            thread.start()
        except RuntimeError:
            # There is a shortage of threads: this one goes on, and the log has its end later.
            run_later()
        else:
            self._thread = thread

    def _step(self) -> Failure | None:
        # Every interruption sets a flag first: after this either the flag is seen below, or the
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
            # Until the list is complete the cache stays as it is now.
            self._trouble = _trouble_since(clock.monotonic(), "it is being listed anew")
        path = self.cache.path(clock.monotonic() + _PATH_SECONDS)
        if isinstance(path, Failure):
            return path
        self._path = path
        # All objects that are wanted by now will be in this list.
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
        outcome = self._requests.follow(self._path, version, self._opened)
        if isinstance(outcome, Failure):
            return outcome
        self._version = outcome.version
        if outcome.worked:
            self._pause.reset()
        if outcome.failure is not None:
            broken = _trouble_since(outcome.heard, outcome.failure.message)
            self._trouble = broken if outcome.worked else before or broken
        return outcome.failure

    def _opened(self) -> None:
        self._trouble = None
        self._pause_after_refusal.reset()
        self._was_open = True

    def _pause_after(self, failure: Failure) -> None:
        """Remember a failure and pause; a 429 holds back all other requests as well."""
        self._retrier.hold_back(failure)
        if failure.status not in _REFUSALS:
            # A server that was away may have just started when it is back.
            self._first_refusal = None
        elif self._is_final():
            self._give_up(failure.message)
            self._ended.wait(self._pause_after_refusal.next())
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
        pause = max(self._pause.next(), min(failure.retry_after or 0.0, _LONGEST_RETRY_AFTER))
        self._ended.wait(min(pause, self._until_first_is_final()))

    def _is_final(self) -> bool:
        """Return whether a refusal is believed: not at once if the collection could be watched."""
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
        """Clear the cache: objects are read directly while the collection cannot be watched."""
        cache = self.cache
        self._version = self._trouble = self._first_refusal = None
        self._given_up = reason
        self._was_open = False
        self._pause.reset()
        cache.clear()
        self._notes.say(cache.name, f"{cache.name} cannot be watched ({reason}): {cache.instead}")
        self._enter(State.REFUSED)

    def _enter(self, state: State) -> None:
        self.state = state
        self._changed(self)


def _trouble_since(instant: float, reason: str) -> _Trouble:
    return _Trouble(instant, clock.wall() - (clock.monotonic() - instant), reason)
