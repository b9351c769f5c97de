"""The files of a state directory: who may use them, and what becomes of broken ones."""

import fcntl
import os
import sqlite3
from datetime import UTC, datetime
from pathlib import Path

DATABASE = "autoscaler.db"
_LOCK = "autoscaler.lock"
_COMPANIONS = ("", "-wal", "-shm")
"""SQLite's files beside a database are part of it."""


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
    return sqlite3.connect(f"{path.absolute().as_uri()}?mode=ro", uri=True)


def lock(directory: Path) -> int:
    """Make the directory where it is missing, and take it for this process.

    Returns a file descriptor; closing it, or the end of the process, lets go of the directory.
    Raises UnusableError.
    """
    try:
        directory.mkdir(parents=True, exist_ok=True)
        descriptor = os.open(directory / _LOCK, os.O_RDWR | os.O_CREAT, 0o644)
    except OSError as error:
        raise UnusableError(f"{directory} cannot be used: {error.strerror}") from error
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError as error:
        os.close(descriptor)
        if isinstance(error, BlockingIOError):
            raise UnusableError(f"another process keeps its state in {directory}") from error
        raise UnusableError(f"{directory} cannot be locked: {error.strerror}") from error
    return descriptor


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
