"""The connections that a configuration names, opened as the ports of the syncs."""

import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, closing, contextmanager
from functools import partial

from autoscaler import clock
from autoscaler.adapters.cluster import Api, UncachedCluster, find_api_server
from autoscaler.adapters.cluster.autoscalers import ListedAutoscalers
from autoscaler.adapters.cluster.events import Events
from autoscaler.adapters.cluster.rights import ElectionLease, missing_rights
from autoscaler.adapters.prometheus import PrometheusReader
from autoscaler.config import Config
from autoscaler.config.loading import ANYWHERE
from autoscaler.core.election import WriteGate
from autoscaler.core.target import Target
from autoscaler.daemon.events import EventReporter
from autoscaler.settings.prometheus import PrometheusSettings
from autoscaler.sync.ports import DEFAULT_CLUSTER, Ports, Reporter
from autoscaler.telemetry.metrics import EventCounts
from autoscaler.transport import Observer
from autoscaler.transport.retries import FOR_A_COMMAND

_RIGHTS_SECONDS = 5.0
"""How long the rights may be asked for."""


@contextmanager
def ports_to_plan(
    config: Config, targets: Sequence[Target], reporter: Reporter, observer: Observer
) -> Iterator[tuple[Ports, ListedAutoscalers, Callable[[], list[str]]]]:
    """Open the connections that the ``targets`` need: everything is read, nothing written.

    Gives with them the other autoscalers in the targets' namespaces, and what asks which rights a
    daemon would lack.  Raises ConnectError without a usable way to a cluster; sends no request yet.
    """
    server = find_api_server(config.kubernetes.kubeconfig, config.kubernetes.context)
    asked = {query.server for target in targets for query in target.all_queries}
    with ExitStack() as stack:
        api = server.connect(observer=observer, absent_seconds=FOR_A_COMMAND)
        stack.enter_context(closing(api))
        read = partial(PrometheusReader, observer=observer, absent_seconds=FOR_A_COMMAND)
        prometheus = {
            name: stack.enter_context(closing(read(settings, threading.Event(), name=name)))
            for name, settings in config.servers.items()
            if name in asked
        }
        others = ListedAutoscalers(api, {target.namespace for target in targets}, observer)
        clusters = {DEFAULT_CLUSTER: UncachedCluster(api, others, observer)}
        lacking = partial(lacked_rights, api, config, targets)
        yield Ports(prometheus, clusters, reporter), others, lacking


def lacked_rights(api: Api, config: Config, targets: Sequence[Target]) -> list[str]:
    """Return a sentence for each kind of right that a daemon lacks, as far as the server tells."""
    election = config.leader_election
    known = election.enabled and election.namespace != ANYWHERE
    return missing_rights(
        api,
        targets,
        ElectionLease(election.namespace, election.name) if known else None,
        events=config.events,
        deadline=clock.monotonic() + _RIGHTS_SECONDS,
    )


class Connections:
    """The connections to Prometheus and the writer of Events of one configuration.

    What those ``before`` have as well is used on.  Nothing is asked yet, but for a token.
    """

    def __init__(
        self,
        config: Config,
        api: Api,
        stop: threading.Event,
        gate: WriteGate,
        observer: Observer,
        before: "Connections | None" = None,
    ) -> None:
        self.settings = {
            name: {field: getattr(settings, field) for field in PrometheusSettings.model_fields}
            for name, settings in config.servers.items()
        }
        """By server what a connection to it depends on."""
        self.prometheus: dict[str, PrometheusReader] = {}
        """By the name of the server, which is empty for the default one."""
        self.events: EventReporter | None = None
        with ExitStack() as opened:
            for name, settings in config.servers.items():
                if before is not None and before.settings.get(name) == self.settings[name]:
                    self.prometheus[name] = before.prometheus[name]
                    continue
                reader = PrometheusReader(settings, stop, name=name, observer=observer)
                opened.callback(reader.close)
                self.prometheus[name] = reader
            if config.events:
                kept = None if before is None else before.events
                self.events = kept or EventReporter(Events(api), gate=gate, observer=observer)
            opened.pop_all()

    def close(self, but: "Connections | None" = None) -> None:
        """Write the Events that are left, for seconds at most, and close all that others lack."""
        used = () if but is None else (but.events, *but.prometheus.values())
        with ExitStack() as closes:
            for connection in (*self.prometheus.values(), self.events):
                if connection is not None and connection not in used:
                    closes.callback(connection.close)


class ReplaceableConnections:
    """The connections in use, which a reload may replace; that to the API server is for good."""

    def __init__(
        self, config: Config, api: Api, stop: threading.Event, gate: WriteGate, observer: Observer
    ) -> None:
        self._used_by_all = (api, stop, gate, observer)
        self.current = Connections(config, *self._used_by_all)

    @contextmanager
    def replaced(self, config: Config) -> Iterator[Connections]:
        """Give another configuration's connections: current after the block, unless it raises."""
        old = self.current
        new = Connections(config, *self._used_by_all, before=old)
        try:
            yield new
            self.current = new
        finally:
            kept, left = (new, old) if self.current is new else (old, new)
            left.close(but=kept)

    def event_counts(self) -> EventCounts:
        """Return what became of the Events since the current connections were opened."""
        events = self.current.events
        return EventCounts() if events is None else events.counts

    def close(self) -> None:
        """Close the current connections."""
        self.current.close()
