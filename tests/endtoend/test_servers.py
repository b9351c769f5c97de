"""Two Prometheus servers: one that is away costs its own targets, and no others."""

import os
import signal

import requests

from tests.worlds.daemon import DaemonProcess, Document
from tests.worlds.prometheus.fixtures import StartPrometheus
from tests.worlds.world import DEMAND, World

FIRST, SECOND = "prometheus", "prometheus/second"
NAMED = "Prometheus second"
"""How the lines of targets name the second server."""


def test_a_server_that_is_away_holds_its_own_targets_only(
    world: World, document: Document, start_prometheus: StartPrometheus
) -> None:
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
        daemon.wait("it is back", lambda: daemon.component(SECOND)["ok"])
        check_each_outage_once(daemon)
        second.stop()
        world.want(DEMAND + 1)
        daemon.wait_write(a, DEMAND + 1)
        wait_blocked(daemon, b)
        check_each_outage_once(daemon)
    assert not [line for line in daemon.syncs(a) if NAMED in line["message"]]
    assert {line["desired_replicas"] for line in daemon.syncs(b)} == {1, DEMAND}


def wait_blocked(daemon: DaemonProcess, key: str) -> None:
    """Wait until the last line of a target says that the second server does not answer.

    It has failed several times then, of which the log tells once.
    """

    def failures() -> float:
        name = "autoscaler_prometheus_request_duration_seconds_count"
        return daemon.metric(name, server="second", code="error")

    before = failures()
    daemon.wait(
        f"{key} is blocked",
        lambda: any(
            line["outcome"] == "blocked" and NAMED in line["message"]
            for line in daemon.syncs(key)[-1:]
        ),
        timeout=20,
    )
    daemon.wait("it fails again", lambda: failures() >= before + 3)


def check_each_outage_once(daemon: DaemonProcess) -> None:
    """Check that each outage of the second server is logged once, until it answers again.

    On a slow machine there may be several; the first server may be late there, too.
    """
    by_server: dict[str, list[str]] = {}
    for line in list(daemon.lines):
        if line["event"] in {"server_away", "server_answers"}:
            by_server.setdefault(line["server"], []).append(line["event"])
    assert SECOND in by_server
    for events in by_server.values():
        assert events == (["server_away", "server_answers"] * len(events))[: len(events)]


def check_away(daemon: DaemonProcess) -> None:
    """Check that everything says that the second server is away, and it alone."""

    def components() -> list[bool]:
        return [daemon.component(name)["ok"] for name in (SECOND, FIRST)]

    def metrics() -> list[float]:
        name = "autoscaler_component_ok"
        return [daemon.metric(name, component=component) for component in (SECOND, FIRST)]

    daemon.wait("health", lambda: components() == [False, True])
    assert daemon.component(SECOND)["message"]
    daemon.wait("metrics", lambda: metrics() == [0, 1])
    daemon.wait("the log", lambda: daemon.events("server_away"))
    check_each_outage_once(daemon)
    ready = f"http://{daemon.address}/readyz"
    daemon.wait("it is ready", lambda: requests.get(ready, timeout=10).status_code == 200)
