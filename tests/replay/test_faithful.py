"""A replay of what a daemon has done gives the same counts at the same syncs."""

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import pytest

from autoscaler.core.spec import Flags
from autoscaler.core.step import Step
from autoscaler.core.sync_result import SyncResult
from autoscaler.core.target import Query
from autoscaler.daemon.recording import Recorder
from autoscaler.lab.engine.assumptions import Assumptions
from autoscaler.lab.engine.building import BuildError, built
from autoscaler.lab.engine.outcome import OutcomeWatcher
from autoscaler.lab.engine.replay import own_reason
from autoscaler.lab.engine.world import SimulatedTarget, World
from autoscaler.lab.past.record import RecordedData
from autoscaler.persistence.record import DirectoryRecord
from autoscaler.sync.ports import Reporter
from tests.adapters.record.recording import running, until
from tests.core.builders import BASE, average, cpu, per_pod
from tests.narrowing import assert_parts
from tests.replay.fleets import PERIOD, fleet
from tests.worlds.simulated import SimulatedPorts

HOUR = 3600.0
Counts = dict[str, dict[float, tuple[int | None, int]]]


class Counted(Reporter):
    """Takes the count and the desired count of each sync by target and instant."""

    def __init__(self, *others: Reporter) -> None:
        self.counts: Counts = defaultdict(dict)
        self._others = others

    def report(self, result: SyncResult) -> None:
        decision = result.decision
        self.counts[result.target.key][decision.stamp] = (decision.current, decision.desired)
        for other in self._others:
            other.report(result)


class _Paced(Reporter):
    """Waits for the disk now and then: a record drops what it cannot write as fast as it comes."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self._reported = 0

    def report(self, result: SyncResult) -> None:
        self._reported += 1
        if self._reported % 1000 == 0:
            stamp = result.decision.stamp
            until(lambda: (DirectoryRecord(self._directory).span() or (0, 0))[1] >= stamp - PERIOD)


class CountingWatcher(OutcomeWatcher):
    """Takes the counts as well as what becomes of each target."""

    def __init__(self, begin: float, end: float) -> None:
        super().__init__(begin, end, own_reason)
        self.counts: Counts = defaultdict(dict)

    def synced(self, target: SimulatedTarget, step: Step) -> None:
        super().synced(target, step)
        decision = step.decision
        self.counts[target.key][decision.stamp] = (decision.current, decision.desired)


def lived(folder: Path, targets: Sequence[SimulatedTarget], seconds: float) -> Counted:
    """Let a daemon record some seconds of targets in a folder, and return their counts."""
    with running(folder) as record:
        recorder = Recorder(record)
        recorder.configure([target.rules.target for target in targets], Flags())
        live = Counted(recorder, _Paced(folder))
        SimulatedPorts(targets).run(BASE, BASE + seconds, PERIOD, live)
    return live


@pytest.mark.parametrize("seed", [1, 2])
def test_the_world_decides_as_the_syncer(seed: int) -> None:
    syncs = int(HOUR / PERIOD)
    live = Counted()
    SimulatedPorts(fleet(BASE, syncs, seed)).run(BASE, BASE + HOUR, PERIOD, live)
    watcher = CountingWatcher(BASE, BASE + HOUR)
    for _ in World(fleet(BASE, syncs, seed), watcher).run(BASE, BASE + HOUR):
        pass
    assert watcher.counts == live.counts
    assert sum(len({count for count, _ in of.values()}) > 3 for of in live.counts.values()) > 10


@pytest.mark.parametrize("begin", [0.0, 1500.0])
def test_a_replay_from_the_record_is_what_the_daemon_did(tmp_path: Path, begin: float) -> None:
    targets = fleet(BASE, int(HOUR / PERIOD), 3)
    live = lived(tmp_path, targets, HOUR)
    warm_up, start = begin and 900.0, BASE + begin
    data = RecordedData(DirectoryRecord(tmp_path), start - warm_up, BASE + HOUR, Flags())
    replayed = []
    for target in targets:
        ready = {"target": target.key, "readyAfter": f"{target.workload.ready_seconds:g}s"}
        stated = Assumptions.model_validate({"workloads": [ready]})
        replayed.append(built(target.rules.target, Flags(), data, stated, start - warm_up).target)
    watcher = CountingWatcher(start, BASE + HOUR)
    world = World(replayed, watcher)
    if warm_up:
        world.warm_up(start - warm_up, start)
    for _ in world.run(start, BASE + HOUR):
        pass
    for target in targets:
        ours, theirs = watcher.counts[target.key], live.counts[target.key]
        differing = {
            at - BASE: (ours.get(at), counts)
            for at, counts in theirs.items()
            if at >= start and ours.get(at) != counts
        }
        assert not differing, (target.rules.target.spec, target.workload.ready_seconds, differing)
    outcomes = watcher.outcomes()
    assert all(outcome.ran == outcome.measures for outcome in outcomes)
    if begin:
        return
    beside = OutcomeWatcher(BASE, BASE + HOUR, own_reason)
    for _ in World(fleet(BASE, int(HOUR / PERIOD), 3), beside).run(BASE, BASE + HOUR):
        pass
    for found, was in zip(outcomes, beside.outcomes(), strict=True):
        if found.measures.scored_seconds:
            assert found.measures.worst_shortage == was.measures.worst_shortage, found.key


def test_values_of_the_record_are_read_as_the_target_was(tmp_path: Path) -> None:
    targets = [target for target in fleet(BASE, 40, 3) if target.key.endswith("/t3")]
    lived(tmp_path, targets, 600)
    was = targets[0].rules.target
    data = RecordedData(DirectoryRecord(tmp_path), BASE, BASE + 600, Flags())
    now = replace(was, spec=replace(was.spec, metrics=(cpu(average("200m")),)))
    assert data.former(now) == was
    before, after = data.totals(was, 0), data.totals(now, 0)
    for sync in range(40):
        at = BASE + sync * PERIOD
        assert after(at) == before(at)
        assert after(at) is not None
    for other in (
        replace(was, spec=replace(was.spec, metrics=(per_pod("10"),))),
        replace(was, queries=(Query("sum(other)"),)),
    ):
        with pytest.raises(BuildError, match=other.spec.metrics[0].name):
            data.totals(other, 0)
    with pytest.raises(BuildError, match=r"sum\(least\)"):
        data.others(replace(was, min_replicas_query=Query("sum(least)")))


def test_a_time_before_the_record_begins_is_a_gap() -> None:
    (target,) = fleet(BASE, 120, 3, count=1)
    target.instants = lambda: [BASE + 600 + PERIOD * number for number in range(40)]
    watcher = OutcomeWatcher(BASE, BASE + 1200, own_reason)
    for _ in World([target], watcher).run(BASE, BASE + 1200):
        pass
    (outcome,) = watcher.outcomes()
    assert (outcome.measures.gap_seconds, outcome.measures.scored_seconds) == (600.0, 600.0)


def test_a_recorded_pause_is_noted(tmp_path: Path) -> None:
    (target,) = fleet(BASE, 40, 3, count=1)
    target.workload.annotate({"autoscaler/paused": "true"})
    lived(tmp_path, [target], 600)
    data = RecordedData(DirectoryRecord(tmp_path), BASE, BASE + 600, Flags())
    (sentence,) = data.notes(target.rules.target)
    assert_parts(sentence, "paused")
