"""Two Deployments, `a` and `b`, and a Prometheus that demands four replicas of everything."""

import pytest

from tests.adapters.prometheus.exporter import Exporter
from tests.adapters.prometheus.server import PrometheusServer
from tests.controlplane import workloads
from tests.controlplane.api import Api
from tests.endtoend.demand import DEMAND, Document, target


@pytest.fixture
def prometheus(
    prometheus_exporter: Exporter, prometheus_server: PrometheusServer
) -> PrometheusServer:
    """Have the Prometheus of all tests ask for four replicas of everything."""
    prometheus_exporter.set("demand", {}, DEMAND)
    prometheus_server.wait_for(f"demand == {DEMAND}")
    return prometheus_server


@pytest.fixture
def document(prometheus: PrometheusServer, admin_api: Api, namespace: str) -> Document:
    """Return a configuration of the target `a`; there are Deployments `a` and `b`."""
    for name in ("a", "b"):
        admin_api.create(
            workloads.collection("Deployment", namespace), workloads.deployment(name, replicas=1)
        )
    return {
        "prometheus": {"url": prometheus.url},
        "syncPeriod": "1s",
        "listen": "127.0.0.1:0",
        "queries": {"demand": "demand"},
        "targets": [target(namespace, "a")],
    }
