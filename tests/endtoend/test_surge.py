"""Rolling updates on a real control plane, beside its HPA controller on the same series."""

from collections.abc import Mapping
from dataclasses import dataclass

import pytest

from autoscaler import clock
from benchmarks.hpa import HpaController
from tests.endtoend.surge import (
    CASES,
    CPU,
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
from tests.worlds.cluster import others
from tests.worlds.controlplane import workloads
from tests.worlds.controlplane.api import Api, Json
from tests.worlds.controlplane.kubelet import FakeKubelet
from tests.worlds.controlplane.metrics_api import MetricsApi
from tests.worlds.controlplane.server import ControlPlane
from tests.worlds.daemon import DaemonProcess, write_config
from tests.worlds.prometheus.exporter import Exporter
from tests.worlds.prometheus.server import PrometheusServer
from tests.worlds.service_account import service_account
from tests.worlds.waiting import wait_until

HOLD: Json = {"minReadySeconds": 500}
"""Every pod is ready and none is available: a rollout stays at its surge."""
HPA_FLAGS = (
    f"--horizontal-pod-autoscaler-sync-period={PERIOD_SECONDS}s",
    # Pods count from their start on.
    "--horizontal-pod-autoscaler-cpu-initialization-period=0s",
    "--horizontal-pod-autoscaler-initial-readiness-delay=0s",
    "--concurrent-horizontal-pod-autoscaler-syncs=20",
    "--kube-api-qps=1000",
    "--kube-api-burst=2000",
)
GO_ON: Json = {"minReadySeconds": 0}


CONSTANT = [one for one in Metric if one is not Metric.VALUE]

Counts = Mapping[str, int]


@dataclass(frozen=True)
class Record:
    """What every Deployment wanted: one count after the other, and the last at each surge."""

    counts: Mapping[str, list[int]]
    surges: list[Counts]

    def at_surges(self, case: Case) -> list[int]:
        """Return the counts of one Deployment while its rollouts were at their surge."""
        return [counts[case.name] for counts in self.surges]


@pytest.fixture(scope="module")
def record(
    control_plane: ControlPlane,
    admin_api: Api,
    kubelet: FakeKubelet,  # noqa: ARG001 - makes the pods ready
    tmp_path_factory: pytest.TempPathFactory,
) -> Record:
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
        HpaController(control_plane, folder, HPA_FLAGS),
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
                "resourceQueries": {"cpu": CPU},
                "targets": [case.target(namespace) for case in CASES if case.side is not Side.HPA],
            },
        )
        kubeconfig = control_plane.write_kubeconfig(folder / "kubeconfig", token)
        with DaemonProcess(file, {"KUBECONFIG": str(kubeconfig)}) as daemon:
            for case in CASES:
                if case.side is Side.HPA:
                    others.create(admin_api, namespace, case.autoscaler())
            daemon.wait_for("its start", lambda line: line["event"] == "started")
            surges = play(cluster)
            assert daemon.stop() == 0
    admin_api.delete(f"/api/v1/namespaces/{namespace}")
    return Record(cluster.counts, surges)


def wait_pods(cluster: Cluster) -> None:
    """Wait until every Deployment has the pods that it wants, and a quarter more in a rollout."""
    wait_until(
        "all pods are ready",
        lambda: all(cluster.ready(case) >= cluster.wanted(case) for case in CASES),
        timeout=60,
    )


def wait_surge(cluster: Cluster, syncs: float) -> None:
    """Wait until each rollout is at its surge, and has been for so many syncs."""
    settled = clock.monotonic()
    seen: list[tuple[int, int]] = []

    def quiet() -> bool:
        nonlocal settled, seen
        now = [(cluster.wanted(case), cluster.ready(case)) for case in CASES]
        if now != seen or not all(ready == wanted + -(-wanted // 4) for wanted, ready in now):
            settled, seen = clock.monotonic(), now
        return clock.monotonic() > settled + syncs * PERIOD_SECONDS

    wait_until("every rollout is at its surge", quiet, timeout=90)


def play(cluster: Cluster) -> list[Counts]:
    """Roll out twice, each time with a higher backlog; return the counts at each surge."""
    plateaus: list[Counts] = []
    for number, backlog in enumerate((10, 20)):
        template = {"template": {"metadata": {"annotations": {"rollout": str(number)}}}}
        cluster.patch({**HOLD, **template})
        wait_surge(cluster, 0.5)
        cluster.set_backlog(backlog * PER_REPLICA)
        wait_surge(cluster, 2.5)
        plateaus.append({name: counts[-1] for name, counts in cluster.counts.items()})
        if number == 0:
            cluster.patch(GO_ON)
            wait_until(
                "the rollouts are over",
                lambda: all(cluster.ready(case) == cluster.wanted(case) for case in CASES),
                timeout=60,
            )
    return plateaus


@pytest.mark.parametrize("metric", CONSTANT)
def test_without_the_key_a_rollout_moves_us_as_it_moves_the_hpa(
    record: Record, metric: Metric
) -> None:
    """Count for count; only a load that each pod has for itself moves neither."""
    theirs = record.counts[Case(metric, Side.HPA).name]
    assert record.counts[Case(metric, Side.OURS).name] == theirs
    each = metric in {Metric.PODS_EACH, Metric.CPU_EACH}
    assert theirs == ([REPLICAS] if each else [REPLICAS, REPLICAS + 1])


@pytest.mark.parametrize("metric", CONSTANT)
def test_with_it_a_rollout_moves_nothing(record: Record, metric: Metric) -> None:
    """Eight replicas stay eight."""
    assert record.counts[Case(metric, Side.SAFE).name] == [REPLICAS]


def test_without_it_the_pods_of_a_surge_multiply_the_count(record: Record) -> None:
    """A backlog for 10 and then for 20 replicas, in a rollout each, becomes 14 and 26.

    The HPA's feedback of kubernetes/kubernetes#72775: more replicas are a larger surge, and that
    is more replicas.
    """
    for side in (Side.HPA, Side.OURS):
        assert record.at_surges(Case(Metric.VALUE, side)) == [14, 26]


def test_with_it_a_higher_load_is_followed_and_no_further(record: Record) -> None:
    """Though both rollouts are at their surge."""
    assert record.at_surges(Case(Metric.VALUE, Side.SAFE)) == [10, 20]
    assert record.counts[Case(Metric.VALUE, Side.SAFE).name] == [REPLICAS, 10, 20]
