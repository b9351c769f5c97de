"""Another configuration for the running daemon: all of it at once between two syncs, or nothing."""

import math
from collections.abc import Callable, Sequence
from dataclasses import replace

from structlog.typing import FilteringBoundLogger

from autoscaler.config import Config, ConfigError, load
from autoscaler.config.comparison import Comparison, FieldChange, compare
from autoscaler.daemon.announcements import Announcements
from autoscaler.daemon.file_watch import FileWatch
from autoscaler.rendering import wording

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

    def look(self, now: float, *, asked: bool) -> bool:
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
