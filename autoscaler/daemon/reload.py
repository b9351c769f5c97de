"""Reloads the configuration when its files change: all of it between two syncs, or nothing."""

import math
import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from structlog.typing import FilteringBoundLogger

from autoscaler.config import Config, ConfigError, load
from autoscaler.config.comparison import Comparison, FieldChange, compare
from autoscaler.config.settings import Sources
from autoscaler.config.sources import MOST_OF_A_FILE, digest, included, stat_of
from autoscaler.daemon.announcements import Announcements
from autoscaler.file_contents import read_bytes
from autoscaler.rendering import wording

RETRY_SECONDS = 30.0
"""How long after a failure a configuration is applied again."""

_MOST_READS = 3
_MOST_LINES = 100
_MOST_FIELDS = 10


class Reload:
    """Reads the configuration again on request, or when a file of it changed.

    ``apply`` raises where it fails; the configuration before stays then, and `apply` is tried
    again.  A file with mistakes is read again only when it changes.
    """

    def __init__(
        self,
        config: Config,
        apply: Callable[[Config], None],
        announcements: Announcements,
        log: FilteringBoundLogger,
    ) -> None:
        self.config = config
        self._at_start = _without_targets(config)
        self._waits_for_restart = False
        self._apply = apply
        self._announcements = announcements
        self._log = log
        self._files = FileWatch(config.sources)
        self._again_at = math.inf

    def poll(self, now: float, *, asked: bool) -> bool:
        """Reload if that is ``asked`` for, the files hold something else, or it is time to retry.

        Call it once a second; ``now`` is of `clock.monotonic`.  Returns whether another
        configuration was applied.
        """
        due = now >= self._again_at
        return (self._files.changed() or asked or due) and self._reload(now)

    def _reload(self, now: float) -> bool:
        self._again_at = math.inf
        self._announcements.reloading()
        try:
            config = self._read()
        except ConfigError as error:
            self._announcements.reload_refused(error)
            return False
        # What waits for a restart differs from what the daemon was started with.
        waiting = compare(self._at_start, _without_targets(config)).at_restart
        comparison = replace(compare(self.config, config), at_restart=waiting)
        try:
            self._apply(config)
        except Exception as error:  # noqa: BLE001 - what runs goes on, whatever a reload meets
            self._again_at = now + RETRY_SECONDS
            self._announcements.reload_impossible(error)
            return False
        self.config = config
        _log_changes(self._log, comparison)
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
    return config.model_copy(update={"targets": ()})


def _some(changes: Sequence[FieldChange]) -> str:
    shown = "; ".join(str(change) for change in changes[:_MOST_FIELDS])
    left = len(changes) - _MOST_FIELDS
    return shown if left <= 0 else f"{shown}; and {left} more"


def _log_changes(log: FilteringBoundLogger, comparison: Comparison) -> None:
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
"""Changes when a file does: device, inode, times of change and write, size."""


class FileWatch:
    """Notices that the files of the configuration differ from what was loaded.

    It polls, since inotify says nothing of network file systems, needs a watch on every folder
    along a path to see the links of a mounted ConfigMap change, and would still have to be
    followed by this comparison of contents.  All calls come from one thread.
    """

    def __init__(self, sources: Sources) -> None:
        self.rearm(sources)
        self._seen = self._stamps()

    def rearm(self, sources: Sources) -> None:
        """Compare with these from now on: what the last load read, valid or not."""
        self._sources = sources
        self._compared: dict[Path, _Stamp | None] | None = None

    def changed(self) -> bool:
        """Return whether there is something else to load; call it once a second.

        A change is returned once.  Files count when they did not change from one call to the
        next, so that one that is being written is not loaded in halves; one that was written
        anew with the same content has not changed.
        """
        stamps = self._stamps()
        seen, self._seen = self._seen, stamps
        if stamps != seen or stamps == self._compared:
            return False
        self._compared = stamps
        return self._differ(stamps)

    def differ(self) -> bool:
        """Return whether the files changed while they were read."""
        return self._differ(self._stamps())

    def _differ(self, stamps: Mapping[Path, _Stamp | None]) -> bool:
        contents = {path: _content(path) for path in stamps}
        return contents != self._sources.digests

    def _stamps(self) -> dict[Path, _Stamp | None]:
        """Return the stamps of the main file, of what `include` matches, and of what was missing.

        None is a file that does not exist.
        """
        main = next(iter(self._sources.digests))
        found = included(self._sources.include, main)
        named = {path: stat_of(path) for path in self._sources.unusable}
        statuses = {main: stat_of(main), **found.files, **named}
        return {path: _stamp(status) for path, status in statuses.items()} | dict.fromkeys(
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
