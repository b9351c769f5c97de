"""Two Prometheus servers: one that is away costs its own targets, and no others."""

import os
import signal

import requests

from tests.worlds.daemon import DaemonProcess, Document
from tests.worlds.prometheus.fixtures import StartPrometheus
from tests.worlds.world import DEMAND, World


def test_a_server_that_is_away_holds_its_own_targets_only(
    world: World, document: Document, start_prometheus: StartPrometheus
) -> None:
    """First it answers nothing, in the end it is gone: the other's targets go on in time."""
    second = start_prometheus([world.exporter.target])
    second.wait_for(world.metric)
    a, b = map(world.key, "ab")
    document["prometheus"]["servers"] = {"second": {"url": second.url}}
    document["targets"].append(world.target("b", server="second"))
    assert second.pid is not None
    os.kill(second.pid, signal.SIGSTOP)
    with world.running(document) as daemon:
        daemon.wait_write(a, DEMAND)
        wait_blocked(daemon, b)
        check_away(daemon)
        os.kill(second.pid, signal.SIGCONT)
        daemon.wait_write(b, DEMAND)
        daemon.wait("it is back", lambda: daemon.component("prometheus/second")["ok"])
        second.stop()
        world.want(DEMAND + 1)
        daemon.wait_write(a, DEMAND + 1)
        wait_blocked(daemon, b)
    assert not [line for line in daemon.syncs(a) if line["outcome"] == "blocked"]
    assert {line["desired_replicas"] for line in daemon.syncs(b)} == {1, DEMAND}


def wait_blocked(daemon: DaemonProcess, key: str) -> None:
    """Wait until the last line of a target says that the second server does not answer."""
    daemon.wait(
        f"{key} is blocked",
        lambda: [line["outcome"] for line in daemon.syncs(key)][-1:] == ["blocked"],
        timeout=20,
    )
    assert "Prometheus second at " in daemon.syncs(key)[-1]["message"]


def check_away(daemon: DaemonProcess) -> None:
    """Check that everything says that the second server is away, and it alone."""
    daemon.wait("its health says so", lambda: daemon.component("prometheus/second")["message"])
    (line,) = daemon.events("server_away")
    assert line["server"] == "prometheus/second"
    assert not daemon.component("prometheus/second")["ok"]
    assert daemon.component("prometheus")["ok"]
    page = daemon.page("/metrics")
    assert 'autoscaler_component_ok{component="prometheus/second"} 0' in page
    assert 'autoscaler_component_ok{component="prometheus"} 1' in page
    ready = f"http://{daemon.address}/readyz"
    daemon.wait("it is ready", lambda: requests.get(ready, timeout=10).status_code == 200)
