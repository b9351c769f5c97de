"""In shadow beside a HorizontalPodAutoscaler that scales: all is logged, nothing is written."""

from tests.worlds.cluster import others
from tests.worlds.daemon import Document
from tests.worlds.waiting import wait_until
from tests.worlds.world import DEMAND, World


def test_a_daemon_in_shadow_writes_neither_counts_nor_events(
    world: World, document: Document
) -> None:
    a = world.key("a")
    others.create(world.api, world.namespace, others.autoscaler("keda-hpa-a", of="a"))
    election = {"enabled": True, "namespace": world.namespace}
    with world.running(document | {"leaderElection": election}, "--shadow") as daemon:
        started = daemon.wait_event("started")
        assert started["targets"] == 1
        assert "shadow" in started["message"]
        line = daemon.wait_for("the shadow", lambda line: line.get("state") == "shadow")
        assert (line["target"], line["desired_replicas"]) == (a, DEMAND)
        assert f"1 -> {DEMAND}" in line["message"]
        world.set_by_hand("a", DEMAND, "kube-controller-manager")
        wait_until(
            "it follows",
            lambda: daemon.metric("autoscaler_target_current_replicas", target=a) == DEMAND,
        )
        assert daemon.metric("autoscaler_target_shadow", target=a) == 1
        assert daemon.metric("autoscaler_writes_total") == 0
        assert daemon.events("replicas_changed_by_other") == []
        assert daemon.stop() == 0
    assert world.replicas("a") == DEMAND
    events = world.api.get(f"/api/v1/namespaces/{world.namespace}/events")["items"]
    assert [
        event["reason"] for event in events if event["source"].get("component") == "autoscaler"
    ] == []
    leases = world.api.get(f"/apis/coordination.k8s.io/v1/namespaces/{world.namespace}/leases")
    assert leases["items"] == []


def test_a_target_in_shadow_becomes_live_without_the_mode_and_the_hpa(
    world: World, document: Document
) -> None:
    a, b = map(world.key, "ab")
    others.create(world.api, world.namespace, others.autoscaler("web", of="a"))
    document["targets"] = [world.target("a", mode="shadow"), world.target("b")]
    with world.running(document) as daemon:
        daemon.wait_write(b, DEMAND)
        daemon.wait_for("the shadow", lambda line: line.get("state") == "shadow")
        daemon.write(document | {"targets": [world.target("a"), world.target("b")]})
        daemon.wait_for("the other one", lambda line: line.get("state") == "controlled")
        assert daemon.writes(a) == []
        world.api.delete(f"{others.path_of(world.namespace)}/web")
        daemon.wait_write(a, DEMAND)
        assert daemon.events("controlled_by_other") == []
