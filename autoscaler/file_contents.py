"""Files that are read whole, as long as they are no larger than they may be."""

import errno
from pathlib import Path

MOST_OF_A_SECRET = 2**20
"""Bytes of a token's or a password's file; they have some kilobytes at most."""

MOST_OF_CREDENTIALS = 16 * 2**20
"""Bytes of a kubeconfig or of a file of certificates; a system's authorities have 0.3 MB."""


_PIECE = 2**18


class TooLargeError(OSError):
    """A file holds more than it may; ``strerror`` says how much that is."""

    def __init__(self, path: Path, most: int) -> None:
        super().__init__(errno.EFBIG, f"it is larger than {most // 2**20} MiB", str(path))


def read_bytes(path: Path, most: int) -> bytes:
    """Return what a file holds; of one that never ends no more than ``most`` bytes are kept.

    Raises OSError, and TooLargeError for more than ``most`` bytes.
    """
    data = bytearray()
    with path.open("rb") as file:
        while piece := file.read(_PIECE):
            data += piece
            if len(data) > most:
                raise TooLargeError(path, most)
    return bytes(data)
