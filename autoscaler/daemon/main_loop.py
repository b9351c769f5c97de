"""The main thread of the daemon: starts the syncs, and once a second checks what has changed."""

import gc
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from structlog.typing import FilteringBoundLogger

from autoscaler import clock
from autoscaler.adapters.cluster import WatchedCluster
from autoscaler.config import Config
from autoscaler.daemon.announcements import Announcements
from autoscaler.daemon.exposition import Metrics, Site
from autoscaler.daemon.health import Component, Health
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
"""However long the period, a sync takes no longer: what it read would be old by then."""

_PART_OF_PERIOD = 0.9

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
    """The parts of the daemon while it runs.

    ``config`` is what it starts with; ``ports`` returns the ports of a sync over connections.
    """

    config: Config
    signals: Signals
    telemetry: Telemetry
    gate: WriteGate
    cluster: WatchedCluster
    connections: ReplaceableConnections
    ports: Callable[[Connections], Ports]
    syncer: Syncer
    schedule: Schedule

    def __post_init__(self) -> None:
        telemetry = self.telemetry
        self.reload = Reload(self.config, self._reconfigure, telemetry.announcements, telemetry.log)

    def run(self) -> None:
        """Sync until a signal says stop."""
        announcements, config = self.telemetry.announcements, self.config
        led = self.gate.leading()
        ticks = self._ticks(config)
        self.schedule.swap(ticks, lambda: self._apply(config, ticks, self.connections.current))
        _keep_garbage_collection_rare()
        announcements.serving(config)
        while not self.signals.stop.wait(_POLL_SECONDS):
            self.schedule.poll()
            led, before = self.gate.leading(), led
            if led and not before:
                self.schedule.run_now()
            self._check_health()
            if self.reload.poll(clock.monotonic(), asked=self.signals.take_reload()):
                _keep_garbage_collection_rare()
        announcements.stopping()

    def _reconfigure(self, config: Config) -> None:
        """Go on with another configuration; the one before stays where this raises."""
        with self.connections.replaced(config) as connections:
            ticks = self._ticks(config)
            # The swap takes up to `HANGS_AFTER_SECONDS`, and the watchdog is not fed meanwhile.
            self._check_health()
            with self.telemetry.health.suspended():
                self.schedule.swap(ticks, lambda: self._apply(config, ticks, connections))
        self.telemetry.announcements.security(config)

    def _apply(self, config: Config, ticks: Sequence[Tick], connections: Connections) -> None:
        """Change targets and settings while no sync runs; ``ticks`` are the configuration's."""
        telemetry, targets = self.telemetry, config.targets
        self.cluster.set_targets(targets)
        telemetry.metrics.per_target = config.per_target_metrics
        telemetry.metrics.set_targets(targets)
        telemetry.log_reporter.retain({target.key for target in targets})
        writes = config.kubernetes.max_writes_per_second
        self.syncer.change(config.flags, self.ports(connections), targets, writes)
        self.syncer.register_cached(targets)
        if not targets:
            for server in (Component.PROMETHEUS, Component.KUBERNETES):
                telemetry.health.report(server, ok=True, message="there is no target to ask it for")
        telemetry.health.expect({tick.name: tick.period for tick in ticks})

    def _ticks(self, config: Config) -> list[Tick]:
        return [self._tick(slot) for slot in slots_of(config.targets)]

    def _tick(self, slot: Slot) -> Tick:
        def call(due: float) -> None:
            try:
                self.syncer.sync(slot.targets, clock.wall(), _budget(slot.period), due=due)
            finally:
                # Also where one target has a defect: the others were synced.
                self.telemetry.health.sync_completed(tick.name)

        tick = Tick(call, slot.period, slot.offset)
        return tick

    def _check_health(self) -> None:
        """Report whether the watches are synced, and feed the watchdog while no sync hangs."""
        health, synced = self.telemetry.health, self.cluster.wait_synced(clock.monotonic())
        message = (
            "every watch that is permitted has its objects"
            if synced
            else "watches are not there yet"
        )
        health.report(Component.CACHES, ok=synced, message=message)
        if health.stalled() is None:
            self.telemetry.notifier.watchdog()


def _budget(period: float) -> float:
    """Return the seconds that a sync may take: it ends before the next one is due.

    One that took all of its period, as when an object hangs, would have the next one left out.
    """
    return min(_PART_OF_PERIOD * period, LONGEST_SYNC_SECONDS)


def _keep_garbage_collection_rare() -> None:
    """Leave long-lived objects out of garbage collection, and collect less often.

    With thousands of targets a full collection costs as much as a sync; syncs make hardly any
    cycles.  What a reload has replaced is freed before.
    """
    gc.unfreeze()
    gc.collect()
    gc.freeze()
    gc.set_threshold(100_000, 20, 50)
