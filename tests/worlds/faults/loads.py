"""Deployments, the load that Prometheus shows of each, and a configuration that scales them."""

import itertools
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from tests.worlds.daemon import DaemonProcess, Document, external, target
from tests.worlds.proxies.http import FaultProxy
from tests.worlds.waiting import beside, wait_until
from tests.worlds.world import World

LOW, HIGH = 3, 6
MINIMUM, MAXIMUM = 2, 9
_PER_REPLICA = 10
_SWING_SECONDS = 0.7
"""Not a divisor of the syncs' period, so that most syncs find another load."""


def metric_of(name: str) -> str:
    return f"load_{name.replace('-', '_')}"


def _like() -> Document:
    """Return the common keys of all targets, as a new object: else YAML would use aliases."""
    at_once = {
        "stabilizationWindowSeconds": 0,
        "policies": [{"type": "Pods", "value": 100, "periodSeconds": 1}],
    }
    return {
        "minReplicas": MINIMUM,
        "maxReplicas": MAXIMUM,
        "behavior": {"scaleUp": at_once, "scaleDown": at_once},
    }


@dataclass
class Workloads(World):
    """Deployments of one namespace, and the load of each."""

    token: str
    """The daemon's."""

    def configuration(self, *names: str, prometheus: str = "", **more: object) -> Document:
        """Return a configuration of targets of 10 a replica, each with a query of its own.

        They move at once, as far as they should, both ways.
        """
        return {
            "prometheus": {"url": prometheus or self.prometheus.url},
            "syncPeriod": "1s",
            "queries": {metric_of(name): f"sum({metric_of(name)})" for name in names},
            "targets": [
                target(self.namespace, name, external(metric_of(name), _PER_REPLICA), **_like())
                for name in names
            ],
            **more,
        }

    def begin(self, name: str, replicas: int, wanted: int) -> str:
        """Create a Deployment with a load, and return its key."""
        self.deploy(name, replicas)
        self.demand(name, wanted)
        self.wait_seen(name, wanted)
        return self.key(name)

    def debugged(
        self, document: Document, through: FaultProxy | None = None, **user: object
    ) -> DaemonProcess:
        """Start a daemon with debug logs, perhaps with a proxy on its way to the API server."""
        environment = self.environment
        if through is not None:
            kubeconfig = through.write_kubeconfig(
                self.folder / "through", **(user or {"token": self.token})
            )
            environment = {"KUBECONFIG": str(kubeconfig)}
        return DaemonProcess(self.write(document), environment, "--log-level", "debug")

    def demand(self, name: str, replicas: float | None) -> None:
        """Set the load for a number of replicas, which may be NaN; None for no series."""
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

        with beside(swing, stop):
            yield

    def wait_seen(self, name: str, replicas: int) -> None:
        self.prometheus.wait_for(f"{metric_of(name)} == {replicas * _PER_REPLICA}")

    def wait_for(self, name: str, replicas: int, timeout: float = 60.0) -> None:
        def there() -> bool:
            seen = self.replicas(name)
            assert MINIMUM <= seen <= MAXIMUM
            return seen == replicas

        wait_until(f"{name} at {replicas}", there, timeout=timeout)
