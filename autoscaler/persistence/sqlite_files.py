"""SQLite files: how they are created and opened, their tables and version, and damage.

`SqliteWorker` writes a file on its own thread, opens it again after an error, and reports.
"""

import os
import sqlite3
import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing, contextmanager, suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import cache
from pathlib import Path
from typing import Generic, TypeVar

from autoscaler import clock
from autoscaler.file_contents import refuse_other_than_file
from autoscaler.persistence.state_directory import PRIVATE, UnusableError, lock, reason

Content = TypeVar("Content")
File = TypeVar("File", bound="DatabaseFile")
Result = TypeVar("Result")

_OLDEST_SQLITE = (3, 37)
"""The first version with strict tables; an older one would report a good file as damaged."""

_BUSY_SECONDS = 10.0
"""How long a statement waits for another program's lock on the file, in seconds."""

_MOST_BYTES_OF_A_ROW = 16 * 2**20
"""The longest row or text in bytes; 10,000 targets that are dropped at once need 60 kB."""

_PARTS = ("", "-wal", "-shm", "-journal")
"""The suffixes of the files that SQLite keeps next to a database."""


class MalformedError(Exception):
    """A database contains data that this program never writes; the message says what."""


UNREADABLE = (MalformedError, LookupError, TypeError, ValueError, RecursionError)
"""The errors of a damaged file in addition to sqlite3.Error."""


NAME_CLUSTER = """
    UPDATE OR IGNORE targets SET key = ? || '/' || key
    WHERE length(key) - length(replace(key, '/', '')) = 2
"""
"""Adds the name of a cluster to the keys of targets without one (`TargetName`)."""


@dataclass(frozen=True, slots=True)
class Schema:
    """A file in a state directory: its name, lock, tables, and the pragmas of its writer.

    ``version`` changes with the tables, and with their content if another version would misread it:
    a file of an older version is set aside. With ``keeps_one`` only the last such file is kept.
    """

    name: str
    lock: str
    version: int
    tables: str
    settings: str
    keeps_one: bool = False


# -- to write it ---------------------------------------------------------------------------------


@dataclass(slots=True)
class DatabaseFile:
    """A locked file of the thread that opened it; after an error it can only be closed."""

    path: Path
    connection: sqlite3.Connection
    identity: tuple[int, int]
    held: ExitStack

    @contextmanager
    def transaction(self) -> Iterator[sqlite3.Connection]:
        """Write everything or nothing; raises UnusableError, OSError or sqlite3.Error."""
        if _identity(self.path) != self.identity:
            raise UnusableError(f"{self.path} was replaced while it was in use")
        self.connection.execute("BEGIN IMMEDIATE")
        yield self.connection
        self.connection.execute("COMMIT")

    def close(self) -> None:
        """Close the file, and unlock it."""
        self.held.close()


def open_to_write(
    directory: Path,
    schema: Schema,
    read: Callable[[sqlite3.Connection], Content],
    now: float,
    on_set_aside: Callable[[str], None],
    damage: str = "",
) -> tuple[DatabaseFile, Content]:
    """Open a file, or create it, and read what is needed from it.

    A file that is unreadable, or in which ``damage`` was found while writing, is renamed after the
    Unix time ``now``, and a new one is created; ``on_set_aside`` receives the reason ("could not be
    read ..."). Raises UnusableError, also for a newer version, OSError or sqlite3.Error.
    """
    if sqlite3.sqlite_version_info < _OLDEST_SQLITE:
        raise UnusableError(f"Python's SQLite is {sqlite3.sqlite_version}; 3.37 is needed")
    path = directory / schema.name
    with ExitStack() as held:
        held.callback(os.close, lock(directory, schema.lock))
        _refuse_special_files(path)
        if path.exists():
            # Any other fault is reported at the next opening.
            with suppress(sqlite3.DatabaseError), closing(_read_only(path)) as connection:
                _refuse_newer(path, connection, schema)
        try:
            if damage:
                raise MalformedError(damage)
            connection, content = _open(path, schema, read)
        except (*UNREADABLE, sqlite3.Error) as error:
            if isinstance(error, sqlite3.Error) and not is_damage(error):
                raise
            for older in directory.glob(f"{schema.name}.unreadable-*"):
                if schema.keeps_one:
                    older.unlink(missing_ok=True)
            aside = set_aside(path, now)
            on_set_aside(f"could not be read ({error}) and is now {aside.name}")
            connection, content = _open(path, schema, read)
        held.callback(connection.close)
        return DatabaseFile(path, connection, _identity(path), held.pop_all()), content


def set_aside(path: Path, now: float) -> Path:
    """Rename a database after the Unix time; return its new name, or raise UnusableError."""
    time = datetime.fromtimestamp(now, UTC).strftime("%Y%m%dT%H%M%SZ")
    aside = path.with_name(f"{path.name}.unreadable-{time}")
    try:
        for end in _PARTS:
            part = path.with_name(path.name + end)
            if part.exists():
                part.rename(aside.with_name(aside.name + end))
    except OSError as error:
        raise UnusableError(f"{path} cannot be renamed: {error.strerror}") from error
    return aside


def _open(
    path: Path, schema: Schema, read: Callable[[sqlite3.Connection], Content]
) -> tuple[sqlite3.Connection, Content]:
    with suppress(OSError):  # SQLite would use the umask; SQLite reports all other errors.
        os.close(os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL, PRIVATE))
    connection = sqlite3.connect(path, timeout=_BUSY_SECONDS, isolation_level=None)
    try:
        _distrust(connection)
        connection.executescript(f"{schema.settings} PRAGMA journal_mode = WAL;")
        _check_tables(connection, schema)
        if not version_of(connection):
            create_tables(connection, schema)
        return connection, read(connection)
    except BaseException:
        connection.close()
        raise


def create_tables(connection: sqlite3.Connection, schema: Schema) -> None:
    """Create the tables in a new database."""
    connection.executescript(
        f"BEGIN IMMEDIATE; {schema.tables} PRAGMA user_version = {schema.version:d}; COMMIT;"
    )


def _identity(path: Path) -> tuple[int, int]:
    status = path.stat()
    return status.st_dev, status.st_ino


# -- to read it ----------------------------------------------------------------------------------


def _read_only(path: Path, *, alone: bool = False) -> sqlite3.Connection:
    """Open an existing file; with ``alone`` (no writer) no other file is created."""
    _refuse_special_files(path)
    mode = "mode=ro&immutable=1" if alone else "mode=ro"
    uri = f"{path.absolute().as_uri()}?{mode}"
    connection = sqlite3.connect(uri, uri=True, isolation_level=None)
    _distrust(connection)
    return connection


@contextmanager
def opened_to_read(path: Path, schema: Schema) -> Iterator[sqlite3.Connection]:
    """Open a file for reading, also during writes, as it is at one moment; changes nothing.

    Raises FileNotFoundError or NotADirectoryError if it is missing, and UnusableError for other
    errors, also of later statements.
    """
    try:
        path.stat()
        # While somebody writes it, there is a write-ahead log.
        alone = not path.with_name(f"{path.name}-wal").exists()
        with closing(_read_only(path, alone=alone)) as connection:
            connection.execute("BEGIN")
            _refuse_newer(path, connection, schema)
            _check_tables(connection, schema)
            yield connection
    except (FileNotFoundError, NotADirectoryError):
        raise
    except OSError as error:
        raise UnusableError(reason(path, error)) from None
    except (*UNREADABLE, sqlite3.Error) as error:
        raise UnusableError(f"{path} cannot be read: {error}") from None


def _distrust(connection: sqlite3.Connection) -> None:
    """Forbid a database to call functions, or to have larger rows than this program writes."""
    connection.execute("PRAGMA trusted_schema = OFF")
    connection.setlimit(sqlite3.SQLITE_LIMIT_LENGTH, _MOST_BYTES_OF_A_ROW)


# -- what may be in it ---------------------------------------------------------------------------


def version_of(connection: sqlite3.Connection) -> int:
    """Return the version of a database; 0 of a new one."""
    return int(connection.execute("PRAGMA user_version").fetchone()[0])


def _check_tables(connection: sqlite3.Connection, schema: Schema) -> None:
    """Raise MalformedError unless the file has exactly the tables of the schema, or none yet."""
    version = version_of(connection)
    if version not in {0, schema.version}:
        raise MalformedError(
            f"its tables have version {version}, and version {schema.version} is read"
        )
    odd = _objects(connection) ^ (_expected(schema) if version else frozenset())
    if odd:
        name = min(name for _, name, _ in odd)
        raise MalformedError(f'"{name:.60}" is not the table of version {version}')


def _objects(connection: sqlite3.Connection) -> frozenset[tuple[str, str, str]]:
    """Return type, name and normalized SQL of everything in the database."""
    query = "SELECT type, name, coalesce(sql, '') FROM sqlite_schema WHERE name NOT GLOB 'sqlite_*'"
    rows = connection.execute(query)
    return frozenset((kind, name, "".join(sql.split())) for kind, name, sql in rows)


@cache
def _expected(schema: Schema) -> frozenset[tuple[str, str, str]]:
    with closing(sqlite3.connect(":memory:")) as connection:
        connection.executescript(schema.tables)
        return _objects(connection)


def _refuse_special_files(path: Path) -> None:
    """Raise NoFileError for a pipe, a socket or a device in place of a file."""
    place = os.path.realpath(path)  # SQLite also keeps its other files in this folder.
    for end in _PARTS:
        file = Path(place + end)
        with suppress(FileNotFoundError):
            refuse_other_than_file(file, file.stat().st_mode)


def _refuse_newer(path: Path, connection: sqlite3.Connection, schema: Schema) -> None:
    version = version_of(connection)
    if version > schema.version:
        raise UnusableError(
            f"{path} is of a newer version of autoscaler (its tables have version {version}, "
            f"this one knows {schema.version}) and is left as it is"
        )


def is_damage(error: sqlite3.Error) -> bool:
    """Return whether a file is damaged, not a database, or has other tables."""
    return is_malformed(error) or _code(error) in {sqlite3.SQLITE_ERROR, sqlite3.SQLITE_TOOBIG}


def is_malformed(error: sqlite3.Error) -> bool:
    """Return whether the file is not a database, so that opening it again does not help."""
    return _code(error) in {sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB}


def _code(error: sqlite3.Error) -> int:
    code: int = getattr(error, "sqlite_errorcode", sqlite3.SQLITE_ERROR)
    return code & 0xFF


# -- the thread that writes it -------------------------------------------------------------------


class SqliteWorker(Generic[File]):
    """Works with one file, which belongs to the thread ``name`` that runs ``run``.

    After an error the file is closed, and opened again by work that comes at least ``pause``
    seconds later. ``open_file`` receives SQLite's message about an unreadable page, if there was
    one. ``on_state`` receives whether the file can be written and a sentence, at the start and at
    each change.
    """

    def __init__(
        self,
        name: str,
        path: Path,
        run: Callable[[], None],
        open_file: Callable[[str], File],
        on_state: Callable[[bool, str], None],
        pause: float,
        monotonic: Callable[[], float] = clock.monotonic,
    ) -> None:
        self.path = path
        self.errors = 0
        """How often the file failed or did not answer in time."""
        self._open_file = open_file
        self._on_state = on_state
        self._pause = pause
        self._monotonic = monotonic
        self._file: File | None = None
        self._damage = ""
        self._retry_at = 0.0
        self._reported: tuple[bool, str] | None = None
        self._lock = threading.Lock()
        self._thread = threading.Thread(target=run, name=name, daemon=True)

    def start(self) -> None:
        """Begin to work."""
        self._thread.start()

    def join(self, seconds: float) -> bool:
        """Wait for the end of the thread; return whether it has ended."""
        if self._thread.is_alive():
            self._thread.join(seconds)
        return not self._thread.is_alive()

    # -- the file; for the worker's thread -------------------------------------------------------

    @property
    def rests(self) -> bool:
        """Whether the file is not used for a while, after an error."""
        return self._file is None and self._monotonic() < self._retry_at

    @property
    def file(self) -> File:
        """The file, opened if it is not; raises UnusableError, OSError or sqlite3.Error."""
        if self._file is None:
            self._retry_at = self._monotonic() + self._pause
            self._file = self._open_file(self._damage)
            self._damage = ""
        return self._file

    def attempt(self, work: Callable[[], Result]) -> tuple[Result | None, str]:
        """Run work on the file; after an error close it, and return the reason as a sentence."""
        try:
            return work(), ""
        except (UnusableError, OSError, sqlite3.Error) as error:
            if isinstance(error, sqlite3.Error) and is_malformed(error):
                self._damage = str(error)
            sentence = reason(self.path, error)
        except Exception as error:  # noqa: BLE001 - others wait for this thread: it must not end
            sentence = f"a fault of the autoscaler, {type(error).__name__}: {error}"
        self.close_file()
        return None, sentence

    def close_file(self) -> None:
        """Close the file, and do not use it for the pause."""
        self._retry_at = self._monotonic() + self._pause
        file, self._file = self._file, None
        if file is not None:
            with suppress(sqlite3.Error, OSError):
                file.close()

    # -- state; for any thread -------------------------------------------------------------------

    def report(self, *, ok: bool, sentence: str, still: Callable[[], bool] = lambda: True) -> None:
        """Report the state, and count an error, if it is ``still`` valid after other reports."""
        with self._lock:
            if not still():
                return
            self.errors += not ok
            if self._reported != (ok, sentence):
                self._reported = (ok, sentence)
                self._on_state(ok, sentence)
