"""A namespace with Deployments, the load that Prometheus shows of them, and daemons."""

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.worlds.controlplane import kubelet, workloads
from tests.worlds.controlplane.api import Api, Json
from tests.worlds.controlplane.server import ControlPlane
from tests.worlds.daemon import DaemonProcess, Document, external, running, target, write_config
from tests.worlds.prometheus.exporter import Exporter
from tests.worlds.prometheus.server import PrometheusServer
from tests.worlds.service_account import Rule, service_account
from tests.worlds.waiting import wait_until

DEMAND = 4
"""The replicas that every Deployment should have at first."""


@dataclass
class World:
    """The surroundings of a daemon.  Its load is a series of this namespace only, `metric`."""

    plane: ControlPlane
    api: Api
    namespace: str
    environment: Mapping[str, str]
    """The environment of a daemon with the rights of config/kubernetes."""
    prometheus: PrometheusServer
    exporter: Exporter
    folder: Path

    # -- Deployments -----------------------------------------------------------------------------

    def key(self, name: str) -> str:
        return f"{self.namespace}/Deployment/{name}"

    def path(self, name: str) -> str:
        return f"{workloads.collection('Deployment', self.namespace)}/{name}"

    def deploy(self, name: str, replicas: int = 1, *, paused: bool = False, **more: Any) -> str:
        """Create a Deployment, and return its key; a paused one gets no pods."""
        manifest = workloads.deployment(name, replicas, **more)
        manifest["spec"]["paused"] = paused
        self.api.create(workloads.collection("Deployment", self.namespace), manifest)
        return self.key(name)

    def deployment(self, name: str) -> Json:
        return self.api.get(self.path(name))

    def replicas(self, name: str) -> int:
        return int(self.deployment(name)["spec"]["replicas"])

    def all_replicas(self) -> dict[str, int]:
        """Return how many are asked for of each."""
        deployments = self.api.get(workloads.collection("Deployment", self.namespace))["items"]
        return {item["metadata"]["name"]: item["spec"]["replicas"] for item in deployments}

    def changes(self, name: str) -> int:
        """Return how often the spec was changed."""
        return int(self.deployment(name)["metadata"]["generation"])

    def set_by_hand(self, name: str, replicas: int, manager: str = "by-hand") -> None:
        path = f"{self.path(name)}?fieldManager={manager}"
        self.api.patch(path, {"spec": {"replicas": replicas}})

    def ready(self, name: str) -> list[str]:
        path = workloads.collection("Pod", self.namespace)
        pods = self.api.get(path, labelSelector=f"app={name}")["items"]
        return sorted(pod["metadata"]["name"] for pod in pods if kubelet.is_ready(pod))

    def wait_pods(self, name: str, count: int) -> list[str]:
        wait_until(f"{count} pods of {name}", lambda: len(self.ready(name)) == count)
        return self.ready(name)

    # -- their load ------------------------------------------------------------------------------

    @property
    def metric(self) -> str:
        """The name of the series that says how many replicas are needed."""
        return f"demand_{self.namespace.replace('-', '_')}"

    def want(self, replicas: float) -> None:
        """Set the demand of all targets to a number of replicas."""
        self.exporter.set(self.metric, {}, replicas)
        self.prometheus.wait_for(f"{self.metric} == {replicas}")

    @contextmanager
    def elsewhere(
        self, change: Callable[[list[Rule]], list[Rule]] = lambda rules: rules
    ) -> Iterator[tuple[str, Mapping[str, str]]]:
        """Make a second installation, in a namespace of its own, with other rights if told so.

        Gives the namespace, and the environment of its daemon.
        """
        name = f"{self.namespace}-elsewhere"
        self.api.create("/api/v1/namespaces", {"metadata": {"name": name}})
        with service_account(self.api, name, change=change) as token:
            kubeconfig = self.plane.write_kubeconfig(self.folder / "elsewhere", token)
            yield name, {"KUBECONFIG": str(kubeconfig)}
        self.api.delete(f"/api/v1/namespaces/{name}")

    # -- daemons ---------------------------------------------------------------------------------

    def target(self, name: str, **more: object) -> Document:
        """Return a target of the demand."""
        return target(self.namespace, name, external("demand", 1), **more)

    def document(self, *targets: Document, **more: object) -> Document:
        """Return a configuration of targets of the demand."""
        return {
            "prometheus": {"url": self.prometheus.url},
            "syncPeriod": "1s",
            "listen": "127.0.0.1:0",
            "queries": {"demand": self.metric},
            "targets": list(targets),
            **more,
        }

    def write(self, document: Mapping[str, object], name: str = "autoscaler") -> Path:
        return write_config(self.folder / f"{name}.yaml", document)

    def start(self, document: Mapping[str, object], *arguments: str) -> DaemonProcess:
        return DaemonProcess(self.write(document), self.environment, *arguments)

    @contextmanager
    def running(self, document: Mapping[str, object], *arguments: str) -> Iterator[DaemonProcess]:
        """Run a daemon that serves, has no fault, and ends as it should."""
        with running(self.write(document), self.environment, *arguments) as daemon:
            yield daemon
