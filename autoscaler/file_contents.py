"""Reads whole files up to a limit, and refuses pipes, sockets and devices; replaces whole files."""

import errno
import os
import stat
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import BinaryIO

MOST_OF_A_SECRET = 2**20
"""The most bytes of a file with a token or a password, which has a few kilobytes."""

MOST_OF_CREDENTIALS = 16 * 2**20
"""The most bytes of a kubeconfig or a file of certificates; a system's bundle has 0.3 MB."""

_PIECE = 2**18
_KINDS = (
    (stat.S_ISFIFO, "a pipe"),
    (stat.S_ISSOCK, "a socket"),
    (stat.S_ISCHR, "a device"),
    (stat.S_ISBLK, "a device"),
)


class TooLargeError(OSError):
    """A file is too large; ``strerror`` names the limit."""

    def __init__(self, path: Path, most: int) -> None:
        super().__init__(errno.EFBIG, f"it is larger than {_size(most)}", str(path))


class NoFileError(OSError):
    """A path does not lead to a file; ``strerror`` says to what."""

    def __init__(self, path: Path, kind: str) -> None:
        super().__init__(errno.EINVAL, f"it is {kind}, not a file", str(path))


def read_bytes(path: Path, most: int) -> bytes:
    """Return the content of a file without blocking, as the read of a pipe might.

    Raises NoFileError for a pipe, a socket or a device, TooLargeError for more than ``most``
    bytes, and any other OSError of the read.
    """
    data = bytearray()
    with opened(path) as file:
        while piece := file.read(min(_PIECE, most + 1)):
            data += piece
            if len(data) > most:
                raise TooLargeError(path, most)
    return bytes(data)


@contextmanager
def opened(path: Path) -> Iterator[BinaryIO]:
    """Open a file for a read that is in parts.

    Raises NoFileError for a pipe, a socket or a device, and any other OSError.
    """
    refuse_other_than_file(path, path.stat().st_mode)
    with open(path, "rb", opener=_without_waiting) as file:
        # The path may lead to another file by now.
        refuse_other_than_file(path, os.fstat(file.fileno()).st_mode)
        yield file


def replace_file(path: Path, content: bytes, *, private: bool = False) -> None:
    """Write a file in one step: whoever reads it finds all of the old content or of the new.

    A link goes on leading to it, and it keeps its owner and its mode; a new one, or a ``private``
    one, can be read by its owner only.  Raises OSError, and leaves nothing behind then.
    """
    real = Path(os.path.realpath(path))
    # Hidden, so that no pattern of files finds it.
    descriptor, name = tempfile.mkstemp(prefix=f".{real.name}.", dir=real.parent)
    try:
        with os.fdopen(descriptor, "wb") as file:
            with suppress(FileNotFoundError):
                status = real.stat()
                own = os.fstat(file.fileno())
                if (own.st_uid, own.st_gid) != (status.st_uid, status.st_gid):
                    os.fchown(file.fileno(), status.st_uid, status.st_gid)
                if not private:
                    os.fchmod(file.fileno(), stat.S_IMODE(status.st_mode))
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        Path(name).replace(real)
    except BaseException:
        with suppress(OSError):
            Path(name).unlink()
        raise
    folder = os.open(real.parent, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(folder)
    finally:
        os.close(folder)


def refuse_other_than_file(path: Path, mode: int) -> None:
    """Raise NoFileError if ``mode`` is that of a pipe, a socket or a device."""
    kind = kind_of(mode)
    if kind is not None:
        raise NoFileError(path, kind)


def kind_of(mode: int) -> str | None:
    """Return what ``mode`` is of: a pipe, a socket or a device; None for files and folders."""
    return next((name for is_one, name in _KINDS if is_one(mode)), None)


def stamp_of(status: os.stat_result) -> tuple[int, ...]:
    """Return what is another whenever a path leads to another file or to another content."""
    # A file that may be read now has another time of change, and no other mtime.
    times = status.st_ctime_ns, status.st_mtime_ns
    return status.st_dev, status.st_ino, *times, status.st_size


def _size(count: int) -> str:
    return f"{count // 2**20} MiB" if count >= 2**20 else f"{count // 2**10} KiB"


def _without_waiting(path: str, flags: int) -> int:
    return os.open(path, flags | os.O_NONBLOCK)
