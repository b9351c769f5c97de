"""The connections of a configuration, to clusters and to Prometheus; reloads reuse them.

A cluster has a connection, caches, a Lease and Events of its own. Nothing of one cluster waits for
another, so an unreachable cluster affects only its own targets.
"""

import resource
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, closing, contextmanager
from functools import partial
from pathlib import Path

from autoscaler import clock
from autoscaler.config import Config
from autoscaler.config.exposure import warnings_of_access
from autoscaler.config.loading import ANYWHERE
from autoscaler.config.prometheus_connection import PrometheusSettings
from autoscaler.config.settings import (
    ClusterSettings,
    KubernetesSettings,
    LeaderElection,
    ObjectsSettings,
)
from autoscaler.config.shards import Shard
from autoscaler.core.observation import ReadFailure, UncheckedControl
from autoscaler.core.target import Target
from autoscaler.core.writes import SkippedWrite, SkippedWriteReason, UnsetCosts
from autoscaler.daemon.announcements import Announcements, of_cluster
from autoscaler.daemon.events import EventReporter, own_pod
from autoscaler.daemon.object_status import ObjectStatusWriter
from autoscaler.kubernetes import ConnectError, Scales, UncachedCluster, WatchedCluster
from autoscaler.kubernetes.api import Api
from autoscaler.kubernetes.autoscalers import ListedAutoscalers
from autoscaler.kubernetes.connection import ClusterEndpoint, find_api_server
from autoscaler.kubernetes.election import ALWAYS_OPEN, WriteGate
from autoscaler.kubernetes.events import Events
from autoscaler.kubernetes.leadership import leader_election
from autoscaler.kubernetes.objects import ObjectWatch
from autoscaler.kubernetes.rights import MissingRight, missing_rights
from autoscaler.kubernetes.watch_requests import ClusterBudget
from autoscaler.prometheus import PrometheusReader
from autoscaler.sync.ports import DEFAULT_CLUSTER, Cluster, Ports, Reporter
from autoscaler.telemetry.metrics import EventCounts
from autoscaler.transport import Observer
from autoscaler.transport.retries import FOR_A_COMMAND

_BYTES_OF_ONE = 64 << 20
"""The cache budget of each of several clusters, whose owners may not trust each other."""
_OPEN_FILES = 65_536
"""By default a process may have 1,024 open files; a cluster needs about five or more."""
_RIGHTS_SECONDS = 5.0
"""The time limit for asking for rights, in seconds."""


def allow_many_connections() -> None:
    """Raise this process' limit of open files as far as it is permitted."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    most = _OPEN_FILES if hard == resource.RLIM_INFINITY else min(hard, _OPEN_FILES)
    if soft != resource.RLIM_INFINITY and soft < most:
        resource.setrlimit(resource.RLIMIT_NOFILE, (most, hard))


def reached_by(
    settings: KubernetesSettings,
) -> tuple[Path | None, str | None, bool, bool | None]:
    """Return what a connection depends on: kubeconfig, context, `inCluster` and `allowExec`."""
    if isinstance(settings, ClusterSettings):
        return settings.kubeconfig, settings.context, settings.in_cluster, settings.allow_exec
    return settings.kubeconfig, settings.context, False, None


def endpoint_of(settings: KubernetesSettings, context: str | None = None) -> ClusterEndpoint:
    """Return the API server of a cluster, for another ``context`` if given; or ConnectError."""
    file, own, in_cluster, allow_exec = reached_by(settings)
    try:
        return find_api_server(file, context or own, in_cluster=in_cluster, allow_exec=allow_exec)
    except ConnectError as error:
        if isinstance(settings, ClusterSettings):
            raise ConnectError(f"cluster {settings.name}: {error}") from None
        raise


class ConnectedCluster:
    """One cluster while it is configured; its watches begin with `set_targets`."""

    def __init__(
        self,
        election: LeaderElection,
        process: str,
        stop: threading.Event,
        announcements: Announcements,
        name: str,
        settings: KubernetesSettings,
        shard: Shard | None,
    ) -> None:
        """Connect, and join the election as ``process``, without waiting. Raises ConnectError."""
        self.name = name
        self._shard = shard
        self.reached_by = reached_by(settings)
        _, _, in_cluster, _ = self.reached_by
        self.own = in_cluster or name == DEFAULT_CLUSTER
        """Whether the daemon's own pod may be in it."""
        self.observer = announcements.of_cluster(name)
        server = endpoint_of(settings)
        self.gate: WriteGate = ALWAYS_OPEN
        with ExitStack() as opened:
            # A plugin that hangs delays no other cluster.
            connect = partial(
                server.connect, stop=stop, observer=self.observer, at_once=name == DEFAULT_CLUSTER
            )
            self.api = opened.enter_context(connect())
            if election.enabled:
                own = f"{process}/{name}" if name else process
                led = leader_election(election, connect(), self.observer, own, self._shard)
                self.gate = opened.enter_context(led)
            for sentence in warnings_of_access(
                server.origin, server.secrets, url=server.url, verified=server.verified
            ):
                announcements.insecure(sentence)
            self.caches = opened.enter_context(closing(self._caches()))
            watch = ObjectWatch(self.api, observer=self.observer, budget=self._budget())
            self.objects = opened.enter_context(closing(watch))
            self.statuses: ObjectStatusWriter | None = None
            """Writes the status of objects, once they are targets."""
            self._opened = opened.pop_all()

    def _caches(self) -> WatchedCluster:
        return WatchedCluster(
            self.api,
            Scales(self.api, self.gate, self.observer),
            observer=self.observer,
            budget=self._budget(),
        )

    def _budget(self) -> ClusterBudget | None:
        return None if self.name == DEFAULT_CLUSTER else ClusterBudget(_BYTES_OF_ONE)

    def is_of(self, settings: KubernetesSettings, shard: Shard | None) -> bool:
        """Return whether these settings reach the same cluster; the unnamed one stays."""
        is_reached = self.name == DEFAULT_CLUSTER or reached_by(settings) == self.reached_by
        return is_reached and shard == self._shard

    def set_targets(self, targets: Iterable[Target]) -> None:
        """Watch what the targets in this cluster need."""
        self.caches.set_targets([target for target in targets if target.cluster == self.name])

    def set_objects(self, settings: ObjectsSettings) -> None:
        """Watch the PromqlAutoscalers that count, or none, and write their status."""
        self.objects.select(settings)
        if settings.enabled and self.statuses is None:
            writer = ObjectStatusWriter(self.api, gate=self.gate, observer=self.observer)
            self.statuses = self._opened.enter_context(closing(writer))

    def close(self) -> None:
        """Close everything, within seconds; all writes must have ended."""
        self._opened.close()


class UnreachedCluster:
    """A `Cluster` without a connection: every read returns the reason, and nothing is written."""

    def __init__(self, why: str) -> None:
        self._unavailable = ReadFailure(why)
        self._unchecked = UncheckedControl(why)

    def cached_scale(self, *_: object, **__: object) -> ReadFailure:
        """Return the reason."""
        return self._unavailable

    cached_pods = read_scale = list_pods = cached_scale

    def cached_controller(self, *_: object, **__: object) -> UncheckedControl:
        """Return that it cannot be checked."""
        return self._unchecked

    def cached_hpa(self, *_: object, **__: object) -> None:
        """Return None: no HPA, no leadership, and nothing to wait for."""

    leads_since = listing_anew = cached_hpa

    def write_scale(self, *_: object, **__: object) -> SkippedWrite:
        """Write nothing."""
        return SkippedWrite(SkippedWriteReason.NOT_LEADING)

    def set_deletion_costs(self, *_: object) -> UnsetCosts:
        """Set none: the scale is not written either."""
        return UnsetCosts()


def alike(apis: Mapping[str, Api]) -> Sequence[str]:
    """Return a sentence for each cluster with the address and the CA of an earlier one.

    Both are served: no text of a kubeconfig or a server may take another cluster out of service.
    With leader election their common Lease lets only one of them write.
    """
    first: dict[object, str] = {}
    sentences = []
    for name, api in apis.items():
        other = first.setdefault(api.identity, name)
        if other != name:
            sentences.append(
                f"the clusters {other} and {name} have the same API server, {api.server}: remove "
                "one, or enable leaderElection, so that only one of them writes"
            )
    return sentences


OpenCluster = Callable[[str, KubernetesSettings, Shard | None], ConnectedCluster]
"""Connects to a cluster of this name, for one of its shards; raises ConnectError."""


def events_of(cluster: ConnectedCluster) -> EventReporter:
    """Return the reporter that writes Events to a cluster while this process leads there."""
    pod = own_pod() if cluster.own else None
    return EventReporter(Events(cluster.api), gate=cluster.gate, observer=cluster.observer, pod=pod)


_LATER_THAN_OTHERS_SECONDS = 2.0
"""How much longer than another cluster's watches a cluster's are awaited, in seconds."""


def wait_for_watches(
    clusters: Sequence[ConnectedCluster], stop: threading.Event, seconds: float, pause: float
) -> None:
    """Wait until all caches are complete, ``stop`` is set, or the time is over.

    The time is shorter after some clusters are complete: a cluster that hangs delays no other.
    """
    end = until = clock.monotonic() + seconds
    left = [*clusters]
    while left and not stop.is_set() and (now := clock.monotonic()) < until:
        left[0].caches.wait_synced(min(until, now + pause))
        before, now = len(left), clock.monotonic()
        left = [cluster for cluster in left if not cluster.caches.wait_synced(now)]
        if len(left) < before:
            until = min(end, now + _LATER_THAN_OTHERS_SECONDS)


class Connections:
    """The connections to clusters and to Prometheus, and the Event writers, of a configuration.

    Those that ``before`` also has are reused. Except for tokens, no request is sent yet.
    """

    def __init__(
        self,
        config: Config,
        open_cluster: OpenCluster,
        stop: threading.Event,
        observer: Observer,
        before: "Connections | None" = None,
    ) -> None:
        self._used_by_all = (open_cluster, stop, observer)
        self.settings = {
            name: {field: getattr(settings, field) for field in PrometheusSettings.model_fields}
            for name, settings in config.servers.items()
        }
        """By server: what a connection to it depends on."""
        self.prometheus: dict[str, PrometheusReader] = {}
        """By the name of the server, which is empty for the default one."""
        self.clusters: dict[str, ConnectedCluster] = {}
        """By name, without clusters that cannot be reached."""
        self.unreached: dict[str, str] = {}
        """The reasons of those, as sentences."""
        self.events: dict[str, EventReporter] = {}
        """By the name of the cluster."""
        with ExitStack() as opened:
            self._open_clusters(config, before, opened)
            for name, settings in config.servers.items():
                if before is not None and before.settings.get(name) == self.settings[name]:
                    self.prometheus[name] = before.prometheus[name]
                    continue
                reader = PrometheusReader(settings, stop, name=name, observer=observer)
                opened.callback(reader.close)
                self.prometheus[name] = reader
            for cluster_name, cluster in self.clusters.items() if config.events else ():
                same = before is not None and before.clusters.get(cluster_name) is cluster
                kept = before.events.get(cluster_name) if before is not None and same else None
                self.events[cluster_name] = kept or events_of(cluster)
            opened.pop_all()

    def _open_clusters(
        self, config: Config, before: "Connections | None", opened: ExitStack
    ) -> None:
        for name, reached in config.connections.items():
            cluster = None if before is None else before.clusters.get(name)
            if cluster is None or not cluster.is_of(reached, config.lease_shard):
                try:
                    cluster = self._used_by_all[0](name, reached, config.lease_shard)
                except ConnectError as error:
                    if len(config.clusters or ()) < 2:
                        raise
                    # The targets of the others are scaled meanwhile.
                    self.unreached[name] = str(error)
                    continue
                opened.callback(cluster.close)
            self.clusters[name] = cluster

    @contextmanager
    def replaced(self, config: Config) -> Iterator["Connections"]:
        """Yield the connections of another configuration; then close those it does not reuse.

        If the block raises, only its new connections are closed.
        """
        new = Connections(config, *self._used_by_all, before=self)
        try:
            yield new
        except BaseException:
            new.close(but=self)
            raise
        self.close(but=new)

    def close(self, but: "Connections | None" = None) -> None:
        """Write the remaining Events, within seconds, and close what ``others`` do not use."""
        used = () if but is None else but.opened()
        # Close in reverse order: Events are written through the connection of a cluster.
        clusters = [cluster for cluster in self.clusters.values() if cluster not in used]
        with ExitStack() as closes:
            for cluster in clusters:
                closes.callback(cluster.close)
            # All release their Leases at once; then wait for each.
            for cluster in clusters:
                closes.callback(cluster.gate.stop)
            for connection in self.opened():
                if connection not in (*used, *clusters):
                    closes.callback(connection.close)

    def opened(self) -> Sequence[ConnectedCluster | PrometheusReader | EventReporter]:
        """Return all connections, dependencies first."""
        return *self.clusters.values(), *self.prometheus.values(), *self.events.values()

    def reporters(self) -> Mapping[str, Sequence[Reporter]]:
        """Return the reporters of each cluster: its Events, and the status of its objects."""
        return {
            name: [each for each in (self.events.get(name), cluster.statuses) if each is not None]
            for name, cluster in self.clusters.items()
        }

    def event_counts(self) -> EventCounts:
        """Return the Event counts since these connections were opened."""
        counts = [events.counts for events in self.events.values()]
        return EventCounts(
            written=sum(each.written for each in counts),
            held_back=sum(each.held_back for each in counts),
            dropped=sum(each.dropped for each in counts),
        )


# -- for a plan, and what a daemon lacks ----------------------------------------------------------


@contextmanager
def ports_to_plan(
    config: Config, targets: Sequence[Target], reporter: Reporter, observer: Observer
) -> Iterator[tuple[Ports, Mapping[str, ListedAutoscalers], Callable[[], list[MissingRight]]]]:
    """Open the connections that the ``targets`` need: everything is read, nothing written.

    Also yields the other autoscalers in the targets' namespaces by cluster, and a function that
    asks for the daemon's missing rights. Of several clusters one that cannot be reached is
    unavailable; raises ConnectError if there is no other. Sends no request yet.
    """
    asked = {query.server for target in targets for query in target.all_queries}
    with ExitStack() as stack:
        apis, unreached = _apis_of(config, targets, observer, stack)
        for sentence in alike(apis):
            observer.watch_changed(ok=False, sentence=sentence)
        read = partial(PrometheusReader, observer=observer, absent_seconds=FOR_A_COMMAND)
        prometheus = {
            name: stack.enter_context(closing(read(settings, threading.Event(), name=name)))
            for name, settings in config.servers.items()
            if name in asked
        }
        others = {
            name: ListedAutoscalers(
                api, {target.namespace for target in targets if target.cluster == name}, observer
            )
            for name, api in apis.items()
        }
        clusters: dict[str, Cluster] = {
            name: UncachedCluster(api, others[name], observer) for name, api in apis.items()
        }
        clusters |= {name: UnreachedCluster(why) for name, why in unreached.items()}
        lacking = partial(lacked_rights, apis, config, targets)
        yield Ports(prometheus, clusters, reporter), others, lacking


def _apis_of(
    config: Config, targets: Sequence[Target], observer: Observer, stack: ExitStack
) -> tuple[dict[str, Api], dict[str, str]]:
    """Return the API server of each cluster of the targets, or why it is unreachable."""
    apis: dict[str, Api] = {}
    unreached: dict[str, str] = {}
    for name in dict.fromkeys(target.cluster for target in targets) or (DEFAULT_CLUSTER,):
        if name in config.connections:
            try:
                server = endpoint_of(config.connections[name])
                api = server.connect(observer=observer, absent_seconds=FOR_A_COMMAND)
            except ConnectError as error:
                unreached[name] = str(error)
                continue
            apis[name] = stack.enter_context(closing(api))
    if unreached and not apis:
        raise ConnectError("; ".join(unreached.values()))
    return apis, unreached


def lacked_rights(
    apis: Mapping[str, Api], config: Config, targets: Sequence[Target]
) -> list[MissingRight]:
    """Return each missing right of a daemon, as far as servers answer."""
    election = config.leader_election
    known = election.enabled and election.namespace != ANYWHERE
    shard = config.lease_shard
    lease_name = election.name if shard is None else shard.lease(election.name)
    lease = (election.namespace, lease_name) if known else None
    lacked: list[MissingRight] = []
    for name, api in apis.items():
        own = [target for target in targets if target.cluster == name]
        deadline = clock.monotonic() + _RIGHTS_SECONDS
        missing = missing_rights(api, own, lease, events=config.events, deadline=deadline)
        lacked += [each._replace(sentence=of_cluster(name, each.sentence)) for each in missing]
    return lacked
