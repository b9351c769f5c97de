"""Two Prometheus servers: one that is away costs its own targets, and no others."""

import os
import signal
from collections.abc import Mapping
from pathlib import Path

import requests

from tests.adapters.prometheus.exporter import Exporter
from tests.adapters.prometheus.fixtures import StartPrometheus
from tests.adapters.prometheus.server import PrometheusServer
from tests.controlplane.waiting import wait_until
from tests.endtoend.daemon import write_config
from tests.endtoend.demand import DEMAND, Document, RunningDaemon, running, target


def test_a_server_that_is_away_holds_its_own_targets_only(
    document: Document,
    environment: Mapping[str, str],
    namespace: str,
    prometheus: PrometheusServer,
    prometheus_exporter: Exporter,
    start_prometheus: StartPrometheus,
    tmp_path: Path,
) -> None:
    """First it answers nothing, in the end it is gone: the other's targets go on in time.

    Log, health and metrics name it while it has never answered; the daemon is ready all the same.
    """
    second = start_prometheus([prometheus_exporter.target])
    second.wait_for("demand")
    a, b = (f"{namespace}/Deployment/{name}" for name in "ab")
    theirs = target(namespace, "b") | {"server": "second"}
    document = document | {
        "prometheus": {"url": prometheus.url, "servers": {"second": {"url": second.url}}},
        "targets": [target(namespace, "a"), theirs],
    }
    assert second.pid is not None
    os.kill(second.pid, signal.SIGSTOP)
    with running(write_config(tmp_path / "autoscaler.yaml", document), environment) as daemon:
        daemon.wait_for_write(a, DEMAND)
        wait_blocked(daemon, b)
        check_away(daemon)
        os.kill(second.pid, signal.SIGCONT)
        daemon.wait_for_write(b, DEMAND)
        wait_until("it is back", lambda: daemon.component("prometheus/second")["ok"])
        second.stop()
        prometheus_exporter.set("demand", {}, DEMAND + 1)
        daemon.wait_for_write(a, DEMAND + 1)
        wait_blocked(daemon, b)
    prometheus_exporter.set("demand", {}, DEMAND)
    assert not [line for line in daemon.daemon.syncs(a) if line["outcome"] == "blocked"]
    assert {line["desired_replicas"] for line in daemon.daemon.syncs(b)} == {1, DEMAND}


def wait_blocked(daemon: RunningDaemon, key: str) -> None:
    """Wait until the last line of a target says that the second server does not answer."""
    daemon.daemon.wait_for(
        f"{key} is blocked",
        lambda _: [line["outcome"] for line in daemon.daemon.syncs(key)][-1:] == ["blocked"],
        timeout=20,
    )
    assert "Prometheus second at " in daemon.daemon.syncs(key)[-1]["message"]


def check_away(daemon: RunningDaemon) -> None:
    """Check that everything says that the second server is away, and it alone."""
    wait_until("its health says so", lambda: daemon.component("prometheus/second")["message"])
    (line,) = daemon.events("server_away")
    assert line["server"] == "prometheus/second"
    assert not daemon.component("prometheus/second")["ok"]
    assert daemon.component("prometheus")["ok"]
    page = daemon.page("/metrics")
    assert 'autoscaler_component_ok{component="prometheus/second"} 0' in page
    assert 'autoscaler_component_ok{component="prometheus"} 1' in page
    wait_until("it is ready", lambda: ready(daemon))


def ready(daemon: RunningDaemon) -> bool:
    """Whether the daemon says that it is ready."""
    return requests.get(f"http://{daemon.address}/readyz", timeout=10).status_code == 200
