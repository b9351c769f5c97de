"""A SQLite file of ours: opened, its version, its tables, and what damage looks like."""

import sqlite3
from collections.abc import Callable, Sequence
from contextlib import closing
from functools import cache
from pathlib import Path

from autoscaler.adapters.state_directory import UnusableError

Migration = str | Callable[[sqlite3.Connection], None]
"""What makes a database of one version one of the next; `user_version` counts them."""

_OLDEST_SQLITE = (3, 37)
"""The first that knows strict tables; an older one takes a good file for a damaged one."""

_MOST_BYTES_OF_A_ROW = 16 * 2**20
"""Of a row or a text; 10,000 targets that are dropped at once make one of 60 kB."""


class MalformedError(Exception):
    """A database holds what this program never writes; the message says what."""


UNREADABLE = (MalformedError, LookupError, TypeError, ValueError, RecursionError)
"""What a damaged file raises besides sqlite3.Error."""


def require_sqlite() -> None:
    """Raise UnusableError if Python's SQLite is too old."""
    if sqlite3.sqlite_version_info < _OLDEST_SQLITE:
        raise UnusableError(f"Python's SQLite is {sqlite3.sqlite_version}; 3.37 is needed")


def version_of(connection: sqlite3.Connection) -> int:
    """Return the version of a database; 0 of one that is new."""
    return int(connection.execute("PRAGMA user_version").fetchone()[0])


def migrate(connection: sqlite3.Connection, migrations: Sequence[Migration]) -> None:
    """Run the migrations that a database has not seen, each in a transaction.

    After an error the connection is left within it, and is to be closed.
    """
    for version in range(version_of(connection) + 1, len(migrations) + 1):
        migration = migrations[version - 1]
        if isinstance(migration, str):
            connection.executescript(f"BEGIN IMMEDIATE; {migration}")
        else:
            connection.execute("BEGIN IMMEDIATE")
            migration(connection)
        connection.execute(f"PRAGMA user_version = {version:d}")
        connection.execute("COMMIT")


def check_tables(connection: sqlite3.Connection, migrations: Sequence[Migration]) -> None:
    """Check that there are the tables of the database's version, no other, no view, no trigger.

    A view in place of a table could keep a start waiting for ever.  Raises MalformedError.
    """
    version = version_of(connection)
    if not 0 <= version <= len(migrations):
        raise MalformedError(f"its tables have version {version}")
    odd = _objects(connection) ^ _expected(tuple(migrations[:version]))
    if odd:
        name = min(name for _, name, _ in odd)
        raise MalformedError(f'"{name:.60}" is not the table of version {version}')


def _objects(connection: sqlite3.Connection) -> frozenset[tuple[str, str, str]]:
    """Return the type, name and text of all that was created, however that is spaced."""
    rows = connection.execute("SELECT type, name, coalesce(sql, '') FROM sqlite_schema")
    return frozenset(
        (kind, name, "".join(sql.split()))
        for kind, name, sql in rows
        if not name.startswith("sqlite_")
    )


@cache
def _expected(migrations: tuple[Migration, ...]) -> frozenset[tuple[str, str, str]]:
    with closing(sqlite3.connect(":memory:")) as connection:
        migrate(connection, migrations)
        return _objects(connection)


def read_only(path: Path, *, alone: bool = False) -> sqlite3.Connection:
    """Open a file that is there, without ever changing it.

    ``alone`` says that nobody writes it: then nothing is created beside it either.
    """
    mode = "mode=ro&immutable=1" if alone else "mode=ro"
    connection = sqlite3.connect(f"{path.absolute().as_uri()}?{mode}", uri=True)
    distrust(connection)
    return connection


def distrust(connection: sqlite3.Connection) -> None:
    """Let a database neither call functions nor hold larger rows than we write."""
    connection.execute("PRAGMA trusted_schema = OFF")
    connection.setlimit(sqlite3.SQLITE_LIMIT_LENGTH, _MOST_BYTES_OF_A_ROW)


def refuse_newer(path: Path, newest: int) -> None:
    """Raise UnusableError for a database of a newer version than ``newest``."""
    try:
        with closing(read_only(path)) as connection:
            version = version_of(connection)
    except sqlite3.DatabaseError:
        return  # what opens it next reports what is wrong
    if version > newest:
        raise UnusableError(
            f"{path} is of a newer version of autoscaler (its tables have version {version}, "
            f"this one knows {newest}) and is left as it is"
        )


def is_damage(error: sqlite3.Error) -> bool:
    """Return whether a file is damaged, no database, or has other tables: not just out of reach."""
    code = getattr(error, "sqlite_errorcode", sqlite3.SQLITE_ERROR) & 0xFF
    return code in {
        sqlite3.SQLITE_CORRUPT,
        sqlite3.SQLITE_NOTADB,
        sqlite3.SQLITE_ERROR,
        sqlite3.SQLITE_TOOBIG,
    }


def is_malformed(error: sqlite3.Error) -> bool:
    """Return whether SQLite met what is no database: opened anew the file is no better."""
    code = getattr(error, "sqlite_errorcode", sqlite3.SQLITE_ERROR) & 0xFF
    return code in {sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB}


def identity(path: Path) -> tuple[int, int]:
    """Return what tells a file from another one that took its name."""
    status = path.stat()
    return status.st_dev, status.st_ino
