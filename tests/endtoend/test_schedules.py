"""A schedule that opens while the daemon is away holds from its first sync on."""

from datetime import UTC, datetime, timedelta

from autoscaler import clock
from tests.worlds.daemon import Document
from tests.worlds.waiting import wait_until
from tests.worlds.world import DEMAND, World

RAISED, LOWERED = 6, 2


def test_a_schedule_that_opens_while_the_daemon_is_down_is_in_force_at_its_start(
    world: World, document: Document
) -> None:
    world.deploy("c")
    up, gradual, down = map(world.key, "abc")
    one_by_one = {"scaleUp": {"policies": [{"type": "Pods", "value": 1, "periodSeconds": 2}]}}

    def opening(opens: datetime) -> Document:
        rush = {
            "name": "rush",
            "start": f"{opens.minute} {opens.hour} * * *",
            "end": f"{opens.minute} {(opens.hour + 1) % 24} * * *",
        }
        raised, lowered = rush | {"minReplicas": RAISED}, rush | {"maxReplicas": LOWERED}
        targets = [
            world.target("a", schedules=[raised]),
            world.target("b", schedules=[raised | {"gradual": True}], behavior=one_by_one),
            world.target("c", schedules=[lowered]),
        ]
        state = {"stateDirectory": str(world.folder / "state"), "targets": targets}
        return document | state

    with world.running(opening(datetime.now(UTC) + timedelta(minutes=20))) as daemon:
        for key in (up, gradual, down):
            daemon.wait_write(key, DEMAND)
    # Schedules open at whole minutes; however long that daemon took, the next one is after its end.
    opens = datetime.now(UTC).replace(second=0, microsecond=0) + timedelta(minutes=1)
    wait_until("the schedules open", lambda: clock.wall() > opens.timestamp(), timeout=70)
    with world.running(opening(opens)) as daemon:
        first = daemon.first_sync(up)
        assert (first["current_replicas"], first["desired_replicas"]) == (DEMAND, RAISED)
        assert "rush" in first["message"]
        assert daemon.first_sync(down)["desired_replicas"] == LOWERED
        daemon.wait_write(gradual, RAISED)
        steps = [line["desired_replicas"] for line in daemon.syncs(gradual) if line.get("write")]
        assert steps == [DEMAND + 1, RAISED]
