"""Prometheus is away: a fallback after the third sync, a restart forgets none of them."""

from collections.abc import Mapping
from pathlib import Path

from tests.adapters.prometheus.exporter import Exporter
from tests.adapters.prometheus.fixtures import StartPrometheus
from tests.controlplane import workloads
from tests.controlplane.api import Api
from tests.controlplane.waiting import let_pass
from tests.endtoend.daemon import DaemonProcess, Line, write_config

BEFORE, FALLBACK, SERVED = 4, 6, 3
PERIOD, RANGE = 2, 3
REFILL = 1.25 * RANGE + 5


def test_a_fallback_outlives_kills_and_ends_with_a_whole_range(
    exporter: Exporter,
    start_prometheus: StartPrometheus,
    admin_api: Api,
    namespace: str,
    environment: Mapping[str, str],
    tmp_path: Path,
) -> None:
    """Two failed syncs, kill -9, a third: the fallback's count.

    Once Prometheus is back nothing goes down before the range is full, killed again or not.
    """
    path = f"{workloads.collection('Deployment', namespace)}/web"
    admin_api.create(
        workloads.collection("Deployment", namespace), workloads.deployment("web", replicas=BEFORE)
    )
    exporter.set("load", {}, BEFORE)
    prometheus = start_prometheus([exporter.target])
    prometheus.wait_for(f"count_over_time(load[{RANGE}s]) >= {RANGE}")
    file = write_config(tmp_path / "autoscaler.yaml", document(prometheus.url, namespace, tmp_path))
    key = f"{namespace}/Deployment/web"

    def run() -> DaemonProcess:
        return DaemonProcess(file, environment, "--log-level", "debug")

    def failed(daemon: DaemonProcess) -> list[Line]:
        return [line for line in daemon.syncs(key) if line["metrics"][0]["value"] is None]

    with run() as first:
        first.wait_for("a good sync", lambda line: line.get("outcome") == "ok")
        prometheus.stop()
        first.wait_for("the second failed sync", lambda _: len(failed(first)) == 2)
        let_pass(PERIOD / 4)
        first.kill()
    assert [line["desired_replicas"] for line in failed(first)] == [BEFORE, BEFORE]
    with run() as second:
        line = second.wait_for("a sync", lambda line: line["event"] == "sync")
        assert (line["current_replicas"], line["desired_replicas"]) == (BEFORE, FALLBACK)
        assert "failed in 3 syncs in a row, and the fallback asks for 6" in line["message"]
        exporter.set("load", {}, SERVED)
        prometheus.start([exporter.target])
        back = second.wait_for(
            "it is back",
            lambda line: line["event"] == "sync" and line["metrics"][0]["value"] is not None,
        )
        assert back["desired_replicas"] == FALLBACK
        second.kill()
    with run() as third:
        down = third.wait_for("a write", lambda line: line.get("write") == "written")
        assert (down["current_replicas"], down["desired_replicas"]) == (FALLBACK, SERVED)
        assert third.stop() == 0
    assert admin_api.get(path)["spec"]["replicas"] == SERVED


def document(prometheus: str, namespace: str, folder: Path) -> dict[str, object]:
    """Return a configuration of one target, which follows its load at once."""
    query = {"query": f"sum(max_over_time(load[{RANGE}s]))"}
    external = {
        "metric": {"name": "load", "query": query},
        "target": {"type": "AverageValue", "averageValue": 1},
    }
    return {
        "prometheus": {"url": prometheus},
        "syncPeriod": f"{PERIOD}s",
        "stateDirectory": str(folder / "state"),
        "targets": [
            {
                "namespace": namespace,
                "scaleTargetRef": {"apiVersion": "apps/v1", "kind": "Deployment", "name": "web"},
                "maxReplicas": 10,
                "metrics": [{"type": "External", "external": external}],
                "fallback": {"replicas": FALLBACK, "failureThreshold": 3},
                "behavior": {"scaleDown": {"stabilizationWindowSeconds": 0}},
            }
        ],
    }
