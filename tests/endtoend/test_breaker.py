"""500 targets: an evening's decline passes the breaker, a label that is renamed does not."""

import os
import subprocess
import sys
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from tests.adapters.prometheus.exporter import Exporter
from tests.adapters.prometheus.fixtures import StartPrometheus
from tests.controlplane import workloads
from tests.controlplane.api import Api
from tests.controlplane.waiting import let_pass, wait_until
from tests.endtoend.daemon import DaemonProcess, write_config
from tests.endtoend.demand import Document, RunningDaemon

TARGETS, REPLICAS, LEAST = 500, 4, 1
NAMES = [f"worker-{number}" for number in range(TARGETS)]
PERIOD = 2
FALLING = 0.1
"""The share of the targets that lose a replica in one period of the evening.

The steepest half hour of a day and night in a public trace lowers the load by a third of its mean:
at 20 replicas and 15 seconds that are 6 % of the targets in a period.
"""
EVENING_PERIODS = 3


@pytest.mark.timeout(180)
def test_a_renamed_label_takes_nothing_down_and_an_evening_does(
    exporter: Exporter,
    start_prometheus: StartPrometheus,
    admin_api: Api,
    namespace: str,
    environment: Mapping[str, str],
    tmp_path: Path,
) -> None:
    """One loud line; a kill -9 does not end the hold, the command does."""
    fleet = Fleet(admin_api, namespace, exporter)
    prometheus = start_prometheus([exporter.target])
    prometheus.wait_for("orders", count=TARGETS)
    file = write_config(tmp_path / "autoscaler.yaml", document(prometheus.url, namespace, tmp_path))
    with DaemonProcess(file, environment) as process:
        daemon = RunningDaemon(process, file)
        daemon.wait_for("started")
        evening = fleet.evening()
        wait_until("the evening is over", lambda: fleet.counts() == evening, interval=0.5)
        assert not daemon.events("scale_down_breaker")
        fleet.rename()
        told = daemon.wait_for("scale_down_breaker")
        assert (told["level"], told["change"]) == ("error", "tripped")
        assert (told["targets"], told["would_go_down"]) == (TARGETS, TARGETS)
        assert told["query"] == QUERY
        let_pass(1.5 * PERIOD)
        assert fleet.counts() == evening
        check_held(daemon)
        process.kill()
    with DaemonProcess(file, environment) as process:
        daemon = RunningDaemon(process, file)
        assert daemon.wait_for("scale_down_breaker")["change"] == "resumed"
        # Scale-ups go on.
        exporter.set("orders", {"queue": NAMES[0]}, REPLICAS + 1)
        risen = [REPLICAS + 1, *evening[1:]]
        wait_until("a scale-up", lambda: fleet.counts() == risen, interval=0.5)
        let_pass(1.5 * PERIOD)
        assert fleet.counts() == risen
        check_held(daemon)
        release(file)
        least = [REPLICAS + 1] + [LEAST] * (TARGETS - 1)
        wait_until("all have gone down", lambda: fleet.counts() == least, timeout=60, interval=0.5)
        assert daemon.events("scale_down_breaker")[-1]["change"] == "released"
        assert daemon.component("scale-down breaker")["ok"]
        assert process.stop() == 0


QUERY = "sum by (queue) (orders)"


def document(prometheus: str, namespace: str, folder: Path) -> Document:
    """Return a configuration in which a queue without series is an empty one."""
    return {
        "prometheus": {"url": prometheus},
        "syncPeriod": f"{PERIOD}s",
        "listen": "127.0.0.1:0",
        "stateDirectory": str(folder / "state"),
        "events": False,
        "scaleDownBreaker": {"share": "30%", "minTargets": 20, "hold": "10m"},
        "queries": {"orders": {"query": QUERY, "empty": "zero"}},
        "targets": [target(namespace, name) for name in NAMES],
    }


def target(namespace: str, name: str) -> Document:
    """Return a target that follows its queue at once."""
    selector = {"matchLabels": {"queue": name}}
    external = {
        "metric": {"name": "orders", "selector": selector},
        "target": {"type": "AverageValue", "averageValue": 1},
    }
    return {
        "namespace": namespace,
        "scaleTargetRef": {"apiVersion": "apps/v1", "kind": "Deployment", "name": name},
        "minReplicas": LEAST,
        "maxReplicas": 10,
        "metrics": [{"type": "External", "external": external}],
        "behavior": {"scaleDown": {"stabilizationWindowSeconds": 0}},
    }


class Fleet:
    """Deployments without pods, and a queue for each."""

    def __init__(self, api: Api, namespace: str, exporter: Exporter) -> None:
        self._api = api
        self._exporter = exporter
        self._path = workloads.collection("Deployment", namespace)
        with ThreadPoolExecutor(8) as pool:
            list(pool.map(self._create, NAMES))

    def counts(self) -> list[int]:
        """Return what each Deployment wants."""
        found = self._api.get(self._path)["items"]
        wanted = {one["metadata"]["name"]: one["spec"]["replicas"] for one in found}
        return [wanted[name] for name in NAMES]

    def _create(self, name: str) -> None:
        manifest = workloads.deployment(name, REPLICAS)
        # Its controller makes no pods.
        manifest["spec"]["paused"] = True
        self._api.create(self._path, manifest)
        self._exporter.set("orders", {"queue": name}, REPLICAS)

    def evening(self) -> list[int]:
        """Let one queue after the other need a replica less; return the counts that follow."""
        share = round(TARGETS * FALLING)
        falling = NAMES[: share * EVENING_PERIODS]
        for name in falling:
            self._exporter.set("orders", {"queue": name}, REPLICAS - 1)
            let_pass(PERIOD / share)
        return [REPLICAS - (name in set(falling)) for name in NAMES]

    def rename(self) -> None:
        """Rename the label of every queue: the query answers, and of none of them."""
        self._exporter.remove("orders")
        for name in NAMES:
            self._exporter.set("orders", {"queue_name": name}, REPLICAS)


def check_held(daemon: RunningDaemon) -> None:
    """Check that the hold was told once, and stands in the health and in the metrics."""
    assert len(daemon.events("scale_down_breaker")) == 1
    breaker = daemon.component("scale-down breaker")
    assert not breaker["ok"]
    assert "autoscaler release" in breaker["message"]
    assert daemon.metric("autoscaler_scale_down_breaker_tripped", server="default") == 1


def release(file: Path) -> None:
    """Let go what is held, as an operator does."""
    ran = subprocess.run(
        [sys.executable, "-m", "autoscaler", "release", "-c", str(file)],
        env=os.environ,
        capture_output=True,
        text=True,
        check=False,
    )
    assert ran.returncode == 0, ran.stdout + ran.stderr
    assert ran.stdout.startswith("released: ")
