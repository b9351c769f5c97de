"""The connections that a configuration names, opened as the ports of the syncs."""

import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, closing, contextmanager
from pathlib import Path

from autoscaler.adapters.cluster import Api, Pods, Scales, find_api_server
from autoscaler.adapters.cluster.annotations import AnnotatedScales, Annotations
from autoscaler.adapters.cluster.autoscalers import ListedAutoscalers
from autoscaler.adapters.cluster.discovery import ScalableKinds
from autoscaler.adapters.cluster.events import Events
from autoscaler.adapters.prometheus import PrometheusOptions, PrometheusReader
from autoscaler.adapters.prometheus.options import (
    AzureAd,
    AzureIdentity,
    ClientSecret,
    Endpoint,
    GoogleIam,
    ManagedIdentity,
    OAuth2,
    SignInOptions,
    SigV4,
    WorkloadIdentity,
)
from autoscaler.config import Config, PrometheusSettings
from autoscaler.config.settings import AzureAdSettings
from autoscaler.core.target import Target
from autoscaler.daemon.events import EventCounts, EventReporter
from autoscaler.sync.ports import NothingCached, NoWrites, Ports, Reporter
from autoscaler.transport.observer import UNOBSERVED, Observer
from autoscaler.transport.write_gate import WriteGate


@contextmanager
def ports_to_plan(
    config: Config, targets: Sequence[Target], reporter: Reporter, observer: Observer
) -> Iterator[tuple[Ports, ListedAutoscalers]]:
    """Open the connections that the ``targets`` need: everything is read, nothing written.

    Gives with them the other autoscalers in the namespaces of the targets.  Raises ConnectError
    when there is no usable way to a cluster; no request is sent yet.
    """
    server = find_api_server(config.kubernetes.kubeconfig, config.kubernetes.context)
    asked = {query.server for target in targets for query in target.all_queries}
    with (
        closing(server.connect(observer=observer)) as api,
        ExitStack() as stack,
    ):
        prometheus = {
            name: stack.enter_context(
                closing(prometheus_reader(settings, threading.Event(), observer, name))
            )
            for name, settings in config.servers.items()
            if name in asked
        }
        others = ListedAutoscalers(api, {target.namespace for target in targets}, observer)
        annotations = Annotations(api, ScalableKinds(api))
        scales = AnnotatedScales(Scales(api), annotations, observer)
        reads = (scales, NoWrites(), Pods(api))
        yield Ports(prometheus, NothingCached(), *reads, reporter), others


class Connections:
    """The connections to Prometheus and the writer of Events of one configuration.

    What the connections ``before`` have as well is used on.  No request is sent before the first
    query and the first Event, but for a token.
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
        self._settings = {name: _connection(one) for name, one in config.servers.items()}
        self.prometheus: dict[str, PrometheusReader] = {}
        """By the name of the server, which is empty for the default one."""
        self.events: EventReporter | None = None
        with ExitStack() as opened:
            for name, settings in config.servers.items():
                reader = None if before is None else before.reader(name, self._settings[name])
                if reader is None:
                    reader = prometheus_reader(settings, stop, observer, name)
                    opened.callback(reader.close)
                self.prometheus[name] = reader
            if config.events:
                self.events = None if before is None else before.events
                self.events = self.events or EventReporter(
                    Events(api), gate=gate, observer=observer
                )
            opened.pop_all()

    def reader(self, name: str, settings: object) -> PrometheusReader | None:
        """Return the connection to a server that has these settings, if there is one."""
        return self.prometheus[name] if self._settings.get(name) == settings else None

    def close(self, but: "Connections | None" = None) -> None:
        """Write the Events that are left, for seconds at most, and close the connections.

        Those that others use are left as they are.
        """
        used = () if but is None else (but.events, *but.prometheus.values())
        with ExitStack() as closes:
            for one in (*self.prometheus.values(), self.events):
                if one is not None and one not in used:
                    closes.callback(one.close)


class ReplaceableConnections:
    """The connections in use, which a reload may replace.

    The API server is not among them: the Lease and the histories belong to one cluster.
    """

    def __init__(
        self, config: Config, connect: Callable[[Config, Connections | None], Connections]
    ) -> None:
        self._connect = connect
        self.current = connect(config, None)

    @contextmanager
    def replaced(self, config: Config) -> Iterator[Connections]:
        """Give the connections of a configuration, which are the current ones after the block.

        Those that are not needed any more are closed: the new ones where the block raises.
        """
        old = self.current
        new = self._connect(config, old)
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


def _connection(settings: PrometheusSettings) -> dict[str, object]:
    """Return what a connection depends on among the settings of a server."""
    return {name: getattr(settings, name) for name in PrometheusSettings.model_fields}


def prometheus_reader(
    settings: PrometheusSettings,
    stop: threading.Event,
    observer: Observer = UNOBSERVED,
    name: str = "",
) -> PrometheusReader:
    """Return the connection to a Prometheus of a configuration.

    No request is sent to it yet; a token to sign in with is asked for at once.
    """
    tls, basic = settings.tls, settings.basic_auth
    options = PrometheusOptions(
        url=settings.url,
        timeout_seconds=settings.timeout,
        bearer_token_file=_text(settings.bearer_token_file),
        basic_auth_username=None if basic is None else basic.username,
        basic_auth_password_file=None if basic is None else str(basic.password_file),
        ca_file=_text(tls.ca_file),
        cert_file=_text(tls.cert_file),
        key_file=_text(tls.key_file),
        server_name=tls.server_name,
        insecure_skip_verify=tls.insecure_skip_verify,
        sign_in=_sign_in(settings),
        headers={name: value.get_secret_value() for name, value in settings.headers.items()},
        query_parameters=settings.query_parameters,
        name=name,
    )
    return PrometheusReader(options, stop, observer=observer)


def _sign_in(settings: PrometheusSettings) -> SignInOptions | None:
    """Return the way to sign in other than by bearerTokenFile and basicAuth."""
    if (oauth2 := settings.oauth2) is not None:
        return OAuth2(
            oauth2.client_id,
            str(oauth2.client_secret_file),
            Endpoint(
                oauth2.token_url,
                ca_file=_text(oauth2.tls.ca_file),
                cert_file=_text(oauth2.tls.cert_file),
                key_file=_text(oauth2.tls.key_file),
                server_name=oauth2.tls.server_name,
                insecure_skip_verify=oauth2.tls.insecure_skip_verify,
            ),
            oauth2.scopes,
            oauth2.endpoint_params,
        )
    if (sigv4 := settings.sigv4) is not None:
        return SigV4(
            region=sigv4.region,
            profile=sigv4.profile,
            access_key=sigv4.access_key,
            secret_key_file=_text(sigv4.secret_key_file),
            role_arn=sigv4.role_arn,
            external_id=sigv4.external_id,
        )
    if (google := settings.google_iam) is not None:
        return GoogleIam(_text(google.credentials_file))
    if (azure := settings.azuread) is not None:
        return AzureAd(_azure_identity(azure), azure.cloud, azure.scope)
    return None


def _azure_identity(azure: AzureAdSettings) -> AzureIdentity:
    if (oauth := azure.oauth) is not None:
        return ClientSecret(oauth.client_id, oauth.tenant_id, str(oauth.client_secret_file))
    if (workload := azure.workload_identity) is not None:
        path = _text(workload.token_file_path)
        return WorkloadIdentity(workload.client_id, workload.tenant_id, path)
    return ManagedIdentity(
        None if azure.managed_identity is None else azure.managed_identity.client_id
    )


def _text(path: Path | None) -> str | None:
    return None if path is None else str(path)
