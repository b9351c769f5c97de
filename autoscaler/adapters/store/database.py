"""One database file: opened, checked, read and written."""

import os
import sqlite3
from collections.abc import Callable, Mapping
from contextlib import ExitStack, closing
from dataclasses import dataclass
from pathlib import Path

from autoscaler.adapters.sqlite_files import (
    UNREADABLE,
    MalformedError,
    check_tables,
    distrust,
    identity,
    is_damage,
    migrate,
    read_only,
    refuse_newer,
    require_sqlite,
)
from autoscaler.adapters.state_directory import (
    DATABASE,
    UnusableError,
    create,
    lock,
    reason,
    set_aside,
)
from autoscaler.adapters.store.clocks import Clocks, Resumption, Stamp
from autoscaler.adapters.store.rows import Changes, Contents, Record, read
from autoscaler.adapters.store.schema import MIGRATIONS
from autoscaler.core.breaker import BreakerState

_BUSY_SECONDS = 10.0
"""How long a statement waits for another program that has locked the database."""

_WAL_BYTES = 16 * 1024 * 1024
"""What a large transaction leaves at most of the write-ahead log, once the database has it."""


_MOST_BYTES = 4 * 2**30
"""Of a database; 10,000 targets with windows of an hour and a sync each second have 1 GB."""


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
        self._file = identity(path)
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
        if identity(self._path) != self._file:
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
    require_sqlite()
    path = directory / DATABASE
    with ExitStack() as held:
        held.callback(os.close, lock(directory))
        if path.exists():
            refuse_newer(path, len(MIGRATIONS))
        try:
            connection, contents = _open(path)
        except (*UNREADABLE, sqlite3.Error) as error:
            if isinstance(error, sqlite3.Error) and not is_damage(error):
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
        refuse_newer(path, len(MIGRATIONS))
        contents = _read_copy(path)
    except (FileNotFoundError, NotADirectoryError):
        return None
    except (UnusableError, OSError) as error:
        return Unreadable(reason(path, error))
    except (*UNREADABLE, sqlite3.Error) as error:
        return Unreadable(f"{path} cannot be read: {error}")
    saved: Stamp | None = contents.stamp
    return None if saved is None else Saved(path, saved.wall, contents.resumed(now))


def _read_copy(path: Path) -> Contents:
    with closing(sqlite3.connect(":memory:", isolation_level=None)) as copy:
        with closing(read_only(path)) as file:
            _check(file)
            file.backup(copy)
        distrust(copy)
        migrate(copy, MIGRATIONS)
        return read(copy)


def _open(path: Path) -> tuple[sqlite3.Connection, Contents]:
    """Open a database, migrate it to the current version, and read it."""
    create(path)
    connection = sqlite3.connect(path, timeout=_BUSY_SECONDS, isolation_level=None)
    try:
        distrust(connection)
        connection.execute("PRAGMA journal_mode = WAL")
        # What `intend` has confirmed must outlive a loss of power.
        connection.execute("PRAGMA synchronous = FULL")
        connection.execute(f"PRAGMA journal_size_limit = {_WAL_BYTES:d}")
        _check(connection)
        migrate(connection, MIGRATIONS)
        return connection, read(connection)
    except BaseException:
        connection.close()
        raise


def _check(connection: sqlite3.Connection) -> None:
    """Check for damage, for other tables than ours, and for a size that ours never have.

    Raises MalformedError or sqlite3.Error.
    """
    check_tables(connection, MIGRATIONS)
    ((pages,),) = connection.execute("PRAGMA page_count")
    ((page,),) = connection.execute("PRAGMA page_size")
    if pages * page > _MOST_BYTES:
        raise MalformedError(f"it is larger than {_MOST_BYTES // 2**30} GiB")
    (verdict,) = connection.execute("PRAGMA quick_check(1)").fetchone()
    if verdict != "ok":
        raise MalformedError(verdict)
