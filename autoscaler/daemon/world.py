"""The outside world as the configuration describes it."""

import threading
from collections.abc import Iterator
from contextlib import contextmanager

from autoscaler.adapters.cluster import Pods, Scales, connect
from autoscaler.adapters.prometheus import PrometheusOptions, PrometheusReader
from autoscaler.app.plan import NoWrites
from autoscaler.app.ports import Reporter
from autoscaler.app.sync import World
from autoscaler.config import Config


@contextmanager
def connected(
    config: Config, reporter: Reporter, stop: threading.Event, *, writes: bool
) -> Iterator[World]:
    """Open the connections that the configuration names, and close them at the end.

    Without ``writes`` nothing can be written.  Raises ConnectError when there is no usable
    way to a cluster; Prometheus is not asked yet.
    """
    api = connect(config.kubernetes.kubeconfig, config.kubernetes.context, stop=stop)
    prometheus = PrometheusReader(_prometheus_options(config), stop)
    scales = Scales(api)
    try:
        yield World(
            metrics=prometheus,
            scales=scales,
            writer=scales if writes else NoWrites(),
            pods=Pods(api),
            reporter=reporter,
        )
    finally:
        prometheus.close()
        api.close()


def _prometheus_options(config: Config) -> PrometheusOptions:
    raise NotImplementedError
