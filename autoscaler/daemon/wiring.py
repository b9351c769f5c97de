"""The ports of the syncs, opened as the configuration says."""

import math
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, closing, contextmanager
from dataclasses import dataclass
from pathlib import Path

from autoscaler import clock
from autoscaler.adapters.cluster import Api, Pods, Scales, WatchedCluster, find_api_server
from autoscaler.adapters.cluster.autoscalers import ListedAutoscalers
from autoscaler.adapters.cluster.events import Events
from autoscaler.adapters.prometheus import PrometheusOptions, PrometheusReader
from autoscaler.config import Config, PrometheusSettings
from autoscaler.core.target import Target
from autoscaler.daemon.events import EventReporter
from autoscaler.daemon.exposition import Instruments, RequestsSeen
from autoscaler.sync.ports import NothingCached, NoWrites, Ports, Reporter

SYNCED_WITHIN_SECONDS = 10.0
"""How long the first sync waits for the watches; what is not there by then is read."""

_STOP_CHECK_SECONDS = 0.2


@dataclass(frozen=True, slots=True)
class PlanNotes:
    """Who is told what, with a sentence each.

    ``on_note`` if other autoscalers cannot be known, ``on_retry`` why Prometheus or the API server
    is asked again, on any thread.
    """

    on_note: Callable[[str], None]
    on_retry_prometheus: Callable[[str], None]
    on_retry_kubernetes: Callable[[str], None]


@contextmanager
def ports_to_plan(
    config: Config, targets: Sequence[Target], reporter: Reporter, notes: PlanNotes
) -> Iterator[tuple[Ports, ListedAutoscalers]]:
    """Open the connections that the configuration names: everything is read, nothing written.

    Gives with them the other autoscalers of the ``targets``.  Raises ConnectError when there is no
    usable way to a cluster; nothing is asked yet.
    """
    server = find_api_server(config.kubernetes.kubeconfig, config.kubernetes.context)
    stop, on_retry = threading.Event(), notes.on_retry_prometheus
    with (
        closing(server.connect(on_retry=notes.on_retry_kubernetes)) as api,
        closing(prometheus_reader(config.prometheus, stop, on_retry)) as prometheus,
    ):
        namespaces = {target.namespace for target in targets}
        others = ListedAutoscalers(api, namespaces, notes.on_note)
        reads = (Scales(api), NoWrites(), Pods(api))
        yield Ports(prometheus, NothingCached(), *reads, reporter), others


@dataclass(frozen=True, slots=True)
class Surroundings:
    """What connections need of the daemon.

    ``may_write_until`` and ``leading`` are the gate before every write and every Event;
    ``on_note`` is told whether something can be watched, ``on_event_note`` whether Events can be
    written, each with a sentence.
    """

    stop: threading.Event
    seen: RequestsSeen
    instruments: Instruments
    on_note: Callable[[bool, str], None]
    on_event_note: Callable[[bool, str], None]
    may_write_until: Callable[[], float] = lambda: math.inf
    leading: Callable[[], bool] = lambda: True
    on_fault: Callable[[BaseException], None] = lambda _: None


def watched_cluster(api: Api, targets: Sequence[Target], around: Surroundings) -> WatchedCluster:
    """Return what is known of the cluster for as long as the daemon runs; nothing is asked yet."""
    scales = Scales(api, around.may_write_until)
    return WatchedCluster(api, scales, Pods(api), targets, on_note=around.on_note)


def watch(cluster: WatchedCluster, stop: threading.Event) -> None:
    """Begin the watches, and wait for them a while; what is not there by then is read."""
    cluster.start()
    until = clock.monotonic() + SYNCED_WITHIN_SECONDS
    while not stop.is_set() and clock.monotonic() < until:
        if cluster.wait_synced(min(until, clock.monotonic() + _STOP_CHECK_SECONDS)):
            break


class Connections:
    """What another configuration may replace: the way to Prometheus, and who writes Events.

    Which cluster it is stays as it was: the Lease and the histories belong to it.
    """

    def __init__(self, config: Config, api: Api, around: Surroundings) -> None:
        """Prepare what the configuration names; nothing is asked yet."""
        self._settings = _settings(config)
        with ExitStack() as opened:
            self.prometheus = opened.enter_context(closing(_reader(config.prometheus, around)))
            self.events: EventReporter | None = None
            if config.events:
                self.events = opened.enter_context(
                    closing(
                        EventReporter(
                            Events(api),
                            leading=around.leading,
                            on_note=around.on_event_note,
                            on_fault=around.on_fault,
                        )
                    )
                )
            self._opened = opened.pop_all()

    def serves(self, config: Config) -> bool:
        """Tell whether these are the connections that a configuration names."""
        return _settings(config) == self._settings

    def close(self) -> None:
        """Write the Events that are left, for seconds at most, and close the connections."""
        self._opened.close()


def _settings(config: Config) -> tuple[object, ...]:
    """Return the part of a configuration that `Connections` depend on."""
    return (config.prometheus, config.events)


def _reader(settings: PrometheusSettings, around: Surroundings) -> PrometheusReader:
    return PrometheusReader(
        _prometheus_options(settings),
        around.stop,
        on_request=around.seen.prometheus,
        on_retry=lambda _: around.instruments.prometheus_retry(),
    )


def prometheus_reader(
    settings: PrometheusSettings,
    stop: threading.Event,
    on_retry: Callable[[str], None] = lambda _: None,
) -> PrometheusReader:
    """Return what asks the Prometheus of a configuration; nothing is asked yet."""
    return PrometheusReader(_prometheus_options(settings), stop, on_retry=on_retry)


def _prometheus_options(settings: PrometheusSettings) -> PrometheusOptions:
    tls, basic = settings.tls, settings.basic_auth
    return PrometheusOptions(
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
        headers={name: value.get_secret_value() for name, value in settings.headers.items()},
        query_parameters=settings.query_parameters,
    )


def _text(path: Path | None) -> str | None:
    return None if path is None else str(path)
