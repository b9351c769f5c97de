"""Two Prometheus servers: one that is away costs its own targets, and no others."""

import os
import signal
from collections.abc import Mapping
from pathlib import Path

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
    """First it answers nothing, then it is gone: the other's targets go on in time.

    Log, health and metrics name it; the daemon stays ready.
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
    with running(write_config(tmp_path / "autoscaler.yaml", document), environment) as daemon:
        daemon.wait_for_write(a, DEMAND)
        daemon.wait_for_write(b, DEMAND)
        os.kill(second.pid, signal.SIGSTOP)
        prometheus_exporter.set("demand", {}, DEMAND + 1)
        daemon.wait_for_write(a, DEMAND + 1)
        check_away(daemon, b)
        os.kill(second.pid, signal.SIGCONT)
        daemon.wait_for_write(b, DEMAND + 1)
        wait_until("it is back", lambda: daemon.component("prometheus/second")["ok"])
        second.stop()
        prometheus_exporter.set("demand", {}, DEMAND + 2)
        daemon.wait_for_write(a, DEMAND + 2)
        check_away(daemon, b)
        assert daemon.daemon.syncs(b)[-1]["current_replicas"] == DEMAND + 1
    assert not [line for line in daemon.daemon.syncs(a) if line["outcome"] == "blocked"]


def check_away(daemon: RunningDaemon, target_: str) -> None:
    """Wait until everything says that the second server is away, and it alone."""
    daemon.daemon.wait_for(
        "a line of the target",
        lambda _: daemon.daemon.syncs(target_)[-1]["outcome"] == "blocked",
    )
    assert "second" in daemon.daemon.syncs(target_)[-1]["message"]
    wait_until("its health says so", lambda: not daemon.component("prometheus/second")["ok"])
    assert daemon.component("prometheus")["ok"]
    page = daemon.page("/metrics")
    assert 'autoscaler_component_ok{component="prometheus/second"} 0' in page
    assert 'autoscaler_component_ok{component="prometheus"} 1' in page
    assert {line["server"] for line in daemon.events("server_away")} == {"prometheus/second"}
