"""Somebody pauses a target with kubectl alone, while its load rises."""

from datetime import UTC, datetime, timedelta

from tests.worlds.daemon import Document, command
from tests.worlds.world import DEMAND, World

RISEN = 8


def annotate(world: World, name: str, **annotations: str | None) -> None:
    """Do what `kubectl annotate --overwrite` does."""
    named = {
        f"autoscaler/{annotation.replace('_', '-')}": text
        for annotation, text in annotations.items()
    }
    world.api.patch(world.path(name), {"metadata": {"annotations": named}})


def test_a_paused_target_stays_while_its_load_rises(world: World, document: Document) -> None:
    a, b = map(world.key, "ab")
    b_too = world.target("b")
    document["targets"].append(b_too)
    operator = {"KUBECONFIG": str(world.plane.kubeconfig)}
    with world.running(document) as daemon:
        daemon.wait_write(a, DEMAND)
        daemon.wait_write(b, DEMAND)
        annotate(world, "a", paused="true")
        soon = datetime.now(UTC) + timedelta(seconds=6)
        annotate(world, "b", paused="scale-up", paused_until=soon.strftime("%Y-%m-%dT%H:%M:%SZ"))
        world.want(RISEN)
        line = daemon.wait_for(
            "the pause",
            lambda line: line.get("target") == a and "paused" in line.get("message", ""),
        )
        assert "autoscaler/paused" in line["message"]
        assert line["desired_replicas"] == line["current_replicas"] == DEMAND
        daemon.wait_write(b, RISEN)
        assert datetime.fromisoformat(daemon.writes(b)[-1]["time"]) >= soon.replace(microsecond=0)
        assert world.replicas("a") == DEMAND
        # Without a maximum of so many the pause is all that keeps it.
        daemon.write(document | {"targets": [world.target("a", maxReplicas=3), b_too]})
        daemon.wait_event("target_changed")
        decided = daemon.metric("autoscaler_decisions_total")
        daemon.wait(
            "more syncs", lambda: daemon.metric("autoscaler_decisions_total") >= decided + 6
        )
        assert world.replicas("a") == DEMAND
        daemon.write(document)
        daemon.wait_event("target_changed", 2)
        annotate(world, "a", paused=None)
        daemon.wait_write(a, RISEN)
        command("pause", "--replicas", 5, a, environment=operator)
        daemon.wait_write(a, 5)
        command("resume", a, environment=operator)
        daemon.wait("it goes on", lambda: daemon.syncs(a)[-1]["desired_replicas"] == RISEN)
