"""Deployments of which a Prometheus demands four replicas; workloads beside the real HPA."""

from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from typing import TypeAlias

import pytest

from benchmarks.hpa import HpaController
from tests.worlds.controlplane.api import Api
from tests.worlds.controlplane.kubelet import FakeKubelet
from tests.worlds.controlplane.metrics_api import MetricsApi
from tests.worlds.controlplane.server import ControlPlane
from tests.worlds.daemon import Document
from tests.worlds.prometheus.exporter import Exporter
from tests.worlds.prometheus.server import PrometheusServer
from tests.worlds.service_account import service_account
from tests.worlds.world import DEMAND, World

HPA_FLAGS = (
    "--horizontal-pod-autoscaler-sync-period=1s",
    "--kube-api-qps=1000",
    "--kube-api-burst=2000",
)
HpaWorld: TypeAlias = Callable[..., AbstractContextManager[World]]


@pytest.fixture
def document(world: World) -> Document:
    """Return a configuration of the target `a`; there are Deployments `a` and `b`."""
    world.want(DEMAND)
    for name in ("a", "b"):
        world.deploy(name)
    return world.document(world.target("a"))


@pytest.fixture(scope="module")
def hpa_world(
    control_plane: ControlPlane,
    admin_api: Api,
    kubelet: FakeKubelet,  # noqa: ARG001 - the HPA counts pods
    tmp_path_factory: pytest.TempPathFactory,
) -> HpaWorld:
    """Give a function that runs the real HPA controller, with flags, for a new namespace."""

    @contextmanager
    def start(namespace: str, flags: Sequence[str] = HPA_FLAGS) -> Iterator[World]:
        folder = tmp_path_factory.mktemp(namespace)
        admin_api.create("/api/v1/namespaces", {"metadata": {"name": namespace}})
        prometheus = PrometheusServer(folder / "prometheus", scrape_interval="200ms")
        with (
            Exporter() as exporter,
            prometheus.start([exporter.target]),
            MetricsApi(admin_api, prometheus.samples, folder),
            service_account(admin_api, namespace) as token,
            HpaController(control_plane, folder, flags),
        ):
            kubeconfig = control_plane.write_kubeconfig(folder / "kubeconfig", token)
            environment = {"KUBECONFIG": str(kubeconfig)}
            yield World(
                control_plane, admin_api, namespace, environment, prometheus, exporter, folder
            )
        admin_api.delete(f"/api/v1/namespaces/{namespace}")

    return start
