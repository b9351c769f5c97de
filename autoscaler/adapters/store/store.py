"""Histories in a directory, written by a thread of their own: no sync waits for the disk."""

import sqlite3
import threading
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import Future
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from queue import Empty, SimpleQueue
from typing import TypeVar

from autoscaler.adapters.state_directory import DATABASE, UnusableError, reason
from autoscaler.adapters.store.clocks import Clocks, Resumption
from autoscaler.adapters.store.write_queue import WriteQueue
from autoscaler.adapters.store.writer import Writer
from autoscaler.core.breaker import BreakerState
from autoscaler.core.history import History

Result = TypeVar("Result")

_IN_MEMORY = "for now state is kept in memory only, and would be lost at a restart"
_NOT_READ = "it could not be read at the start"
_ANEW = (
    "every target begins anew, and none goes down before its window has passed and the ranges of "
    "its queries are whole"
)


@dataclass(frozen=True, slots=True)
class DiskTimeouts:
    """How long, in seconds, a disk is waited for.

    ``start`` is for reading what was kept, ``intend`` for a history before its write to the
    cluster, ``close`` for writing what is left; ``pause`` lies between an error and the next try.
    """

    start: float = 20.0
    intend: float = 2.0
    close: float = 5.0
    pause: float = 30.0


class _State:
    """Reports to ``on_state`` once per change whether state can be kept, and counts errors."""

    def __init__(self, on_state: Callable[[bool, str], None]) -> None:
        self._on_state = on_state
        self._lock = threading.Lock()
        self._reported: tuple[bool, str] | None = None
        self.errors = 0

    def well(self, sentence: str) -> None:
        """Report that state is kept."""
        with self._lock:
            self._report(ok=True, sentence=sentence)

    def ill(self, sentence: str, still: Callable[[], bool] = lambda: True) -> None:
        """Count and report an error, if it is ``still`` there once no other thread reports."""
        with self._lock:
            if still():
                self.errors += 1
                self._report(ok=False, sentence=sentence)

    def _report(self, *, ok: bool, sentence: str) -> None:
        if self._reported != (ok, sentence):
            self._reported = (ok, sentence)
            self._on_state(ok, sentence)


class SqliteHistoryStore:
    """Keeps histories in a directory, which it creates if needed; fits `sync.ports.HistoryStore`.

    A disk that fails raises nothing: what cannot be written is held in memory, and written once
    it can be.  ``on_state`` is called with whether state can be kept and a sentence, at the start
    and whenever that changes, on the store's threads; if nothing of an earlier run was found, every
    such sentence says so.
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
        self._state = _State(on_state)
        self._queue = WriteQueue(self._timeouts.intend, clocks.monotonic)
        self._writer = Writer(directory, clocks, self._timeouts.pause, self._report_set_aside)
        self._resumed: SimpleQueue[Resumption] = SimpleQueue()
        self._begun = False
        self._lost = ""
        """Why there is no state of an earlier run, if there is none."""
        self._write_thread = threading.Thread(target=self._write, name="store", daemon=True)
        self._timeout_thread = threading.Thread(
            target=self._expire, name="store-timeouts", daemon=True
        )

    @property
    def errors(self) -> int:
        """How often the disk failed or did not answer in time, so far."""
        return self._state.errors

    def start(self) -> Resumption:
        """Return what the file holds, by the clock of now; no histories if it cannot be read.

        To be called first, and once.
        """
        self._write_thread.start()
        self._timeout_thread.start()
        try:
            return self._resumed.get(timeout=self._timeouts.start)
        except Empty:
            self._lost = _NOT_READ
            self._state.ill(self._no_answer(self._timeouts.start))
            return Resumption(self._writer.now)

    def intend(self, target: str, history: History) -> Future[None]:
        """Keep a history; the future is done once it is on the disk, or cannot be in time."""
        return self._queue.put_awaited(target, history)

    def keep(self, kept: Sequence[tuple[str, History, float]]) -> None:
        """Keep histories and when they were decided about, all of them in one transaction."""
        self._queue.put(kept)

    def drop(self, targets: Iterable[str]) -> None:
        """Forget targets."""
        self._queue.drop(targets)

    def shift(self, seconds: float) -> None:
        """Move every instant that is kept; histories that come later are by the new clock."""
        self._queue.shift(seconds)

    def keep_breakers(self, states: Mapping[str, BreakerState]) -> None:
        """Keep how the scale-down breakers of all servers stand."""
        self._queue.put_breakers(states)

    def close(self) -> None:
        """Write what is left, and accept nothing more."""
        self._queue.close()
        self._write_thread.join(self._timeouts.close)
        if self._write_thread.is_alive():
            self._state.ill(self._no_answer(self._timeouts.close))
        self._timeout_thread.join(self._timeouts.intend)

    def _write(self) -> None:
        """Run the thread that writes: everything in the queue in one transaction, and again."""
        resumption = self._do(self._resume)
        if resumption is None:
            self._lost = _NOT_READ
        self._begun = True
        self._resumed.put(resumption or Resumption(self._writer.now))
        while (batch := self._queue.take()) is not None:
            self._do(partial(self._writer.write, batch), batch.futures)
        self._do(self._writer.finish)

    def _resume(self) -> Resumption:
        """Return what the file holds, and note why it is nothing."""
        resumption = self._writer.resume()
        if not resumption.earlier:
            self._lost = self._lost or "it held nothing of an earlier run"
        return resumption

    def _do(self, work: Callable[[], Result], futures: int = 0) -> Result | None:
        """Do some work with the file, finish the futures up to a number, and report the state."""
        result, failure = None, ""
        try:
            result = work()
        except (UnusableError, OSError, sqlite3.Error) as error:
            failure = reason(self._path, error)
        except Exception as error:  # noqa: BLE001 - syncs wait for this thread: it must not end
            failure = f"a fault of the autoscaler, {type(error).__name__}: {error}"
        # Before the state, so that a stall that is over is not reported after it.
        self._queue.written(futures)
        if failure:
            self._state.ill(f"{failure}; {_IN_MEMORY}")
        elif result:
            lost = f"; {self._lost}: {_ANEW}" if self._lost else ""
            self._state.well(f"state is kept in {self._path}{lost}")
        return result

    def _expire(self) -> None:
        """Run the thread that finishes futures when the disk has not answered in time."""
        while self._queue.expire():
            self._state.ill(self._no_answer(self._timeouts.intend), lambda: self._queue.stalled)

    def _report_set_aside(self, fate: str) -> None:
        if self._begun:
            self._state.ill(f"{self._path} {fate}; all of it is written anew")
        else:
            self._lost = f"the one before {fate}"
            self._state.ill(f"{self._path} {fate}: {_ANEW}")

    def _no_answer(self, seconds: float) -> str:
        return f"{self._path} has not answered for {seconds:g} s; {_IN_MEMORY}"
