"""The outside world as the configuration describes it."""

import math
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, closing, contextmanager
from dataclasses import dataclass
from pathlib import Path

from autoscaler import clock
from autoscaler.adapters.cluster import Api, Pods, Scales, WatchedCluster, connect
from autoscaler.adapters.cluster.autoscalers import ListedAutoscalers
from autoscaler.adapters.cluster.events import Events
from autoscaler.adapters.prometheus import PrometheusOptions, PrometheusReader
from autoscaler.app.plan import NoWrites
from autoscaler.app.ports import Reporter, World
from autoscaler.config import Config, KubernetesSettings, PrometheusSettings
from autoscaler.core.target import Target
from autoscaler.daemon.events import EventReporter
from autoscaler.daemon.exposition import Instruments, RequestsSeen

SYNCED_WITHIN_SECONDS = 10.0
"""How long the first sync waits for the watches; what is not there by then is read."""

_STOP_CHECK_SECONDS = 0.2

_INSECURE = (
    "{}: insecure-skip-tls-verify is set, so that anyone on the way to the API server can read the "
    "credentials and answer in its place; name the authority in certificate-authority instead"
)


@contextmanager
def world_to_plan(
    config: Config, targets: Sequence[Target], reporter: Reporter, on_note: Callable[[str], None]
) -> Iterator[World]:
    """Open the connections that the configuration names: everything is read, nothing written.

    ``on_note`` is told if other autoscalers of the ``targets`` cannot be known.
    Raises ConnectError when there is no usable way to a cluster; nothing is asked yet.
    """
    stop = threading.Event()
    with (
        closing(connect(config.kubernetes.kubeconfig, config.kubernetes.context)) as api,
        closing(PrometheusReader(_prometheus_options(config.prometheus), stop)) as prometheus,
    ):
        others = ListedAutoscalers(api, {target.namespace for target in targets}, on_note)
        yield World(prometheus, others, Scales(api), NoWrites(), Pods(api), reporter)


@dataclass(frozen=True, slots=True)
class Surroundings:
    """What connections need of the daemon.

    ``may_write_until`` and ``leading`` are the gate before every write and every Event;
    ``on_note`` is told in sentences what cannot be watched, ``on_event_note`` that Events cannot
    be written.
    """

    stop: threading.Event
    seen: RequestsSeen
    instruments: Instruments
    on_note: Callable[[str], None]
    on_event_note: Callable[[str], None]
    may_write_until: Callable[[], float] = lambda: math.inf
    leading: Callable[[], bool] = lambda: True


class Connections:
    """The connections of a running daemon: Prometheus, the watched cluster, and its Events."""

    def __init__(self, config: Config, around: Surroundings) -> None:
        """Prepare what the configuration names; nothing is asked yet.

        Raises ConnectError when there is no usable way to a cluster.
        """
        self._settings = _settings(config)
        self._stop = around.stop
        with ExitStack() as opened:
            api = opened.enter_context(closing(_watching_api(config.kubernetes, around)))
            self.insecure = None if api.verified else _INSECURE.format(api.origin)
            """A warning for the operator, if the API server need not prove who it is."""
            self.prometheus = opened.enter_context(closing(_reader(config.prometheus, around)))
            scales = Scales(api, around.may_write_until)
            self.cluster = opened.enter_context(
                closing(
                    WatchedCluster(api, scales, Pods(api), config.targets, on_note=around.on_note)
                )
            )
            self.events: EventReporter | None = None
            if config.events:
                self.events = opened.enter_context(
                    closing(
                        EventReporter(
                            Events(api), leading=around.leading, on_note=around.on_event_note
                        )
                    )
                )
            self._opened = opened.pop_all()

    def serves(self, config: Config) -> bool:
        """Tell whether these are the connections that a configuration names."""
        return _settings(config) == self._settings

    def watch(self) -> None:
        """Begin the watches, and wait for them a while; what is not there by then is read."""
        self.cluster.start()
        until = clock.monotonic() + SYNCED_WITHIN_SECONDS
        while not self._stop.is_set() and clock.monotonic() < until:
            if self.cluster.wait_synced(min(until, clock.monotonic() + _STOP_CHECK_SECONDS)):
                break

    @property
    def synced(self) -> bool:
        """Whether all that can be watched is at hand."""
        return self.cluster.wait_synced(clock.monotonic())

    def close(self) -> None:
        """Write the Events that are left, end the watches and close the connections."""
        self._opened.close()


def _settings(config: Config) -> tuple[object, ...]:
    """Return the part of a configuration that connections depend on.

    Which cluster it is they learn once: the Lease and the histories belong to it.
    """
    return (config.prometheus, config.events)


def _watching_api(settings: KubernetesSettings, around: Surroundings) -> Api:
    return connect(
        settings.kubeconfig,
        settings.context,
        stop=around.stop,
        on_request=around.seen.kubernetes,
        on_retry=around.instruments.kubernetes_retry,
    )


def _reader(settings: PrometheusSettings, around: Surroundings) -> PrometheusReader:
    return PrometheusReader(
        _prometheus_options(settings),
        around.stop,
        on_request=around.seen.prometheus,
        on_retry=around.instruments.prometheus_retry,
    )


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
