"""Reloads the configuration when its source has another one, such as changed files."""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from types import MappingProxyType
from typing import NamedTuple, Protocol

import structlog

from autoscaler.config import Config, ConfigError, load
from autoscaler.config.comparison import Comparison, FieldChange, compare
from autoscaler.config.problems import Problem
from autoscaler.config.reading import MOST_OF_A_FILE, digest
from autoscaler.config.settings import Sources
from autoscaler.config.sources import included, stat_of
from autoscaler.daemon.announcements import Announcements
from autoscaler.file_contents import read_bytes, stamp_of
from autoscaler.rendering import wording

RETRY_SECONDS = 30.0
"""How long after a failure a configuration is applied again, in seconds."""

_MOST_READS = 3
_MOST_LINES = 100
_MOST_FIELDS = 10
_NO_NUMBER = (
    "the number of this process is not known: run it with --shard N or AUTOSCALER_SHARD=N, N from "
    "0 on, or as a pod of a StatefulSet, whose name ends in -N"
)


class LoadedConfiguration(NamedTuple):
    """The content of a source: a configuration, and by name the errors of omitted documents."""

    config: Config
    refused: Mapping[str, ConfigError] = MappingProxyType({})


class ConfigSource(Protocol):
    """A source of configurations and their targets. All calls come from one thread."""

    def changed(self) -> bool:
        """Return whether there is a new content to read; called once a second."""
        ...

    def read(self) -> LoadedConfiguration:
        """Read everything. Raises ConfigError if none of it may be in force."""
        ...


class Reload:
    """Reads the configuration again on request, or when its source has another one.

    ``apply`` raises on failure; then the previous configuration stays in force, and it is tried
    again. An invalid one is read again only when it changes.
    """

    def __init__(
        self,
        config: Config,
        source: ConfigSource,
        apply: Callable[[Config], None],
        announcements: Announcements,
    ) -> None:
        self.config = config
        self._at_start = _without_targets(config)
        self._waits_for_restart = False
        self._apply = apply
        self._announcements = announcements
        self._log = structlog.get_logger()
        self._source = source
        self._again_at = math.inf

    def poll(self, now: float, *, asked: bool) -> bool:
        """Reload if necessary; return whether another configuration was applied.

        Call it once a second; ``now`` is of `clock.monotonic`.
        """
        due = now >= self._again_at
        return (self._source.changed() or asked or due) and self._reload(now)

    def _reload(self, now: float) -> bool:
        self._again_at = math.inf
        self._announcements.reloading()
        try:
            config, refused = self._source.read()
        except ConfigError as error:
            self._announcements.reload_refused(error)
            return False
        # Settings that wait for a restart differ from those at the daemon's start.
        waiting = compare(self._at_start, _without_targets(config)).at_restart
        comparison = replace(compare(self.config, config), at_restart=waiting)
        try:
            self._apply(config)
        except Exception as error:  # noqa: BLE001 - a failed reload must not stop the daemon
            self._again_at = now + RETRY_SECONDS
            self._announcements.reload_impossible(error)
            return False
        self.config = config
        self._log_changes(comparison, config)
        if self._waits_for_restart and not waiting:
            self._log.info("needs_no_restart", message="no change waits for a restart any more")
        self._waits_for_restart = bool(waiting)
        self._announcements.reloaded(config, refused)
        return True

    def _log_changes(self, comparison: Comparison, config: Config) -> None:
        """Log the changes: the totals, then a line for each target, up to a readable number."""
        self._log.info(
            "reloaded",
            message=_summed_up(comparison),
            added=len(comparison.added),
            removed=len(comparison.removed),
            changed=len(comparison.changed),
            settings=[str(change) for change in comparison.settings],
        )
        for change in comparison.at_restart:
            self._log.warning(
                "needs_restart", message=f"{change}; this takes effect when the daemon starts again"
            )
        stays = "is no longer a target; its replicas do not change"
        lines = [("target_added", key, "is a target now") for key in comparison.added]
        for key in comparison.removed:
            other = config.other_shard(key)
            lines.append(("target_removed", key, f"is of shard {other[0]} now" if other else stays))
        changed = comparison.changed.items()
        lines += [("target_changed", key, _some(fields)) for key, fields in changed]
        for event, key, what in lines[:_MOST_LINES]:
            self._log.info(event, target=key, message=what)
        if len(lines) > _MOST_LINES:
            left = len(lines) - _MOST_LINES
            self._log.info(
                "more_targets_changed", message=f"{left} more targets changed", targets=left
            )


def _without_targets(config: Config) -> Config:
    return config.model_copy(update={"targets": ()})


def _some(changes: Sequence[FieldChange]) -> str:
    shown = "; ".join(str(change) for change in changes[:_MOST_FIELDS])
    left = len(changes) - _MOST_FIELDS
    return shown if left <= 0 else f"{shown}; and {left} more"


def _summed_up(comparison: Comparison) -> str:
    counts = {word: len(getattr(comparison, word)) for word in ("added", "removed", "changed")}
    parts = [f"{wording.counted(n, 'target')} {word}" for word, n in counts.items() if n]
    parts += [str(change) for change in comparison.settings]
    if not parts:
        return "nothing has changed"
    return f"the new configuration is in force: {'; '.join(parts)}"


_Stamp = tuple[int, ...]
"""Changes when a file changes: device, inode, times of change and write, size."""


class FileSource:
    """A `ConfigSource` of files: all of them are in force, or none.

    With ``shadow`` every target is in shadow, whatever the files say; ``shard`` is this process'
    number if they have `shards`. It polls: inotify does not work on network file systems, and needs
    a watch on every folder along a path to notice the links of a mounted ConfigMap change.
    """

    def __init__(
        self, path: Path, sources: Sources, *, shadow: bool = False, shard: int | None = None
    ) -> None:
        self._path = path
        self._shadow, self._shard = shadow, shard
        self.rearm(sources)
        self._seen = self._stamps()

    def read(self) -> LoadedConfiguration:
        """Read the files as of one moment. Raises ConfigError for an error in any."""
        read = self._try()
        for _ in range(_MOST_READS - 1):
            if not self._differ():
                break
            read = self._try()
        if isinstance(read, ConfigError):
            raise read
        return LoadedConfiguration(self.own(read))

    def own(self, config: Config) -> Config:
        """Return the part of a configuration for this process; raises ConfigError."""
        if (config.shards or 1) > 1 and self._shard is None:
            problem = Problem(str(config.path), None, "shards", str(config.shards), _NO_NUMBER)
            raise ConfigError([problem], config.sources)
        config = config.of_shard(self._shard or 0)
        return config.in_shadow() if self._shadow else config

    def _try(self) -> Config | ConfigError:
        try:
            read: Config | ConfigError = load(self._path)
        except ConfigError as error:
            read = error
        self.rearm(read.sources)
        return read

    def rearm(self, sources: Sources) -> None:
        """Compare with these from now on: the files of the last load, valid or not."""
        self._sources = sources
        self._compared: dict[Path, _Stamp | None] | None = None

    def changed(self) -> bool:
        """Return once whether there is a new content to load; call it once a second.

        Files count when they have not changed between two calls, so that no half-written content is
        loaded; a rewritten file with the same content has not changed.
        """
        stamps = self._stamps()
        seen, self._seen = self._seen, stamps
        if stamps != seen or stamps == self._compared:
            return False
        self._compared = stamps
        return self._differ(stamps)

    def _differ(self, stamps: Mapping[Path, _Stamp | None] | None = None) -> bool:
        """Return whether the files changed while they were read; ``stamps`` are current."""
        contents = {path: _content(path) for path in stamps or self._stamps()}
        return contents != self._sources.digests

    def _stamps(self) -> dict[Path, _Stamp | None]:
        """Return the stamps of all files; None for one that does not exist."""
        main = next(iter(self._sources.digests))
        found = included(self._sources.include, main)
        named = {path: stat_of(path) for path in self._sources.unusable}
        statuses = {main: stat_of(main), **found.files, **named}
        stamps = {path: status and stamp_of(status) for path, status in statuses.items()}
        return stamps | dict.fromkeys(found.faults)


def _content(path: Path) -> str | None:
    try:
        return digest(read_bytes(path, MOST_OF_A_FILE))
    except (OSError, ValueError):  # The name is impossible for a file.
        return None
