"""Requests of `autoscaler resume --breaker` to the daemon, as files in its state directory."""

import json
import os
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from autoscaler.file_contents import read_bytes
from autoscaler.persistence.state_directory import RELEASE

_MOST_BYTES = 4 * 2**10
_READABLE = 0o644
"""The daemon's user may differ from the caller's; nobody else can enter the directory."""


@dataclass(frozen=True, slots=True)
class Release:
    """A request to release a server, by its name in `core.target.Query`; None for all of them."""

    server: str | None


def ask(directory: Path, release: Release) -> None:
    """Put a request where the daemon finds it; raises OSError."""
    new = directory / f"{RELEASE}.new"
    with suppress(FileNotFoundError):
        new.unlink()
    descriptor = os.open(new, os.O_WRONLY | os.O_CREAT | os.O_EXCL, _READABLE)
    with os.fdopen(descriptor, "w", encoding="utf-8") as file:
        os.fchmod(descriptor, _READABLE)
        json.dump({"server": release.server}, file)
    new.replace(directory / RELEASE)


def is_waiting(directory: Path) -> bool:
    """Return whether the daemon has not taken the request yet."""
    return (directory / RELEASE).exists()


def withdraw(directory: Path) -> None:
    """Remove a request that no daemon took."""
    with suppress(OSError):
        (directory / RELEASE).unlink()


def take(directory: Path) -> Release | None:
    """Take a request, or None; raises OSError, and ValueError for an invalid request."""
    path = directory / RELEASE
    try:
        content = read_bytes(path, _MOST_BYTES)
    except FileNotFoundError:
        return None
    except BaseException:
        path.unlink(missing_ok=True)
        raise
    path.unlink(missing_ok=True)
    with suppress(ValueError, RecursionError):
        match json.loads(content):
            case {"server": str() | None as server}:
                return Release(server)
    raise ValueError("not a request of `autoscaler resume --breaker`")
