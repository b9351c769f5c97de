"""The files of a state directory: who may use them, and what becomes of broken ones."""

import fcntl
import os
import sqlite3
import stat
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path

DATABASE = "autoscaler.db"
_LOCK = "autoscaler.lock"
_COMPANIONS = ("", "-wal", "-shm")
"""SQLite's files beside a database are part of it."""

_MOST_OF_A_ROW = 16 * 2**20
"""Bytes of a row or a text; 10,000 targets that are dropped at once make one of 60 kB."""

_PRIVATE = 0o600
"""The mode of our files; SQLite gives those beside a database the mode of that."""
_PRIVATE_DIRECTORY = 0o700


class UnusableError(Exception):
    """Nothing can be kept in a directory for now; the message is for the operator."""


def reason(path: Path, error: UnusableError | OSError | sqlite3.Error) -> str:
    """Say why a database cannot be used."""
    if isinstance(error, UnusableError):
        return str(error)
    if isinstance(error, sqlite3.Error):
        code = getattr(error, "sqlite_errorname", type(error).__name__)
        return f"{path} cannot be used: {error} ({code})"
    return f"{path} cannot be used: {error.strerror}"


def read_only(path: Path) -> sqlite3.Connection:
    """Open a database without changing it.  Raises sqlite3.Error."""
    connection = sqlite3.connect(f"{path.absolute().as_uri()}?mode=ro", uri=True)
    distrust(connection)
    return connection


def distrust(connection: sqlite3.Connection) -> None:
    """Let a database neither call functions nor hold rows as large as no row of ours is."""
    connection.execute("PRAGMA trusted_schema = OFF")
    connection.setlimit(sqlite3.SQLITE_LIMIT_LENGTH, _MOST_OF_A_ROW)


def lock(directory: Path) -> int:
    """Make the directory where it is missing, and take it for this process.

    Other users may then not read what is in it.  Returns a file descriptor; closing it, or the end
    of the process, lets go of the directory.  Raises UnusableError.
    """
    try:
        directory.mkdir(_PRIVATE_DIRECTORY, parents=True, exist_ok=True)
        descriptor = os.open(directory / _LOCK, os.O_RDWR | os.O_CREAT, _PRIVATE)
    except OSError as error:
        raise UnusableError(f"{directory} cannot be used: {error.strerror}") from error
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError as error:
        os.close(descriptor)
        if isinstance(error, BlockingIOError):
            raise UnusableError(f"another process keeps its state in {directory}") from error
        raise UnusableError(f"{directory} cannot be locked: {error.strerror}") from error
    _make_private(directory)
    return descriptor


def create(path: Path) -> None:
    """Make an empty database that only we may read, where there is none.

    SQLite would let everybody read it.  Where it cannot be made, opening it tells why.
    """
    with suppress(OSError):
        os.close(os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL, _PRIVATE))


def _make_private(directory: Path) -> None:
    """Take the rights of others from our files of an earlier run, and from a folder of only these.

    What belongs to another user is left as it is, as is what cannot be changed.
    """
    with suppress(OSError):
        files = list(directory.iterdir())
        ours = [file for file in files if file.name == _LOCK or file.name.startswith(DATABASE)]
        for file in ours:
            _take_rights(file, stat.S_IFREG)
        if len(ours) == len(files):
            _take_rights(directory, stat.S_IFDIR)


def _take_rights(path: Path, kind: int) -> None:
    with suppress(OSError):
        status = path.lstat()
        mode = stat.S_IMODE(status.st_mode)
        ours = status.st_uid == os.geteuid() and stat.S_IFMT(status.st_mode) == kind
        if ours and mode & (stat.S_IRWXG | stat.S_IRWXO):
            path.chmod(mode & stat.S_IRWXU)


def set_aside(path: Path, now: float) -> Path:
    """Rename a database, and what SQLite has beside it, after the Unix time; return its new name.

    Raises UnusableError.
    """
    time = datetime.fromtimestamp(now, UTC).strftime("%Y%m%dT%H%M%SZ")
    aside = path.with_name(f"{path.name}.unreadable-{time}")
    try:
        for companion in _COMPANIONS:
            old = path.with_name(path.name + companion)
            if old.exists():
                old.rename(aside.with_name(aside.name + companion))
    except OSError as error:
        raise UnusableError(f"{path} cannot be renamed: {error.strerror}") from error
    return aside
