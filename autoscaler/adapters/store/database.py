"""One open database, and what is known to be in it."""

import os
import sqlite3
from collections.abc import Callable, Mapping
from contextlib import ExitStack, closing
from pathlib import Path

from autoscaler.adapters.store.changes import Changes, put
from autoscaler.adapters.store.clocks import Stamp
from autoscaler.adapters.store.contents import Contents, MalformedError, Record, read, stamp_of
from autoscaler.adapters.store.files import (
    DATABASE,
    UnusableError,
    create,
    distrust,
    lock,
    read_only,
    set_aside,
)
from autoscaler.adapters.store.schema import SCRIPTS, migrate, version_of
from autoscaler.adapters.store.soundness import check_contents, check_rows, check_tables
from autoscaler.core.history import History

_BUSY_SECONDS = 10.0
"""How long a statement waits for another program that has locked the database."""

_WAL_BYTES = 16 * 1024 * 1024
"""What a large transaction leaves at most of the write-ahead log, once the database has it."""

_OLDEST_SQLITE = (3, 37)
"""The first that knows strict tables; an older one takes a good file for a damaged one."""

_MOST_BYTES = 4 * 2**30
"""Of a database; 10,000 targets with windows of an hour and a sync each second have 1 GB."""

UNREADABLE = (MalformedError, LookupError, TypeError, ValueError, RecursionError)
"""What a damaged file raises besides sqlite3.Error."""

_NOTHING = Record(History())


class Database:
    """The database of a directory that is locked for this process.

    It belongs to the thread that opened it.  After an error it is only good for `close`.
    """

    def __init__(
        self,
        path: Path,
        connection: sqlite3.Connection,
        numbers: dict[str, int],
        held: ExitStack,
    ) -> None:
        self._path = path
        self._file = _identity(path)
        self._connection = connection
        self._numbers = numbers
        self._next_number = max(numbers.values(), default=0) + 1
        self._held = held.pop_all()  # whoever held it until here lets go of it no more

    def save(
        self, wanted: Mapping[str, Record], unsaved: Mapping[str, Record | None], stamp: Stamp
    ) -> None:
        """Make the file hold what is wanted of the unsaved targets, in one transaction.

        ``unsaved`` has what the file holds of them.  Raises UnusableError, OSError or
        sqlite3.Error, and the file is as it was.
        """
        if _identity(self._path) != self._file:
            raise UnusableError(f"{self._path} was replaced while it was in use")
        changes = self._changes(wanted, unsaved)
        connection = self._connection
        connection.execute("BEGIN IMMEDIATE")
        changes.apply(connection)
        put(connection, "clock", [(0, stamp.wall, stamp.steady, stamp.boot_id)])
        connection.execute("COMMIT")

    def close(self) -> None:
        """Close the file, and let go of the directory."""
        self._held.close()

    def _changes(
        self, wanted: Mapping[str, Record], unsaved: Mapping[str, Record | None]
    ) -> Changes:
        changes, numbers = Changes(), self._numbers
        for key, old in unsaved.items():
            new = wanted.get(key)
            if new is None:
                if old is not None:
                    changes.drop(numbers.pop(key))
                continue
            if old is None:
                numbers[key] = self._next_number
                changes.add(self._next_number, key)
                self._next_number += 1
            changes.record(numbers[key], old or _NOTHING, new)
        return changes


def open_database(
    directory: Path, now: float, on_set_aside: Callable[[str], None]
) -> tuple[Database, Contents]:
    """Open the database of a directory, or make it, and read it.

    One that cannot be read is set aside under a name with the Unix time ``now``, ``on_set_aside``
    is told its fate ("could not be read ..."), and a new one begun.  One of a newer version is
    left as it is.  Raises UnusableError, OSError or sqlite3.Error.
    """
    if sqlite3.sqlite_version_info < _OLDEST_SQLITE:
        raise UnusableError(f"Python's SQLite is {sqlite3.sqlite_version}; 3.37 is needed")
    path = directory / DATABASE
    with ExitStack() as held:
        held.callback(os.close, lock(directory))
        if path.exists():
            refuse_newer(path)
        try:
            connection, contents = _open(path)
        except (*UNREADABLE, sqlite3.Error) as error:
            if isinstance(error, sqlite3.Error) and not _is_damage(error):
                raise
            aside = set_aside(path, now)
            on_set_aside(f"could not be read ({error}) and is now {aside.name}")
            connection, contents = _open(path)
        held.callback(connection.close)
        return Database(path, connection, contents.numbers, held), contents


def refuse_newer(path: Path) -> None:
    """Raise UnusableError for a database of a newer version of this program."""
    try:
        with closing(read_only(path)) as connection:
            version = version_of(connection)
    except sqlite3.DatabaseError:
        return  # opening it for good tells what is wrong
    if version > len(SCRIPTS):
        raise UnusableError(
            f"{path} is of a newer version of autoscaler (its tables have version {version}, "
            f"this one knows {len(SCRIPTS)}) and is left as it is"
        )


def _open(path: Path) -> tuple[sqlite3.Connection, Contents]:
    """Open a database, make its tables current, and read it."""
    create(path)
    connection = sqlite3.connect(path, timeout=_BUSY_SECONDS, isolation_level=None)
    try:
        distrust(connection)
        connection.execute("PRAGMA journal_mode = WAL")
        # A commit that was promised outlives a loss of power.
        connection.execute("PRAGMA synchronous = FULL")
        connection.execute(f"PRAGMA journal_size_limit = {_WAL_BYTES:d}")
        check(connection)
        migrate(connection)
        return connection, sound_contents(connection)
    except BaseException:
        connection.close()
        raise


def sound_contents(connection: sqlite3.Connection) -> Contents:
    """Read a database, and check that it could have been written so.

    Raises one of UNREADABLE or sqlite3.Error.
    """
    stamp = stamp_of(connection)
    check_rows(connection, stamp)
    contents = read(connection)
    check_contents(contents)
    return contents


def _is_damage(error: sqlite3.Error) -> bool:
    """Tell a file that is damaged, no database, or has other tables, from one out of reach."""
    code = getattr(error, "sqlite_errorcode", sqlite3.SQLITE_ERROR) & 0xFF
    return code in {
        sqlite3.SQLITE_CORRUPT,
        sqlite3.SQLITE_NOTADB,
        sqlite3.SQLITE_ERROR,
        sqlite3.SQLITE_TOOBIG,
    }


def check(connection: sqlite3.Connection) -> None:
    """Look for damage, for other tables, and for a size that ours never have.

    Raises MalformedError or sqlite3.Error.
    """
    check_tables(connection)
    ((pages,),) = connection.execute("PRAGMA page_count")
    ((page,),) = connection.execute("PRAGMA page_size")
    if pages * page > _MOST_BYTES:
        raise MalformedError(f"it is larger than {_MOST_BYTES // 2**30} GiB")
    (verdict,) = connection.execute("PRAGMA quick_check(1)").fetchone()
    if verdict != "ok":
        raise MalformedError(verdict)


def _identity(path: Path) -> tuple[int, int]:
    status = path.stat()
    return status.st_dev, status.st_ino
