"""Reads and writes whole files. Reads are bounded, and refuse pipes, sockets and devices.

`write_output` writes a file whose path a user names; `write_below` one whose name comes from
outside, such as from a manifest.
"""

import errno
import os
import secrets
import stat
from collections.abc import Iterator, Sequence
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
    """A path does not lead to a file; ``strerror`` says to what it leads."""

    def __init__(self, path: Path, kind: str) -> None:
        super().__init__(errno.EINVAL, f"it is {kind}, not a file", str(path))


def read_bytes(path: Path, most: int) -> bytes:
    """Return the content of a file without blocking, as reading a pipe might.

    Raises NoFileError for a pipe, a socket or a device, TooLargeError for more than ``most`` bytes,
    and any other OSError.
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
    """Open a file to read it in parts.

    Raises NoFileError for a pipe, a socket or a device, and any other OSError.
    """
    refuse_other_than_file(path, path.stat().st_mode)
    with open(path, "rb", opener=_without_waiting) as file:
        # The path may lead to another file by now.
        refuse_other_than_file(path, os.fstat(file.fileno()).st_mode)
        yield file


def write_output(path: Path, content: bytes) -> None:
    """Write the file that a user names; atomically if it is a regular file or does not exist.

    A device or a pipe is written to. Raises OSError, for a link and anything else too: somebody
    else may have made the link. Links in /dev are the system's own.
    """
    with suppress(FileNotFoundError):
        status = path.stat() if path.parent == Path("/dev") else path.lstat()
        if stat.S_ISCHR(status.st_mode) or stat.S_ISFIFO(status.st_mode):
            with open(path, "wb", opener=lambda name, _: os.open(name, os.O_WRONLY)) as file:
                file.write(content)
            return
        _refuse_other_than_regular(path, status.st_mode)
    parent = os.open(path.parent, os.O_RDONLY | os.O_DIRECTORY)
    try:
        _replace_within(parent, path.name, content, _default_mode())
    finally:
        os.close(parent)


def write_below(folder: Path, names: Sequence[str], content: bytes, *, force: bool = False) -> Path:
    """Write a file below a folder, readable only by its owner; return its path.

    Folders are created as needed; no link below the folder is followed. Without ``force`` the file
    must not exist with another content. Raises OSError, also for a name with a folder.
    """
    path = folder.joinpath(*names)
    for name in names:
        if name in {"", ".", ".."} or "/" in name or "\0" in name:
            raise OSError(errno.EINVAL, f"{name!r} is not the name of a file", str(path))
    folder_mode = 0o700
    folder.mkdir(folder_mode, parents=True, exist_ok=True)
    parent = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        for name in names[:-1]:
            with suppress(FileExistsError):
                os.mkdir(name, folder_mode, dir_fd=parent)
            flags = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW
            inner = os.open(name, flags, dir_fd=parent)
            os.close(parent)
            parent = inner
        with suppress(FileNotFoundError):
            status = os.stat(names[-1], dir_fd=parent, follow_symlinks=False)
            _refuse_other_than_regular(path, status.st_mode)
            if not force and not _has_content(parent, names[-1], content):
                raise OSError(errno.EEXIST, "it is there already", str(path))
        _replace_within(parent, names[-1], content, 0o600)
    finally:
        os.close(parent)
    return path


def _has_content(parent: int, name: str, content: bytes) -> bool:
    flags = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK
    with os.fdopen(os.open(name, flags, dir_fd=parent), "rb") as file:
        return file.read(len(content) + 1) == content


def _replace_within(parent: int, name: str, content: bytes, mode: int) -> None:
    """Write a file of an open folder atomically; an existing one keeps its mode unless private."""
    with suppress(FileNotFoundError):
        if mode & 0o077:
            mode = stat.S_IMODE(os.stat(name, dir_fd=parent, follow_symlinks=False).st_mode)
    # Hidden, so that no pattern of files matches it.
    temporary = f".{name[:200]}.{secrets.token_hex(8)}"
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW
    try:
        with os.fdopen(os.open(temporary, flags, 0o600, dir_fd=parent), "wb") as file:
            os.fchmod(file.fileno(), mode)
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        os.rename(temporary, name, src_dir_fd=parent, dst_dir_fd=parent)
        os.fsync(parent)
    except BaseException:
        with suppress(OSError):
            os.unlink(temporary, dir_fd=parent)
        raise


def _refuse_other_than_regular(path: Path, mode: int) -> None:
    if not stat.S_ISREG(mode):
        kind = "a link" if stat.S_ISLNK(mode) else "a folder" if stat.S_ISDIR(mode) else "no file"
        raise NoFileError(path, kind_of(mode) or kind)


def _default_mode() -> int:
    umask = os.umask(0)
    os.umask(umask)
    return 0o666 & ~umask


def with_home(name: str) -> Path:
    """Return a path with a leading ``~`` expanded, if that home is known."""
    with suppress(RuntimeError, ValueError):  # An unknown home, or a NUL.
        return Path(name).expanduser()
    return Path(name)


def refuse_other_than_file(path: Path, mode: int) -> None:
    """Raise NoFileError if ``mode`` belongs to a pipe, a socket or a device."""
    kind = kind_of(mode)
    if kind is not None:
        raise NoFileError(path, kind)


def kind_of(mode: int) -> str | None:
    """Return the kind of a ``mode``: a pipe, a socket or a device; None for files and folders."""
    return next((name for is_one, name in _KINDS if is_one(mode)), None)


def stamp_of(status: os.stat_result) -> tuple[int, ...]:
    """Return a stamp that changes when a path leads to another file or another content."""
    # A file that becomes readable has another change time, but the same mtime.
    times = status.st_ctime_ns, status.st_mtime_ns
    return status.st_dev, status.st_ino, *times, status.st_size


def _size(count: int) -> str:
    return f"{count // 2**20} MiB" if count >= 2**20 else f"{count // 2**10} KiB"


def _without_waiting(path: str, flags: int) -> int:
    return os.open(path, flags | os.O_NONBLOCK)
