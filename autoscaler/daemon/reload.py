"""Another configuration for the running daemon: all of it at once between two syncs, or nothing."""

import math
import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from structlog.typing import FilteringBoundLogger

from autoscaler.app import wording
from autoscaler.config import Config, ConfigError, load
from autoscaler.config.comparison import Comparison, FieldChange, compare
from autoscaler.config.inclusion import included, stat_of
from autoscaler.config.settings import Sources
from autoscaler.config.sources import MOST_OF_A_FILE, digest
from autoscaler.daemon.announcements import Announcements
from autoscaler.file_contents import read_bytes

RETRY_SECONDS = 30.0
"""After how long it is tried again to put a configuration in force."""

_MOST_READS = 3
_MOST_LINES = 100
_MOST_FIELDS = 10


class Reload:
    """Reads the configuration again when it is asked to, or when a file of it changed.

    ``put_in_force`` raises where it cannot; the configuration before stays then, and it is tried
    again.  A file with mistakes is not: they stay until it changes.
    """

    def __init__(
        self,
        config: Config,
        put_in_force: Callable[[Config], None],
        announcements: Announcements,
        log: FilteringBoundLogger,
    ) -> None:
        self.config = config
        self._at_start = _without_targets(config)
        self._waits_for_restart = False
        self._put_in_force = put_in_force
        self._announcements = announcements
        self._log = log
        self._files = FileWatch(config.sources)
        self._again_at = math.inf

    def poll(self, now: float, *, asked: bool) -> bool:
        """Reload if that is ``asked`` for, the files hold something else, or it is time to retry.

        To be called once a second; ``now`` is of `clock.monotonic`.  Returns whether another
        configuration came into force.
        """
        due = now >= self._again_at
        return (self._files.changed() or asked or due) and self._reload(now)

    def _reload(self, now: float) -> bool:
        self._again_at = math.inf
        self._announcements.reloading()
        try:
            config = self._read()
        except ConfigError as error:
            self._announcements.reload_refused(error, self.config)
            return False
        # What waits for a restart differs from what the daemon was started with.
        waiting = compare(self._at_start, _without_targets(config)).at_restart
        comparison = replace(compare(self.config, config), at_restart=waiting)
        try:
            self._put_in_force(config)
        except Exception as error:  # noqa: BLE001 - what runs goes on, whatever a reload meets
            self._again_at = now + RETRY_SECONDS
            self._announcements.reload_impossible(error, self.config)
            return False
        self.config = config
        _tell(self._log, comparison)
        if self._waits_for_restart and not waiting:
            self._log.info("needs_no_restart", message="no change waits for a restart any more")
        self._waits_for_restart = bool(waiting)
        self._announcements.reloaded(config)
        return True

    def _read(self) -> Config:
        """Read the files, again if they were written meanwhile: all must be of one moment."""
        read = self._try()
        for _ in range(_MOST_READS - 1):
            if not self._files.differ():
                break
            read = self._try()
        if isinstance(read, ConfigError):
            raise read
        return read

    def _try(self) -> Config | ConfigError:
        try:
            read: Config | ConfigError = load(self.config.path)
        except ConfigError as error:
            read = error
        self._files.rearm(read.sources)
        return read


def _without_targets(config: Config) -> Config:
    return replace(config, targets=())


def _some(changes: Sequence[FieldChange]) -> str:
    shown = "; ".join(str(change) for change in changes[:_MOST_FIELDS])
    left = len(changes) - _MOST_FIELDS
    return shown if left <= 0 else f"{shown}; and {left} more"


def _tell(log: FilteringBoundLogger, comparison: Comparison) -> None:
    """Log what changed: the sum, then a line for each target, as many as can be read."""
    log.info(
        "reloaded",
        message=_summed_up(comparison),
        added=len(comparison.added),
        removed=len(comparison.removed),
        changed=len(comparison.changed),
        settings=[str(change) for change in comparison.settings],
    )
    for change in comparison.at_restart:
        log.warning(
            "needs_restart", message=f"{change}; this takes effect when the daemon starts again"
        )
    lines = [
        *(("target_added", key, "is a target now") for key in comparison.added),
        *(
            ("target_removed", key, "is no target any more; its replicas stay as they are")
            for key in comparison.removed
        ),
        *(("target_changed", change.key, _some(change.fields)) for change in comparison.changed),
    ]
    for event, key, what in lines[:_MOST_LINES]:
        log.info(event, target=key, message=what)
    if len(lines) > _MOST_LINES:
        left = len(lines) - _MOST_LINES
        log.info("more_targets_changed", message=f"{left} more targets changed", targets=left)


def _summed_up(comparison: Comparison) -> str:
    counts = (
        (len(comparison.added), "added"),
        (len(comparison.removed), "removed"),
        (len(comparison.changed), "changed"),
    )
    parts = [f"{wording.counted(count, 'target')} {word}" for count, word in counts if count]
    parts += [str(change) for change in comparison.settings]
    if not parts:
        return "nothing has changed"
    return f"the new configuration is in force: {'; '.join(parts)}"


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
