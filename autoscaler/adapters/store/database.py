"""One database file: opened, checked, read and written."""

import os
import sqlite3
from collections.abc import Callable, Mapping
from contextlib import ExitStack, closing
from dataclasses import dataclass
from pathlib import Path

from autoscaler.adapters.store.clocks import Clocks, Resumption, Stamp
from autoscaler.adapters.store.directory import (
    DATABASE,
    UnusableError,
    create,
    lock,
    reason,
    set_aside,
)
from autoscaler.adapters.store.rows import Changes, Contents, Record, read
from autoscaler.adapters.store.schema import (
    MIGRATIONS,
    MalformedError,
    check_tables,
    migrate,
    version_of,
)
from autoscaler.core.breaker import BreakerState

_BUSY_SECONDS = 10.0
"""How long a statement waits for another program that has locked the database."""

_WAL_BYTES = 16 * 1024 * 1024
"""What a large transaction leaves at most of the write-ahead log, once the database has it."""

_OLDEST_SQLITE = (3, 37)
"""The first that knows strict tables; an older one takes a good file for a damaged one."""

_MOST_BYTES = 4 * 2**30
"""Of a database; 10,000 targets with windows of an hour and a sync each second have 1 GB."""

_MOST_BYTES_OF_A_ROW = 16 * 2**20
"""Of a row or a text; 10,000 targets that are dropped at once make one of 60 kB."""

_UNREADABLE = (MalformedError, LookupError, TypeError, ValueError, RecursionError)
"""What a damaged file raises besides sqlite3.Error."""


class Database:
    """The database of a directory that is locked for this process.

    It belongs to the thread that opened it.  After an error it can only be closed.
    """

    def __init__(
        self,
        path: Path,
        connection: sqlite3.Connection,
        ids: dict[str, int],
        held: ExitStack,
    ) -> None:
        self._path = path
        self._file = _identity(path)
        self._connection = connection
        self._ids = ids
        self._next_id = max(ids.values(), default=0) + 1
        self._held = held.pop_all()  # `close` releases it from now on

    def save(
        self,
        wanted: Mapping[str, Record],
        unsaved: Mapping[str, Record | None],
        stamp: Stamp,
        breakers: Mapping[str, BreakerState] | None = None,
    ) -> None:
        """Write what is wanted of the unsaved targets, in one transaction.

        ``unsaved`` has what the file holds of them; ``breakers`` is None where the file holds the
        states of these.  Raises UnusableError, OSError or
        sqlite3.Error, and the file is as it was.
        """
        if _identity(self._path) != self._file:
            raise UnusableError(f"{self._path} was replaced while it was in use")
        changes = self._changes(wanted, unsaved)
        changes.set_saved_at(stamp)
        if breakers is not None:
            changes.set_breakers(breakers)
        connection = self._connection
        connection.execute("BEGIN IMMEDIATE")
        changes.apply(connection)
        connection.execute("COMMIT")

    def close(self) -> None:
        """Close the file, and unlock the directory."""
        self._held.close()

    def _changes(
        self, wanted: Mapping[str, Record], unsaved: Mapping[str, Record | None]
    ) -> Changes:
        changes, ids = Changes(), self._ids
        for key, old in unsaved.items():
            new = wanted.get(key)
            if new is None:
                if old is not None:
                    changes.delete(ids.pop(key))
            elif old is None:
                ids[key] = self._next_id
                changes.add(self._next_id, key, new)
                self._next_id += 1
            else:
                changes.replace(ids[key], old, new)
        return changes


def open_database(
    directory: Path, now: float, on_set_aside: Callable[[str], None]
) -> tuple[Database, Contents]:
    """Open the database of a directory, or create it, and read it.

    One that cannot be read is renamed after the Unix time ``now``, and a new one begun;
    ``on_set_aside`` is called with a sentence ("could not be read ...").  One of a newer version is
    left as it is.
    Raises UnusableError, OSError or sqlite3.Error.
    """
    if sqlite3.sqlite_version_info < _OLDEST_SQLITE:
        raise UnusableError(f"Python's SQLite is {sqlite3.sqlite_version}; 3.37 is needed")
    path = directory / DATABASE
    with ExitStack() as held:
        held.callback(os.close, lock(directory))
        if path.exists():
            _refuse_newer(path)
        try:
            connection, contents = _open(path)
        except (*_UNREADABLE, sqlite3.Error) as error:
            if isinstance(error, sqlite3.Error) and not _is_damage(error):
                raise
            aside = set_aside(path, now)
            on_set_aside(f"could not be read ({error}) and is now {aside.name}")
            connection, contents = _open(path)
        held.callback(connection.close)
        return Database(path, connection, contents.ids, held), contents


@dataclass(frozen=True, slots=True)
class Saved:
    """What a file holds, when it was last saved (Unix seconds), and what to go on with."""

    path: Path
    time: float
    resumption: Resumption


@dataclass(frozen=True, slots=True)
class Unreadable:
    """Nothing could be read; the message is for the operator."""

    message: str


def read_saved(directory: Path, clocks: Clocks | None = None) -> Saved | Unreadable | None:
    """Return what a daemon that starts now would go on with; None where nothing was saved.

    It may be read while a daemon writes it, and nothing is changed: what is of an older version is
    migrated in memory.
    """
    path, now = directory / DATABASE, (clocks or Clocks()).stamp()
    try:
        path.stat()
        _refuse_newer(path)
        contents = _read_copy(path)
    except (FileNotFoundError, NotADirectoryError):
        return None
    except (UnusableError, OSError) as error:
        return Unreadable(reason(path, error))
    except (*_UNREADABLE, sqlite3.Error) as error:
        return Unreadable(f"{path} cannot be read: {error}")
    saved: Stamp | None = contents.stamp
    return None if saved is None else Saved(path, saved.wall, contents.resumed(now))


def _read_copy(path: Path) -> Contents:
    with closing(sqlite3.connect(":memory:", isolation_level=None)) as copy:
        with closing(_read_only(path)) as file:
            _check(file)
            file.backup(copy)
        _distrust(copy)
        migrate(copy)
        return read(copy)


def _open(path: Path) -> tuple[sqlite3.Connection, Contents]:
    """Open a database, migrate it to the current version, and read it."""
    create(path)
    connection = sqlite3.connect(path, timeout=_BUSY_SECONDS, isolation_level=None)
    try:
        _distrust(connection)
        connection.execute("PRAGMA journal_mode = WAL")
        # What `intend` has confirmed must outlive a loss of power.
        connection.execute("PRAGMA synchronous = FULL")
        connection.execute(f"PRAGMA journal_size_limit = {_WAL_BYTES:d}")
        _check(connection)
        migrate(connection)
        return connection, read(connection)
    except BaseException:
        connection.close()
        raise


def _read_only(path: Path) -> sqlite3.Connection:
    connection = sqlite3.connect(f"{path.absolute().as_uri()}?mode=ro", uri=True)
    _distrust(connection)
    return connection


def _distrust(connection: sqlite3.Connection) -> None:
    """Let a database neither call functions nor hold larger rows than we write."""
    connection.execute("PRAGMA trusted_schema = OFF")
    connection.setlimit(sqlite3.SQLITE_LIMIT_LENGTH, _MOST_BYTES_OF_A_ROW)


def _refuse_newer(path: Path) -> None:
    """Raise UnusableError for a database of a newer version of this program."""
    try:
        with closing(_read_only(path)) as connection:
            version = version_of(connection)
    except sqlite3.DatabaseError:
        return  # what opens it next reports what is wrong
    if version > len(MIGRATIONS):
        raise UnusableError(
            f"{path} is of a newer version of autoscaler (its tables have version {version}, "
            f"this one knows {len(MIGRATIONS)}) and is left as it is"
        )


def _is_damage(error: sqlite3.Error) -> bool:
    """Return whether a file is damaged, no database, or has other tables: not just out of reach."""
    code = getattr(error, "sqlite_errorcode", sqlite3.SQLITE_ERROR) & 0xFF
    return code in {
        sqlite3.SQLITE_CORRUPT,
        sqlite3.SQLITE_NOTADB,
        sqlite3.SQLITE_ERROR,
        sqlite3.SQLITE_TOOBIG,
    }


def _check(connection: sqlite3.Connection) -> None:
    """Check for damage, for other tables than ours, and for a size that ours never have.

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
