"""Deployments that follow their queues, and real daemons with one Lease that see to it."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from autoscaler import clock
from tests.worlds.daemon import DaemonProcess, Document, external, target
from tests.worlds.waiting import wait_until
from tests.worlds.world import World


@dataclass
class Shop(World):
    """A namespace with Deployments, a queue for each of them, and daemons that elect a leader."""

    behaviors: dict[str, object] = field(default_factory=dict)
    """How each Deployment is scaled."""

    def open(self, behaviors: Mapping[str, object], replicas: int) -> None:
        """Create Deployments that need as many replicas as they have."""
        self.behaviors.update(behaviors)
        for name in behaviors:
            self.deploy(name, replicas)
            self.load(name, replicas)
        self.prometheus.wait_for(self.metric, count=len(behaviors))

    def load(self, name: str, replicas: int) -> None:
        """Fill a queue for so many replicas."""
        self.exporter.set(self.metric, {"queue": name}, replicas)

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
        self, user: str, election: Document, *arguments: str, **more: object
    ) -> DaemonProcess:
        """Run a daemon as a user, with these settings of the election."""
        kubeconfig = self.folder / f"{user}.kubeconfig"
        self.plane.write_kubeconfig(kubeconfig, self.plane.token_for(user))
        named = {"enabled": True, "namespace": self.namespace, "identity": user}
        document = self.document(
            *map(self._of_queue, self.behaviors),
            leaderElection=election | named,
            queries={"queue": f"sum by (queue) ({self.metric})"},
            listen=None,
            **more,
        )
        file = self.write(document, user)
        return DaemonProcess(file, {"KUBECONFIG": str(kubeconfig)}, *arguments)

    def _of_queue(self, name: str) -> Document:
        scaled = {"maxReplicas": 40, "behavior": self.behaviors[name]}
        return target(self.namespace, name, external("queue", 1, queue=name), **scaled)


def rules(pods: int, seconds: int) -> dict[str, object]:
    """Return the rules of a direction: no window, and so many pods in so many seconds."""
    policy = {"type": "Pods", "value": pods, "periodSeconds": seconds}
    return {"stabilizationWindowSeconds": 0, "policies": [policy]}
