"""Many targets: an evening's decline passes the breaker, a label that is renamed does not."""

from concurrent.futures import ThreadPoolExecutor

import pytest

from autoscaler.persistence.store import Resumption, read_saved
from tests.narrowing import assert_parts, instance
from tests.worlds.daemon import DaemonProcess, Document, command, external, target
from tests.worlds.waiting import let_pass, wait_until
from tests.worlds.world import World

TARGETS, REPLICAS, LEAST = 200, 4, 1
NAMES = [f"worker-{number}" for number in range(TARGETS)]
PERIOD = 2
FALLING = 0.1
"""The share of the targets that lose a replica in one period of the evening.

The steepest half hour of a day and night in a public trace lowers the load by a third of its mean:
at 20 replicas and 15 seconds that are 6 % of the targets in a period.
"""
EVENING_PERIODS = 3


@pytest.mark.timeout(180)
def test_a_renamed_label_scales_nothing_down_and_an_evening_does(world: World) -> None:
    """One loud line; a kill -9 does not end the hold, the command does."""
    fleet = Fleet(world)
    world.prometheus.wait_for(world.metric, count=TARGETS)
    with world.start(document(world)) as daemon:
        daemon.wait_event("started")
        evening = fleet.evening()
        wait_until("the evening's counts", lambda: fleet.counts() == evening, interval=0.5)
        assert not daemon.events("scale_down_breaker")
        fleet.rename()
        trip = daemon.wait_event("scale_down_breaker")
        assert (trip["level"], trip["change"]) == ("error", "tripped")
        assert (trip["targets"], trip["would_go_down"]) == (TARGETS, TARGETS)
        assert trip["query"] == query(world)
        let_pass(1.5 * PERIOD)
        assert fleet.counts() == evening
        check_held(daemon)
        daemon.kill()
    with world.start(document(world)) as daemon:
        assert daemon.wait_event("scale_down_breaker")["change"] == "resumed"
        # Scale-ups go on.
        world.exporter.set(world.metric, {"queue": NAMES[0]}, REPLICAS + 1)
        risen = [REPLICAS + 1, *evening[1:]]
        wait_until("a scale-up", lambda: fleet.counts() == risen, interval=0.5)
        let_pass(1.5 * PERIOD)
        assert fleet.counts() == risen
        check_held(daemon)
        released = command("resume", "--breaker", "-c", daemon.file).stdout
        assert_parts(released, "released: ", f"{TARGETS} of {TARGETS}")
        least = [REPLICAS + 1] + [LEAST] * (TARGETS - 1)
        wait_until("the minimum", lambda: fleet.counts() == least, timeout=120, interval=0.5)
        assert daemon.events("scale_down_breaker")[-1]["change"] == "released"
        assert daemon.component("scale-down breaker")["ok"]
        assert daemon.stop() == 0
    saved = instance(Resumption, read_saved(world.folder / "state"))
    assert [breaker.trip for breaker in saved.breakers.values()] == [None]


def query(world: World) -> str:
    return f"sum by (queue) ({world.metric})"


def document(world: World) -> Document:
    """Return a configuration in which a queue without series is an empty one."""
    down = {"behavior": {"scaleDown": {"stabilizationWindowSeconds": 0}}, "minReplicas": LEAST}
    return world.document(
        *(
            target(world.namespace, name, external("orders", 1, queue=name), **down)
            for name in NAMES
        ),
        syncPeriod=f"{PERIOD}s",
        stateDirectory=str(world.folder / "state"),
        events=False,
        scaleDownBreaker={"share": "30%", "minTargets": 20, "hold": "10m"},
        queries={"orders": {"query": query(world), "empty": "zero"}},
    )


class Fleet:
    """Deployments without pods, and a queue for each."""

    def __init__(self, world: World) -> None:
        self._world = world
        with ThreadPoolExecutor(8) as pool:
            list(pool.map(self._create, NAMES))

    def counts(self) -> list[int]:
        wanted = self._world.all_replicas()
        return [wanted[name] for name in NAMES]

    def _create(self, name: str) -> None:
        # Its controller makes no pods.
        self._world.deploy(name, REPLICAS, paused=True)
        self._set(name, REPLICAS)

    def _set(self, name: str, replicas: int) -> None:
        self._world.exporter.set(self._world.metric, {"queue": name}, replicas)

    def evening(self) -> list[int]:
        """Let one queue after the other need a replica less; return the counts that follow."""
        share = round(TARGETS * FALLING)
        falling = NAMES[: share * EVENING_PERIODS]
        for name in falling:
            self._set(name, REPLICAS - 1)
            let_pass(PERIOD / share)
        return [REPLICAS - (name in set(falling)) for name in NAMES]

    def rename(self) -> None:
        """Rename the label of every queue: the query answers, and of none of them."""
        world = self._world
        world.exporter.remove(world.metric)
        for name in NAMES:
            world.exporter.set(world.metric, {"queue_name": name}, REPLICAS)


def check_held(daemon: DaemonProcess) -> None:
    """Check that the hold was logged once, and is in the health and in the metrics."""
    assert len(daemon.events("scale_down_breaker")) == 1
    breaker = daemon.component("scale-down breaker")
    assert not breaker["ok"]
    assert "autoscaler resume --breaker" in breaker["message"]
    assert daemon.metric("autoscaler_scale_down_breaker_tripped", server="default") == 1
