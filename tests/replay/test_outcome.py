"""Outcomes of a target: measures of the whole and of each day, lines and reasons."""

from collections.abc import Iterable
from dataclasses import replace

import pytest

from autoscaler.core.step import Step
from autoscaler.lab.engine.loads import QueueLoad
from autoscaler.lab.engine.measures import A_DAY
from autoscaler.lab.engine.outcome import MOST_PARTS, Explain, OutcomeWatcher, TargetOutcome
from autoscaler.lab.engine.replay import Replay, own_reason
from autoscaler.lab.engine.world import SimulatedTarget, World
from autoscaler.lab.rendering import answer_of
from tests.core.builders import BASE
from tests.narrowing import known
from tests.replay.fleets import PERIOD, replayed, series
from tests.replay.test_world import simulated

DAY_SYNCS = round(A_DAY / PERIOD)


def outcome(target: SimulatedTarget, seconds: float, why: Explain = own_reason) -> TargetOutcome:
    watcher = OutcomeWatcher(BASE, BASE + seconds, why)
    for _ in World([target], watcher).run(BASE, BASE + seconds):
        pass
    (found,) = watcher.outcomes()
    return found


def test_a_shortage_until_pods_are_ready() -> None:
    """Work for 4 pods and 2 ready ones for 20 of 60 s, so half of the work is missing then."""
    found = outcome(simulated("web", *[120.0] * 4, ready=20.0), 60.0)
    measures = found.measures
    assert measures.tau_under == pytest.approx(20 / 60)
    assert measures.theta_under == pytest.approx(20 / 60 / 2)
    assert (measures.worst_shortage, measures.longest_shortage_seconds) == (2, 20.0)
    assert (measures.changes, measures.theta_over) == (1, 0.0)
    assert (found.first_replicas, found.last_replicas) == (2, 4)
    (change,) = found.changes
    assert (change.time, change.before, change.after) == (BASE, 2, 4)
    assert measures.replica_hours == pytest.approx(4 / 60)  # a pod costs before it is ready


def test_a_time_without_syncs_is_a_gap() -> None:
    run = simulated("web", *[60.0] * (4 * DAY_SYNCS))
    run.instants = lambda: [BASE, BASE + 15, BASE + 3.5 * A_DAY, BASE + 3.5 * A_DAY + 15]
    found = outcome(run, 3.5 * A_DAY + 30)
    assert found.measures.scored_seconds == 45.0 + 30.0
    assert [day.scored_seconds for day in found.days] == [45.0, 0.0, 0.0, 30.0]
    assert [day.gap_seconds for day in found.days] == [A_DAY - 45, A_DAY, A_DAY, A_DAY / 2]
    assert found.days[0].upsilon == 0.0


def test_days_begin_at_their_time_whatever_the_period() -> None:
    odd = simulated("web", *[60.0] * (2 * DAY_SYNCS), period=7000.0)
    days = outcome(odd, 2 * A_DAY).days
    seconds = [day.scored_seconds + day.gap_seconds for day in days]
    assert seconds == [A_DAY, A_DAY]


def test_days_add_up_to_the_whole() -> None:
    course = [30.0 * (1 + number // 500 % 5) for number in range(2 * DAY_SYNCS)]
    found = outcome(simulated("web", *course, ready=40.0), 1.5 * A_DAY)
    assert len(found.days) == 2
    for name in ("scored_seconds", "replica_hours", "changes", "shortage_pod_hours"):
        total = sum(getattr(day, name) for day in found.days)
        assert total == pytest.approx(getattr(found.measures, name))
    shares = sum((day.tau_under or 0.0) * day.scored_seconds for day in found.days)
    assert shares == pytest.approx(
        (found.measures.tau_under or 0.0) * found.measures.scored_seconds
    )


def test_recorded_counts_are_measured_with_the_same_demand() -> None:
    run = simulated("web", *[120.0] * 8)
    run.ran = series([4.0, 4.0, 2.0, 2.0], BASE, {})
    ran = known(outcome(run, 120.0).ran)
    assert (ran.scored_seconds, ran.gap_seconds, ran.changes) == (60.0, 60.0, 1)
    assert ran.tau_under == pytest.approx(0.5)
    assert ran.replica_hours == pytest.approx((30 * 4 + 30 * 2) / 3600)
    assert outcome(simulated("web", 60.0), 15.0).ran is None


def test_outcomes_of_long_replays_are_bounded() -> None:
    course = [30.0 * (1 + number // 4 % 7) for number in range(3 * DAY_SYNCS)]
    said = 0

    def explain(step: Step) -> str:
        nonlocal said
        said += 1
        return own_reason(step)

    found = outcome(simulated("web", *course, period=60.0), 3 * A_DAY, explain)
    assert found.measures.changes > 4_000
    assert len(found.parts) == MOST_PARTS
    assert len(found.changes) == 2_000
    (told,) = answer_of(Replay(BASE, BASE + 3 * A_DAY, (found,))).targets
    assert told.unlisted_changes == found.measures.changes - 2_000
    assert len(found.reasons) <= MOST_PARTS
    assert said <= 2_000 + MOST_PARTS


def test_a_part_has_the_least_and_the_most() -> None:
    course = [30.0] * DAY_SYNCS
    course[1000] = 300.0
    found = outcome(simulated("web", *course, replicas=1), A_DAY)
    peaks = [part for part in found.parts if part.demand_high == 10]
    assert len(peaks) == 1
    assert peaks[0].demand_low == 1


def test_a_shortage_compares_demand_and_pods_of_one_instant() -> None:
    course = [150.0] * DAY_SYNCS
    course[1000:2000] = [300.0] * 1000
    found = outcome(simulated("web", *course, replicas=5), A_DAY)
    (rise,) = [part for part in found.parts if (part.demand_low, part.demand_high) == (5, 10)][:1]
    assert (rise.ready_low, rise.ready_high, rise.short) == (5, 10, 0)
    assert (rise.demand, rise.ready) == (10, 10)
    assert {part.short for part in found.parts} == {0}
    late = outcome(simulated("web", *course, replicas=5, ready=20.0), A_DAY)
    assert {part.short for part in late.parts} == {0, 5}


def test_parts_have_the_worst_shortage_of_the_measures() -> None:
    for found in replayed(14, 3000).outcomes:
        assert len(found.parts) == MOST_PARTS
        short = [part.short or 0 for part in found.parts]
        assert max(short) == found.measures.worst_shortage
        for part in found.parts:
            assert (part.short is None) == (part.demand_low is None)


def test_reasons_are_of_instants_at_which_they_changed() -> None:
    found = outcome(simulated("web", *[60.0] * 40), 600.0)
    assert len(found.reasons) == 1
    assert found.reasons[0].time == BASE


def test_the_longest_wait_of_a_queue_is_measured() -> None:
    run = simulated("web", replicas=0, ready=20.0)
    queue = QueueLoad(series([3.0] * 8, BASE, {}), 3.0, {})
    run = replace(run, loads=[queue])
    run.instants = lambda: [BASE, BASE + 60]
    watcher = OutcomeWatcher(BASE, BASE + 120, own_reason)
    world = World([run], watcher)
    world.sync([run], BASE, [BASE + 60])
    assert watcher.outcomes()[0].measures.longest_wait_seconds == 60.0
    run.workload.set(2, BASE + 60)  # ready at 80 s: 6 a second take 240
    for now in range(60, 120, 15):
        world.sync([run], BASE + now, [BASE + now + 15])
    assert watcher.outcomes()[0].measures.longest_wait_seconds == 80.0
    assert watcher.outcomes()[0].measures.longest_queue == pytest.approx(3.0 * 77.5)


def test_targets_come_in_the_order_of_their_first_sync() -> None:
    late, early = simulated("late", 60.0), simulated("early", 60.0)
    late.instants = lambda: [BASE + 5]
    watcher = OutcomeWatcher(BASE, BASE + 15, own_reason)
    for _ in World([late, early], watcher).run(BASE, BASE + 15):
        pass
    assert _names(watcher.outcomes()) == ["early", "late"]


def _names(outcomes: Iterable[TargetOutcome]) -> list[str]:
    return [outcome.key.rpartition("/")[2] for outcome in outcomes]
