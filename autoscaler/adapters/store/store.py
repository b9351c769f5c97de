"""A journal in a directory: written by a thread of its own, so that nobody waits for the disk."""

import sqlite3
import threading
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import Future
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from queue import Empty, SimpleQueue
from typing import TypeVar

from autoscaler.adapters.store.clocks import Clocks, Resumption
from autoscaler.adapters.store.files import DATABASE, UnusableError, reason
from autoscaler.adapters.store.health import StoreHealth
from autoscaler.adapters.store.inbox import Inbox
from autoscaler.adapters.store.keeper import Keeper
from autoscaler.core.decision import Decision
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

    ``start`` is for what was kept, ``intend`` for a note before a write to the cluster, ``close``
    for what is left to be written; ``pause`` lies between an error and the next try.
    """

    start: float = 20.0
    intend: float = 2.0
    close: float = 5.0
    pause: float = 30.0


class Store:
    """Keeps histories and last decisions in a directory, which it makes where it is missing.

    It fits the journal's port.  Nothing raises for what a disk does: where nothing can be kept
    everything is taken in all the same, and written once it can be.  ``on_state`` is told by a
    sentence whether state can be kept, at the start and whenever that changes; and where nothing
    of an earlier run is gone on with, the sentence says so for as long as this one lasts.  It is
    called on the store's threads.
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
        self._health = StoreHealth(on_state)
        self._inbox = Inbox(self._timeouts.intend, clocks.monotonic)
        self._keeper = Keeper(directory, clocks, self._timeouts.pause, self._say_set_aside)
        self._resumed: SimpleQueue[Resumption] = SimpleQueue()
        self._begun = False
        self._lost = ""
        """What became of the state of an earlier run, where it is not gone on with."""
        self._writer = threading.Thread(target=self._write, name="store", daemon=True)
        self._watch = threading.Thread(target=self._watch_promises, name="store-watch", daemon=True)

    @property
    def errors(self) -> int:
        """How often the disk failed or did not answer in time, so far."""
        return self._health.errors

    def start(self) -> Resumption:
        """Open the file and return what it holds, by the clock of now; nothing where it cannot be.

        Comes first, once.
        """
        self._writer.start()
        self._watch.start()
        try:
            return self._resumed.get(timeout=self._timeouts.start)
        except Empty:
            self._lost = _NOT_READ
            self._health.ill(self._no_answer(self._timeouts.start))
            return Resumption(self._keeper.now)

    def intend(self, target: str, history: History) -> Future[None]:
        """Keep a history; the future is done once it is on the disk, or cannot be in time."""
        return self._inbox.promise(target, history)

    def keep(self, kept: Sequence[tuple[str, History, Decision]]) -> None:
        """Keep histories and decisions, all of them in one transaction."""
        self._inbox.put(kept)

    def drop(self, targets: Iterable[str]) -> None:
        """Forget targets."""
        self._inbox.drop(targets)

    def shift(self, seconds: float) -> None:
        """Move every instant that is kept; histories that come later are by the new clock."""
        self._inbox.shift(seconds)

    def close(self) -> None:
        """Write what is left to be written, and take in nothing more."""
        self._inbox.close()
        self._writer.join(self._timeouts.close)
        if self._writer.is_alive():
            self._health.ill(self._no_answer(self._timeouts.close))
        self._watch.join(self._timeouts.intend)

    def _write(self) -> None:
        """Run the thread that writes: all that waits in one transaction, again and again."""
        resumption = self._do(self._resume)
        if resumption is None:
            self._lost = _NOT_READ
        self._begun = True
        self._resumed.put(resumption or Resumption(self._keeper.now))
        while (batch := self._inbox.take()) is not None:
            self._do(partial(self._keeper.keep, batch), batch.promises)
        self._do(self._keeper.finish)

    def _resume(self) -> Resumption:
        """Go on with what the file holds, or find out why there is nothing to go on with."""
        resumption = self._keeper.resume()
        if not resumption.earlier:
            self._lost = self._lost or "it held nothing of an earlier run"
        return resumption

    def _do(self, work: Callable[[], Result], promises: int = 0) -> Result | None:
        """Do some work with the file, be done with promises, and tell how it went."""
        result, failure = None, ""
        try:
            result = work()
        except (UnusableError, OSError, sqlite3.Error) as error:
            failure = reason(self._path, error)
        except Exception as error:  # noqa: BLE001 - promises wait for this thread: it must not end
            failure = f"a fault of the autoscaler, {type(error).__name__}: {error}"
        # First, so that a stall that is over is not told after this.
        self._inbox.settle(promises)
        if failure:
            self._health.ill(f"{failure}; {_IN_MEMORY}")
        elif result:
            lost = f"; {self._lost}: {_ANEW}" if self._lost else ""
            self._health.well(f"state is kept in {self._path}{lost}")
        return result

    def _watch_promises(self) -> None:
        """Run the thread that gives up promises that a disk does not let us keep in time."""
        while self._inbox.overdue():
            self._health.ill(self._no_answer(self._timeouts.intend), lambda: self._inbox.stalled)

    def _say_set_aside(self, fate: str) -> None:
        if self._begun:
            self._health.ill(f"{self._path} {fate}; all of it is written anew")
        else:
            self._lost = f"the one before {fate}"
            self._health.ill(f"{self._path} {fate}: {_ANEW}")

    def _no_answer(self, seconds: float) -> str:
        return f"{self._path} has not answered for {seconds:g} s; {_IN_MEMORY}"
