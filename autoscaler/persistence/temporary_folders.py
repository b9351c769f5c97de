"""Folders in the system's temporary directory that are removed even if their process was killed."""

import fcntl
import glob
import os
import shutil
import stat
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path


@contextmanager
def temporary_folder(prefix: str) -> Iterator[Path]:
    """Create a folder that is removed at the end; ``prefix`` begins its name.

    A folder that a killed process left is removed by the next process with the prefix: a file in it
    marks such folders, and a lock shows whether it is in use. Raises OSError if no folder can be
    created.
    """
    for left in Path(tempfile.gettempdir()).glob(f"{glob.escape(prefix)}*"):
        with suppress(OSError):
            _remove_if_left(left)
    made = tempfile.TemporaryDirectory(prefix=prefix, ignore_cleanup_errors=True)
    with made as name, hold_folder(Path(name)):
        # After it is locked: from now on others may test the lock.
        Path(name, _mark(Path(name))).touch()
        yield Path(name)


@contextmanager
def hold_folder(folder: Path) -> Iterator[int]:
    """Keep a temporary folder from being removed, by a descriptor that children may inherit."""
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        # Without locks, nobody removes folders either.
        with suppress(OSError):
            fcntl.flock(descriptor, fcntl.LOCK_SH | fcntl.LOCK_NB)
        yield descriptor
    finally:
        os.close(descriptor)


def _mark(folder: Path) -> str:
    """Return the name of the marker file, which no other folder with that name nor a copy has."""
    return f".{folder.name}"


def _remove_if_left(path: Path) -> None:
    """Remove a folder whose process has ended; raises OSError if it still runs."""
    # A link is not followed: others may write to the system's temporary directory.
    descriptor = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)
    try:
        status = os.fstat(descriptor)
        if status.st_uid != os.geteuid() or stat.S_IMODE(status.st_mode) != stat.S_IRWXU:
            return
        if not stat.S_ISREG(os.lstat(_mark(path), dir_fd=descriptor).st_mode):
            return
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        shutil.rmtree(path, ignore_errors=True)
    finally:
        os.close(descriptor)
