"""Packs and writes rows on a separate thread: no sync waits for the disk."""

import threading
from collections import deque
from collections.abc import Callable, Collection, Iterator
from dataclasses import dataclass
from pathlib import Path

from autoscaler import clock
from autoscaler.persistence.record.agreement import AgreementInterval
from autoscaler.persistence.record.file import RecordFile, SyncRow, open_file
from autoscaler.persistence.record.pruning import Pruner
from autoscaler.persistence.sqlite_files import SqliteWorker
from autoscaler.persistence.state_directory import RECORD

_MEANWHILE = "nothing is recorded until then; scaling continues"
_LEAST_ROOM = 4000
"""The most rows that wait to be written; or twice the number of targets, if that is more."""

_AGREEMENT_ROOM = 100_000
"""The most intervals that wait to be written; the oldest are dropped first."""

_STEP_ROWS, _STEP_CHANGES = 1000, 100
"""The most rows, and the most changes among them, of one transaction."""

_PRUNE_SECONDS = 0.05
"""How long the file is pruned after each batch, in seconds; at least one step."""


@dataclass(frozen=True, slots=True)
class Limits:
    """The limits of the record: bytes of the file and its write-ahead log, and seconds."""

    max_size: int = 2**30
    max_age: float = 14 * 86400.0


@dataclass(frozen=True, slots=True)
class Times:
    """Seconds from one batch to the next, and from one pruning to the next.

    ``pause`` is the time between an error and the next try; ``close`` the time limit for writing
    the rest at the end, ``idle`` the longest time without a write, which shows that
    the daemon lives.
    """

    batch: float = 2.0
    prune: float = 60.0
    pause: float = 30.0
    close: float = 5.0
    idle: float = 10.0


@dataclass(frozen=True, slots=True)
class Status:
    """The state of the record: bytes, lost rows, the oldest instant (None if unknown)."""

    size: int = 0
    dropped: int = 0
    oldest: float | None = None


class RecordWriter:
    """Stores rows in `record.db` of a directory, which it creates if needed.

    A failing or slow disk blocks nobody: rows are dropped then. ``on_state`` is called as by
    `SqliteWorker`; ``note`` is appended to the message that it works again.
    """

    def __init__(
        self,
        directory: Path,
        on_state: Callable[[bool, str], None],
        limits: Limits | None = None,
        times: Times | None = None,
        note: str = "",
        cluster: str = "",
        wall: Callable[[], float] = clock.wall,
    ) -> None:
        self.epoch = 0
        """Incremented when rows were lost: the next recorded rows are complete ones."""
        self._directory = directory
        self._path = directory / RECORD
        self._limits = limits or Limits()
        self._times = times or Times()
        self._note = f" {note}" if note else ""
        self._cluster = cluster
        self._wall = wall
        self._rows: deque[SyncRow] = deque()
        self._agreement: deque[tuple[str, AgreementInterval]] = deque(maxlen=_AGREEMENT_ROOM)
        self._room = _LEAST_ROOM
        self._targets: Collection[str] | None = None
        self._accepts = True
        self._dropped = 0
        self._aside = ""
        self._pruning: Iterator[None] | None = None
        self._oldest: float | None = None
        self._size = 0
        self._prune_at = self._written_at = 0.0
        self._lock = threading.Lock()
        self._stop = threading.Event()
        self._worker = SqliteWorker(
            "record", self._path, self._run, self._open, on_state, self._times.pause
        )

    def start(self) -> None:
        """Start writing."""
        self._worker.start()

    def put(self, row: SyncRow) -> None:
        """Queue a row. Thread-safe."""
        rows = self._rows
        if self._accepts and len(rows) < self._room:
            rows.append(row)
            return
        if self._accepts:
            self._accepts = False
            self._worker.report(
                ok=False, sentence=f"{self._path} is written too slowly; {_MEANWHILE}"
            )
        self._lose(1)

    def put_agreement(self, target: str, stretch: AgreementInterval) -> None:
        """Queue intervals of a target's agreement with its HPA. Thread-safe."""
        self._agreement.append((target, stretch))

    def retain(self, targets: Collection[str]) -> None:
        """Record the removal of all other recorded targets."""
        self._room = max(_LEAST_ROOM, 2 * len(targets))
        self._targets = frozenset(targets)

    @property
    def status(self) -> Status:
        """The state of the record."""
        return Status(self._size, self._dropped, self._oldest)

    def close(self) -> None:
        """Write the rest within a time limit in seconds, and accept nothing more."""
        self._accepts = False
        self._stop.set()
        self._worker.join(self._times.close)

    def _run(self) -> None:
        while not self._stop.is_set():
            self._try(self._turn)
            self._stop.wait(self._times.batch)
        self._try(self._end)

    def _try(self, work: Callable[[], None]) -> None:
        """Run work on the file; after an error drop everything that waits."""
        _, failure = self._worker.attempt(work)
        if failure:
            self._accepts = False
            self._worker.report(ok=False, sentence=f"{failure}; {_MEANWHILE}")
            lost = len(self._rows)
            self._rows.clear()
            self._lose(lost)
            self._pruning = None

    def _turn(self) -> None:
        if not self._worker.rests:
            file = self._worker.file
            self._write(file)
            self._prune(file)

    def _open(self, damage: str) -> RecordFile:
        now, told = self._wall(), self._set_aside
        file = open_file(self._directory, now, told, damage, self._cluster)
        self._accepts = not self._stop.is_set()
        return file

    def _write(self, file: RecordFile) -> None:
        """Write everything that waits."""
        self._write_rows(file)
        stretches = [self._agreement.popleft() for _ in range(len(self._agreement))]
        if stretches:
            file.write_agreement(stretches)
        targets = self._targets
        if targets is not None:
            file.remove_others(targets, self._wall())
            if self._targets is targets:  # Otherwise others were named meanwhile.
                self._targets = None

    def _write_rows(self, file: RecordFile) -> None:
        """Write rows in steps; between two steps the thread sleeps as long as the step took."""
        while step := self._take():
            begun = clock.monotonic()
            try:
                file.write(step, max(row.time for row in step))
            except BaseException:
                self._lose(len(step))
                raise
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
            # Rows were dropped: the next rows start another run.
            file.end_run()
            self._accepts = True

    def _take(self) -> list[SyncRow]:
        """Take the rows of one step: few of the expensive ones."""
        rows, changes = self._rows, 0
        taken: list[SyncRow] = []
        while rows and len(taken) < _STEP_ROWS and changes < _STEP_CHANGES:
            row = rows.popleft()
            taken.append(row)
            changes += row.change is not None
        return taken

    def _prune(self, file: RecordFile) -> None:
        until = clock.monotonic()
        if self._pruning is None and until >= self._prune_at:
            self._prune_at = until + self._times.prune
            self._pruning = self._pruned(file)
        for _ in self._pruning or ():
            if clock.monotonic() >= until + _PRUNE_SECONDS:
                return
        self._pruning = None

    def _pruned(self, file: RecordFile) -> Iterator[None]:
        pruner = Pruner(file, self._limits.max_size, self._limits.max_age)
        yield from pruner.steps(self._wall())
        self._size, self._oldest = pruner.size(), pruner.oldest()

    def _end(self) -> None:
        if not self._worker.rests or self._rows or self._agreement:
            file = self._worker.file
            self._write(file)
            file.write((), self._wall())
            file.finish()
            self._worker.close_file()

    def _lose(self, rows: int) -> None:
        with self._lock:
            self._dropped += rows
            self.epoch += 1

    def _well(self) -> None:
        sentence = f"decisions are recorded in {self._path}{self._note}{self._aside}"
        self._worker.report(ok=True, sentence=sentence)

    def _set_aside(self, fate: str) -> None:
        self._aside = f"; the one before {fate}"
