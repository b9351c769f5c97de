"""Targets on a virtual clock: what happens to them, and when."""

from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import NamedTuple

import pytest

from autoscaler.core.breaker import Breaker
from autoscaler.core.spec import Flags, HorizontalPodAutoscalerSpec, ScaleTargetRef
from autoscaler.core.step import Step
from autoscaler.core.sync_result import Rules
from autoscaler.core.target import Query, Target
from autoscaler.core.writes import SkippedWrite, SkippedWriteReason, WriteFailure
from autoscaler.lab.engine.loads import QueueLoad, RecordedLoad
from autoscaler.lab.engine.workloads import SimulatedWorkload
from autoscaler.lab.engine.world import SimulatedTarget, World
from tests.core.builders import BASE, average, behavior, external, percent_policy, rules
from tests.replay.fleets import PERIOD, series
from tests.replay.test_faithful import Counted
from tests.worlds.simulated import SimulatedPorts

AT_ONCE = behavior(down=rules(percent_policy(100), window=0))


class Sync(NamedTuple):
    """The parts of a sync that tests check; the time is in seconds from the begin."""

    at: float
    before: int | None
    after: int


class Seen:
    """Fits `Watcher`: all that happens, in order."""

    def __init__(self) -> None:
        self.syncs: dict[str, list[Sync]] = defaultdict(list)
        self.steps: list[Step] = []
        self.times: dict[str, list[tuple[float, float, int]]] = defaultdict(list)

    def synced(self, target: SimulatedTarget, step: Step) -> None:
        decision = step.decision
        sync = Sync(decision.stamp - BASE, decision.current, target.workload.replicas)
        self.syncs[target.workload.name].append(sync)
        self.steps.append(step)

    def passed(self, target: SimulatedTarget, begin: float, end: float, ready: int) -> None:
        self.times[target.workload.name].append((begin - BASE, end - BASE, ready))


def simulated(
    name: str,
    *messages: float,
    replicas: int = 2,
    ready: float = 0.0,
    period: float = PERIOD,
    server: str = "",
) -> SimulatedTarget:
    """Return a target of 30 messages a pod, with a count every 15 s; it scales down at once."""
    ref = ScaleTargetRef("apps/v1", "Deployment", name)
    spec = HorizontalPodAutoscalerSpec(ref, 1, 20, (external(average("30")),), AT_ONCE)
    queries = (Query(f"messages of {name}", server=server),)
    target = Target("shop", spec, queries, sync_period=period)
    workload = SimulatedWorkload(name, BASE, replicas, ready)
    load = RecordedLoad(series(list(messages), BASE, {}), 30.0)
    return SimulatedTarget(Rules(target, Flags()), workload, [load])


def watched(*targets: SimulatedTarget, seconds: float, breaker: Breaker | None = None) -> Seen:
    seen = Seen()
    for _ in World(targets, seen, breaker).run(BASE, BASE + seconds):
        pass
    return seen


def test_each_target_is_synced_by_its_own_period() -> None:
    fast, slow = simulated("fast", 60.0, period=10.0), simulated("slow", 60.0, period=25.0)
    seen = watched(slow, fast, seconds=50.0)
    assert [sync.at for sync in seen.syncs["fast"]] == [0, 10, 20, 30, 40]
    assert [sync.at for sync in seen.syncs["slow"]] == [0, 25]
    assert [end for _, end, _ in seen.times["slow"]] == [25, 50]
    order = [step.rules.target.spec.scale_target_ref.name for step in seen.steps]
    assert order == ["slow", "fast", "fast", "fast", "slow", "fast", "fast"]


def test_a_target_is_synced_when_it_really_was() -> None:
    run = simulated("web", 60.0)
    run.instants = lambda: [BASE - 5, BASE + 3, BASE + 18.5, BASE + 33, BASE + 60]
    seen = watched(run, seconds=60.0)
    assert [sync.at for sync in seen.syncs["web"]] == [3.0, 18.5, 33.0]
    assert [(begin, end) for begin, end, _ in seen.times["web"]] == [
        (3, 18.5),
        (18.5, 33),
        (33, 60),
    ]


def test_pods_become_ready_between_syncs() -> None:
    run = simulated("web", *[120.0] * 4, ready=20.0)
    assert watched(run, seconds=45.0).times["web"] == [
        (0, 15, 2),
        (15, 20, 2),
        (20, 30, 4),
        (30, 45, 4),
    ]


def test_a_queue_drains_by_the_pods_that_are_ready_at_the_time() -> None:
    """Two take 3 a second for 15 s, then four: of 400 there are 130 left after 30 s."""
    run = simulated("web", ready=20.0, period=30.0)
    run.leads = False
    queue = QueueLoad(series([0.0, 0.0], BASE, {}), 3.0, {}, length=400.0)
    run = replace(run, loads=[queue])
    run.workload.set(4, BASE - 5)
    assert watched(run, seconds=30.0).times["web"] == [(0, 15, 2), (15, 30, 4)]
    assert queue.length == 130.0
    assert [time.served for time in queue.passed] == [90.0, 180.0]


def test_a_count_that_is_not_written_has_its_reason() -> None:
    refused, stands_by = (simulated(name, *[120.0] * 4) for name in ("refused", "stands-by"))
    refused.write_fails, stands_by.leads = "no answer", False
    seen = watched(refused, stands_by, seconds=15.0)
    assert [step.write for step in seen.steps] == [
        WriteFailure("no answer"),
        SkippedWrite(SkippedWriteReason.NOT_LEADING),
    ]
    assert (refused.workload.replicas, stands_by.workload.replicas) == (2, 2)


def test_an_absence_is_known_by_the_time_of_the_last_sync() -> None:
    histories = []
    for is_said in (True, False):
        run, seen = simulated("web", *[60.0] * 600), Seen()
        watched(run, seconds=30.0)
        if is_said:
            run.away(7215.0, BASE + 7230)
            run.last_sync = None
        World([run], seen).sync([run], BASE + 7230, [BASE + 7245])
        histories.append(seen.steps[0].inputs.history)
    assert histories[0] == histories[1]
    assert histories[0].gaps


# -- breakers ------------------------------------------------------------------------------------


def emptied(count: int, empty: int, server: str = "") -> list[SimulatedTarget]:
    """Return targets; the queues of the first ones are empty at 30 s, for 6 min."""
    course = [150.0, 150.0, *[0.0] * 24, *[150.0] * 20]
    return [
        simulated(
            f"{server}w{number}",
            *(course if number < empty else [150.0] * 46),
            replicas=5,
            server=server,
        )
        for number in range(count)
    ]


@pytest.mark.parametrize(("empty", "hold"), [(12, 60.0), (13, 60.0), (13, 120.0), (40, 600.0)])
def test_the_breaker_holds_as_the_live_one(empty: int, hold: float) -> None:
    breaker = Breaker(30, 20, hold)
    live = Counted()
    SimulatedPorts(emptied(40, empty)).run(BASE, BASE + 690, PERIOD, live, breaker)
    seen = watched(*emptied(40, empty), seconds=690.0, breaker=breaker)
    ours = {
        f"shop/Deployment/{name}": [sync.before for sync in syncs]
        for name, syncs in seen.syncs.items()
    }
    assert ours == _befores(live.counts)
    low = min(sync.after for sync in seen.syncs["w0"])
    assert low == (1 if empty == 12 else 5)


def _befores(
    counts: Mapping[str, Mapping[float, tuple[int | None, int]]],
) -> Mapping[str, Sequence[int | None]]:
    return {key: [before for before, _ in found.values()] for key, found in counts.items()}


def test_each_server_has_a_breaker_of_its_own() -> None:
    small, large = emptied(20, 2, server="a"), emptied(20, 20, server="b")
    seen = watched(*small, *large, seconds=60.0, breaker=Breaker())
    after = Counter(syncs[-1].after for syncs in seen.syncs.values())
    assert after == {5: 18 + 20, 1: 2}
