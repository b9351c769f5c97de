"""Deployments that follow their queues, and real daemons with one Lease that see to it."""

import secrets
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from autoscaler import clock
from tests.worlds.controlplane import workloads
from tests.worlds.controlplane.api import Api
from tests.worlds.controlplane.server import ControlPlane
from tests.worlds.daemon import DaemonProcess, write_config
from tests.worlds.prometheus.exporter import Exporter
from tests.worlds.waiting import wait_until


class Shop:
    """A namespace with Deployments of so many replicas, and a queue for each of them."""

    def __init__(
        self,
        plane: ControlPlane,
        api: Api,
        exporter: Exporter,
        names: Iterable[str],
        replicas: int,
    ) -> None:
        self.namespace = f"shop-{secrets.token_hex(5)}"
        self.deployments = workloads.collection("Deployment", self.namespace)
        self.queues = f'queue_messages{{namespace="{self.namespace}"}}'
        """Selects the queues; others are in the same Prometheus."""
        self.api = api
        self._plane, self._exporter = plane, exporter
        api.create("/api/v1/namespaces", {"metadata": {"name": self.namespace}})
        for name in names:
            api.create(self.deployments, workloads.deployment(name, replicas))
            self.load(name, replicas)

    def load(self, name: str, replicas: int) -> None:
        """Fill a queue for so many replicas."""
        labels = {"namespace": self.namespace, "queue": name}
        self._exporter.set("queue_messages", labels, replicas)

    def holder(self) -> str:
        """Return who holds the Lease, without the random part."""
        path = f"/apis/coordination.k8s.io/v1/namespaces/{self.namespace}/leases"
        items = self.api.get(path)["items"]
        holder = items[0]["spec"].get("holderIdentity") or "" if items else ""
        return str(holder).partition("_")[0]

    def wait_held(self, user: str) -> float:
        """Return when a user's daemon holds the Lease."""
        wait_until(f"{user} holds the Lease", lambda: self.holder() == user, interval=0.02)
        return clock.monotonic()

    def daemon(
        self,
        user: str,
        folder: Path,
        document: dict[str, Any],
        behaviors: Mapping[str, object],
        *arguments: str,
    ) -> DaemonProcess:
        """Run a daemon as a user, of targets with these behaviors; the document has the rest."""
        kubeconfig = folder / f"{user}.kubeconfig"
        self._plane.write_kubeconfig(kubeconfig, self._plane.token_for(user))
        election = document["leaderElection"]
        whole = document | {
            "syncPeriod": "1s",
            "leaderElection": election | {"namespace": self.namespace, "identity": user},
            "queries": {"queue_messages": f"sum by (queue) ({self.queues})"},
            "targets": [self._target(*each) for each in behaviors.items()],
        }
        file = write_config(folder / f"{user}.yaml", whole)
        return DaemonProcess(file, {"KUBECONFIG": str(kubeconfig)}, *arguments)

    def _target(self, name: str, behavior: object) -> dict[str, object]:
        metric = {"name": "queue_messages", "selector": {"matchLabels": {"queue": name}}}
        target = {"type": "AverageValue", "averageValue": 1}
        return {
            "namespace": self.namespace,
            "scaleTargetRef": {"apiVersion": "apps/v1", "kind": "Deployment", "name": name},
            "maxReplicas": 40,
            "metrics": [{"type": "External", "external": {"metric": metric, "target": target}}],
            "behavior": behavior,
        }


def rules(pods: int, seconds: int) -> dict[str, object]:
    """Return the rules of a direction: no window, and so many pods in so many seconds."""
    policy = {"type": "Pods", "value": pods, "periodSeconds": seconds}
    return {"stabilizationWindowSeconds": 0, "policies": [policy]}
