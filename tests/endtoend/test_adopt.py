"""`autoscaler adopt` beside the real HPA controller: over and back, and no count ever moves."""

import json
import subprocess
from collections.abc import Iterator, Mapping
from contextlib import ExitStack
from dataclasses import dataclass, replace
from pathlib import Path

import pytest
import yaml

from benchmarks.hpa import HpaController
from tests.worlds.cluster import others
from tests.worlds.controlplane import workloads
from tests.worlds.controlplane.api import Api, ApiError, Json
from tests.worlds.controlplane.kubelet import FakeKubelet
from tests.worlds.controlplane.metrics_api import MetricsApi
from tests.worlds.controlplane.server import ControlPlane
from tests.worlds.counts import Counts
from tests.worlds.daemon import DaemonProcess, Document, command, external, write_config
from tests.worlds.prometheus.exporter import Exporter
from tests.worlds.prometheus.server import PrometheusServer
from tests.worlds.service_account import service_account
from tests.worlds.waiting import Background, wait_until
from tests.worlds.world import World

PERIOD_SECONDS = 1
FLAGS = (
    f"--horizontal-pod-autoscaler-sync-period={PERIOD_SECONDS}s",
    "--kube-api-qps=1000",
    "--kube-api-burst=2000",
)
STEADY, HELD = 3, 5


def metric(app: str) -> Document:
    """Return the metric of a workload, which the HPA and a daemon read alike."""
    return external("adopted", "1", app=app)


@dataclass(frozen=True)
class Bed:
    """A namespace with real HPAs, and a daemon that has their workloads in shadow."""

    world: World
    daemon: DaemonProcess
    user: Mapping[str, str]
    """The environment of an operator."""

    @property
    def autoscalers(self) -> str:
        """The path of the HPAs."""
        return others.path_of(self.world.namespace)

    def adopt(self, *arguments: object, code: int | None = 0) -> subprocess.CompletedProcess[str]:
        """Run the command for the daemon's file."""
        url = f"http://{self.daemon.address}"
        argv = ("adopt", "-c", self.daemon.file, "--url", url, *arguments)
        return command(*argv, environment=self.user, code=code)

    def want(self, app: str, replicas: int) -> None:
        """Have a workload need so many replicas."""
        labels = {"namespace": self.world.namespace, "app": app}
        self.world.exporter.set("adopted", labels, replicas)

    def status(self, name: str) -> Json:
        """Return what an HPA has decided."""
        status: Json = self.world.api.get(f"{self.autoscalers}/{name}").get("status") or {}
        return status

    def there(self) -> list[str]:
        """Return the names of the HPAs that are there."""
        return [one["metadata"]["name"] for one in self.world.api.get(self.autoscalers)["items"]]

    def state(self, name: str) -> str:
        """Return the state of a target."""
        text = self.daemon.page(f"/api/v1/targets/{self.world.key(name)}")
        state: str = json.loads(text)["state"]["state"]
        return state


@pytest.fixture(scope="module")
def bed(
    control_plane: ControlPlane,
    admin_api: Api,
    kubelet: FakeKubelet,  # noqa: ARG001 - the HPA counts pods
    tmp_path_factory: pytest.TempPathFactory,
) -> Iterator[Bed]:
    """Start it; each test has workloads of its own."""
    folder, namespace = tmp_path_factory.mktemp("adopt"), "adopting"
    admin_api.create("/api/v1/namespaces", {"metadata": {"name": namespace}})
    prometheus = PrometheusServer(folder / "prometheus", scrape_interval="200ms")
    with ExitStack() as stack:
        exporter = stack.enter_context(Exporter())
        stack.enter_context(prometheus.start([exporter.target]))
        stack.enter_context(MetricsApi(admin_api, prometheus.samples, folder))
        token = stack.enter_context(service_account(admin_api, namespace))
        stack.enter_context(HpaController(control_plane, folder, FLAGS))
        kubeconfig = control_plane.write_kubeconfig(folder / "kubeconfig", token)
        environment = {"KUBECONFIG": str(kubeconfig)}
        world = World(
            control_plane, admin_api, namespace, environment, prometheus, exporter, folder
        )
        file = write_config(folder / "autoscaler.yaml", document(world))
        daemon = stack.enter_context(DaemonProcess(file, environment))
        daemon.wait_event("started")
        yield Bed(world, daemon, {"KUBECONFIG": str(control_plane.kubeconfig)})
        assert daemon.stop() == 0
    admin_api.delete(f"/api/v1/namespaces/{namespace}")


def document(world: World, **more: object) -> Document:
    """Return a configuration without a target; those of the tests are in files beside it."""
    (world.folder / "none.yaml").write_text("targets: []\n")
    return {
        "prometheus": {"url": world.prometheus.url},
        "syncPeriod": f"{PERIOD_SECONDS}s",
        "listen": "127.0.0.1:0",
        "queries": {"adopted": f'adopted{{namespace="{world.namespace}"}}'},
        "include": ["*.targets.yaml", "none.yaml"],
        **more,
    }


def test_it_goes_over_and_back_and_no_count_moves(bed: Bed) -> None:
    """One whose load is as its count, and one that the HPA holds by its stabilization window."""
    world, names = bed.world, ("steady", "held")
    for name, replicas in (("steady", STEADY), ("held", HELD)):
        bed.want(name, replicas)
        world.deploy(name)
        hpa = others.autoscaler(name, of=name)
        hpa["spec"] |= {"maxReplicas": 10, "metrics": [metric(name)]}
        others.create(world.api, world.namespace, hpa)
    # As people write it.
    entries = "".join(
        f"# {name}\n- namespace: {world.namespace}\n"
        f"  scaleTargetRef: {{apiVersion: apps/v1, kind: Deployment, name: {name}}}\n"
        f"  mode: shadow  # until it is trusted\n  maxReplicas: 10\n"
        f"  metrics: {json.dumps([metric(name)])}\n"
        for name in names
    )
    file = world.folder / "both.targets.yaml"
    file.write_text(f"targets:\n{entries}")
    wait_until("the HPAs have scaled", lambda: world.replicas("held") == HELD)
    bed.daemon.wait("shadow", lambda: all(bed.daemon.syncs(world.key(name)) for name in names))
    bed.want("held", 2)
    wait_until(
        "the HPA holds it",
        lambda: "ScaleDownStabilized" in json.dumps(bed.status("held").get("conditions")),
    )
    keys = [f"{world.namespace}/{name}" for name in names]
    with Counts(world.api, world.namespace) as counts:
        print(bed.adopt(*keys).stdout)
        print(bed.adopt(*keys, "--execute").stdout)
        assert bed.there() == []
        print(bed.adopt(*keys, "--back").stdout)
        print(bed.adopt(*keys, "--back", "--execute").stdout)
        assert sorted(bed.there()) == sorted(names)
        wait_until("the HPAs sync", lambda: all(bed.status(name) for name in names))
    print(file.read_text())
    assert {name: [count for _, count in seen] for name, seen in counts.seen.items()} == {
        "steady": [STEADY],
        "held": [HELD],
    }
