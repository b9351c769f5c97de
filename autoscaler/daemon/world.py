"""The outside world as the configuration describes it."""

import threading
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from pathlib import Path

from autoscaler import clock
from autoscaler.adapters.cluster import Api, Pods, Scales, WatchedCluster, connect
from autoscaler.adapters.prometheus import PrometheusOptions, PrometheusReader
from autoscaler.app.plan import NothingAtHand, NoWrites
from autoscaler.app.ports import Reporter, World
from autoscaler.config import Config, PrometheusSettings

SYNCED_WITHIN_SECONDS = 10.0
"""How long the first sync waits for the watches; what is not there by then is read."""

_STOP_CHECK_SECONDS = 0.2


@contextmanager
def world_to_plan(config: Config, reporter: Reporter) -> Iterator[World]:
    """Open the connections that the configuration names: everything is read, nothing written.

    Raises ConnectError when there is no usable way to a cluster; nothing is asked yet.
    """
    stop = threading.Event()
    with (
        closing(_api(config, stop)) as api,
        closing(PrometheusReader(_prometheus_options(config.prometheus), stop)) as prometheus,
    ):
        yield World(prometheus, NothingAtHand(), Scales(api), NoWrites(), Pods(api), reporter)


@contextmanager
def world_to_run(
    config: Config, reporter: Reporter, stop: threading.Event, on_note: Callable[[str], None]
) -> Iterator[World]:
    """Open the connections that the configuration names, and watch what the targets need.

    ``on_note`` is told what cannot be watched and is read one by one.  Raises ConnectError as
    `world_to_plan` does.
    """
    with (
        closing(_api(config, stop)) as api,
        closing(PrometheusReader(_prometheus_options(config.prometheus), stop)) as prometheus,
        closing(
            WatchedCluster(api, Scales(api), Pods(api), config.targets, on_note=on_note)
        ) as cluster,
    ):
        cluster.start()
        until = clock.monotonic() + SYNCED_WITHIN_SECONDS
        while not stop.is_set() and clock.monotonic() < until:
            if cluster.wait_synced(min(until, clock.monotonic() + _STOP_CHECK_SECONDS)):
                break
        yield World(prometheus, cluster, cluster, cluster, cluster, reporter)


def _api(config: Config, stop: threading.Event) -> Api:
    return connect(config.kubernetes.kubeconfig, config.kubernetes.context, stop=stop)


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
