"""The bounds in force: schedules and queries replace the target's own (semantics 8.2)."""

import math
from dataclasses import replace
from typing import Any

import pytest

from autoscaler.core.bounds import bounds_in_force
from autoscaler.core.decision import Bound, Bounds
from autoscaler.core.extensions import Extensions, Idle, Schedule
from autoscaler.core.history import ExtensionHistory, KnownBound
from autoscaler.core.observation import Gap, GapKind, Observation, OpenWindow, Scale, Values
from autoscaler.core.reconcile import BELOW_MIN
from autoscaler.core.spec import ScalingRules, SelectPolicy
from tests.core.builders import (
    BASE,
    FREE,
    QUEUE,
    behavior,
    percent_policy,
    pods_policy,
    rules,
    spec,
)
from tests.core.timeline import Timeline

NONE = Gap(GapKind.ERROR, "no answer")


def window(
    name: str, least: int | None = None, most: int | None = None, *, gradual: bool = False
) -> OpenWindow:
    """Return an open window with these bounds."""
    schedule = Schedule(name, "0 8 * * *", "0 18 * * *", "UTC", least, most, gradual)
    return OpenWindow(schedule, BASE + 3600.0, "18:00 UTC")


SCHEDULED = Extensions(schedules=(window("any", 1).schedule,))


def bounds_of(**seen: Any) -> Bounds:
    """Return the bounds of 2 to 10 replicas that an observation without a history leaves."""
    return in_force(ExtensionHistory(), **seen)[0]


def in_force(history: ExtensionHistory, **seen: Any) -> tuple[Bounds, ExtensionHistory]:
    observation = Observation(Scale(4, 4, "app=web"), None, (), **seen)
    return bounds_in_force(spec(QUEUE, minimum=2, maximum=10), observation, history, BASE)


AT_A, AT_B = (f"schedule {name} until 18:00 UTC" for name in "ab")
TO_FIVE = window("a", 5, gradual=True)


@pytest.mark.parametrize(
    ("windows", "low", "high"),
    [
        ((), Bound(2), Bound(10)),
        ((window("a", 5),), Bound(5, AT_A), Bound(10)),
        ((window("a", 1),), Bound(1, AT_A), Bound(10)),
        ((window("a", None, 4),), Bound(2), Bound(4, AT_A)),
        ((window("a", 5, 6), window("b", 3, 8)), Bound(5, AT_A), Bound(8, AT_B)),
        (
            (window("a", None, 3), window("b", 8)),
            Bound(8, AT_B),
            Bound(8, f"the minimum by {AT_B}"),
        ),
        ((TO_FIVE, window("b", 3, 8)), Bound(5, AT_A), Bound(8, AT_B)),
        ((TO_FIVE,), Bound(5, AT_A, gradual=True), Bound(10)),
    ],
)
def test_open_windows_replace_the_targets_bounds(
    windows: tuple[OpenWindow, ...], low: Bound, high: Bound
) -> None:
    bounds = bounds_of(windows=windows)
    assert (bounds.minimum, bounds.maximum) == (low, high)


PARTLY = Gap(GapKind.PARTIAL, "store eu")


def partly(replicas: int) -> Values:
    """Return a bound from an incomplete answer."""
    return Values((replicas * 1000,), (PARTLY,))


SEVEN, LATE = KnownBound(7, BASE - 300.0), KnownBound(7, BASE - 301.0)


@pytest.mark.parametrize(
    ("asked", "known", "low", "high", "hold"),
    [
        ((Values((4001,)), None), (None, None), 5, 10, False),
        ((Values((4000,), total=4.0001), None), (None, None), 5, 10, False),
        ((Values((4000,), total=4.000000000000001), None), (None, None), 4, 10, False),
        ((Values((2**63 - 1,), total=1e308), None), (None, None), 10, 10, False),
        ((Values((-1,)), None), (None, None), 2, 10, False),
        ((Values((99_000,)), None), (None, None), 10, 10, False),
        ((None, Values((6000,))), (None, None), 2, 6, False),
        ((None, Values((1000,))), (None, None), 2, 2, False),
        ((Values((8000,)), Values((5000,))), (None, None), 8, 8, False),
        ((NONE, None), (SEVEN, None), 7, 10, False),
        ((NONE, None), (LATE, None), 2, 10, True),
        ((NONE, None), (None, None), 2, 10, True),
        ((None, NONE), (None, SEVEN), 2, 7, False),
        ((None, NONE), (None, LATE), 2, 10, False),
        # An incomplete answer raises a bound, and never lowers it.
        ((partly(4), None), (SEVEN, None), 7, 10, False),
        ((partly(8), None), (SEVEN, None), 8, 10, False),
        ((partly(4), None), (LATE, None), 4, 10, True),
        ((partly(4), None), (None, None), 4, 10, True),
        ((None, partly(4)), (None, SEVEN), 2, 7, False),
        ((None, partly(8)), (None, SEVEN), 2, 8, False),
        ((None, partly(4)), (None, LATE), 2, 10, False),
        ((None, partly(4)), (None, None), 2, 10, False),
        ((partly(5), partly(4)), (KnownBound(4, BASE), KnownBound(3, BASE)), 5, 5, False),
    ],
)
def test_a_query_of_a_bound_is_rounded_up_within_the_targets_bounds(
    asked: tuple[Values | Gap | None, Values | Gap | None],
    known: tuple[KnownBound | None, KnownBound | None],
    low: int,
    high: int,
    hold: bool,
) -> None:
    history = ExtensionHistory(known_min=known[0], known_max=known[1])
    readings = {"min_replicas_reading": asked[0], "max_replicas_reading": asked[1]}
    bounds, after = in_force(history, **readings)
    found = (bounds.minimum.replicas, bounds.maximum.replicas, bounds.hold_down)
    assert found == (low, high, hold)
    if any(isinstance(values, Values) and values.gaps for values in asked):
        assert "store eu" in bounds.missing
        for item, before in zip((after.known_min, after.known_max), known, strict=True):
            assert (item and item.time) == (before and before.time), (
                "it is as old as the whole answer"
            )


def test_a_query_moves_a_bound_within_the_open_windows() -> None:
    twelve = Values((12_000,))
    bounds = bounds_of(windows=(window("a", 5, 20),), min_replicas_reading=twelve)
    assert (bounds.minimum, bounds.maximum.replicas) == (Bound(12, "minReplicasQuery"), 20)
    low = (window("a", None, 3), window("b", 8))
    bounds = bounds_of(windows=low, min_replicas_reading=twelve)
    assert (bounds.minimum.replicas, bounds.maximum.replicas) == (8, 8)


def test_a_window_goes_to_its_minimum_at_once_and_back_by_the_metrics() -> None:
    slow = behavior(up=rules(pods_policy(1)), down=rules(pods_policy(1), window=0))
    line = Timeline(spec(QUEUE, behavior=slow), replicas=1, extensions=SCHEDULED)
    line.sync("0s", queue=10).want(1).opened(window("a", 5))
    line.sync("15s", queue=10)
    line.want(5, reason=f"{BELOW_MIN} ({AT_A})")
    line.sync("30s", queue=10).want(5).conditions(ScalingLimited="TooFewReplicas")
    line.opened().sync("45s", queue=10).want(4).sync("1m", queue=10).want(3)


def test_a_window_raises_a_target_that_may_be_at_zero() -> None:
    zero = spec(QUEUE, minimum=0, behavior=FREE)
    line = Timeline(zero, replicas=0, extensions=SCHEDULED)
    line.opened(window("office-hours", 2)).sync("0s", queue=0).want(2)
    Timeline(zero, replicas=0).asked_bounds(least=3).sync("0s", queue=0).want(3)


def test_a_query_leaves_a_gradual_bound_gradual() -> None:
    slow = behavior(up=rules(pods_policy(2)))
    line = Timeline(spec(QUEUE, behavior=slow), replicas=1, extensions=SCHEDULED)
    line.opened(window("ramp", 10, gradual=True)).asked_bounds(least=3)
    line.sync("0s", queue=10).want(3)


@pytest.mark.parametrize(
    ("up", "counts"),
    [
        (rules(percent_policy(100), window=0), (1, 2, 4, 6)),
        (rules(pods_policy(4), select=SelectPolicy.DISABLED, window=0), (1, 1, 1, 1)),
        (rules(pods_policy(2), window=0), (2, 4, 6, 6)),
    ],
)
def test_a_gradual_window_wakes_a_target_at_zero(up: ScalingRules, counts: tuple[int, ...]) -> None:
    extensions = replace(SCHEDULED, idle=Idle())
    line = Timeline(spec(QUEUE, behavior=behavior(up=up)), replicas=0, extensions=extensions)
    line.opened(window("ramp", 6, gradual=True))
    for number, count in enumerate(counts):
        line.sync(f"{number * 15.1:.1f}s", queue=0).want(count)


def test_a_gradual_window_obeys_the_policies() -> None:
    slow = behavior(up=rules(pods_policy(2)), down=rules(pods_policy(1), window=0))
    ramp = window("ramp", 6, 7, gradual=True)
    line = Timeline(spec(QUEUE, behavior=slow), replicas=1, extensions=SCHEDULED)
    line.opened(ramp)
    line.sync("0s", queue=10).want(3).sync("15.1s", queue=90).want(5)
    line.conditions(ScalingLimited="ScaleUpLimit")
    line.sync("30.2s", queue=90).want(6).sync("45.3s", queue=90).want(7)
    line.by_hand(9).sync("2m", queue=90).want(8, limited="ScaleDownLimit")
    line.sync("2m15.1s", queue=90).want(7)


def test_a_bound_whose_query_fails_lowers_nothing() -> None:
    line = Timeline(spec(QUEUE, minimum=1, maximum=20, behavior=FREE), replicas=8)
    line.asked_bounds(least=6)
    line.sync("0s", queue=20).want(6)
    line.asked_bounds(least=math.nan).sync("15s", queue=20).want(6, outcome="partial")
    line.by_hand(9).sync("4m59s", queue=20).want(6)
    line.by_hand(9).sync("5m1s", queue=20).want(9).conditions(ScalingLimited="MinReplicasUnknown")
    line.sync("5m15s", queue=120).want(12)
    line.sync("5m30s", queue=20).want(12)
    line.asked_bounds(least=3).sync("5m45s", queue=20).want(3)


def test_a_floor_that_an_incomplete_answer_raised_stays_until_a_whole_one() -> None:
    target = Timeline(spec(QUEUE, minimum=1, maximum=20, behavior=FREE), replicas=2)
    target.asked_bounds(least=9).sync("0s", queue=20).want(9, outcome="ok")
    target.asked_bounds(partly(2)).sync("15s", queue=20).want(9, outcome="partial")
    target.asked_bounds(partly(12)).sync("30s", queue=20).want(12, outcome="partial")
    target.restart().asked_bounds(partly(3)).sync("45s", queue=20).want(12)
    target.asked_bounds(least=math.nan).sync("1m", queue=20).want(12)
    target.asked_bounds(partly(3)).sync("5m", queue=20).want(12)
    target.sync("5m1s", queue=20).want(12).conditions(ScalingLimited="MinReplicasUnknown")
    target.asked_bounds(least=3).sync("5m15s", queue=20).want(3, outcome="ok")


def test_a_window_with_a_minimum_keeps_a_target_awake() -> None:
    sleepy = Extensions(idle=Idle(after=30.0), schedules=SCHEDULED.schedules)
    line = Timeline(spec(QUEUE, minimum=2, behavior=FREE), replicas=0, extensions=sleepy)
    line.sync("0s", queue=0).want(0)
    line.opened(window("office-hours", 5)).sync("15s", queue=0).want(5)
    line.sync("2m", queue=0).want(5)
    line.opened(window("night", 1)).sync("2m15s", queue=0).want(1).sync("2m30s", queue=0).want(0)
    line.opened(window("office-hours", 2)).sync("2m45s", queue=0).want(2).sync("5m", queue=0).want(
        2
    )
    line.opened().sync("5m15s", queue=0).want(2).sync("5m30s", queue=0).want(0)
    line.asked_bounds(least=2).sync("5m45s", queue=0).want(0)
    line.asked_bounds(least=3).sync("6m", queue=0).want(3)
