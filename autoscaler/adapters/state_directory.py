"""A state directory: its locks, the modes of its files, and the renaming of a damaged database."""

import fcntl
import os
import sqlite3
import stat
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path

DATABASE = "autoscaler.db"
LOCK = "autoscaler.lock"
RECORD = "record.db"
RECORD_LOCK = "record.lock"
RELEASE = "autoscaler.release"
"""A request of `autoscaler release`, until the daemon takes it."""
_OURS = (DATABASE, LOCK, RELEASE, RECORD, RECORD_LOCK)
_COMPANIONS = ("", "-wal", "-shm")
"""SQLite's files beside a database are part of it."""

_PRIVATE = 0o600
"""The mode of our files; SQLite gives those beside a database the mode of that."""
_PRIVATE_DIRECTORY = 0o700


class UnusableError(Exception):
    """Nothing can be kept in a directory for now; the message is for the operator."""


def reason(path: Path, error: UnusableError | OSError | sqlite3.Error) -> str:
    """Return a sentence on why a database cannot be used."""
    if isinstance(error, UnusableError):
        return str(error)
    if isinstance(error, sqlite3.Error):
        code = getattr(error, "sqlite_errorname", type(error).__name__)
        return f"{path} cannot be used: {error} ({code})"
    return f"{path} cannot be used: {error.strerror}"


def lock(directory: Path, name: str = LOCK) -> int:
    """Create the directory if it is missing, lock it for this process, and close it to other users.

    ``name`` is the file of the lock: the state and the record each have their own.  Returns a file
    descriptor; closing it, or the end of the process, unlocks the directory.  Raises UnusableError.
    """
    try:
        directory.mkdir(_PRIVATE_DIRECTORY, parents=True, exist_ok=True)
        descriptor = os.open(directory / name, os.O_RDWR | os.O_CREAT, _PRIVATE)
    except OSError as error:
        raise UnusableError(f"{directory} cannot be used: {error.strerror}") from error
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError as error:
        os.close(descriptor)
        if isinstance(error, BlockingIOError):
            kept = "record" if name == RECORD_LOCK else "state"
            raise UnusableError(f"another process keeps its {kept} in {directory}") from error
        raise UnusableError(f"{directory} cannot be locked: {error.strerror}") from error
    _make_private(directory)
    return descriptor


def create(path: Path) -> None:
    """Create an empty database with mode 0600 if there is none; SQLite would use the umask.

    Errors are ignored: opening the database reports them.
    """
    with suppress(OSError):
        os.close(os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL, _PRIVATE))


def _make_private(directory: Path) -> None:
    """Remove the rights of others on our files, and on the directory if it holds nothing else.

    Files of another user, and those whose mode cannot be changed, are left as they are.
    """
    with suppress(OSError):
        files = list(directory.iterdir())
        ours = [file for file in files if file.name.startswith(_OURS)]
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
