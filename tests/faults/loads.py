"""Deployments, the load that Prometheus shows of each, and a configuration that scales them."""

import itertools
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from tests.adapters.prometheus.exporter import Exporter
from tests.adapters.prometheus.server import PrometheusServer
from tests.controlplane import workloads
from tests.controlplane.api import Api, Json
from tests.controlplane.server import ControlPlane
from tests.controlplane.waiting import wait_until

LOW, HIGH = 3, 6
MINIMUM, MAXIMUM = 2, 9
_PER_REPLICA = 10
_SWING_SECONDS = 0.7
"""Not a divisor of the syncs' period, so that most syncs find another load."""


def metric_of(name: str) -> str:
    """Return the metric that a target is scaled on."""
    return f"load_{name.replace('-', '_')}"


def target(namespace: str, name: str) -> dict[str, object]:
    """Return a target of 10 a replica that moves at once, as far as it should, both ways."""
    rules = {
        "stabilizationWindowSeconds": 0,
        "policies": [{"type": "Pods", "value": 100, "periodSeconds": 1}],
    }
    return {
        "namespace": namespace,
        "scaleTargetRef": {"apiVersion": "apps/v1", "kind": "Deployment", "name": name},
        "minReplicas": MINIMUM,
        "maxReplicas": MAXIMUM,
        "metrics": [
            {
                "type": "External",
                "external": {
                    "metric": {"name": metric_of(name)},
                    "target": {"type": "AverageValue", "averageValue": str(_PER_REPLICA)},
                },
            }
        ],
        "behavior": {"scaleUp": rules, "scaleDown": rules},
    }


def configuration(prometheus: str, namespace: str, *names: str) -> dict[str, object]:
    """Return a configuration of such targets, each with a query of its own."""
    return {
        "prometheus": {"url": prometheus},
        "syncPeriod": "1s",
        "queries": {metric_of(name): f"sum({metric_of(name)})" for name in names},
        "targets": [target(namespace, name) for name in names],
    }


@dataclass
class Workloads:
    """Deployments of one namespace, and the load that is to be seen of each."""

    plane: ControlPlane
    api: Api
    namespace: str
    token: str
    """The daemon's."""
    prometheus: PrometheusServer
    exporter: Exporter

    def create(self, name: str, replicas: int) -> None:
        """Create a Deployment."""
        path = workloads.collection("Deployment", self.namespace)
        self.api.create(path, workloads.deployment(name, replicas))

    def path(self, name: str) -> str:
        """Return the path of a Deployment."""
        return f"{workloads.collection('Deployment', self.namespace)}/{name}"

    def key(self, name: str) -> str:
        """Return what the daemon calls a Deployment."""
        return f"{self.namespace}/Deployment/{name}"

    def replicas(self, name: str) -> int:
        """Return how many are asked for."""
        found: int = self._deployment(name)["spec"]["replicas"]
        return found

    def changes(self, name: str) -> int:
        """Return how often the spec was changed."""
        found: int = self._deployment(name)["metadata"]["generation"]
        return found

    def set_by_hand(self, name: str, replicas: int) -> None:
        """Let somebody else set the replicas."""
        self.api.patch(self.path(name), {"spec": {"replicas": replicas}})

    def demand(self, name: str, replicas: float | None) -> None:
        """Let the load be what so many replicas are for, which may be NaN; None for no series."""
        if replicas is None:
            self.exporter.remove(metric_of(name))
        else:
            self.exporter.set(metric_of(name), value=replicas * _PER_REPLICA)

    @contextmanager
    def swinging(self, *names: str, every: float = _SWING_SECONDS) -> Iterator[None]:
        """Let loads go up and down all the time, neighbours against each other."""
        stop = threading.Event()

        def swing() -> None:
            for counts in itertools.cycle([(HIGH, LOW), (LOW, HIGH)]):
                for name, replicas in zip(names, itertools.cycle(counts), strict=False):
                    self.demand(name, replicas)
                if stop.wait(every):
                    return

        thread = threading.Thread(target=swing)
        thread.start()
        try:
            yield
        finally:
            stop.set()
            thread.join()

    def wait_seen(self, name: str, replicas: int) -> None:
        """Wait until Prometheus shows the load of so many replicas."""
        self.prometheus.wait_for(f"{metric_of(name)} == {replicas * _PER_REPLICA}")

    def wait_for(self, name: str, replicas: int, timeout: float = 60.0) -> None:
        """Wait until so many replicas are asked for."""

        def there() -> bool:
            seen = self.replicas(name)
            assert MINIMUM <= seen <= MAXIMUM
            return seen == replicas

        wait_until(f"{name} at {replicas}", there, timeout=timeout)

    def _deployment(self, name: str) -> Json:
        return self.api.get(self.path(name))
