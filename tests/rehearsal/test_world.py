"""Targets on a virtual clock: what happens to them, and when."""

from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import NamedTuple

import pytest

from autoscaler.core.breaker import Breaker
from autoscaler.core.decision import Outcome
from autoscaler.core.spec import Flags, HorizontalPodAutoscalerSpec, ScaleTargetRef
from autoscaler.core.step import Step
from autoscaler.core.sync_result import Rules
from autoscaler.core.target import Query, Target
from autoscaler.core.writes import NotWritten, NotWrittenReason, WriteFailed
from autoscaler.lab.engine.loads import QueueLoad, RecordedLoad
from autoscaler.lab.engine.workloads import SimulatedWorkload
from autoscaler.lab.engine.world import SimulatedTarget, World
from tests.core.builders import BASE, average, behavior, external, percent_policy, rules
from tests.rehearsal.fleets import PERIOD, series
from tests.rehearsal.test_faithful import Counted
from tests.worlds.simulated import SimulatedPorts

AT_ONCE = behavior(down=rules(percent_policy(100), window=0))


class Sync(NamedTuple):
    """What a test looks at of a sync; the time is in seconds from the begin."""

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
    """Return a target of 30 messages a pod, with so many each 15 s; it goes down at once."""
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
    """All from the begin on and before the end; at one instant in their order."""
    fast, slow = simulated("fast", 60.0, period=10.0), simulated("slow", 60.0, period=25.0)
    seen = watched(slow, fast, seconds=50.0)
    assert [one.at for one in seen.syncs["fast"]] == [0, 10, 20, 30, 40]
    assert [one.at for one in seen.syncs["slow"]] == [0, 25]
    assert [end for _, end, _ in seen.times["slow"]] == [25, 50]
    order = [step.rules.target.spec.scale_target_ref.name for step in seen.steps]
    assert order == ["slow", "fast", "fast", "fast", "slow", "fast", "fast"]


def test_a_target_is_synced_when_it_really_was() -> None:
    """Where that is known; the time of the last sync lasts to the end."""
    one = simulated("web", 60.0)
    one.instants = [BASE - 5, BASE + 3, BASE + 18.5, BASE + 33, BASE + 60]
    seen = watched(one, seconds=60.0)
    assert [sync.at for sync in seen.syncs["web"]] == [3.0, 18.5, 33.0]
    assert [(begin, end) for begin, end, _ in seen.times["web"]] == [
        (3, 18.5),
        (18.5, 33),
        (33, 60),
    ]


def test_pods_become_ready_between_syncs() -> None:
    """The time between is cut there; work is only done by those that are ready."""
    one = simulated("web", *[120.0] * 4, ready=20.0)
    assert watched(one, seconds=45.0).times["web"] == [
        (0, 15, 2),
        (15, 20, 2),
        (20, 30, 4),
        (30, 45, 4),
    ]


def test_a_queue_drains_by_the_pods_that_are_ready_at_the_time() -> None:
    """Two take 3 a second for 15 s, then four: of 400 there are 130 left after 30 s."""
    one = simulated("web", ready=20.0, period=30.0)
    one.leads = False
    queue = QueueLoad(series([0.0, 0.0], BASE, {}), 3.0, {}, length=400.0)
    one = replace(one, loads=[queue])
    one.workload.set(4, BASE - 5)
    assert watched(one, seconds=30.0).times["web"] == [(0, 15, 2), (15, 30, 4)]
    assert queue.length == 130.0
    assert [time.served for time in queue.passed] == [90.0, 180.0]


def test_a_failed_write_leaves_the_count_and_is_tried_again() -> None:
    """As a live sync that an API server refuses."""
    one = simulated("web", *[120.0] * 4)
    one.write_fails = "no answer"
    seen = Seen()
    run = World([one], seen).run(BASE, BASE + 60)
    next(run)
    assert (one.workload.replicas, seen.steps[-1].write) == (2, WriteFailed("no answer"))
    one.write_fails = ""
    next(run)
    assert one.workload.replicas == 4
    assert [sync.before for sync in seen.syncs["web"]] == [2, 2]


def test_after_a_takeover_another_process_writes() -> None:
    """What is decided is remembered and not written; whoever leads again goes on."""
    one = simulated("web", *[120.0] * 8)
    one.leads = False
    seen = watched(one, seconds=30.0)
    assert one.workload.replicas == 2
    assert {step.write for step in seen.steps} == {NotWritten(NotWrittenReason.NOT_LEADING)}
    one.leads = True
    assert watched(one, seconds=15.0).syncs["web"] == [Sync(0.0, 2, 4)]


def test_a_restart_without_its_memory_holds_the_count_for_another_window() -> None:
    """A new process begins with the count as its first recommendation, as the HPA does."""
    stays, restarts = (simulated("web", 300.0, *[30.0] * 40, replicas=10) for _ in range(2))
    lows = []
    for one in (stays, restarts):
        default = replace(one.rules.target.spec, behavior=None)
        one.follow(replace(one.rules, target=replace(one.rules.target, spec=default)))
        seen = Seen()
        for now in World([one], seen).run(BASE, BASE + 600):
            if one is restarts and now == BASE + 150:
                one.forget()
        lows.append(next(sync.at for sync in seen.syncs["web"] if sync.after < 10))
    assert lows == [300.0, 465.0]


def test_an_absence_is_known_by_the_time_of_the_last_sync() -> None:
    """Two hours in which nobody synced are an absence, said by a test or by the clock."""
    histories = []
    for is_said in (True, False):
        one, seen = simulated("web", *[60.0] * 600), Seen()
        watched(one, seconds=30.0)
        if is_said:
            one.away(7215.0, BASE + 7230)
            one.last_sync = None
        World([one], seen).sync([one], BASE + 7230, [BASE + 7245])
        histories.append(seen.steps[0].inputs.history)
    assert histories[0] == histories[1]
    assert histories[0].gaps


def test_a_gap_and_a_partial_answer_change_nothing() -> None:
    """No sample is invented: a count without a reading stays where it is."""
    one = simulated("web", 120.0, 120.0)
    seen = watched(one, seconds=60.0)
    assert [sync.after for sync in seen.syncs["web"]] == [4, 4, 4, 4]
    assert [step.decision.outcome is Outcome.OK for step in seen.steps] == [
        True,
        True,
        False,
        False,
    ]


def test_at_zero_and_in_a_pause_nothing_is_written() -> None:
    """As live: a count of 0 disables the HPA's rules, and a pause is a person's word."""
    off, paused = simulated("off", *[300.0] * 4, replicas=0), simulated("paused", *[300.0] * 4)
    paused.workload.annotate({"autoscaler/paused": "true"})
    watched(off, paused, seconds=60.0)
    assert (off.workload.replicas, paused.workload.replicas) == (0, 2)


def test_a_count_that_cannot_be_read_is_left() -> None:
    one = simulated("web", *[120.0] * 8)
    one.workload.unreadable = "no answer"
    run = World([one], Seen()).run(BASE, BASE + 60)
    next(run)
    assert one.workload.replicas == 2
    one.workload.unreadable = ""
    next(run)
    assert one.workload.replicas == 4


# -- breakers ------------------------------------------------------------------------------------


def emptied(count: int, empty: int, server: str = "") -> list[SimulatedTarget]:
    """Return targets of which the queues of the first ones are empty at 30 s, and for 6 min."""
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
    """The same counts at the same syncs, be it tripped again, released in time or not at all."""
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
    """Those that read from another server go down as they would."""
    small, large = emptied(20, 2, server="a"), emptied(20, 20, server="b")
    seen = watched(*small, *large, seconds=60.0, breaker=Breaker())
    after = Counter(syncs[-1].after for syncs in seen.syncs.values())
    assert after == {5: 18 + 20, 1: 2}
