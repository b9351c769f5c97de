"""The elasticity measures, computed by hand, and which of two replays is better."""

import pytest

from autoscaler.lab.engine.measures import (
    DayCounts,
    MeasureComparison,
    Measures,
    Score,
    Side,
    compared_days,
    sign_test,
    total,
)
from tests.replay.fleets import measures

Interval = tuple[float, int | None, int]
"""Seconds, the demand, and the pods that are ready."""


def score(*intervals: Interval) -> Measures:
    found = Score()
    for seconds, demand, supply in intervals:
        found.interval(seconds, demand, supply, supply, at_max=supply >= 10)
    return found.measures()


def test_missing_and_surplus_pods_are_weighed_by_time_and_demand() -> None:
    found = score((20.0, 4, 2), (30.0, 6, 9), (50.0, 5, 5))
    assert found.theta_under == pytest.approx(20 * (2 / 4) / 100)
    assert found.theta_over == pytest.approx(30 * (3 / 6) / 100)
    assert found.tau_under == pytest.approx(0.2)
    assert found.tau_over == pytest.approx(0.3)
    assert found.worst_shortage == 2
    assert found.shortage_pod_hours == pytest.approx(20 * 2 / 3600)


def test_instability_is_the_time_in_which_pods_and_demand_move_apart() -> None:
    both = score((10.0, 1, 1), (10.0, 2, 2), (10.0, 1, 1), (10.0, 1, 1))
    assert both.upsilon == 0.0
    lagging = score((10.0, 1, 1), (10.0, 2, 1), (10.0, 2, 2), (10.0, 1, 3))
    assert lagging.upsilon == pytest.approx(30 / 40)


def test_a_surplus_over_no_demand_counts_against_one_pod() -> None:
    assert score((10.0, 0, 3)).theta_over == pytest.approx(3.0)
    assert score((10.0, 0, 0)).tau_over == 0.0


def test_a_gap_is_not_scored() -> None:
    found = score((10.0, 4, 2), (90.0, None, 50), (10.0, 4, 4))
    assert (found.scored_seconds, found.gap_seconds) == (20.0, 90.0)
    assert found.tau_under == pytest.approx(0.5)
    assert found.replica_hours == pytest.approx((20 + 4500 + 40) / 3600)
    assert found.upsilon == 0.0  # values before and after a gap are not compared


def test_the_longest_shortage_is_from_its_begin_to_its_end() -> None:
    found = score((10.0, 4, 2), (15.0, 9, 2), (5.0, 2, 2), (20.0, 3, 2))
    assert found.longest_shortage_seconds == 25.0


def test_time_at_the_maximum_is_counted() -> None:
    assert score((10.0, 4, 10), (5.0, 4, 9)).at_max_seconds == 10.0


def test_a_queue_waits_by_littles_law() -> None:
    """A mean length of 30 over 100 s in which 600 are served: each waited 5 s."""
    found = Score()
    found.interval(100.0, 1, 1, 1, at_max=False)
    found.queue(50.0, 20.0, 300.0, 4.0)
    found.queue(50.0, 40.0, 300.0, 9.0)
    measures = found.measures()
    assert measures.mean_wait_seconds == pytest.approx(5.0)
    assert (measures.longest_queue, measures.longest_wait_seconds) == (40.0, 9.0)
    assert score((1.0, 1, 1)).mean_wait_seconds is None


# -- two replays -----------------------------------------------------------------------------------

DAY = measures(scored_seconds=86_400.0, tau_under=0.1, replica_hours=100.0, changes=10)


def days(*replica_hours: float) -> list[Measures]:
    """Return days that differ in their replica-hours only."""
    return [DAY.model_copy(update={"replica_hours": hours}) for hours in replica_hours]


def compared(first: list[Measures], second: list[Measures]) -> dict[str, MeasureComparison]:
    rows = compared_days(total(first), total(second), first, second)
    return {row.field: row for row in rows}


def test_the_sign_test_is_exact() -> None:
    """Seven of seven days by chance: 1 in 64; three of four: 10 in 16."""
    assert sign_test(7, 0) == pytest.approx(2 / 128)
    assert sign_test(1, 3) == pytest.approx(10 / 16)
    assert sign_test(2, 2) == 1.0


def test_less_is_better_and_sure_if_all_days_agree() -> None:
    first, all_less = days(*[100.0] * 7), days(*[90.0] * 7)
    hours = compared(first, all_less)["replica_hours"]
    assert (hours.verdict, hours.by_days) == (Side.BETTER, DayCounts(7, 7, 0))
    assert hours.by_days.sure
    hours = compared(first, days(90, 90, 90, 90, 101, 101, 101))["replica_hours"]
    assert (hours.verdict, hours.by_days.sure) == (Side.BETTER, False)


def test_few_days_are_never_sure() -> None:
    found = compared(days(100, 100), days(90, 90))
    assert not any(field.by_days.sure for field in found.values())
    short = [day.model_copy(update={"scored_seconds": 40_000.0}) for day in days(*[90.0] * 9)]
    found = compared(short, days(*[100.0] * 9))
    assert {field.by_days.days for field in found.values()} == {0}


def test_where_nothing_was_scored_nothing_is_better() -> None:
    nothing = measures(gap_seconds=86_400.0, replica_hours=120.0, changes=10)
    found = compared([DAY], [nothing])
    assert (found["tau_under"].second, found["tau_under"].verdict) == (None, Side.UNKNOWN)
    assert found["shortage_pod_hours"].verdict is Side.UNKNOWN
    assert found["replica_hours"].verdict is Side.WORSE
    assert found["changes"].verdict is Side.EQUAL


def test_a_total_weighs_shares_by_the_time_that_was_scored() -> None:
    small = measures(scored_seconds=100.0, tau_under=0.5, changes=3, worst_shortage=7)
    large = measures(scored_seconds=300.0, tau_under=0.1, changes=4, worst_shortage=2)
    both = total([small, large])
    assert both.tau_under == pytest.approx(0.2)
    assert (both.changes, both.worst_shortage, both.scored_seconds) == (7, 7, 400.0)
