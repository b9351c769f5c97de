"""Rolling updates on a real control plane, beside its HPA controller on the same series."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

import pytest

from autoscaler import clock
from tests.adapters.prometheus.exporter import Exporter
from tests.adapters.prometheus.server import PrometheusServer
from tests.adapters.watches import others
from tests.controlplane import workloads
from tests.controlplane.api import Api
from tests.controlplane.hpa import hpa_controller
from tests.controlplane.kubelet import FakeKubelet
from tests.controlplane.metrics_api import MetricsApi
from tests.controlplane.server import ControlPlane
from tests.controlplane.waiting import wait_until
from tests.endtoend.daemon import DaemonProcess, write_config
from tests.endtoend.rights import service_account
from tests.endtoend.surge import (
    CASES,
    PER_REPLICA,
    PERIOD_SECONDS,
    QUERIES,
    REPLICAS,
    Case,
    Cluster,
    Metric,
    Side,
    deployment,
)

HOLD: Mapping[str, object] = {"minReadySeconds": 500}
"""Every pod is ready and none is available: a rollout stays at its surge."""
GO_ON: Mapping[str, object] = {"minReadySeconds": 0}


@dataclass(frozen=True)
class Record:
    """What every Deployment wanted, one count after the other."""

    counts: Mapping[str, list[int]]

    def of(self, metric: Metric, side: Side) -> list[int]:
        """Return the counts of one Deployment."""
        return self.counts[Case(metric, side).name]


@pytest.fixture(scope="module")
def record(
    control_plane: ControlPlane,
    admin_api: Api,
    kubelet: FakeKubelet,  # noqa: ARG001 - makes the pods ready
    tmp_path_factory: pytest.TempPathFactory,
) -> Iterator[Record]:
    """Play two rollouts once for all tests."""
    folder = tmp_path_factory.mktemp("surge")
    namespace = "surging"
    admin_api.create("/api/v1/namespaces", {"metadata": {"name": namespace}})
    prometheus = PrometheusServer(folder / "prometheus", scrape_interval="200ms")
    with (
        Exporter() as exporter,
        prometheus.start([exporter.target]),
        MetricsApi(admin_api, prometheus.samples, folder),
        Cluster(admin_api, namespace, exporter) as cluster,
        service_account(admin_api, namespace) as token,
        hpa_controller(control_plane, folder, f"{PERIOD_SECONDS}s"),
    ):
        for case in CASES:
            admin_api.create(workloads.collection("Deployment", namespace), deployment(case))
        wait_pods(cluster)
        prometheus.wait_for("cpu", count=REPLICAS * 6)
        file = write_config(
            folder / "autoscaler.yaml",
            {
                "prometheus": {"url": prometheus.url},
                "syncPeriod": f"{PERIOD_SECONDS}s",
                "cpuInitializationPeriod": "0s",
                "initialReadinessDelay": "0s",
                "queries": QUERIES,
                "targets": [case.target(namespace) for case in CASES if case.side is not Side.HPA],
            },
        )
        kubeconfig = control_plane.write_kubeconfig(folder / "kubeconfig", token)
        with DaemonProcess(file, {"KUBECONFIG": str(kubeconfig)}, "--log-level", "debug") as daemon:
            for case in CASES:
                if case.side is Side.HPA:
                    others.create(admin_api, namespace, case.autoscaler())
            daemon.wait_for("its start", lambda line: line["event"] == "started")
            play(cluster, admin_api, namespace)
            import json as j

            (folder.parent / "x.json").write_text(j.dumps(daemon.lines))
            print(folder)
            assert daemon.stop() == 0
    admin_api.delete(f"/api/v1/namespaces/{namespace}")
    yield Record(cluster.counts)


def wait_pods(cluster: Cluster) -> None:
    """Wait until every Deployment has the pods that it wants, and a quarter more in a rollout."""
    wait_until(
        "all pods are ready",
        lambda: all(cluster.ready(case) >= cluster.wanted(case) for case in CASES),
        timeout=60,
    )


def wait_surge(cluster: Cluster) -> None:
    """Wait until each rollout is at its surge, with no change of the counts for two syncs."""
    settled = clock.monotonic()
    seen: list[tuple[int, int]] = []

    def quiet() -> bool:
        nonlocal settled, seen
        now = [(cluster.wanted(case), cluster.ready(case)) for case in CASES]
        if now != seen or not all(ready == wanted + -(-wanted // 4) for wanted, ready in now):
            settled, seen = clock.monotonic(), now
        return clock.monotonic() > settled + 2.5 * PERIOD_SECONDS

    wait_until("every rollout is at its surge", quiet, timeout=90)


def play(cluster: Cluster, api: Api, namespace: str) -> None:
    """Roll out twice, each time with a higher backlog."""
    for number, backlog in enumerate((10, 20)):
        template = {"template": {"metadata": {"annotations": {"rollout": str(number)}}}}
        cluster.patch({**HOLD, **template})
        wait_surge(cluster)
        cluster.set_backlog(backlog * PER_REPLICA)
        wait_surge(cluster)
        print([(case.name, cluster.counts[case.name]) for case in CASES])
        if number == 0:
            cluster.patch(dict(GO_ON))
            wait_until(
                "the rollouts are over",
                lambda: all(cluster.ready(case) == cluster.wanted(case) for case in CASES),
                timeout=60,
            )


@pytest.mark.parametrize("metric", Metric)
def test_without_the_key_a_rollout_moves_us_as_it_moves_the_hpa(
    record: Record, metric: Metric
) -> None:
    """Count for count; only a load that each pod has for itself moves neither."""
    theirs = record.of(metric, Side.HPA)
    assert record.of(metric, Side.OURS) == theirs
    assert (len(theirs) > 1) == (metric not in {Metric.PODS_EACH, Metric.CPU_EACH})


@pytest.mark.parametrize("metric", [one for one in Metric if one is not Metric.VALUE])
def test_with_it_a_rollout_moves_nothing(record: Record, metric: Metric) -> None:
    """Eight replicas stay eight."""
    assert record.of(metric, Side.SAFE) == [REPLICAS]


def test_with_it_pods_of_a_surge_multiply_nothing(record: Record) -> None:
    """A backlog of 10 and then 20 replicas, in a rollout each: the HPA adds a quarter each time.

    The count feeds back: more replicas are a larger surge, as in kubernetes/kubernetes#72775.
    """
    assert record.of(Metric.VALUE, Side.SAFE) == [REPLICAS, 10, 20]
    assert record.of(Metric.VALUE, Side.HPA) == [REPLICAS, 13, 14, 26]
