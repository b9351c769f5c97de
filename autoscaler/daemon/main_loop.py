"""The main thread of the daemon: starts the syncs; polls leadership, health and reloads."""

import gc
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from structlog.typing import FilteringBoundLogger

from autoscaler import clock
from autoscaler.adapters.cluster import WatchedCluster
from autoscaler.config import Config
from autoscaler.daemon.announcements import Announcements
from autoscaler.daemon.exposition import Metrics, Site
from autoscaler.daemon.health import NOT_ASKED, Component, Health
from autoscaler.daemon.recording import Recorder
from autoscaler.daemon.release_requests import ReleaseRequests
from autoscaler.daemon.reload import Reload
from autoscaler.daemon.reporting import LogReporter
from autoscaler.daemon.schedule import Schedule, Tick
from autoscaler.daemon.service_manager import Notifier, Signals
from autoscaler.daemon.wiring import Connections, ReplaceableConnections
from autoscaler.sync.ports import Ports
from autoscaler.sync.slots import Slot, slots_of
from autoscaler.sync.syncer import Syncer
from autoscaler.transport.write_gate import WriteGate

LONGEST_SYNC_SECONDS = 30.0
"""A sync takes no longer, however long its period: what it read would be outdated."""

_MOST_OF_PERIOD = 0.9
"""The part of its period that a sync may take; the next one is left out while it runs."""

_POLL_SECONDS = 1.0


@dataclass(frozen=True, slots=True)
class Telemetry:
    """The log, the metrics, the health, and what reports to them."""

    log: FilteringBoundLogger
    health: Health
    metrics: Metrics
    site: Site
    notifier: Notifier
    announcements: Announcements
    log_reporter: LogReporter


@dataclass
class MainLoop:
    """The parts of the running daemon.

    ``config`` is the configuration at the start; ``ports`` returns the ports of syncs that use the
    given connections.
    """

    config: Config
    signals: Signals
    telemetry: Telemetry
    gate: WriteGate
    cluster: WatchedCluster
    connections: ReplaceableConnections
    ports: Callable[[Connections], Ports]
    syncer: Syncer
    recorder: Recorder | None
    schedule: Schedule

    def __post_init__(self) -> None:
        telemetry = self.telemetry
        self.reload = Reload(self.config, self._reconfigure, telemetry.announcements, telemetry.log)

    def run(self) -> None:
        """Sync until a signal says stop."""
        announcements, config = self.telemetry.announcements, self.config
        was_leader = self.gate.leading()
        ticks = self._ticks(config)
        self.schedule.swap(ticks, lambda: self._apply(config, ticks, self.connections.current))
        _tune_garbage_collection()
        announcements.serving(config)
        # The directory is that of the start: a change of it waits for a restart.
        directory, refused = config.state_directory, announcements.release_refused
        with ReleaseRequests(directory, self.syncer.release, refused):
            while not self.signals.stop.wait(_POLL_SECONDS):
                self.schedule.poll()
                is_leader = self.gate.leading()
                if is_leader and not was_leader:
                    self.schedule.run_now()
                was_leader = is_leader
                self._report_caches()
                self._feed_watchdog()
                if self.reload.poll(clock.monotonic(), asked=self.signals.take_reload()):
                    _tune_garbage_collection()
        announcements.stopping()

    def _reconfigure(self, config: Config) -> None:
        """Switch to another configuration; the current one stays in use if this raises."""
        with self.connections.replaced(config) as connections:
            ticks = self._ticks(config)
            # The swap takes up to `HANGS_AFTER_SECONDS`, and the watchdog is not fed meanwhile.
            self._feed_watchdog()
            with self.telemetry.health.suspended():
                self.schedule.swap(ticks, lambda: self._apply(config, ticks, connections))
        self.telemetry.announcements.security(config)

    def _apply(self, config: Config, ticks: Sequence[Tick], connections: Connections) -> None:
        """Switch to a configuration, its ``ticks`` and ``connections``, while no sync runs."""
        telemetry, targets = self.telemetry, config.targets
        self.cluster.set_targets(targets)
        telemetry.metrics.per_target = config.per_target_metrics
        telemetry.metrics.set_targets(targets)
        telemetry.log_reporter.retain({target.key for target in targets})
        if self.recorder is not None:
            self.recorder.configure(targets, config.flags)
        writes = config.kubernetes.max_writes_per_second
        ports, breaker = self.ports(connections), config.breaker
        self.syncer.change(config.flags, ports, targets, writes, breaker)
        self.syncer.register_cached(targets)
        telemetry.announcements.asks(
            {query.server for target in targets for query in target.all_queries}
        )
        if not targets:
            telemetry.health.report(Component.KUBERNETES, ok=True, message=NOT_ASKED)
        telemetry.health.expect({tick.name: tick.period for tick in ticks})

    def _ticks(self, config: Config) -> list[Tick]:
        return [self._tick(slot) for slot in slots_of(config.targets)]

    def _tick(self, slot: Slot) -> Tick:
        def call(due: float) -> None:
            try:
                self.syncer.sync(slot.targets, clock.wall(), _budget(slot.period), due=due)
            finally:
                # Also if the sync of one target raises: the others were synced.
                self.telemetry.health.sync_completed(tick.name)

        tick = Tick(call, slot.period, slot.offset)
        return tick

    def _report_caches(self) -> None:
        """Report to the health whether the watches are synced."""
        synced = self.cluster.wait_synced(clock.monotonic())
        message = (
            "every watch that is permitted has its objects"
            if synced
            else "watches are not there yet"
        )
        self.telemetry.health.report(Component.CACHES, ok=synced, message=message)

    def _feed_watchdog(self) -> None:
        """Tell the service manager that the daemon is alive, unless a sync hangs."""
        if self.telemetry.health.stalled() is None:
            self.telemetry.notifier.watchdog()


def _budget(period: float) -> float:
    """Return the seconds that a sync may take: it ends before the next one is due."""
    return min(_MOST_OF_PERIOD * period, LONGEST_SYNC_SECONDS)


def _tune_garbage_collection() -> None:
    """Free what a reload replaced, exempt the rest from garbage collection, and collect rarely.

    With thousands of targets a full collection costs as much as a sync; syncs make few cycles.
    """
    gc.unfreeze()
    gc.collect()
    gc.freeze()
    gc.set_threshold(100_000, 20, 50)
