"""What is to be kept and waits for the thread that writes, and the promises about it."""

import threading
from collections import deque
from collections.abc import Callable, Iterable
from concurrent.futures import Future
from dataclasses import dataclass, field
from typing import NamedTuple

from autoscaler.core.decision import Decision
from autoscaler.core.history import History


class Entry(NamedTuple):
    """The latest word about a target; ``decision`` is None where there was none.

    Each comes with the number of the batch's shifts that it has seen already.
    """

    history: History
    shifts: int
    decision: Decision | None = None
    decision_shifts: int = 0


@dataclass(slots=True)
class Batch:
    """Everything that came since the last one.  An entry of None drops the target.

    However long the disk takes, no more than one entry a target waits.
    """

    entries: dict[str, Entry | None] = field(default_factory=dict)
    shifts: list[float] = field(default_factory=list)
    promises: int = 0
    """How many promises were made until now, this batch's and all before."""


class _Promise(NamedTuple):
    number: int
    due: float
    future: Future[None]


class Inbox:
    """Takes in what callers hand over, and hands it on in batches.  No method waits for a disk.

    A promise is kept by `settle`, or else given up by `overdue` after ``timeouts`` seconds of
    ``monotonic``.  From then on until the next `settle` promises are given up at once.
    """

    def __init__(self, timeouts: float, monotonic: Callable[[], float]) -> None:
        self._timeouts = timeouts
        self._monotonic = monotonic
        lock = threading.Lock()
        self._arrived = threading.Condition(lock)
        self._promised = threading.Condition(lock)
        self._batch = Batch()
        self._waiting: deque[_Promise] = deque()
        self._made = 0
        self._stalled = False
        self._closed = False

    @property
    def stalled(self) -> bool:
        """Whether promises had to be given up since the last `settle`."""
        return self._stalled

    def put(self, kept: Iterable[tuple[str, History, Decision]]) -> None:
        """Take in targets' histories and decisions."""
        with self._arrived:
            if self._closed:
                return
            entries, shifts = self._batch.entries, len(self._batch.shifts)
            for target, history, decision in kept:
                entries[target] = Entry(history, shifts, decision, shifts)
            self._arrived.notify()

    def promise(self, target: str, history: History) -> Future[None]:
        """Take in a history; the future is done when it is kept, or cannot be."""
        future: Future[None] = Future()
        with self._arrived:
            if not self._closed:
                entries, shifts = self._batch.entries, len(self._batch.shifts)
                before = entries.get(target) or Entry(history, shifts)
                entries[target] = before._replace(history=history, shifts=shifts)
                self._arrived.notify()
            if self._closed or self._stalled:
                future.set_result(None)
                return future
            self._made += 1
            if not self._waiting:
                self._promised.notify()
            due = self._monotonic() + self._timeouts
            self._waiting.append(_Promise(self._made, due, future))
        return future

    def drop(self, targets: Iterable[str]) -> None:
        """Take in that targets are to be forgotten."""
        with self._arrived:
            self._batch.entries.update(dict.fromkeys(targets))
            self._arrived.notify()

    def shift(self, seconds: float) -> None:
        """Take in that the clock was set: by all that comes later it is so already."""
        with self._arrived:
            self._batch.shifts.append(seconds)
            self._arrived.notify()

    def take(self) -> Batch | None:
        """Wait for something, and return all there is; None once closed and empty."""
        with self._arrived:
            while not (self._batch.entries or self._batch.shifts):
                if self._closed:
                    return None
                self._arrived.wait()
            batch, self._batch = self._batch, Batch()
            batch.promises = self._made
            return batch

    def settle(self, promises: int) -> None:
        """Be done with the promises up to a number of them."""
        with self._promised:
            self._stalled = False
            done = self._pop(lambda one: one.number <= promises)
            if self._closed:
                self._promised.notify()
        _resolve(done)

    def overdue(self) -> bool:
        """Wait until promises are overdue, and give them up; return False once closed."""
        with self._promised:
            while not (self._waiting and self._waiting[0].due <= self._monotonic()):
                if self._closed and not self._waiting:
                    return False
                self._promised.wait(
                    self._waiting[0].due - self._monotonic() if self._waiting else None
                )
            self._stalled = True
            given_up = self._pop(lambda _: True)
        _resolve(given_up)
        return True

    def close(self) -> None:
        """Take in nothing more."""
        with self._arrived:
            self._closed = True
            self._arrived.notify_all()
            self._promised.notify_all()

    def _pop(self, due: Callable[[_Promise], bool]) -> list[Future[None]]:
        popped = []
        while self._waiting and due(self._waiting[0]):
            popped.append(self._waiting.popleft().future)
        return popped


def _resolve(futures: Iterable[Future[None]]) -> None:
    """Finish futures, save those that were cancelled."""
    for future in futures:
        if future.set_running_or_notify_cancel():
            future.set_result(None)
