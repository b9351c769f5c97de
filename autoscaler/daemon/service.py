"""The daemon: syncs until a signal says stop.  Everything is put together here."""

import gc
import math
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, closing
from dataclasses import replace

import structlog
from structlog.typing import FilteringBoundLogger

from autoscaler import clock
from autoscaler.adapters.cluster import Api, ClusterEndpoint, find_api_server
from autoscaler.app.history_lines import lines
from autoscaler.app.ports import Ports, Reporter
from autoscaler.app.slots import Slot, slots_of
from autoscaler.app.sync import Syncer
from autoscaler.config import Address, Config
from autoscaler.config.security import warnings_of, warnings_of_access
from autoscaler.daemon.announcements import Announcements
from autoscaler.daemon.events import EventCounts
from autoscaler.daemon.exposition import Listener, Metrics, RequestsSeen, Site
from autoscaler.daemon.health import Component, Health
from autoscaler.daemon.leadership import Leadership, standing_for_election
from autoscaler.daemon.memory import open_memory
from autoscaler.daemon.notify import Notifier
from autoscaler.daemon.reload import Reload
from autoscaler.daemon.reporting import LogReporter, Reporters
from autoscaler.daemon.schedule import Schedule, Tick
from autoscaler.daemon.signals import Signals
from autoscaler.daemon.wiring import Connections, Surroundings, watch, watched_cluster

LONGEST_SYNC_SECONDS = 30.0
"""However long the period, a sync takes no longer: what it read would be old by then."""

_PART_OF_PERIOD = 0.9

_LOOK_SECONDS = 1.0
"""How often the main thread looks after the clock, the files and the health."""


def serve(config: Config) -> None:
    """Sync the configuration's targets until SIGTERM or SIGINT; SIGHUP reads it again.

    The write in hand is finished before this returns.  Raises ConnectError when there is no
    usable way to a cluster, ListenError when the address cannot be listened on.  Must be called
    on the main thread, which alone gets signals.
    """
    signals = Signals()
    signals.listen()
    with ExitStack() as stack:
        daemon = Daemon(config, signals, stack)
        daemon.run()
    daemon.announce_end()


class Daemon:
    """One run of the daemon; ``stack`` closes its parts, the last opened first."""

    def __init__(self, config: Config, signals: Signals, stack: ExitStack) -> None:
        self._signals = signals
        self._log: FilteringBoundLogger = structlog.get_logger()
        self._health = Health()
        self._metrics = Metrics(self._health, per_target=config.per_target_metrics)
        self._site = Site(self._metrics, self._health)
        self._notifier = stack.enter_context(Notifier())
        self._announcements = Announcements(
            self._log, self._health, self._metrics.instruments, self._notifier
        )
        self._log_reporter = LogReporter(self._log)
        self._warn(config)
        if config.listen is not None:
            self._listen(config.listen, stack)
        self._seen = RequestsSeen(self._metrics.instruments, self._health)
        # Settled once: another cluster has another Lease and other histories.
        server = find_api_server(config.kubernetes.kubeconfig, config.kubernetes.context)
        self._leadership = self._stand_for_election(config, server, stack)
        self._around = self._surroundings()
        self._api = self._open(server, stack)
        cluster = watched_cluster(self._api, config.targets, self._around)
        self._cluster = stack.enter_context(closing(cluster))
        self._connections = Connections(config, self._api, self._around)
        stack.callback(self._close_connections)
        memory = open_memory(config, self._announcements, self._metrics, stack)
        self._journal = memory.journal
        self._metrics.ask_for_events(self._events_so_far)
        watch(self._cluster, signals.stop)
        self._syncer = stack.enter_context(
            Syncer(
                config.flags,
                self._ports(),
                signals.stop,
                config.kubernetes.max_writes_per_second,
                known=memory.known,
                steps=memory.steps,
            )
        )
        self._site.ask_for_histories(self._histories)
        self._schedule = stack.enter_context(
            Schedule(signals.stop, self._log, self._metrics.reporter, memory.steps)
        )
        self._reload = Reload(config, self._put_in_force, self._announcements, self._log)

    def run(self) -> None:
        """Sync until a signal says stop."""
        config = self._reload.config
        led = self._leading()
        self._begin(config)
        _keep_garbage_collection_rare()
        self._announcements.serving(config)
        while not self._signals.stop.wait(_LOOK_SECONDS):
            self._schedule.look()
            led, before = self._leading(), led
            if led and not before:
                self._schedule.run_now()
            self._look_after_health()
            if self._reload.look(clock.monotonic(), asked=self._signals.take_reload()):
                _keep_garbage_collection_rare()
        self._announcements.stopping()

    def announce_end(self) -> None:
        """Tell that all parts are closed."""
        self._announcements.stopped(self._signals.received)

    # -- parts ---------------------------------------------------------------------------------

    def _listen(self, address: Address, stack: ExitStack) -> None:
        page = self._site.page
        listener = Listener(address.host, address.port, page, self._announcements.fault)
        stack.enter_context(listener)
        self._announcements.listening(replace(address, port=listener.port))

    def _open(self, server: ClusterEndpoint, stack: ExitStack) -> Api:
        for sentence in warnings_of_access(
            server.origin, server.secrets, url=server.url, verified=server.verified
        ):
            self._announcements.insecure(sentence)
        return stack.enter_context(self._connect(server))

    def _connect(self, server: ClusterEndpoint) -> Api:
        return server.connect(
            stop=self._signals.stop,
            on_request=self._seen.kubernetes,
            on_retry=lambda _: self._metrics.instruments.kubernetes_retry(),
        )

    def _stand_for_election(
        self, config: Config, server: ClusterEndpoint, stack: ExitStack
    ) -> Leadership | None:
        if not config.leader_election.enabled:
            return None
        return stack.enter_context(
            standing_for_election(
                config.leader_election,
                self._connect(server),
                self._announcements.leadership,
                self._announcements.fault,
            )
        )

    def _surroundings(self) -> Surroundings:
        leadership = self._leadership
        return Surroundings(
            stop=self._signals.stop,
            seen=self._seen,
            instruments=self._metrics.instruments,
            on_note=self._announcements.watched,
            on_event_note=self._announcements.events,
            may_write_until=_always if leadership is None else leadership.may_write_until,
            leading=self._leading,
            on_fault=self._announcements.fault,
        )

    def _leading(self) -> bool:
        return self._leads_since() is not None

    def _leads_since(self) -> float | None:
        return -math.inf if self._leadership is None else self._leadership.leads_since()

    def _ports(self) -> Ports:
        prometheus, cluster = self._connections.prometheus, self._cluster
        reporters: list[Reporter] = [self._log_reporter, self._metrics.reporter]
        if self._connections.events is not None:
            reporters.append(self._connections.events)
        return Ports(
            metrics=prometheus,
            cache=cluster,
            scales=cluster,
            writer=cluster,
            pods=cluster,
            reporter=Reporters(reporters),
            journal=self._journal,
            leads_since=self._leads_since,
        )

    def _histories(self) -> Iterator[bytes]:
        now = clock.wall()
        histories = self._syncer.histories.snapshot(now, clock.steady())
        return lines(now, histories, leads=self._leading())

    def _events_so_far(self) -> EventCounts:
        events = self._connections.events
        return EventCounts() if events is None else events.counts

    def _close_connections(self) -> None:
        """Close those that are in use in the end, which a reload may have opened."""
        self._connections.close()

    # -- configurations ------------------------------------------------------------------------

    def _warn(self, config: Config) -> None:
        for sentence in warnings_of(config):
            self._announcements.insecure(sentence)

    def _begin(self, config: Config) -> None:
        """Put the first configuration in force."""
        ticks = self._ticks(config)
        self._schedule.swap(ticks, lambda: self._change(config, ticks))

    def _put_in_force(self, config: Config) -> None:
        """Put another configuration in force; the one before stays where this raises."""
        old = new = self._connections
        if not old.serves(config):
            new = Connections(config, self._api, self._around)
        ticks = self._ticks(config)

        def change() -> None:
            self._connections = new
            self._change(config, ticks)

        # What follows takes up to `HANGS_AFTER_SECONDS`, and the watchdog is not fed meanwhile.
        self._look_after_health()
        try:
            with self._health.suspended():
                self._schedule.swap(ticks, change)
        except BaseException:
            self._connections = old
            raise
        finally:
            if old is not new:
                (old if self._connections is new else new).close()
        self._warn(config)

    def _change(self, config: Config, ticks: Sequence[Tick]) -> None:
        """Change targets and settings while no sync runs; ``ticks`` are the configuration's."""
        self._cluster.set_targets(config.targets)
        self._metrics.per_target = config.per_target_metrics
        self._metrics.set_targets(config.targets)
        self._log_reporter.retain({target.key for target in config.targets})
        writes = config.kubernetes.max_writes_per_second
        self._syncer.change(config.flags, self._ports(), config.targets, writes)
        self._syncer.register_cached(config.targets)
        if not config.targets:
            for server in (Component.PROMETHEUS, Component.KUBERNETES):
                self._health.tell(server, ok=True, message="there is no target to ask it for")
        self._health.expect(_periods(ticks))

    def _ticks(self, config: Config) -> list[Tick]:
        return [self._tick(slot) for slot in slots_of(config.targets)]

    def _tick(self, slot: Slot) -> Tick:
        def call(due: float) -> None:
            try:
                self._syncer.sync(slot.targets, clock.wall(), _budget(slot.period), due=due)
            finally:
                # Also where one target has a defect: the others were synced.
                self._health.sync_completed(tick.name)

        tick = Tick(call, slot.period, slot.offset)
        return tick

    def _look_after_health(self) -> None:
        synced = self._cluster.wait_synced(clock.monotonic())
        message = (
            "every watch that is permitted has its objects"
            if synced
            else "watches are not there yet"
        )
        self._health.tell(Component.CACHES, ok=synced, message=message)
        if self._health.stalled() is None:
            self._notifier.watchdog()


def _periods(ticks: Sequence[Tick]) -> dict[str, float]:
    return {tick.name: tick.period for tick in ticks}


def _budget(period: float) -> float:
    """Return the seconds that a sync may take: it ends before the next one is due.

    One that took all of its period, as when an object hangs, would have the next one left out.
    """
    return min(_PART_OF_PERIOD * period, LONGEST_SYNC_SECONDS)


def _always() -> float:
    """Let writes end whenever they do, where nobody else may lead."""
    return math.inf


def _keep_garbage_collection_rare() -> None:
    """Leave what lives long out of collections, and collect less often.

    With thousands of targets a full collection costs as much as a sync; syncs make hardly any
    cycles.  What a reload has replaced is freed before.
    """
    gc.unfreeze()
    gc.collect()
    gc.freeze()
    gc.set_threshold(100_000, 20, 50)
