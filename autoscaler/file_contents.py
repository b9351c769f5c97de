"""Files that are read whole, as long as they are files and no larger than they may be."""

import errno
import os
import stat
from pathlib import Path

MOST_OF_A_SECRET = 2**20
"""Bytes of a token's or a password's file; they have some kilobytes at most."""

MOST_OF_CREDENTIALS = 16 * 2**20
"""Bytes of a kubeconfig or of a file of certificates; a system's authorities have 0.3 MB."""


_PIECE = 2**18
_KINDS = (
    (stat.S_ISFIFO, "a pipe"),
    (stat.S_ISSOCK, "a socket"),
    (stat.S_ISCHR, "a device"),
    (stat.S_ISBLK, "a device"),
)


class TooLargeError(OSError):
    """A file holds more than it may; ``strerror`` says how much that is."""

    def __init__(self, path: Path, most: int) -> None:
        super().__init__(errno.EFBIG, f"it is larger than {most // 2**20} MiB", str(path))


class NoFileError(OSError):
    """A path leads to something else than a file; ``strerror`` says to what."""

    def __init__(self, path: Path, kind: str) -> None:
        super().__init__(errno.EINVAL, f"it is {kind}, not a file", str(path))


def read_bytes(path: Path, most: int) -> bytes:
    """Return what a file holds, at once: nothing is waited for, as a pipe would have one do.

    Raises OSError; among them NoFileError for a pipe, a socket or a device, and TooLargeError for
    more than ``most`` bytes.
    """
    refuse_other_than_file(path, path.stat().st_mode)
    data = bytearray()
    with open(path, "rb", opener=_without_waiting) as file:
        # Another one may have come in its place.
        refuse_other_than_file(path, os.fstat(file.fileno()).st_mode)
        while piece := file.read(_PIECE):
            data += piece
            if len(data) > most:
                raise TooLargeError(path, most)
    return bytes(data)


def refuse_other_than_file(path: Path, mode: int) -> None:
    """Raise NoFileError where a mode is that of a pipe, a socket or a device."""
    kind = kind_of(mode)
    if kind is not None:
        raise NoFileError(path, kind)


def kind_of(mode: int) -> str | None:
    """Name what a mode is of: a pipe, a socket or a device; None for files and folders."""
    return next((name for is_one, name in _KINDS if is_one(mode)), None)


def _without_waiting(path: str, flags: int) -> int:
    return os.open(path, flags | os.O_NONBLOCK)
