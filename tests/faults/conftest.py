"""One daemon for all faults, one after the other."""

import secrets
from collections.abc import Iterator
from dataclasses import replace

import pytest

from tests.worlds.controlplane.api import Api
from tests.worlds.controlplane.server import ControlPlane
from tests.worlds.faults.bed import LEFT, RIGHT, Bed
from tests.worlds.faults.loads import HIGH, LOW, Workloads
from tests.worlds.metronome import Metronome
from tests.worlds.prometheus.exporter import Exporter
from tests.worlds.prometheus.server import PrometheusServer
from tests.worlds.proxies.http import FaultProxy
from tests.worlds.service_account import service_account

Metrics = tuple[PrometheusServer, Exporter]


@pytest.fixture(scope="package")
def metrics(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Metrics]:
    """Start a Prometheus that scrapes an exporter five times a second."""
    folder = tmp_path_factory.mktemp("prometheus")
    with Exporter() as exporter, PrometheusServer(folder, scrape_interval="200ms") as server:
        yield server.start([exporter.target]), exporter


@pytest.fixture(scope="package")
def workloads(
    control_plane: ControlPlane,
    admin_api: Api,
    metrics: Metrics,
    tmp_path_factory: pytest.TempPathFactory,
) -> Iterator[Workloads]:
    """Make a namespace, in which the daemon may do what its manifests allow."""
    namespace, folder = f"faults-{secrets.token_hex(5)}", tmp_path_factory.mktemp("workloads")
    admin_api.create("/api/v1/namespaces", {"metadata": {"name": namespace}})
    with service_account(admin_api, namespace) as token:
        kubeconfig = control_plane.write_kubeconfig(folder / "kubeconfig", token)
        environment = {"KUBECONFIG": str(kubeconfig)}
        yield Workloads(control_plane, admin_api, namespace, environment, *metrics, folder, token)
    admin_api.delete(f"/api/v1/namespaces/{namespace}")


@pytest.fixture(scope="package")
def bed(workloads: Workloads, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Bed]:
    """Run a daemon with all its parts, a proxy on each of its ways, and two targets."""
    for name, replicas in ((LEFT, HIGH), (RIGHT, LOW)):
        workloads.begin(name, replicas, replicas)
    own = replace(workloads, folder=tmp_path_factory.mktemp("faults"))
    plane = own.plane
    with (
        FaultProxy(own.prometheus.url) as to_prometheus,
        FaultProxy(plane.url, ca_file=plane.ca_file) as to_api,
        own.debugged(
            own.configuration(
                LEFT,
                RIGHT,
                prometheus=to_prometheus.url,
                stateDirectory=str(own.folder / "state"),
                listen="127.0.0.1:0",
            ),
            to_api,
        ) as daemon,
        Metronome() as metronome,
    ):
        daemon.wait_event("started")
        bed = Bed(own, to_prometheus, to_api, daemon, metronome)
        bed.wait_ready()
        yield bed
        bed.check_unharmed()
        assert daemon.stop() == 0
