"""The outside world as the configuration describes it."""

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from autoscaler.adapters.cluster import Pods, Scales, connect
from autoscaler.adapters.prometheus import PrometheusOptions, PrometheusReader
from autoscaler.app.plan import NothingAtHand, NoWrites
from autoscaler.app.ports import Reporter
from autoscaler.app.sync import World
from autoscaler.config import Config, PrometheusSettings


@contextmanager
def connected(
    config: Config, reporter: Reporter, stop: threading.Event, *, writes: bool
) -> Iterator[World]:
    """Open the connections that the configuration names, and close them at the end.

    Without ``writes`` nothing can be written.  Raises ConnectError when there is no usable
    way to a cluster; Prometheus is not asked yet.
    """
    api = connect(config.kubernetes.kubeconfig, config.kubernetes.context, stop=stop)
    prometheus = PrometheusReader(_prometheus_options(config.prometheus), stop)
    scales = Scales(api)
    try:
        yield World(
            metrics=prometheus,
            at_hand=NothingAtHand(),
            scales=scales,
            writer=scales if writes else NoWrites(),
            pods=Pods(api),
            reporter=reporter,
        )
    finally:
        prometheus.close()
        api.close()


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
