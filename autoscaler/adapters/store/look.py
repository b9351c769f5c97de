"""A look at the state of another process: what a daemon that starts now would go on with."""

import sqlite3
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path

from autoscaler.adapters.store.clocks import Clocks, Resumption, Stamp
from autoscaler.adapters.store.contents import Contents, resume
from autoscaler.adapters.store.database import UNREADABLE, check, refuse_newer, sound_contents
from autoscaler.adapters.store.decisions import Unreadable
from autoscaler.adapters.store.files import (
    DATABASE,
    UnusableError,
    distrust,
    read_only,
    reason,
)
from autoscaler.adapters.store.schema import migrate


@dataclass(frozen=True, slots=True)
class Saved:
    """What a file holds, when it was last saved (Unix seconds), and what to go on with."""

    path: Path
    time: float
    resumption: Resumption


def look(directory: Path, clocks: Clocks | None = None) -> Saved | Unreadable | None:
    """Read the state in a directory, also while a daemon writes it; None where there is none.

    Nothing is changed: what is of an older version is brought up to date in memory.
    """
    path, now = directory / DATABASE, (clocks or Clocks()).stamp()
    try:
        path.stat()
        refuse_newer(path)
        contents = _contents(path)
    except (FileNotFoundError, NotADirectoryError):
        return None
    except (UnusableError, OSError) as error:
        return Unreadable(reason(path, error))
    except (*UNREADABLE, sqlite3.Error) as error:
        return Unreadable(f"{path} cannot be read: {error}")
    saved: Stamp | None = contents.stamp
    if saved is None:
        return None
    return Saved(path, saved.wall, resume(saved, contents.records, now))


def _contents(path: Path) -> Contents:
    with closing(sqlite3.connect(":memory:", isolation_level=None)) as copy:
        with closing(read_only(path)) as file:
            check(file)
            file.backup(copy)
        distrust(copy)
        migrate(copy)
        return sound_contents(copy)
