"""A state directory: the names of its files, their locks and their modes."""

import fcntl
import os
import socket
import sqlite3
import stat
from contextlib import ExitStack, suppress
from pathlib import Path

from autoscaler.core.text import printable
from autoscaler.file_contents import NoFileError, refuse_other_than_file

DATABASE = "autoscaler.db"
LOCK = "autoscaler.lock"
DAEMON_LOCK = "daemon.lock"
"""Held for the life of a daemon: the locks of state and record are released after an error."""
RECORD = "record.db"
RECORD_LOCK = "record.lock"
RELEASE = "autoscaler.release"
"""A request of `autoscaler resume --breaker`, until the daemon takes it."""
_OURS = (DATABASE, LOCK, DAEMON_LOCK, RELEASE, RECORD, RECORD_LOCK)
_LONGEST_HOLDER = 300

PRIVATE = 0o600
"""The mode of our files; SQLite creates its own files with the mode of the database."""
_PRIVATE_DIRECTORY = 0o700


class UnusableError(Exception):
    """A directory cannot be used for now; the message is for the operator."""


class HeldError(UnusableError):
    """Another process has locked a directory: ``holder`` names it, if known."""

    def __init__(self, message: str, holder: str) -> None:
        super().__init__(message)
        self.holder = holder


def reason(path: Path, error: UnusableError | OSError | sqlite3.Error) -> str:
    """Return a sentence on why a database cannot be used."""
    if isinstance(error, UnusableError):
        return str(error)
    if isinstance(error, sqlite3.Error):
        code = getattr(error, "sqlite_errorname", type(error).__name__)
        return f"{path} cannot be used: {error} ({code})"
    return f"{path} cannot be used: {error.strerror}"


def lock(directory: Path, name: str = LOCK) -> int:
    """Create the directory if needed, lock it for this process, and remove others' access.

    ``name`` is the lock's file, which names the holder. Closing the descriptor, or the end of the
    process, unlocks it. Raises HeldError if another process has it, else UnusableError.
    """
    try:
        directory.mkdir(_PRIVATE_DIRECTORY, parents=True, exist_ok=True)
        # Do not follow a link, since the file is emptied.
        flags = os.O_RDWR | os.O_CREAT | os.O_NONBLOCK | os.O_NOFOLLOW
        descriptor = os.open(directory / name, flags, PRIVATE)
    except OSError as error:
        raise UnusableError(f"{directory} cannot be used: {error.strerror}") from error
    with ExitStack() as opened:
        opened.callback(os.close, descriptor)
        try:
            refuse_other_than_file(directory / name, os.fstat(descriptor).st_mode)
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except NoFileError as error:
            raise UnusableError(reason(directory / name, error)) from error
        except BlockingIOError as error:
            kept = "record" if name == RECORD_LOCK else "state"
            message = f"another process keeps its {kept} in {directory}"
            raise HeldError(message, _holder(descriptor)) from error
        except OSError as error:
            raise UnusableError(f"{directory} cannot be locked: {error.strerror}") from error
        with suppress(OSError):  # On a full disk it is locked without the text.
            os.ftruncate(descriptor, 0)
            os.pwrite(descriptor, f"{os.getpid()} {socket.gethostname()}".encode(), 0)
        _make_private(directory)
        opened.pop_all()
    return descriptor


def _holder(descriptor: int) -> str:
    with suppress(OSError):
        text = os.pread(descriptor, _LONGEST_HOLDER, 0).decode("ascii", "replace")
        number, _, host = text.partition(" ")
        if number.isdecimal():
            return f"process {number}{' on ' if host else ''}{printable(host)}"
    return "another process"


def _make_private(directory: Path) -> None:
    """Remove others' access to our files, and to the directory if it contains nothing else."""
    with suppress(OSError):
        files = list(directory.iterdir())
        ours = [file for file in files if file.name.startswith(_OURS)]
        for path in (*ours, *([directory] if len(ours) == len(files) else [])):
            with suppress(OSError):
                status = path.lstat()
                mode, kind = stat.S_IMODE(status.st_mode), stat.S_IFMT(status.st_mode)
                right_kind = kind == (stat.S_IFDIR if path is directory else stat.S_IFREG)
                others = mode & (stat.S_IRWXG | stat.S_IRWXO)
                if others and right_kind and status.st_uid == os.geteuid():
                    path.chmod(mode & stat.S_IRWXU)
