"""What is to be in the file, what is in it, and the way from the one to the other."""

from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path
from sqlite3 import Error as SqliteError

from autoscaler.adapters.store.clocks import Clocks, Resumption, Stamp
from autoscaler.adapters.store.contents import Record, resume
from autoscaler.adapters.store.database import Database, open_database
from autoscaler.adapters.store.decisions import summary
from autoscaler.adapters.store.inbox import Batch, Entry
from autoscaler.core.history import shifted


class Keeper:
    """Holds the latest of every target, and makes the file follow.

    What could not be written stays to be written.  After an error the file is closed, and opened
    anew by the first batch that comes ``pause`` seconds later.  Whatever it holds by then, it is
    made to hold the latest of these targets and nothing else.

    Belongs to one thread.  Methods raise UnusableError, OSError or sqlite3.Error for what happens
    to the file; they have taken in what they were given all the same.
    """

    def __init__(
        self,
        directory: Path,
        clocks: Clocks,
        pause: float,
        on_set_aside: Callable[[str], None],
    ) -> None:
        self._directory = directory
        self._clocks = clocks
        self._pause = pause
        self._on_set_aside = on_set_aside
        self._boot_id = clocks.boot_id()
        # Histories are by the clock of now; one that is set is followed when that is told.
        self._ahead = clocks.wall() - clocks.steady()
        self._wanted: dict[str, Record] = {}
        self._unsaved: dict[str, Record | None] = {}
        """What the file holds of the targets of which it is to hold something else."""
        self._database: Database | None = None
        self._retry_at = 0.0

    @property
    def now(self) -> Stamp:
        """The present instant, by the clock that all histories are by."""
        steady = self._clocks.steady()
        return Stamp(steady + self._ahead, steady, self._boot_id)

    def resume(self) -> Resumption:
        """Open the file, and go on with what it holds, by the clock of now."""
        _, saved = self._open()
        now = self.now
        if saved is None:
            return Resumption(now)
        self._wanted = {target: record for target, record in self._unsaved.items() if record}
        self._unsaved.clear()
        resumption = resume(saved, self._wanted, now)
        if resumption.moved:
            self._shift(resumption.moved)
        return resumption

    def keep(self, batch: Batch) -> bool:
        """Take in a batch and write it; return False in the pause after an error."""
        for seconds in batch.shifts:
            self._ahead += seconds
            self._shift(seconds)
        wanted, unsaved = self._wanted, self._unsaved
        for target, entry in batch.entries.items():
            before = wanted.get(target)
            unsaved.setdefault(target, before)
            if entry is not None:
                wanted[target] = _record(before, entry, batch.shifts)
            elif before is not None:
                del wanted[target]
        if self._database is None and self._clocks.monotonic() < self._retry_at:
            return False
        self._save()
        return True

    def finish(self) -> bool:
        """Write what is left, if there is something, and close the file."""
        try:
            if not self._unsaved:
                return False
            self._save()
            return True
        finally:
            self._close()

    def _open(self) -> tuple[Database, Stamp | None]:
        """Open the file, and find out what it holds and when that was saved."""
        self._retry_at = self._clocks.monotonic() + self._pause
        database, contents = open_database(self._directory, self._clocks.wall(), self._on_set_aside)
        self._database = database
        self._unsaved = dict.fromkeys(self._wanted) | contents.records
        return database, contents.stamp

    def _save(self) -> None:
        try:
            database = self._database or self._open()[0]
            database.save(self._wanted, self._unsaved, self.now)
        except BaseException:
            self._close()
            raise
        self._unsaved.clear()

    def _close(self) -> None:
        self._retry_at = self._clocks.monotonic() + self._pause
        database, self._database = self._database, None
        if database is not None:
            with suppress(SqliteError, OSError):
                database.close()

    def _shift(self, seconds: float) -> None:
        for target, record in self._wanted.items():
            self._unsaved.setdefault(target, record)
            self._wanted[target] = record.shifted(seconds)


def _record(before: Record | None, entry: Entry, shifts: Sequence[float]) -> Record:
    """Return an entry as a record; without a decision the one before still is the last."""
    history, decision = entry.history, entry.decision
    for seconds in shifts[entry.shifts :]:
        history = shifted(history, seconds)
    if decision is not None:
        time = sum(shifts[entry.decision_shifts :], decision.time)
        return Record(history, time, summary(decision))
    return (before or Record(history))._replace(history=history)
