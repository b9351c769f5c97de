"""Others who scale the same workload: another autoscaler, and somebody by hand."""

import json

from tests.worlds.cluster import others
from tests.worlds.daemon import Document
from tests.worlds.waiting import wait_until
from tests.worlds.world import World

DECISIONS = "autoscaler_decisions_total"


def test_a_target_that_an_hpa_controls_is_in_shadow_until_that_is_gone(
    world: World, document: Document
) -> None:
    """It says what it would do; the other target is scaled meanwhile; nothing warns of it."""
    a, b = map(world.key, "ab")
    others.create(world.api, world.namespace, others.autoscaler("keda-hpa-a", of="a"))
    document["targets"].append(world.target("b"))
    with world.running(document) as daemon:
        daemon.wait_write(b, 4)
        would = (
            'controlled by HorizontalPodAutoscaler "keda-hpa-a": would scale 1 -> 4 replicas: '
            "demand above target: 4/1 per replica"
        )
        line = daemon.wait_for("the shadow", lambda line: would in line.get("message", ""))
        assert (line["outcome"], line["state"], line["write"]) == ("ok", "controlled", "shadow")
        assert line["controlled_by"] == 'HorizontalPodAutoscaler "keda-hpa-a"'
        assert daemon.events("controlled_by_other") == []
        assert daemon.metric("autoscaler_target_shadow", target=a, reason="controlled") == 1
        assert daemon.writes(a) == []
        agreement = json.loads(daemon.page("/api/v1/agreement"))
        assert [one["target"] for one in agreement["targets"]] == [a]
        assert (agreement["live"], agreement["shadow"]) == (1, 1)
        world.api.delete(f"{others.path_of(world.namespace)}/keda-hpa-a")
        daemon.wait_write(a, 4)


def test_a_live_target_that_an_hpa_takes_is_warned_of_once_over_a_restart(
    world: World, document: Document
) -> None:
    """By a line of the log, an Event and the metric of the alert; a restart knows of it."""
    a = world.key("a")
    document["stateDirectory"] = str(world.folder / "state")
    path = f"/api/v1/namespaces/{world.namespace}/events"

    def events() -> list[str]:
        found = world.api.get(path)["items"]
        return [one["message"] for one in found if one["reason"] == "ControlledByOther"]

    told = 'HorizontalPodAutoscaler "web" controls this target too; nothing is written until that '
    taken = {"target": a, "reason": "taken"}
    with world.running(document) as daemon:
        daemon.wait_write(a, 4)
        others.create(world.api, world.namespace, others.autoscaler("web", of="a"))
        line = daemon.wait_event("controlled_by_other")
        assert (line["target"], line["level"], line["message"]) == (a, "warning", f"{told}is gone")
        wait_until("the Event", lambda: events() == [f"{told}is gone"])
        daemon.wait("taken", lambda: daemon.metric("autoscaler_target_shadow", **taken) == 1)
        assert daemon.stop() == 0
    with world.running(document) as daemon:
        daemon.wait("taken", lambda: daemon.metric("autoscaler_target_shadow", **taken) == 1)
        syncs = daemon.metric(DECISIONS)
        wait_until("more syncs", lambda: daemon.metric(DECISIONS) >= syncs + 3)
        assert daemon.events("controlled_by_other") == []
        assert daemon.writes(a) == []
        assert daemon.stop() == 0
    assert len(events()) == 1


def test_a_change_by_hand_is_told_with_its_manager_and_three_reversals_hold(
    world: World, document: Document
) -> None:
    """Somebody sets 1 replica whenever we set 4: after the third time we write no more."""
    a = world.key("a")
    with world.running(document) as daemon:
        for time in range(1, 4):
            daemon.wait(f"write {time}", lambda time=time: len(daemon.writes(a)) >= time)  # type: ignore[misc] # bound now
            world.set_by_hand("a", 1, "stubborn-pipeline")
            line = daemon.wait_event("replicas_changed_by_other", time)
            assert (line["before"], line["after"]) == (4, 1)
            assert line["manager"] == "stubborn-pipeline"
        held = daemon.wait_for("the hold", lambda line: "held_until" in line)
        assert "since others undo our changes" in held["message"]
        assert len([one for one in daemon.syncs(a) if one.get("write")]) == 3
        # The page takes a sync in after the log.
        wait_until("the page", lambda: 'reason="ReplicasContested"' in daemon.page("/metrics"))
