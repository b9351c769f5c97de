"""One daemon for all faults, one after the other."""

import secrets
from collections.abc import Iterator
from contextlib import ExitStack

import pytest

from tests.adapters.prometheus.exporter import Exporter
from tests.adapters.prometheus.server import PrometheusServer
from tests.controlplane.api import Api
from tests.controlplane.process import free_port
from tests.controlplane.server import ControlPlane
from tests.endtoend.daemon import DaemonProcess, write_config
from tests.endtoend.rights import service_account
from tests.faults.bed import LEFT, RIGHT, Bed
from tests.faults.loads import HIGH, LOW, Workloads, configuration
from tests.faults.metronome import Metronome
from tests.faults.proxy import FaultProxy

Metrics = tuple[PrometheusServer, Exporter]


@pytest.fixture(scope="package")
def metrics(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Metrics]:
    """Start a Prometheus that scrapes an exporter five times a second."""
    folder = tmp_path_factory.mktemp("prometheus")
    with Exporter() as exporter, PrometheusServer(folder, scrape_interval="200ms") as server:
        yield server.start([exporter.target]), exporter


@pytest.fixture(scope="package")
def workloads(control_plane: ControlPlane, admin_api: Api, metrics: Metrics) -> Iterator[Workloads]:
    """Make a namespace, in which the daemon may do what its manifests allow."""
    namespace = f"faults-{secrets.token_hex(5)}"
    admin_api.create("/api/v1/namespaces", {"metadata": {"name": namespace}})
    with service_account(admin_api, namespace) as token:
        yield Workloads(control_plane, admin_api, namespace, token, *metrics)
    admin_api.delete(f"/api/v1/namespaces/{namespace}")


@pytest.fixture(scope="package")
def bed(workloads: Workloads, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Bed]:
    """Run a daemon with all its parts, a proxy on each of its ways, and two targets."""
    for name, replicas in ((LEFT, HIGH), (RIGHT, LOW)):
        workloads.create(name, replicas)
        workloads.demand(name, replicas)
        workloads.wait_seen(name, replicas)
    folder = tmp_path_factory.mktemp("faults")
    plane, page = workloads.plane, f"127.0.0.1:{free_port()}"
    with ExitStack() as stack:
        to_prometheus = stack.enter_context(FaultProxy(workloads.prometheus.url))
        to_api = stack.enter_context(FaultProxy(plane.url, ca_file=plane.ca_file))
        config = configuration(to_prometheus.url, workloads.namespace, LEFT, RIGHT)
        kept = {"stateDirectory": str(folder / "state"), "listen": page}
        file = write_config(folder / "autoscaler.yaml", config | kept)
        kubeconfig = to_api.write_kubeconfig(folder / "kubeconfig", token=workloads.token)
        daemon = stack.enter_context(
            DaemonProcess(file, {"KUBECONFIG": str(kubeconfig)}, "--log-level", "debug")
        )
        daemon.wait_for("the daemon is up", lambda line: line["event"] == "started")
        metronome = stack.enter_context(Metronome())
        bed = Bed(workloads, to_prometheus, to_api, daemon, f"http://{page}", metronome)
        bed.wait_ready()
        yield bed
        bed.check_unharmed()
        assert daemon.stop() == 0
