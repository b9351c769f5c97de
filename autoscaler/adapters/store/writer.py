"""What the file is to hold, what it holds, and the writing of the difference."""

from collections.abc import Callable, Mapping
from contextlib import suppress
from pathlib import Path
from sqlite3 import Error as SqliteError

from autoscaler.adapters.store.clocks import Clocks, Resumption, Stamp
from autoscaler.adapters.store.database import Database, open_database
from autoscaler.adapters.store.rows import Contents, Record
from autoscaler.adapters.store.write_queue import Batch
from autoscaler.core.breaker import BreakerState, moved


class Writer:
    """Holds the latest of every target, and writes what the file does not hold of it.

    What could not be written is written later.  After an error the file is closed, and opened
    again by the first batch that comes ``pause`` seconds later.  Whatever it holds by then, it is
    made to hold the latest of these targets and nothing else.

    Belongs to one thread.  Methods raise UnusableError, OSError or sqlite3.Error for what happens
    to the file; they have accepted what they were given all the same.
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
        # Histories are by the clock of now; a step of it is followed when `Batch.shifts` has it.
        self._ahead = clocks.wall() - clocks.steady()
        self._wanted: dict[str, Record] = {}
        self._unsaved: dict[str, Record | None] = {}
        """What the file holds of the targets of which it is to hold something else."""
        self._breakers: Mapping[str, BreakerState] = {}
        self._breakers_unsaved = False
        self._database: Database | None = None
        self._retry_at = 0.0

    @property
    def now(self) -> Stamp:
        """The present instant, by the clock that all histories are by."""
        steady = self._clocks.steady()
        return Stamp(steady + self._ahead, steady, self._boot_id)

    def resume(self) -> Resumption:
        """Open the file and return what it holds, by the clock of now."""
        _, contents = self._open()
        resumption = contents.resumed(self.now)
        if resumption.earlier:
            self._wanted, self._breakers = contents.records, contents.breakers
            self._unsaved.clear()
            self._breakers_unsaved = False
        if resumption.moved:
            self._shift(resumption.moved)
        return resumption

    def write(self, batch: Batch) -> bool:
        """Accept a batch and write it; return False in the pause after an error."""
        for seconds in batch.shifts:
            self._ahead += seconds
            self._shift(seconds)
        if batch.breakers is not None:
            self._breakers, self._breakers_unsaved = batch.breakers, True
        wanted, unsaved = self._wanted, self._unsaved
        for target, record in batch.records.items():
            before = wanted.get(target)
            unsaved.setdefault(target, before)
            if record is None:
                wanted.pop(target, None)
            elif record.decided is None and before is not None:
                wanted[target] = Record(record.history, before.decided)
            else:
                wanted[target] = record
        if self._database is None and self._clocks.monotonic() < self._retry_at:
            return False
        self._save()
        return True

    def finish(self) -> bool:
        """Write what is left, if there is something, and close the file."""
        try:
            if not (self._unsaved or self._breakers_unsaved):
                return False
            self._save()
            return True
        finally:
            self._close()

    def _open(self) -> tuple[Database, Contents]:
        """Open the file and read it."""
        self._retry_at = self._clocks.monotonic() + self._pause
        self._database, contents = open_database(
            self._directory, self._clocks.wall(), self._on_set_aside
        )
        self._unsaved = dict.fromkeys(self._wanted) | contents.records
        self._breakers_unsaved = contents.breakers != self._breakers
        return self._database, contents

    def _save(self) -> None:
        try:
            database = self._database or self._open()[0]
            breakers = self._breakers if self._breakers_unsaved else None
            database.save(self._wanted, self._unsaved, self.now, breakers)
        except BaseException:
            self._close()
            raise
        self._unsaved.clear()
        self._breakers_unsaved = False

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
        if self._breakers:
            self._breakers = {name: moved(one, seconds) for name, one in self._breakers.items()}
            self._breakers_unsaved = True
