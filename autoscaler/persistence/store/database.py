"""The latest state of all targets, the content of the file, and writing the difference."""

import sqlite3
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from autoscaler.core.breaker import BreakerState
from autoscaler.core.history import shifted
from autoscaler.persistence.codec import dumps
from autoscaler.persistence.sqlite_files import (
    DatabaseFile,
    MalformedError,
    open_to_write,
    opened_to_read,
    version_of,
)
from autoscaler.persistence.state_directory import DATABASE, UnusableError
from autoscaler.persistence.store.rows import (
    SCHEMA,
    Changes,
    Clocks,
    Contents,
    Record,
    Resumption,
    Stamp,
    read,
    upsert,
)

_MOST_BYTES = 4 * 2**30
"""The largest database in bytes; 10,000 targets with windows of an hour and a sync each second need
1 GB."""


@dataclass(slots=True)
class Batch:
    """All changes since the last batch; a record of None drops its target."""

    records: dict[str, Record | None] = field(default_factory=dict)
    shifts: list[float] = field(default_factory=list)
    """Seconds by which to move the records of earlier batches; these records have been moved."""
    futures: int = 0
    """The number of records in this batch and all before."""
    breakers: Mapping[str, BreakerState] | None = None
    """The states of the scale-down breakers, if they have changed."""


class Writer:
    """Holds the latest record of each target, and writes those that the file lacks.

    Whatever the file contains when it is opened again, it is changed to these records and nothing
    else. Belongs to one thread. Methods have accepted their arguments even if they raise
    UnusableError, OSError or sqlite3.Error.
    """

    def __init__(
        self, directory: Path, clocks: Clocks, on_set_aside: Callable[[str], None]
    ) -> None:
        self._directory = directory
        self._clocks = clocks
        self._on_set_aside = on_set_aside
        self._boot_id = clocks.boot_id()
        # Histories use the current clock; a step of it is applied when `Batch.shifts` has it.
        self._ahead = clocks.wall() - clocks.steady()
        self._wanted: dict[str, Record] = {}
        self._unsaved: dict[str, Record | None] = {}
        """The stored rows of the targets that must be rewritten."""
        self._breakers: Mapping[str, BreakerState] = {}
        self._breakers_unsaved = False
        self._contents = Contents(None)
        """The content of the file when it was opened, until it is resumed."""
        self._ids: dict[str, int] = {}
        self._next_id = 1

    @property
    def now(self) -> Stamp:
        """The present instant, by the clock of all histories."""
        steady = self._clocks.steady()
        return Stamp(steady + self._ahead, steady, self._boot_id)

    def open(self) -> DatabaseFile:
        """Open the file, and read its content."""
        file, contents = open_to_write(
            self._directory, SCHEMA, read_checked, self._clocks.wall(), self._on_set_aside
        )
        self._contents, self._ids = contents, contents.ids
        self._next_id = max(contents.ids.values(), default=0) + 1
        self._unsaved = dict.fromkeys(self._wanted) | contents.records
        self._breakers_unsaved = contents.breakers != self._breakers
        return file

    def resume(self) -> Resumption:
        """Continue with the content of the file, and return it, by the current clock."""
        contents, self._contents = self._contents, Contents(None)
        resumption = contents.resumed(self.now)
        if resumption.earlier:
            self._wanted, self._breakers = contents.records, contents.breakers
            self._unsaved.clear()
            self._breakers_unsaved = False
        if resumption.moved:
            self._shift(resumption.moved)
        return resumption

    def accept(self, batch: Batch) -> None:
        """Accept a batch; `save` writes it."""
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

    @property
    def is_saved(self) -> bool:
        """Whether the file has everything."""
        return not (self._unsaved or self._breakers_unsaved)

    def save(self, file: DatabaseFile) -> None:
        """Write what the file lacks, in one transaction; after an error the file is unchanged."""
        changes, ids = Changes(), self._ids
        for key, old in self._unsaved.items():
            new = self._wanted.get(key)
            if new is not None:
                if old is None:
                    ids[key], self._next_id = self._next_id, self._next_id + 1
                changes.write(ids[key], key, old, new)
            elif old is not None:
                changes.delete(ids.pop(key))
        now = self.now
        with file.transaction() as connection:
            changes.apply(connection)
            upsert(connection, "clock", [(0, now.wall, now.steady, now.boot_id)])
            if self._breakers_unsaved:
                connection.execute("DELETE FROM breakers")
                states = [(name, dumps(state)) for name, state in self._breakers.items()]
                upsert(connection, "breakers", states)
        self._unsaved.clear()
        self._breakers_unsaved = False

    def _shift(self, seconds: float) -> None:
        for target, record in self._wanted.items():
            self._unsaved.setdefault(target, record)
            self._wanted[target] = shifted(record, seconds)
        if self._breakers:
            self._breakers = {
                name: shifted(state, seconds) for name, state in self._breakers.items()
            }
            self._breakers_unsaved = True


def read_saved(directory: Path, clocks: Clocks | None = None) -> Resumption | str | None:
    """Return the state that a start would continue; None without a file, or the reason as text.

    A daemon may write it meanwhile, and nothing is changed.
    """
    now = (clocks or Clocks()).stamp()
    try:
        with opened_to_read(directory / DATABASE, SCHEMA) as connection:
            contents = read_checked(connection) if version_of(connection) else Contents(None)
    except (FileNotFoundError, NotADirectoryError):
        return None
    except UnusableError as error:
        return str(error)
    return None if contents.stamp is None else contents.resumed(now)


def read_checked(connection: sqlite3.Connection) -> Contents:
    """Read everything; raises as `read`, also for damage, and for an impossible size."""
    ((pages,),) = connection.execute("PRAGMA page_count")
    ((page,),) = connection.execute("PRAGMA page_size")
    if pages * page > _MOST_BYTES:
        raise MalformedError(f"it is larger than {_MOST_BYTES // 2**30} GiB")
    (verdict,) = connection.execute("PRAGMA quick_check(1)").fetchone()
    if verdict != "ok":
        raise MalformedError(verdict)
    return read(connection)
