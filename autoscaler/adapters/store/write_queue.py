"""What waits to be written, and the futures of callers that wait until it is."""

import threading
from collections import deque
from collections.abc import Callable, Iterable, Mapping
from concurrent.futures import Future
from dataclasses import dataclass, field
from typing import NamedTuple

from autoscaler.adapters.store.rows import Record
from autoscaler.core.breaker import BreakerState, moved
from autoscaler.core.history import History


@dataclass(slots=True)
class Batch:
    """All changes since the last batch, one for each target however long the disk takes.

    A record of None drops its target.  ``shifts`` move what came with earlier batches; the records
    of this one have been moved.  ``futures`` is how many were handed out until now, in this batch
    and all before.
    """

    records: dict[str, Record | None] = field(default_factory=dict)
    shifts: list[float] = field(default_factory=list)
    futures: int = 0
    breakers: Mapping[str, BreakerState] | None = None
    """How the scale-down breakers stand, if that has changed."""


class _Waiting(NamedTuple):
    number: int
    due: float
    future: Future[None]


class WriteQueue:
    """Collects changes for the thread that writes.  No method waits for a disk.

    A future is done when `written` says so, or in `expire` after ``timeout`` seconds of
    ``monotonic``.  From then until the next `written`, futures are done at once.
    """

    def __init__(self, timeout: float, monotonic: Callable[[], float]) -> None:
        self._timeout = timeout
        self._monotonic = monotonic
        lock = threading.Lock()
        self._changed = threading.Condition(lock)
        self._awaited = threading.Condition(lock)
        self._batch = Batch()
        self._waiting: deque[_Waiting] = deque()
        self._futures = 0
        self._stalled = False
        self._closed = False

    @property
    def stalled(self) -> bool:
        """Whether futures have expired since the last `written`."""
        return self._stalled

    def put(self, kept: Iterable[tuple[str, History, float]]) -> None:
        """Add targets' histories, with the times at which they were decided about."""
        with self._changed:
            if not self._closed:
                self._batch.records.update(
                    {target: Record(history, decided) for target, history, decided in kept}
                )
                self._changed.notify()

    def put_awaited(self, target: str, history: History) -> Future[None]:
        """Add a history; the future is done when it is written, or cannot be in time."""
        future: Future[None] = Future()
        with self._changed:
            if not self._closed:
                before = self._batch.records.get(target)
                self._batch.records[target] = Record(history, before and before.decided)
                self._changed.notify()
            if self._closed or self._stalled:
                future.set_result(None)
                return future
            self._futures += 1
            if not self._waiting:
                self._awaited.notify()
            due = self._monotonic() + self._timeout
            self._waiting.append(_Waiting(self._futures, due, future))
        return future

    def drop(self, targets: Iterable[str]) -> None:
        """Add that targets are to be forgotten."""
        with self._changed:
            self._batch.records.update(dict.fromkeys(targets))
            self._changed.notify()

    def put_breakers(self, states: Mapping[str, BreakerState]) -> None:
        """Add how the scale-down breakers stand."""
        with self._changed:
            if not self._closed:
                self._batch.breakers = states
                self._changed.notify()

    def shift(self, seconds: float) -> None:
        """Move all that was added so far, after the clock was set."""
        with self._changed:
            self._batch.shifts.append(seconds)
            for target, record in self._batch.records.items():
                self._batch.records[target] = record and record.shifted(seconds)
            if (states := self._batch.breakers) is not None:
                self._batch.breakers = {name: moved(one, seconds) for name, one in states.items()}
            self._changed.notify()

    def take(self) -> Batch | None:
        """Wait for changes and return all of them; None once closed and empty."""
        with self._changed:
            while self._batch == Batch():
                if self._closed:
                    return None
                self._changed.wait()
            batch, self._batch = self._batch, Batch()
            batch.futures = self._futures
            return batch

    def written(self, futures: int) -> None:
        """Finish the futures up to a number of them: their histories are written, or cannot be."""
        with self._awaited:
            self._stalled = False
            done = self._pop(lambda one: one.number <= futures)
            if self._closed:
                self._awaited.notify()
        _finish(done)

    def expire(self) -> bool:
        """Wait until a future has waited for too long, and finish all; False once closed."""
        with self._awaited:
            while not (self._waiting and self._waiting[0].due <= self._monotonic()):
                if self._closed and not self._waiting:
                    return False
                self._awaited.wait(
                    self._waiting[0].due - self._monotonic() if self._waiting else None
                )
            self._stalled = True
            expired = self._pop(lambda _: True)
        _finish(expired)
        return True

    def close(self) -> None:
        """Accept nothing more."""
        with self._changed:
            self._closed = True
            self._changed.notify_all()
            self._awaited.notify_all()

    def _pop(self, done: Callable[[_Waiting], bool]) -> list[Future[None]]:
        popped = []
        while self._waiting and done(self._waiting[0]):
            popped.append(self._waiting.popleft().future)
        return popped


def _finish(futures: Iterable[Future[None]]) -> None:
    """Finish futures except those that were cancelled."""
    for future in futures:
        if future.set_running_or_notify_cancel():
            future.set_result(None)
