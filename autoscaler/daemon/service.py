"""The daemon: its parts are opened in order, and its main thread runs them until a signal.

The main thread polls leadership, health and reloads.
"""

import gc
import socket
import threading
from collections.abc import Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from contextlib import ExitStack
from functools import partial

from autoscaler import clock
from autoscaler.config import Config
from autoscaler.config.comparison import only_targets_differ
from autoscaler.core.target import Target, TargetName
from autoscaler.daemon.announcements import Announcements
from autoscaler.daemon.connections import (
    ConnectedCluster,
    Connections,
    UnreachedCluster,
    alike,
    allow_many_connections,
    lacked_rights,
    wait_for_watches,
)
from autoscaler.daemon.listeners import open_listeners
from autoscaler.daemon.no_series import NoSeriesReporter
from autoscaler.daemon.objects import ObjectSource, ObjectStates
from autoscaler.daemon.recording import open_recording
from autoscaler.daemon.reload import RETRY_SECONDS, ConfigSource, FileSource, Reload
from autoscaler.daemon.reporting import LogReporter, Reporters
from autoscaler.daemon.schedule import SyncSchedule
from autoscaler.daemon.service_manager import Notifier, Signals
from autoscaler.daemon.state_directory import Memory, await_turn, look_for_releases, open_memory
from autoscaler.kubernetes import ConnectError
from autoscaler.kubernetes.election import ClusterLeader
from autoscaler.kubernetes.leadership import unique
from autoscaler.kubernetes.objects import ObjectWatch
from autoscaler.persistence.record import DirectoryRecord
from autoscaler.rendering.history_lines import lines
from autoscaler.sync.ports import Ports, Reporter
from autoscaler.sync.run import Syncer
from autoscaler.sync.slots import Slot, slots_of
from autoscaler.telemetry.health import Component, Health, part_of
from autoscaler.telemetry.metrics import Metrics
from autoscaler.web import api, pages
from autoscaler.web.site import Site, Views

SYNCED_WITHIN_SECONDS = 10.0
"""How long the first sync waits for the watches, in seconds; uncached objects are read."""

OBJECTS_WITHIN_SECONDS = 30.0
"""How long the start waits for the first list of objects, in seconds; later ones are targets as
soon as they are listed, without the histories of an earlier run."""

WATCHED_WITHIN_SECONDS = 1.0
"""How long a reload waits for new watches, in seconds."""

LONGEST_SYNC_SECONDS = 30.0
"""The longest sync in seconds, however long its period: its data would be outdated."""

_POLL_SECONDS = 1.0
_STOP_CHECK_SECONDS = 0.2


def serve(config: Config, *, shadow: bool = False, shard: int | None = None) -> None:
    """Sync the configuration's targets until SIGTERM or SIGINT; SIGHUP reloads it.

    With ``shadow`` all of them are in shadow; ``shard`` is this process' number of ``shards``. A
    write that has begun is finished before this returns. Raises ConfigError if the number is needed
    and missing, ConnectError if no cluster can be reached, ListenError if an address cannot be
    used. For the main thread.
    """
    source = FileSource(config.path, config.sources, shadow=shadow, shard=shard)
    config, signals = source.own(config), Signals()
    signals.listen()
    allow_many_connections()
    with ExitStack() as stack:
        telemetry = Telemetry(config, stack)
        if _has_turn(config, telemetry.announcements, signals.stop, stack):
            MainLoop(config, signals, stack, telemetry, source, shadow=shadow).run()
    telemetry.announcements.stopped(signals.received)


def _has_turn(
    config: Config, announcements: Announcements, stop: threading.Event, stack: ExitStack
) -> bool:
    """Wait until no other daemon uses the state directory; False if the daemon must stop."""
    directory = config.state_directory
    if directory is None or config.leader_election.enabled:
        return True
    turn = await_turn(directory, stop, partial(announcements.stands_by, directory), stack)
    if turn:
        announcements.takes_turn()
    return turn


class Telemetry:
    """The log, the metrics, the health, and their reporters; the HTTP listener answers."""

    def __init__(self, config: Config, stack: ExitStack) -> None:
        self.health = Health()
        several = frozenset(cluster.name for cluster in config.clusters or ())
        per_target = config.per_target_metrics
        self.metrics = Metrics(self.health, per_target=per_target, clusters=several)
        self.notifier = stack.enter_context(Notifier())
        instruments = self.metrics.instruments
        self.announcements = Announcements(self.health, instruments, self.notifier)
        self.log_reporter = LogReporter()
        site = self.site = Site(self.metrics, self.health)
        self.announcements.security(config)
        routes = [*api.routes(lambda: site.views), *pages.routes(lambda: site.views)]
        open_listeners(config, site, routes, self.announcements, stack)


class MainLoop:
    """Opens all parts of the daemon and runs them; ``stack`` closes them, the last opened first.

    Later configurations come from ``source``, by default the files of ``config``; the objects in
    the clusters are added to them, with ``shadow`` in shadow.
    """

    def __init__(
        self,
        config: Config,
        signals: Signals,
        stack: ExitStack,
        telemetry: Telemetry | None = None,
        source: ConfigSource | None = None,
        *,
        shadow: bool = False,
    ) -> None:
        self.config = config
        self.signals = signals
        self.telemetry = telemetry = telemetry or Telemetry(config, stack)
        announcements, metrics = telemetry.announcements, telemetry.metrics
        self.connections = self._connected()
        # A reload replaces them.
        stack.callback(lambda: self.connections.close())  # noqa: PLW0108
        announcements.serves(config.connections.keys())
        source = source or FileSource(config.path, config.sources)
        self.source = ObjectSource(
            source, config, self._object_watches, self._tell_objects, shadow=shadow
        )
        listed = self._begin_objects()
        self.config = config = self.source.first()
        metrics.event_counts = lambda: self.connections.event_counts()  # noqa: PLW0108
        memory = open_memory(config, announcements, metrics, stack, forgets=listed)
        self._memory = memory
        recording = open_recording(config, announcements, metrics, stack)
        self._begin_watches()
        self._no_series = stack.enter_context(
            NoSeriesReporter(metrics.states.find, announcements.no_series, announcements.fault)
        )
        self._reporters: list[Reporter] = [
            *(announcements, telemetry.log_reporter, metrics, self._no_series),
            *([] if recording.recorder is None else [recording.recorder]),
        ]
        self.syncer = stack.enter_context(self._new_syncer(memory))
        metrics.breakers = self.syncer.breaker_statuses
        schedule = SyncSchedule(signals.stop, metrics.instruments, self._sync, memory.steps)
        self.schedule = stack.enter_context(schedule)
        self._rights_asked = threading.Thread()
        self._targets: Sequence[Target] = ()
        """The targets that are synced."""
        self._reach_again_at = clock.monotonic() + RETRY_SECONDS
        self.reload = Reload(config, self.source, self._reconfigure, announcements)
        telemetry.site.history_lines = self._history_lines
        telemetry.site.views = self._views(recording.reader)

    def _connected(self) -> Connections:
        """Open the connections; a changed Lease waits for a restart."""
        stop, announcements = self.signals.stop, self.telemetry.announcements
        election = self.config.leader_election
        # The unique identity of this process in the Leases of all clusters.
        process = unique(election.identity or socket.gethostname())
        connect = partial(ConnectedCluster, election, process, stop, announcements)
        return Connections(self.config, connect, stop, announcements)

    def _object_watches(self) -> Mapping[str, ObjectWatch]:
        return {name: cluster.objects for name, cluster in self._clusters.items()}

    def _begin_objects(self) -> bool:
        """Watch the objects that may be targets; return whether all of them are known in time."""
        for cluster in self._clusters.values():
            cluster.set_objects(self.config.objects)
        end = clock.monotonic() + OBJECTS_WITHIN_SECONDS
        for watch in self._object_watches().values():
            while not watch.wait_settled(min(end, clock.monotonic() + _STOP_CHECK_SECONDS)):
                if clock.monotonic() >= end or self.signals.stop.is_set():
                    return False
        return not self.connections.unreached

    def _tell_objects(self, states: ObjectStates) -> None:
        """Pass the states of objects to the writers of their status, and to the log."""
        for name, cluster in self._clusters.items():
            if cluster.statuses is not None:
                accepted = states.accepted_in(name)
                cluster.statuses.configure_objects(accepted)
                cluster.statuses.refuse(states.refused_in(name))
        self.telemetry.announcements.objects(
            len(states.accepted),
            {"/".join(filter(None, key)): why for key, (_, why) in states.refused.items()},
        )

    def _begin_watches(self) -> None:
        clusters, stop = [*self._clusters.values()], self.signals.stop
        for cluster in clusters:
            cluster.set_targets(self.config.targets)
        wait_for_watches(clusters, stop, SYNCED_WITHIN_SECONDS, _STOP_CHECK_SECONDS)

    def _new_syncer(self, memory: Memory) -> Syncer:
        """Return the state with an earlier run's histories and breakers."""
        syncer = Syncer(
            self.config.flags,
            self._ports(self.connections),
            self.signals.stop,
            _writes_per_second(self.config),
            known=memory.known,
            steps=memory.steps,
        )
        syncer.last_sync.update(memory.decided)
        syncer.breakers.resume(memory.breakers, clock.wall(), clock.steady())
        return syncer

    def _views(self, record: DirectoryRecord | None) -> Views:
        telemetry, elects = self.telemetry, self.config.leader_election.enabled
        return Views(
            states=telemetry.metrics.states,
            health=telemetry.health,
            config=lambda: self.reload.config,
            record=record,
            breakers=self.syncer.breaker_statuses,
            leaders=lambda: self._leaders() if elects else None,
        )

    @property
    def _clusters(self) -> Mapping[str, ConnectedCluster]:
        return self.connections.clusters

    def _led(self) -> frozenset[str]:
        """Return the clusters that this process leads."""
        return frozenset(name for name, cluster in self._clusters.items() if cluster.gate.leading())

    def _leaders(self) -> list[ClusterLeader]:
        """Return the leader of each cluster, in the order of the configuration."""
        clusters = self._clusters
        return [
            clusters[name].gate.leader(name)
            if name in clusters
            else ClusterLeader(name, leading=False)
            for name in self.reload.config.connections
        ]

    def run(self) -> None:
        """Sync until a signal to stop."""
        announcements, stop = self.telemetry.announcements, self.signals.stop
        led_before = self._led()
        threading.Thread(target=self._attend, name="attend", daemon=True).start()
        # The files may have changed since they were read: the daemon may have waited as a standby.
        if not self._reloads():
            self._swap(self.config, self.connections)
            self._ask_rights(self.config)
        _tune_garbage_collection()
        announcements.serving(self.reload.config)
        if self.config.state_directory is not None:
            # A change of the directory waits for a restart.
            refused = announcements.release_refused
            look_for_releases(self.config.state_directory, stop, self.syncer.release, refused)
        while not stop.wait(_POLL_SECONDS):
            self.schedule.follow_clock()
            led = self._led()
            if led - led_before:
                # The leader before may have written other statuses.
                self.source.tell_again()
                self.schedule.run_part(partial(_is_in, led - led_before))
            led_before = led
            self._report_caches()
            self.telemetry.announcements.follow_health()
            self._reach_again()
            self._feed_watchdog()
            if self._reloads():
                _tune_garbage_collection()
        self.telemetry.notifier.stopping()

    def _attend(self) -> None:
        """Note each second that the process runs, also while a reload blocks the main thread."""
        while not self.signals.stop.wait(_POLL_SECONDS):
            try:
                for cluster in self._clusters.values():
                    cluster.caches.attend()
            except Exception as error:  # noqa: BLE001 - otherwise each later sync lists everything again
                self.telemetry.announcements.fault(error)

    def _reloads(self) -> bool:
        return self.reload.poll(clock.monotonic(), asked=self.signals.take_reload())

    def _reconfigure(self, config: Config) -> None:
        """Switch to another configuration; the current one stays in use if this raises."""
        if (config.clusters is None) is not (self.config.clusters is None):
            raise ConnectError("`clusters` begins and ends when the daemon starts again")
        self._switch(config, at_once=not only_targets_differ(self.reload.config, config))
        self.telemetry.announcements.security(config)
        self._ask_rights(config)

    def _switch(self, config: Config, *, at_once: bool) -> None:
        with self.connections.replaced(config) as connections:
            # The swap takes up to `HANGS_AFTER_SECONDS`, and the watchdog is not fed meanwhile.
            self._feed_watchdog()
            with self.telemetry.health.suspended():
                self._swap(config, connections, at_once=at_once)
            self.connections = connections
        # A cluster with a new connection has a new writer of statuses.
        self.source.tell_again()

    def _swap(self, config: Config, connections: Connections, *, at_once: bool = True) -> None:
        slots = slots_of(config.targets)
        change = partial(self._apply, config, slots, connections)
        before = {target.key: target for target in self._targets if target.object_name}
        soon = {
            target.key
            for target in config.targets
            if target.object_name and before.get(target.key) != target
        }
        self.schedule.swap(slots, change, at_once=at_once, soon=soon)
        self._targets = config.targets

    def _reach_again(self) -> None:
        """Connect again to unreached clusters from time to time."""
        now = clock.monotonic()
        if not self.connections.unreached or now < self._reach_again_at:
            return
        self._reach_again_at = now + RETRY_SECONDS
        config = self.reload.config
        try:
            self._switch(config, at_once=False)
        except Exception as error:  # noqa: BLE001 - other clusters continue
            self.telemetry.announcements.fault(error)

    def _ask_rights(self, config: Config) -> None:
        """Ask on a thread which rights are missing, unless the last questions are still pending."""
        announcements = self.telemetry.announcements

        def ask() -> None:
            try:
                apis = {name: cluster.api for name, cluster in self._clusters.items()}
                for sentence in alike(apis):
                    announcements.alike(sentence)
                lacked = lacked_rights(apis, config, config.targets)
                announcements.rights_lacked([right.sentence for right in lacked])
            except Exception as error:  # noqa: BLE001 - scaling continues without it
                announcements.fault(error)

        if not self._rights_asked.is_alive():
            self._rights_asked = threading.Thread(target=ask, name="rights", daemon=True)
            self._rights_asked.start()

    def _apply(self, config: Config, slots: Sequence[Slot], connections: Connections) -> None:
        """Switch to a configuration while no sync runs of a changed or removed target."""
        telemetry, targets = self.telemetry, config.targets
        for cluster in connections.clusters.values():
            cluster.set_objects(config.objects)
            cluster.set_targets(targets)
        # Else the first sync of a target in a new namespace would find nothing.
        clusters, stop = [*connections.clusters.values()], self.signals.stop
        wait_for_watches(clusters, stop, WATCHED_WITHIN_SECONDS, _STOP_CHECK_SECONDS)
        telemetry.announcements.serves(config.connections.keys())
        telemetry.announcements.unreached(connections.unreached)
        telemetry.metrics.per_target = config.per_target_metrics
        writes, ports = _writes_per_second(config), self._ports(connections)
        self.syncer.change(config.flags, ports, targets, writes, config.breaker)
        self.syncer.register_cached(targets)
        telemetry.health.expect({slot.name: slot.period for slot in slots})

    def _ports(self, connections: Connections) -> Ports:
        self._no_series.use(connections.prometheus)
        return Ports(
            metrics=connections.prometheus,
            clusters={
                **{name: cluster.caches for name, cluster in connections.clusters.items()},
                **{name: UnreachedCluster(why) for name, why in connections.unreached.items()},
            },
            reporter=Reporters(self._reporters, connections.reporters()),
            history_store=self._memory.history_store,
        )

    def _sync(
        self, slot: Slot, targets: Sequence[Target], seconds: float, due: float | None
    ) -> None:
        try:
            self.syncer.sync(targets, clock.wall(), min(seconds, LONGEST_SYNC_SECONDS), due=due)
        finally:
            # Also if the sync of one target raises: the others were synced.
            if due is not None:
                self.telemetry.health.sync_completed(slot.name)

    def _report_caches(self) -> None:
        for name, cluster in self._clusters.items():
            now = clock.monotonic()
            synced = cluster.caches.wait_synced(now) and cluster.objects.wait_settled(now)
            there = "every watch that is permitted has its objects"
            message = there if synced else "watches are not there yet"
            component = part_of(Component.CACHES, name)
            self.telemetry.health.report(component, ok=synced, message=message)

    def _feed_watchdog(self) -> None:
        """Tell the service manager that the daemon is alive, unless a sync hangs."""
        if self.telemetry.health.stalled() is None:
            self.telemetry.notifier.watchdog()

    def _history_lines(self) -> Iterator[bytes]:
        now = clock.wall()
        histories = self.syncer.histories.snapshot(now, clock.steady())
        return lines(now, histories, leads=bool(self._led()))


def _is_in(clusters: AbstractSet[str], target: str) -> bool:
    return TargetName.parse(target).cluster in clusters


def _writes_per_second(config: Config) -> dict[str, float]:
    return {name: settings.max_writes_per_second for name, settings in config.connections.items()}


def _tune_garbage_collection() -> None:
    """Free what a reload replaced, and rarely collect garbage, which delays large syncs."""
    gc.unfreeze()
    gc.collect()
    gc.freeze()
    gc.set_threshold(100_000, 20, 50)
