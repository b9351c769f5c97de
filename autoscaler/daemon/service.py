"""The composition of the daemon: opens its parts in order, and runs them until a signal."""

import threading
from collections.abc import Iterator
from contextlib import ExitStack, closing
from functools import partial

import structlog

from autoscaler import clock
from autoscaler.adapters.cluster import Api, Pods, Scales, WatchedCluster, find_api_server
from autoscaler.config import Config
from autoscaler.config.security import warnings_of_access
from autoscaler.daemon import api, pages
from autoscaler.daemon.announcements import Announcements
from autoscaler.daemon.exposition import Metrics, Site
from autoscaler.daemon.exposition.views import Views
from autoscaler.daemon.health import Health
from autoscaler.daemon.leadership import leader_election
from autoscaler.daemon.main_loop import MainLoop, Telemetry
from autoscaler.daemon.memory import Memory, open_memory
from autoscaler.daemon.own_pod import own_pod, tell_breaker
from autoscaler.daemon.recording import Recorder, open_recording
from autoscaler.daemon.reporting import LogReporter, Reporters
from autoscaler.daemon.schedule import Schedule
from autoscaler.daemon.service_manager import Notifier, Signals
from autoscaler.daemon.web import open_listeners
from autoscaler.daemon.wiring import Connections, ReplaceableConnections
from autoscaler.rendering.history_lines import lines
from autoscaler.sync.ports import BreakerNews, HistoryStore, Ports, Reporter
from autoscaler.sync.syncer import Syncer
from autoscaler.transport.write_gate import ALWAYS_OPEN, WriteGate

SYNCED_WITHIN_SECONDS = 10.0
"""How long the first sync waits for the watches; what is not cached by then is read."""

_STOP_CHECK_SECONDS = 0.2


def serve(config: Config) -> None:
    """Sync the configuration's targets until SIGTERM or SIGINT; SIGHUP reads it again.

    A write that has begun is finished before this returns.  Raises ConnectError when there is no
    usable way to a cluster, ListenError when the address cannot be listened on.  Must be called
    on the main thread, which alone gets signals.
    """
    signals = Signals()
    signals.listen()
    with ExitStack() as stack:
        loop = build(config, signals, stack)
        loop.run()
    loop.telemetry.announcements.stopped(signals.received)


def build(config: Config, signals: Signals, stack: ExitStack) -> MainLoop:
    """Open all parts of the daemon; ``stack`` closes them, the last opened first."""
    stop, telemetry = signals.stop, _open_telemetry(config, stack)
    announcements, metrics = telemetry.announcements, telemetry.metrics
    gate, api = _open_api(config, stop, announcements, stack)
    scales = Scales(api, gate)
    cluster = WatchedCluster(api, scales, Pods(api), config.targets, observer=announcements)
    stack.enter_context(closing(cluster))
    connections = ReplaceableConnections(
        config,
        lambda config, before: Connections(config, api, stop, gate, announcements, before),
    )
    stack.enter_context(closing(connections))
    metrics.ask_for_events(connections.event_counts)
    memory = open_memory(config, announcements, metrics, stack)
    recording = open_recording(config, announcements, metrics, stack)
    _start_watches(cluster, stop)
    ports = partial(_ports, telemetry, cluster, gate, memory.history_store, recording.recorder)
    syncer = _open_syncer(config, ports(connections.current), stop, memory, stack)
    metrics.ask_for_breakers(syncer.breaker_statuses)
    telemetry.site.ask_for_histories(lambda: _history_lines(syncer, gate))
    schedule = Schedule(stop, telemetry.log, metrics.instruments, memory.steps)
    loop = MainLoop(
        config=config,
        signals=signals,
        telemetry=telemetry,
        gate=gate,
        cluster=cluster,
        connections=connections,
        ports=ports,
        syncer=syncer,
        recorder=recording.recorder,
        schedule=stack.enter_context(schedule),
    )
    elects = config.leader_election.enabled
    telemetry.site.show(
        Views(
            states=metrics.states,
            health=telemetry.health,
            config=lambda: loop.reload.config,
            record=recording.reader,
            breakers=syncer.breaker_statuses,
            leads=lambda: gate.leading() if elects else None,
        )
    )
    return loop


def _open_syncer(
    config: Config, ports: Ports, stop: threading.Event, memory: Memory, stack: ExitStack
) -> Syncer:
    """Open the syncer, which goes on with what was remembered."""
    syncer = Syncer(
        config.flags,
        ports,
        stop,
        config.kubernetes.max_writes_per_second,
        known=memory.known,
        steps=memory.steps,
    )
    stack.enter_context(syncer)
    syncer.resume_breakers(memory.breakers, clock.wall(), clock.steady())
    return syncer


def _open_telemetry(config: Config, stack: ExitStack) -> Telemetry:
    """Open the log, metrics and health; the HTTP listener answers from here on."""
    log, health = structlog.get_logger(), Health()
    metrics = Metrics(health, per_target=config.per_target_metrics)
    notifier = stack.enter_context(Notifier())
    announcements = Announcements(log, health, metrics.instruments, notifier)
    site = Site(metrics, health)
    announcements.security(config)
    routes = [*api.routes(site.views), *pages.routes(site.views)]
    open_listeners(config, site, routes, announcements, stack)
    return Telemetry(log, health, metrics, site, notifier, announcements, LogReporter(log))


def _open_api(
    config: Config, stop: threading.Event, announcements: Announcements, stack: ExitStack
) -> tuple[WriteGate, Api]:
    """Connect to the API server, and take part in the leader election if it is enabled.

    A reload changes neither: another cluster has another Lease and other histories.
    """
    server = find_api_server(config.kubernetes.kubeconfig, config.kubernetes.context)
    gate = ALWAYS_OPEN
    if config.leader_election.enabled:
        api = server.connect(stop=stop, observer=announcements)
        election = leader_election(config.leader_election, api, announcements)
        gate = stack.enter_context(election)
    for sentence in warnings_of_access(
        server.origin, server.secrets, url=server.url, verified=server.verified
    ):
        announcements.insecure(sentence)
    return gate, stack.enter_context(server.connect(stop=stop, observer=announcements))


def _start_watches(cluster: WatchedCluster, stop: threading.Event) -> None:
    """Begin the watches, and wait for them a while."""
    cluster.start()
    until = clock.monotonic() + SYNCED_WITHIN_SECONDS
    while not stop.is_set() and clock.monotonic() < until:
        if cluster.wait_synced(min(until, clock.monotonic() + _STOP_CHECK_SECONDS)):
            break


def _ports(
    telemetry: Telemetry,
    cluster: WatchedCluster,
    gate: WriteGate,
    history_store: HistoryStore,
    recorder: Recorder | None,
    connections: Connections,
) -> Ports:
    reporters: list[Reporter] = [telemetry.log_reporter, telemetry.metrics.reporter]
    if recorder is not None:
        reporters.append(recorder)
    if connections.events is not None:
        reporters.append(connections.events)
    pod, announcements = own_pod(), telemetry.announcements

    def breaker_changed(news: BreakerNews) -> None:
        announcements.breaker_changed(news)
        if connections.events is not None and pod is not None:
            tell_breaker(connections.events, pod, news)

    return Ports(
        metrics=connections.prometheus,
        cache=cluster,
        scales=cluster,
        writer=cluster,
        pods=cluster,
        reporter=Reporters(reporters),
        history_store=history_store,
        leads_since=gate.leads_since,
        breaker_changed=breaker_changed,
    )


def _history_lines(syncer: Syncer, gate: WriteGate) -> Iterator[bytes]:
    now = clock.wall()
    histories = syncer.histories.snapshot(now, clock.steady())
    return lines(now, histories, leads=gate.leading())
