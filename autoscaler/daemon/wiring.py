"""The connections that a configuration names, opened as the ports of the syncs."""

import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, closing, contextmanager
from functools import partial

from autoscaler import clock
from autoscaler.config import Config
from autoscaler.config.loading import ANYWHERE
from autoscaler.config.prometheus_connection import PrometheusSettings
from autoscaler.core.target import Target
from autoscaler.daemon.announcements import of_cluster
from autoscaler.daemon.clusters import (
    ConnectedCluster,
    OpenCluster,
    UnreachedCluster,
    alike,
    endpoint_of,
    events_of,
)
from autoscaler.daemon.events import EventReporter
from autoscaler.kubernetes import Api, ConnectError, UncachedCluster
from autoscaler.kubernetes.autoscalers import ListedAutoscalers
from autoscaler.kubernetes.rights import ElectionLease, LackedRight, missing_rights
from autoscaler.prometheus import PrometheusReader
from autoscaler.sync.ports import DEFAULT_CLUSTER, Cluster, Ports, Reporter
from autoscaler.telemetry.metrics import EventCounts
from autoscaler.transport import Observer
from autoscaler.transport.retries import FOR_A_COMMAND

_RIGHTS_SECONDS = 5.0
"""How long the rights may be asked for."""


@contextmanager
def ports_to_plan(
    config: Config, targets: Sequence[Target], reporter: Reporter, observer: Observer
) -> Iterator[tuple[Ports, Mapping[str, ListedAutoscalers], Callable[[], list[LackedRight]]]]:
    """Open the connections that the ``targets`` need: everything is read, nothing written.

    Gives with them the other autoscalers in the targets' namespaces by cluster, and what asks which
    rights a daemon would lack.  Of several clusters one without a usable way to it is unavailable;
    raises ConnectError where there is no other.  Sends no request yet.
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
    """Return by cluster of the targets the API server, or why it is unreached."""
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
) -> list[LackedRight]:
    """Return each kind of right that a daemon lacks, as far as servers tell."""
    election = config.leader_election
    known = election.enabled and election.namespace != ANYWHERE
    shard = config.lease_shard
    lease_name = election.name if shard is None else shard.lease(election.name)
    lease = ElectionLease(election.namespace, lease_name) if known else None
    lacked: list[LackedRight] = []
    for name, api in apis.items():
        own = [target for target in targets if target.cluster == name]
        deadline = clock.monotonic() + _RIGHTS_SECONDS
        missing = missing_rights(api, own, lease, events=config.events, deadline=deadline)
        lacked += [each._replace(sentence=of_cluster(name, each.sentence)) for each in missing]
    return lacked


class Connections:
    """The connections to clusters and to Prometheus, and the writers of Events, of a configuration.

    What those ``before`` have as well is used on.  Nothing is asked yet, but for a token.
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
        """By server what a connection to it depends on."""
        self.prometheus: dict[str, PrometheusReader] = {}
        """By the name of the server, which is empty for the default one."""
        self.clusters: dict[str, ConnectedCluster] = {}
        """By name, without those of several that cannot be connected to."""
        self.unreached: dict[str, str] = {}
        """Why these cannot be, as a sentence."""
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
        """Give those of another configuration; after the block what only these have is closed.

        If it raises, what only the others have is.
        """
        new = Connections(config, *self._used_by_all, before=self)
        try:
            yield new
        except BaseException:
            new.close(but=self)
            raise
        self.close(but=new)

    def close(self, but: "Connections | None" = None) -> None:
        """Write the Events that are left, for seconds at most, and close all that others lack."""
        used = () if but is None else but.opened()
        # The last ones are closed first: Events are written through the connection of a cluster.
        clusters = [cluster for cluster in self.clusters.values() if cluster not in used]
        with ExitStack() as closes:
            for cluster in clusters:
                closes.callback(cluster.close)
            # All give their Leases back at once; then each is waited for.
            for cluster in clusters:
                closes.callback(cluster.gate.stop)
            for connection in self.opened():
                if connection not in (*used, *clusters):
                    closes.callback(connection.close)

    def opened(self) -> Sequence[ConnectedCluster | PrometheusReader | EventReporter]:
        """Return all connections, those first that others need."""
        return *self.clusters.values(), *self.prometheus.values(), *self.events.values()

    def event_counts(self) -> EventCounts:
        """Return what became of the Events since these connections were opened."""
        counts = [events.counts for events in self.events.values()]
        return EventCounts(
            written=sum(each.written for each in counts),
            held_back=sum(each.held_back for each in counts),
            dropped=sum(each.dropped for each in counts),
        )
