"""Others who scale the same workload: another autoscaler, and somebody by hand."""

import json

from tests.narrowing import assert_parts
from tests.worlds.cluster import others
from tests.worlds.daemon import DaemonProcess, Document, Line, command, running
from tests.worlds.waiting import wait_until
from tests.worlds.world import World

DECISIONS = "autoscaler_decisions_total"


def decided(world: World, name: str) -> None:
    """Let a HorizontalPodAutoscaler have decided, as its controller writes it."""
    path = f"{others.path_of(world.namespace)}/{name}"
    queue = {"metric": {"name": "queue of tasks"}}
    cpu = {"name": "cpu", "target": {"type": "Utilization", "averageUtilization": 80}}
    wanted = {**queue, "target": {"type": "AverageValue", "averageValue": "2"}}
    metrics = [{"type": "External", "external": wanted}, {"type": "Resource", "resource": cpu}]
    world.api.patch(path, {"spec": {"metrics": metrics}})
    read = {"type": "External", "external": {**queue, "current": {"averageValue": "41"}}}
    condition = {"type": "ScalingActive", "status": "False", "reason": "FailedGetResourceMetric"}
    status = {
        "desiredReplicas": 7,
        "currentReplicas": 3,
        "currentMetrics": [read, {"type": ""}],
        "conditions": [condition],
    }
    world.api.patch(f"{path}/status", {"status": status})


def test_a_target_that_an_hpa_controls_is_in_shadow_until_that_is_gone(
    world: World, document: Document
) -> None:
    a, b = map(world.key, "ab")
    others.create(world.api, world.namespace, others.autoscaler("keda-hpa-a", of="a"))
    document["targets"].append(world.target("b"))
    with world.running(document) as daemon:

        def planned(*arguments: str) -> str:
            plan = command("plan", "-c", daemon.file, *arguments, environment=world.environment)
            return plan.stdout

        daemon.wait_write(b, 4)
        line = daemon.wait_for(
            "the shadow", lambda line: line.get("target") == a and line.get("desired_replicas") == 4
        )
        assert (line["outcome"], line["state"], line["write"]) == ("ok", "controlled", "shadow")
        assert line["controlled_by"] == 'HorizontalPodAutoscaler "keda-hpa-a"'
        assert daemon.events("controlled_by_other") == []
        assert daemon.metric("autoscaler_target_shadow", target=a, reason="controlled") == 1
        decided(world, "keda-hpa-a")
        assert_parts(line["message"], "keda-hpa-a", "1 -> 4", "4/1")
        plan = planned("--explain", a)
        assert_parts(plan, "keda-hpa-a", "1 -> 4", "4/1")
        wanted = next(line for line in planned(a).splitlines() if "queue of tasks" in line).strip()
        assert_parts(wanted, "keda-hpa-a", "7 replicas", "found 3", "41 of 2", "cpu", "80%")
        assert_parts(wanted, "ScalingActive", "FailedGetResourceMetric")
        assert f"  HPA            {wanted}\n" in plan
        assert daemon.writes(a) == []
        agreement = json.loads(daemon.page("/api/v1/agreement"))
        assert [number["target"] for number in agreement["targets"]] == [a]
        assert (agreement["live"], agreement["shadow"]) == (1, 1)
        world.api.delete(f"{others.path_of(world.namespace)}/keda-hpa-a")
        daemon.wait_write(a, 4)


def test_a_live_target_that_an_hpa_takes_is_one_warning_over_a_restart(
    world: World, document: Document
) -> None:
    a = world.key("a")
    document["stateDirectory"] = str(world.folder / "state")
    path = f"/api/v1/namespaces/{world.namespace}/events"

    def events() -> list[str]:
        found = world.api.get(path)["items"]
        return [text["message"] for text in found if text["reason"] == "ControlledByOther"]

    taken = {"target": a, "reason": "taken"}
    with world.running(document) as daemon:
        daemon.wait_write(a, 4)
        others.create(world.api, world.namespace, others.autoscaler("web", of="a"))
        line = daemon.wait_event("controlled_by_other")
        assert (line["target"], line["level"]) == (a, "warning")
        assert_parts(line["message"], 'HorizontalPodAutoscaler "web"')
        wait_until("the Event", lambda: events() == [line["message"]])
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


def test_a_change_by_hand_is_logged_and_three_reversals_hold(
    world: World, document: Document
) -> None:
    a = world.key("a")
    with world.running(document) as daemon:
        for time in range(1, 4):
            daemon.wait(f"write {time}", lambda time=time: len(daemon.writes(a)) >= time)  # type: ignore[misc] # bound now
            world.set_by_hand("a", 1, "stubborn-pipeline")
            line = daemon.wait_event("replicas_changed_by_other", time)
            assert (line["before"], line["after"]) == (4, 1)
            assert line["manager"] == "stubborn-pipeline"
        held = daemon.wait_for("the hold", lambda line: "held_until" in line)
        assert held["state"] == "contested"
        assert len([sync for sync in daemon.syncs(a) if sync.get("write")]) == 3
        # The page takes a sync in after the log.
        wait_until("the page", lambda: 'reason="ReplicasContested"' in daemon.page("/metrics"))


def held_lines(daemon: DaemonProcess) -> list[Line]:
    return [line for line in daemon.events("sync") if "held_until" in line]


def test_of_two_installations_on_one_target_one_holds(world: World, document: Document) -> None:
    """Each leads by a Lease in its own namespace; one wants four replicas, one two at most."""

    def installed(namespace: str, most: int) -> Document:
        election = {"enabled": True, "namespace": namespace}
        targets = [world.target("a", maxReplicas=most)]
        return document | {"leaderElection": election, "targets": targets}

    with (
        world.elsewhere() as (other, environment),
        world.running(installed(world.namespace, 10)) as up,
        running(world.write(installed(other, 2), "there"), environment) as down,
    ):
        for daemon in (up, down):
            line = daemon.wait_event("replicas_changed_by_other")
            assert line["manager"] == "autoscaler"
        wait_until("one holds", lambda: held_lines(up) or held_lines(down), timeout=60)
        holds = up if held_lines(up) else down
        left, begin = world.changes("a"), holds.metric(DECISIONS)
        wait_until("more syncs", lambda: holds.metric(DECISIONS) >= begin + 4, timeout=60)
        assert held_lines(holds)[0]["state"] == "contested"
        assert 'reason="ReplicasContested"' in holds.page("/metrics")
        assert world.changes("a") == left
        # Seconds after it came to lead it takes a change for one of the leader before; then three
        # reversals are enough.
        assert 3 <= len(holds.writes(world.key("a"))) <= 12
