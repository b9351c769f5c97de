"""Prometheus is away: a fallback after the third sync, a restart forgets none of them."""

from pathlib import Path

from tests.narrowing import assert_parts
from tests.worlds.daemon import DaemonProcess, Document, Line, external, target
from tests.worlds.prometheus.fixtures import StartPrometheus
from tests.worlds.waiting import let_pass
from tests.worlds.world import World

BEFORE, FALLBACK, SERVED = 4, 6, 3
PERIOD, RANGE = 2, 3


def test_a_fallback_outlives_kills_and_ends_with_a_whole_range(
    world: World, start_prometheus: StartPrometheus, tmp_path: Path
) -> None:
    """Two failed syncs, kill -9, a third: the fallback's count, until the range is full again."""
    key = world.deploy("web", BEFORE)
    scraped = [world.exporter.target]
    world.exporter.set(world.metric, {}, BEFORE)
    prometheus = start_prometheus(scraped)
    prometheus.wait_for(f"count_over_time({world.metric}[{RANGE}s]) >= {RANGE}")
    configuration = document(world, prometheus.url, tmp_path / "state")

    def run() -> DaemonProcess:
        return world.start(configuration, "--log-level", "debug")

    def failed(daemon: DaemonProcess) -> list[Line]:
        return [line for line in daemon.syncs(key) if line["metrics"][0]["value"] is None]

    with run() as first:
        first.wait_for("a good sync", lambda line: line.get("outcome") == "ok")
        prometheus.stop()
        first.wait("2 failed syncs", lambda: len(failed(first)) == 2)
        let_pass(PERIOD / 4)
        first.kill()
    assert [line["desired_replicas"] for line in failed(first)] == [BEFORE, BEFORE]
    with run() as second:
        line = second.wait_event("sync")
        assert (line["current_replicas"], line["desired_replicas"]) == (BEFORE, FALLBACK)
        assert_parts(line["message"], "fallback", "3 syncs", str(FALLBACK))
        world.exporter.set(world.metric, {}, SERVED)
        prometheus.start(scraped)
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
    assert world.replicas("web") == SERVED


def document(world: World, prometheus: str, state: Path) -> Document:
    """Return a configuration of one target, which follows its load at once."""
    metric = external("load", 1)
    query = f"sum(max_over_time({world.metric}[{RANGE}s]))"
    metric["external"]["metric"]["query"] = {"query": query}
    return world.document(
        target(
            world.namespace,
            "web",
            metric,
            fallback={"replicas": FALLBACK, "failureThreshold": 3},
            behavior={"scaleDown": {"stabilizationWindowSeconds": 0}},
        ),
        prometheus={"url": prometheus},
        syncPeriod=f"{PERIOD}s",
        stateDirectory=str(state),
        listen=None,
    )
