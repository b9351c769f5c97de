"""Which of two replays is better, and how sure that is."""

import pytest

from autoscaler.lab.engine.measures import (
    DayCounts,
    Measures,
    Side,
    compared_days,
    sign_test,
    total,
)
from tests.replay.fleets import measures

DAY = measures(scored_seconds=86_400.0, tau_under=0.1, replica_hours=100.0, changes=10)


def days(*replica_hours: float) -> list[Measures]:
    """Return days that differ in their replica-hours only."""
    return [DAY.model_copy(update={"replica_hours": hours}) for hours in replica_hours]


def test_the_sign_test_is_exact() -> None:
    """Seven of seven days by chance: 1 in 64; three of four: 10 in 16."""
    assert sign_test(7, 0) == pytest.approx(2 / 128)
    assert sign_test(1, 3) == pytest.approx(10 / 16)
    assert sign_test(2, 2) == 1.0


def test_less_is_better_and_days_say_how_sure() -> None:
    first, all_less = days(*[100.0] * 7), days(*[90.0] * 7)
    (hours,) = [
        day
        for day in compared_days(total(first), total(all_less), first, all_less)
        if day.field == "replica_hours"
    ]
    assert (hours.verdict, hours.by_days) == (Side.BETTER, DayCounts(7, 7, 0))
    assert hours.by_days.sure
    mixed = days(90, 90, 90, 90, 101, 101, 101)
    (hours,) = [
        day
        for day in compared_days(total(first), total(mixed), first, mixed)
        if day.field == "replica_hours"
    ]
    assert (hours.verdict, hours.by_days.sure) == (Side.BETTER, False)


def test_few_days_are_never_sure() -> None:
    first, other = days(100, 100), days(90, 90)
    assert not any(
        each.by_days.sure for each in compared_days(total(first), total(other), first, other)
    )
    short = [day.model_copy(update={"scored_seconds": 40_000.0}) for day in days(*[90.0] * 9)]
    found = compared_days(total(short), total(short), short, days(*[100.0] * 9))
    assert {each.by_days.days for each in found} == {0}


def test_where_nothing_was_scored_nothing_is_better() -> None:
    nothing = measures(gap_seconds=86_400.0, replica_hours=120.0, changes=10)
    found = {day.field: day for day in compared_days(DAY, nothing, [DAY], [nothing])}
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
