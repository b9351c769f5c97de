"""Histories in a directory, written by a separate thread: no sync waits for the disk."""

import threading
from collections import deque
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import Future
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from queue import Empty, SimpleQueue
from typing import NamedTuple, TypeVar

from autoscaler.core.breaker import BreakerState
from autoscaler.core.history import History, shifted
from autoscaler.persistence.sqlite_files import SqliteWorker
from autoscaler.persistence.state_directory import DATABASE
from autoscaler.persistence.store.database import Batch, Writer
from autoscaler.persistence.store.rows import Clocks, Record, Resumption

Result = TypeVar("Result")

_IN_MEMORY = "for now state is kept in memory only, and would be lost at a restart"
_NOT_READ = "it could not be read at the start"
_ANEW = (
    "every target starts without history: no scale-down before its window has passed and the "
    "ranges of "
    "its queries are whole"
)


@dataclass(frozen=True, slots=True)
class DiskTimeouts:
    """The time limits of a disk, in seconds.

    ``start`` is for reading the stored state, ``intend`` for a history before its write to the
    cluster, ``close`` for writing the rest; ``pause`` is the time between an error and the next
    try.
    """

    start: float = 20.0
    intend: float = 2.0
    close: float = 5.0
    pause: float = 30.0


class _PendingRequest(NamedTuple):
    number: int
    due: float
    future: Future[None]


class _WriteQueue:
    """Collects changes for the writing thread. No method waits for a disk.

    A future is done when `_written` says so, or in `_expire` after ``timeout`` seconds of
    ``monotonic``. After that, futures are done at once until the next `_written`.
    """

    def __init__(self, timeout: float, monotonic: Callable[[], float]) -> None:
        self._timeout = timeout
        self._monotonic = monotonic
        lock = threading.Lock()
        self._changed = threading.Condition(lock)
        self._awaited = threading.Condition(lock)
        self._batch = Batch()
        self._waiting: deque[_PendingRequest] = deque()
        self._futures = 0
        self._stalled = False
        """Whether futures have expired since the last `_written`."""
        self._closed = False

    def keep(self, kept: Sequence[tuple[str, History, float]]) -> None:
        """Queue histories and the times of their decisions, in one transaction."""
        with self._changed:
            if not self._closed:
                self._batch.records.update(
                    {target: Record(history, decided) for target, history, decided in kept}
                )
                self._changed.notify()

    def intend(self, target: str, history: History) -> Future[None]:
        """Queue a history; the future is done when it is on the disk, or cannot be in time."""
        future: Future[None] = Future()
        with self._changed:
            if not self._closed:
                before = self._batch.records.get(target)
                decided = None if before is None else before.decided
                self._batch.records[target] = Record(history, decided)
                self._changed.notify()
            if self._closed or self._stalled:
                future.set_result(None)
                return future
            self._futures += 1
            if not self._waiting:
                self._awaited.notify()
            due = self._monotonic() + self._timeout
            self._waiting.append(_PendingRequest(self._futures, due, future))
        return future

    def drop(self, targets: Iterable[str]) -> None:
        """Forget targets."""
        with self._changed:
            self._batch.records.update(dict.fromkeys(targets))
            self._changed.notify()

    def keep_breakers(self, states: Mapping[str, BreakerState]) -> None:
        """Queue the states of the scale-down breakers of all servers."""
        with self._changed:
            if not self._closed:
                self._batch.breakers = states
                self._changed.notify()

    def shift(self, seconds: float) -> None:
        """Move every stored instant; later histories use the new clock."""
        with self._changed:
            self._batch.shifts.append(seconds)
            for target, record in self._batch.records.items():
                self._batch.records[target] = record and shifted(record, seconds)
            if (states := self._batch.breakers) is not None:
                self._batch.breakers = {
                    name: shifted(state, seconds) for name, state in states.items()
                }
            self._changed.notify()

    def _take(self) -> Batch | None:
        """Wait for changes and return all of them; None when closed and empty."""
        with self._changed:
            while self._batch == Batch():
                if self._closed:
                    return None
                self._changed.wait()
            batch, self._batch = self._batch, Batch()
            batch.futures = self._futures
            return batch

    def _written(self, futures: int) -> None:
        """Finish the futures up to a number: their histories are written, or cannot be."""
        with self._awaited:
            self._stalled = False
            done = self._pop(lambda request: request.number <= futures)
            if self._closed:
                self._awaited.notify()
        _finish(done)

    def _expire(self) -> bool:
        """Wait until a future has waited too long, and finish all; False when closed."""
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

    def _pop(self, done: Callable[[_PendingRequest], bool]) -> list[Future[None]]:
        popped = []
        while self._waiting and done(self._waiting[0]):
            popped.append(self._waiting.popleft().future)
        return popped


def _finish(futures: Iterable[Future[None]]) -> None:
    """Finish futures except those that were cancelled."""
    for future in futures:
        if future.set_running_or_notify_cancel():
            future.set_result(None)


class SqliteHistoryStore(_WriteQueue):
    """A `sync.ports.HistoryStore` in a directory, which it creates if needed.

    What cannot be written stays in memory, and is written when possible. ``on_state`` is called as
    by `SqliteWorker`, on the store's threads; if nothing of an earlier run was found, every
    sentence says so.
    """

    def __init__(
        self,
        directory: Path,
        on_state: Callable[[bool, str], None],
        clocks: Clocks | None = None,
        timeouts: DiskTimeouts | None = None,
    ) -> None:
        clocks = clocks or Clocks()
        self._timeouts = timeouts or DiskTimeouts()
        self._path = directory / DATABASE
        super().__init__(self._timeouts.intend, clocks.monotonic)
        self._writer = Writer(directory, clocks, self._report_set_aside)
        self._worker = SqliteWorker(
            "store",
            self._path,
            self._write,
            lambda _: self._writer.open(),  # Damage is found when the file is opened.
            on_state,
            self._timeouts.pause,
            clocks.monotonic,
        )
        self._resumed: SimpleQueue[Resumption] = SimpleQueue()
        self._begun = False
        self._lost = ""
        """Why there is no state of an earlier run, if it is missing."""
        self._timeout_thread = threading.Thread(
            target=self._watch, name="store-timeouts", daemon=True
        )

    @property
    def errors(self) -> int:
        """How often the disk failed or did not answer in time."""
        return self._worker.errors

    def start(self) -> Resumption:
        """Return the content of the file, by the current clock; nothing if it is unreadable."""
        self._worker.start()
        self._timeout_thread.start()
        try:
            return self._resumed.get(timeout=self._timeouts.start)
        except Empty:
            self._lost = _NOT_READ
            self._ill(self._no_answer(self._timeouts.start))
            return Resumption(self._writer.now)

    def close(self) -> None:
        """Write the rest, and accept nothing more."""
        super().close()
        if not self._worker.join(self._timeouts.close):
            self._ill(self._no_answer(self._timeouts.close))
        self._timeout_thread.join(self._timeouts.intend)

    def _write(self) -> None:
        """Run the writing thread: everything in the queue in one transaction, repeatedly."""
        resumption = self._do(self._resume)
        if resumption is None:
            self._lost = _NOT_READ
        self._begun = True
        self._resumed.put(resumption or Resumption(self._writer.now))
        while (batch := self._take()) is not None:
            self._do(partial(self._save, batch), batch.futures)
        self._do(self._save)
        self._worker.close_file()

    def _resume(self) -> Resumption:
        _ = self._worker.file
        resumption = self._writer.resume()
        if not resumption.earlier:
            self._lost = self._lost or "it held nothing of an earlier run"
        return resumption

    def _save(self, batch: Batch | None = None) -> bool:
        """Write a batch, or the rest at the end; False in the pause after an error."""
        if batch is None:
            skips = self._writer.is_saved
        else:
            self._writer.accept(batch)
            skips = self._worker.rests
        if not skips:
            self._writer.save(self._worker.file)
        return not skips

    def _do(self, work: Callable[[], Result], futures: int = 0) -> Result | None:
        """Run work on the file, finish the futures up to a number, and report the state."""
        result, failure = self._worker.attempt(work)
        # Before the state, so that an ended stall is not reported after it.
        self._written(futures)
        if failure:
            self._ill(f"{failure}; {_IN_MEMORY}")
        elif result:
            lost = f"; {self._lost}: {_ANEW}" if self._lost else ""
            self._worker.report(ok=True, sentence=f"state is kept in {self._path}{lost}")
        return result

    def _ill(self, sentence: str, still: Callable[[], bool] = lambda: True) -> None:
        self._worker.report(ok=False, sentence=sentence, still=still)

    def _watch(self) -> None:
        """Run the thread that finishes futures when the disk does not answer in time."""
        while self._expire():
            self._ill(self._no_answer(self._timeouts.intend), lambda: self._stalled)

    def _report_set_aside(self, fate: str) -> None:
        if self._begun:
            self._ill(f"{self._path} {fate}; it is written again")
        else:
            self._lost = f"the one before {fate}"
            self._ill(f"{self._path} {fate}: {_ANEW}")

    def _no_answer(self, seconds: float) -> str:
        return f"{self._path} has not answered for {seconds:g} s; {_IN_MEMORY}"
