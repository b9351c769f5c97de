"""Rows, packed and written by a thread of their own: no sync waits for the disk."""

import sqlite3
import threading
from collections import deque
from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from autoscaler import clock
from autoscaler.adapters.record.file import RecordFile, open_file
from autoscaler.adapters.record.pruning import Pruner
from autoscaler.adapters.record.row import Row
from autoscaler.adapters.sqlite_files import is_malformed
from autoscaler.adapters.state_directory import RECORD, UnusableError, reason

_MEANWHILE = "nothing is recorded until it can be; scaling goes on as before"
_LEAST_ROOM = 4000
"""So many rows may wait to be written, or twice as many as there are targets."""

_STEP_ROWS, _STEP_CHANGES = 1000, 100
"""The most rows, and changes among them, of one transaction."""

_PRUNE_SECONDS = 0.05
"""After each batch the file is pruned for so long, or by one step."""


@dataclass(frozen=True, slots=True)
class Limits:
    """What is kept: bytes of the file and its write-ahead log, and seconds."""

    max_size: int = 2**30
    max_age: float = 14 * 86400.0


@dataclass(frozen=True, slots=True)
class Times:
    """Seconds: from one batch to the next, and from one pruning to the next.

    ``pause`` lies between an error and the next try; ``close`` is how long the end waits for what
    is left to be written, ``idle`` the longest time without a sign of life in the file.
    """

    batch: float = 2.0
    prune: float = 60.0
    pause: float = 30.0
    close: float = 5.0
    idle: float = 10.0


@dataclass(frozen=True, slots=True)
class Status:
    """How the record stands: bytes, rows that were lost, the oldest instant (None if unknown)."""

    size: int = 0
    dropped: int = 0
    oldest: float | None = None


class RecordWriter:
    """Keeps rows in `record.db` of a directory, which it creates if needed.

    A disk that fails or is slow raises nothing and keeps nobody waiting: rows are dropped then.
    ``on_state`` is called with whether rows can be kept and a sentence, at the start and whenever
    that changes, on the writer's thread; ``note`` is said with every sentence that all is well.
    """

    def __init__(
        self,
        directory: Path,
        on_state: Callable[[bool, str], None],
        limits: Limits | None = None,
        times: Times | None = None,
        note: str = "",
        wall: Callable[[], float] = clock.wall,
    ) -> None:
        self.epoch = 0
        """It grows whenever rows were lost: what is recorded then is to begin anew."""
        self._directory = directory
        self._path = directory / RECORD
        self._on_state = on_state
        self._limits = limits or Limits()
        self._times = times or Times()
        self._note = note
        self._wall = wall
        self._rows: deque[Row] = deque()
        self._room = _LEAST_ROOM
        self._targets: Collection[str] | None = None
        self._accepts = True
        self._dropped = 0
        self._reported: tuple[bool, str] | None = None
        self._aside = ""
        self._damage = ""
        """What SQLite said of a page of the file that it could not read."""
        self._file: RecordFile | None = None
        self._pruning: Iterator[None] | None = None
        self._pruner: Pruner | None = None
        self._oldest: float | None = None
        self._size = 0
        self._retry_at = self._prune_at = self._written_at = 0.0
        self._lock = threading.Lock()
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, name="record", daemon=True)

    def start(self) -> None:
        """Begin to write."""
        self._thread.start()

    def put(self, row: Row) -> None:
        """Hand in a row; any thread may."""
        rows = self._rows
        if self._accepts and len(rows) < self._room:
            rows.append(row)
            return
        if self._accepts:
            self._accepts = False
            self._report(ok=False, sentence=f"{self._path} is written too slowly; {_MEANWHILE}")
        self._lose(1)

    def retain(self, targets: Collection[str]) -> None:
        """Note of all other targets that they were removed, if they are recorded."""
        self._room = max(_LEAST_ROOM, 2 * len(targets))
        self._targets = frozenset(targets)

    @property
    def status(self) -> Status:
        """How the record stands."""
        return Status(self._size, self._dropped, self._oldest)

    def close(self) -> None:
        """Write what is left, for seconds at most, and accept nothing more."""
        self._accepts = False
        self._stop.set()
        if self._thread.is_alive():
            self._thread.join(self._times.close)

    def _run(self) -> None:
        """Run the thread that writes."""
        while not self._stop.is_set():
            self._try(self._turn)
            self._stop.wait(self._times.batch)
        self._try(self._end)

    def _try(self, work: Callable[[], None]) -> None:
        """Do some work with the file; after an error drop all that waits, and close it."""
        try:
            work()
        except (UnusableError, OSError, sqlite3.Error) as error:
            if isinstance(error, sqlite3.Error) and is_malformed(error):
                self._damage = str(error)
            self._fail(reason(self._path, error))
        except Exception as error:  # noqa: BLE001 - history is lost, and nothing else
            self._fail(f"a fault of the autoscaler, {type(error).__name__}: {error}")

    def _turn(self) -> None:
        """Write what waits, and prune a little."""
        file = self._file
        if file is None:
            if clock.monotonic() < self._retry_at:
                return
            file = self._open()
        self._write(file)
        self._note_removed(file)
        self._prune(file)

    def _open(self) -> RecordFile:
        self._retry_at = clock.monotonic() + self._times.pause
        self._file = open_file(self._directory, self._wall(), self._set_aside, self._damage)
        self._damage = ""
        self._accepts = not self._stop.is_set()
        return self._file

    def _write(self, file: RecordFile) -> None:
        """Write what waits in steps, between which the thread rests as long as one took."""
        while step := self._take():
            begun = clock.monotonic()
            self._write_step(file, step)
            self._written_at = clock.monotonic()
            if self._rows:
                self._stop.wait(self._written_at - begun)
            else:
                self._well()
        if clock.monotonic() - self._written_at >= self._times.idle:
            file.write((), self._wall())
            self._written_at = clock.monotonic()
            self._well()
        if not (self._accepts or self._stop.is_set()):
            # Rows were dropped: what comes now begins another run.
            file.end_run()
            self._accepts = True

    def _write_step(self, file: RecordFile, rows: Sequence[Row]) -> None:
        try:
            file.write(rows, max(row.time for row in rows))
        except BaseException:
            self._lose(len(rows))
            raise

    def _take(self) -> list[Row]:
        """Take rows for one step: few of those that cost much."""
        rows, changes = self._rows, 0
        taken: list[Row] = []
        while rows and len(taken) < _STEP_ROWS and changes < _STEP_CHANGES:
            row = rows.popleft()
            taken.append(row)
            changes += row.change is not None
        return taken

    def _note_removed(self, file: RecordFile) -> None:
        targets = self._targets
        if targets is not None:
            file.remove_others(targets, self._wall())
            self._targets = None

    def _prune(self, file: RecordFile) -> None:
        until = clock.monotonic()
        if self._pruning is None and until >= self._prune_at:
            self._prune_at = until + self._times.prune
            limits = self._limits
            self._pruner = Pruner(
                file.path, file.connection, limits.max_size, limits.max_age, file.forget
            )
            self._pruning = self._pruner.steps(self._wall())
        if self._pruning is None or self._pruner is None:
            return
        for _ in self._pruning:
            if clock.monotonic() >= until + _PRUNE_SECONDS:
                return
        self._pruning = None
        self._size, self._oldest = self._pruner.size(), self._pruner.oldest()

    def _end(self) -> None:
        """Write what is left."""
        if self._file is None and not self._rows:
            return
        file = self._file or self._open()
        while step := self._take():
            self._write_step(file, step)
        self._note_removed(file)
        file.write((), self._wall())
        file.finish()
        self._file = None
        file.close()

    def _fail(self, sentence: str) -> None:
        """Drop what waits and close the file; it is opened again after a pause."""
        self._accepts = False
        self._retry_at = clock.monotonic() + self._times.pause
        self._report(ok=False, sentence=f"{sentence}; {_MEANWHILE}")
        lost = len(self._rows)
        self._rows.clear()
        self._lose(lost)
        file, self._file = self._file, None
        self._pruning = self._pruner = None
        if file is not None:
            with suppress(sqlite3.Error, OSError):
                file.close()

    def _lose(self, rows: int) -> None:
        with self._lock:
            self._dropped += rows
            self.epoch += 1

    def _well(self) -> None:
        aside = f"; the one before {self._aside}" if self._aside else ""
        note = f" {self._note}" if self._note else ""
        self._report(ok=True, sentence=f"decisions are recorded in {self._path}{note}{aside}")

    def _set_aside(self, fate: str) -> None:
        self._aside = fate

    def _report(self, *, ok: bool, sentence: str) -> None:
        with self._lock:
            if self._reported == (ok, sentence):
                return
            self._reported = (ok, sentence)
        self._on_state(ok, sentence)
