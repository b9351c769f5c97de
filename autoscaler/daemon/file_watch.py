"""Notices by itself that the files of the configuration say something else than what was loaded.

It looks instead of being told: inotify says nothing of a network's files, needs a watch on every
folder along a path to see the links of a mounted ConfigMap change, and would still have to be
followed by this comparison of contents.
"""

import os
from collections.abc import Mapping
from pathlib import Path

from autoscaler.config.settings import Sources
from autoscaler.config.sources import MOST_OF_A_FILE, digest, included, stat_of
from autoscaler.file_contents import read_bytes

_Stamp = tuple[int, ...]
"""What tells that a file is not as it was: device, inode, times of change and write, size."""


class FileWatch:
    """Compares the files with what was loaded from them.  All calls come from one thread."""

    def __init__(self, sources: Sources) -> None:
        self.rearm(sources)
        self._seen = self._stamps()

    def rearm(self, sources: Sources) -> None:
        """Compare with these from now on: what the last load read, be it taken or refused."""
        self._sources = sources
        self._compared: dict[Path, _Stamp | None] | None = None

    def changed(self) -> bool:
        """Tell whether there is something else to load; to be asked about once a second.

        A change is told once.  Files count when they stood still from one call to the next, so
        that one that is being written is not loaded in halves; one that was written anew with
        the same content is as it was.
        """
        stamps = self._stamps()
        seen, self._seen = self._seen, stamps
        if stamps != seen or stamps == self._compared:
            return False
        self._compared = stamps
        return self._differ(stamps)

    def differ(self) -> bool:
        """Tell whether the files say something else by now: they were written while they were read.

        What was read may then be of two moments, and fit together in none.
        """
        return self._differ(self._stamps())

    def _differ(self, stamps: Mapping[Path, _Stamp | None]) -> bool:
        contents = {path: _content(path) for path in stamps}
        return contents != self._sources.digests

    def _stamps(self) -> dict[Path, _Stamp | None]:
        """Look at the main file, what `include` stands for now, and what was missing of the rest.

        None is what is not there.
        """
        main = next(iter(self._sources.digests))
        found = included(self._sources.include, main)
        named = {path: stat_of(path) for path in self._sources.unusable}
        looks = {main: stat_of(main), **found.files, **named}
        return {path: _stamp(status) for path, status in looks.items()} | dict.fromkeys(
            found.faults
        )


def _content(path: Path) -> str | None:
    try:
        return digest(read_bytes(path, MOST_OF_A_FILE))
    except (OSError, ValueError):  # of a name that no file can have
        return None


def _stamp(status: os.stat_result | None) -> _Stamp | None:
    if status is None:
        return None
    return (
        status.st_dev,
        status.st_ino,
        status.st_ctime_ns,  # a file that may be read now has no other mtime
        status.st_mtime_ns,
        status.st_size,
    )
