"""What a daemon asks of the API server and of Prometheus when nothing changes."""

import re
from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple

import requests

from tests.adapters.prometheus.exporter import Exporter
from tests.adapters.prometheus.fixtures import StartPrometheus
from tests.controlplane import workloads
from tests.controlplane.api import Api
from tests.controlplane.server import ControlPlane
from tests.endtoend.daemon import DaemonProcess, write_config

TARGETS = 20
SYNCS = 6


class Counted(NamedTuple):
    """The queries at an instant, the syncs just before and after it, and requests for scales."""

    least: int
    queries: float
    most: int
    scales: float


def scale_requests(control_plane: ControlPlane) -> float:
    """Return how many requests for a scale the API server has counted."""
    page = requests.get(
        f"{control_plane.url}/metrics",
        headers={"Authorization": f"Bearer {control_plane.admin_token}"},
        verify=str(control_plane.ca_file),
        timeout=10,
    ).text
    lines = re.findall(
        r'^apiserver_request_total\{.*subresource="scale".*\} (\S+)$', page, re.MULTILINE
    )
    return sum(float(value) for value in lines)


def queries(prometheus: str) -> float:
    """Return how many instant queries Prometheus has answered."""
    page = requests.get(f"{prometheus}/metrics", timeout=10).text
    pattern = r'^prometheus_http_requests_total\{.*handler="/api/v1/query"\} (\S+)$'
    return sum(float(value) for value in re.findall(pattern, page, re.MULTILINE))


def test_a_sync_without_changes_costs_one_query_and_no_request_for_a_scale(
    exporter: Exporter,
    start_prometheus: StartPrometheus,
    control_plane: ControlPlane,
    admin_api: Api,
    namespace: str,
    environment: Mapping[str, str],
    tmp_path: Path,
) -> None:
    """Six syncs of twenty targets of one query: six queries, and not one scale is read."""
    names = [f"worker-{number}" for number in range(TARGETS)]
    for name in names:
        exporter.set("queue_messages", {"queue": name}, 30)
        admin_api.create(
            workloads.collection("Deployment", namespace), workloads.deployment(name, replicas=1)
        )
    prometheus = start_prometheus([exporter.target])
    prometheus.wait_for("queue_messages", count=TARGETS)
    document = {
        "prometheus": {"url": prometheus.url},
        "syncPeriod": "1s",
        "queries": {"queue_messages": "sum by (queue) (queue_messages)"},
        "targets": [_target(namespace, name) for name in names],
    }
    file = write_config(tmp_path / "autoscaler.yaml", document)
    with DaemonProcess(file, environment, "--log-level", "debug") as daemon:

        def synced() -> int:
            return len([line for line in daemon.lines if line["event"] == "synced"])

        def count() -> Counted:
            least = synced()
            asked = queries(prometheus.url)
            return Counted(least, asked, synced(), scale_requests(control_plane))

        daemon.wait_for("the second sync", lambda _: synced() >= 2)
        before = count()
        daemon.wait_for("more syncs", lambda _: synced() >= before.most + SYNCS)
        after = count()
        assert daemon.stop() == 0
    summaries = [line for line in daemon.lines if line["event"] == "synced"]
    assert {(line["targets"], line["queries"]) for line in summaries} == {(TARGETS, 1)}
    # A sync may be under way at either end.
    asked = after.queries - before.queries
    assert after.least - before.most - 1 <= asked <= after.most - before.least + 1
    assert after.scales == before.scales


def _target(namespace: str, name: str) -> dict[str, object]:
    metric = {"name": "queue_messages", "selector": {"matchLabels": {"queue": name}}}
    return {
        "namespace": namespace,
        "scaleTargetRef": {"apiVersion": "apps/v1", "kind": "Deployment", "name": name},
        "maxReplicas": 10,
        "metrics": [
            {
                "type": "External",
                "external": {
                    "metric": metric,
                    "target": {"type": "AverageValue", "averageValue": 30},
                },
            }
        ],
    }
