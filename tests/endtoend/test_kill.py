"""A daemon that is killed again and again never scales wrongly."""

import os
import random
import shutil
import threading

from tests.endtoend.killing import METRIC, Judge, Load, Rules, changes
from tests.worlds.counts import Counts
from tests.worlds.daemon import DaemonProcess
from tests.worlds.world import World

KILLS = int(os.environ.get("AUTOSCALER_TEST_KILLS", "12"))
"""200 take about fifteen minutes."""

NAMES = [f"app-{number}" for number in range(6)]
YOUNG, START_SECONDS = 0.25, 1.0
"""The part that is killed within so many seconds, most of it before the first sync."""
LIFE_SECONDS = 5.0


def test_a_daemon_that_is_killed_at_random_moments_never_scales_wrongly(world: World) -> None:
    rules, moments = Rules(window=18, up=(2, 8), down=(2, 7)), random.Random(7)  # noqa: S311 - a test's
    for name in NAMES:
        world.deploy(name, 4)
    load = Load(world.exporter, NAMES, seed=7)
    world.prometheus.wait_for(METRIC, count=len(NAMES))
    document = world.document(
        *(rules.target(world.namespace, name) for name in NAMES),
        queries={METRIC: METRIC},
        stateDirectory=str(world.folder / "state"),
        listen=None,
    )
    lives: list[DaemonProcess] = []
    pause = threading.Event()
    with load, Counts(world.api, world.namespace) as counts:

        def made() -> int:
            return sum(len(changes(counts.seen[name])) for name in NAMES)

        for _ in range(KILLS):
            with world.start(document) as daemon:
                lives.append(daemon)
                if moments.random() < YOUNG:
                    pause.wait(moments.uniform(0, START_SECONDS))
                else:
                    daemon.wait_event("started")
                    pause.wait(moments.uniform(0, LIFE_SECONDS))
                daemon.kill()
        # The last life shows that the state is still good: it resumes, and goes on scaling.
        before = made()
        with world.start(document) as daemon:
            daemon.wait_event("resumed")
            daemon.wait("another count", lambda: made() > before)
            assert daemon.stop() == 0
            lives.append(daemon)
    # A busy machine may see a load, or a count, two seconds late.
    judge = Judge(rules, slack=2.0)
    faults = {name: list(judge.faults(load.levels[name], counts.seen[name])) for name in NAMES}
    assert not any(faults.values()), faults
    lines = [line for life in lives for line in life.lines]
    assert not [line for line in lines if line["event"] in {"fault", "sync_failed"}]
    assert not [line for line in lines if line["event"] == "state" and line["level"] == "warning"]
    print(f"{KILLS} kills, {made()} changes of scale, {len(lines)} lines")
    assert made() >= len(NAMES)
    shutil.rmtree(world.folder / "state")
