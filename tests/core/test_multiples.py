"""Counts in multiples (semantics 8.13)."""

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from autoscaler.core.classification import State
from autoscaler.core.decision import Outcome, Rounding, RulesOutcome, Zone
from autoscaler.core.extensions import Extensions, Fallback, Idle, Mode, Pause, ReplicaRounding
from autoscaler.core.multiples import in_multiples
from autoscaler.core.observation import Gap, GapKind, HoldReading, Values
from tests.core.builders import QUEUE, behavior, pods_policy, rules, spec
from tests.core.timeline import Timeline

FOUR = Extensions(replicas=ReplicaRounding(4))
AT_ONCE = behavior(down=rules(pods_policy(100), window=0), up=rules(pods_policy(100), window=0))
SLOW = behavior(
    down=rules(pods_policy(1, period=60), window=0), up=rules(pods_policy(1, period=60), window=0)
)
"""One pod in a minute, which is less than a multiple."""


def target(replicas: int = 8, bounds: tuple[int, int] = (1, 30), **given: object) -> Timeline:
    """Return a target in multiples of 4 without stabilization; its metric asks for queue / 10."""
    rate = given.pop("rate", AT_ONCE)
    extensions = Extensions(replicas=ReplicaRounding(4), **given)  # type: ignore[arg-type]
    of = spec(QUEUE, minimum=bounds[0], maximum=bounds[1], behavior=rate)  # type: ignore[arg-type]
    return Timeline(of, replicas=replicas, extensions=extensions)


@pytest.mark.parametrize(
    ("current", "bounds", "queue", "count"),
    [
        (8, (1, 30), 90, 12),  # up to a multiple
        (8, (1, 30), 120, 12),  # a multiple already
        (12, (1, 30), 50, 8),  # down, and up to a multiple
        (8, (1, 30), 50, 8),  # the next multiple is the current count
        (8, (1, 30), 80, 8),
        (8, (1, 10), 90, 8),  # 12 is above the maximum
        (4, (1, 10), 300, 8),
        (6, (1, 30), 60, 6),  # no multiple, and no change: it stays
        (6, (1, 30), 50, 6),  # a scale-down never becomes a scale-up
        (6, (1, 30), 30, 4),
        (6, (1, 7), 90, 6),  # a scale-up never becomes a scale-down
        (5, (5, 7), 90, 7),  # no multiple within the bounds
        (12, (1, 10), 300, 8),  # above the maximum
        (2, (3, 30), 10, 4),  # below the minimum
        (2, (3, 3), 10, 3),
        (4, (1, 30), 0, 4),  # a step of a whole multiple would go below the minimum
    ],
)
def test_a_changed_count_is_a_multiple_within_the_bounds(
    current: int, bounds: tuple[int, int], queue: int, count: int
) -> None:
    target(current, bounds).sync("0s", queue=queue).want(count)


def test_to_zero_and_back() -> None:
    target(8, (0, 30)).sync("0s", queue=0).want(0).sync("1m", queue=10).want(4)


def test_it_comes_after_stabilization() -> None:
    line = Timeline(spec(QUEUE, minimum=1, maximum=30), replicas=8, extensions=FOUR)
    line.sync("0s", queue=70).want(8).sync("1m", queue=30).want(8)
    assert line.history.recommendations is not None
    assert [entry.replicas for entry in line.history.recommendations] == [8, 7, 3]
    line.sync("4m59s", queue=30).want(8).sync("5m1s", queue=30).want(4)


def test_a_step_by_the_policies_is_at_least_one_multiple() -> None:
    line = target(12, rate=SLOW).sync("0s", queue=30).want(8)
    assert line.decision.rounding == Rounding(4, 11, 8)
    line.sync("30s", queue=30).want(8, limited="ScaleDownLimit").sync("1m1s", queue=30).want(4)
    up = target(4, rate=SLOW).sync("0s", queue=110).want(8)
    up.sync("30s", queue=110).want(8).sync("1m1s", queue=110).want(12)
    # The metrics do not ask for a whole multiple less.
    target(12, rate=SLOW).sync("0s", queue=90).want(12)


def test_a_saturation_is_counted_after_rounding() -> None:
    line = target(4, rate=SLOW).sync("0s", queue=110)
    assert line.decision.saturation is not None
    assert line.decision.saturation.missing == 3
    assert target(4, rate=SLOW).sync("0s", queue=80).decision.saturation is None
    for queue, missing in ((300, 22), (90, 1)):
        below = target(8, (1, 10)).sync("0s", queue=queue)
        assert below.decision.saturation is not None
        assert (below.decision.saturation.missing, below.decision.saturation.reason) == (
            missing,
            "TooManyReplicas",
        )
        assert below.result.classified().state is State.AT_MAXIMUM
    assert target(12, rate=SLOW).sync("0s", queue=30).decision.saturation is None


def test_bounds_by_query_apply_first() -> None:
    line = target(8).asked_bounds(least=9).sync("0s", queue=10).want(12)
    line.asked_bounds(most=11).sync("1m", queue=300).want(8)
    # Without a minimum that is known, nothing goes down.
    line.asked_bounds(least=math.nan).sync("2m", queue=10).want(8, outcome="partial")


def test_the_counts_of_idle_and_of_a_pause_are_exact() -> None:
    idle = target(8, (4, 30), idle=Idle(3, 60.0)).sync("0s", queue=80).sync("1m", queue=0).want(3)
    idle.sync("1m15s", queue=50).want(8)
    gradual = target(8, (4, 30), idle=Idle(0, 60.0, gradual=True), rate=SLOW)
    gradual.sync("0s", queue=80).sync("1m", queue=0).want(7).sync("2m1s", queue=0).want(6)
    target(8, pause=Pause(replicas=5)).sync("0s", queue=90).want(5)
    paused = target(8, pause=Pause()).sync("0s", queue=90).want(8)
    assert paused.decision.paused_from == 12


def test_a_fallback_is_rounded() -> None:
    line = target(8, fallback=Fallback(9, 1)).sync("0s", queue=None).want(12, outcome="partial")
    line.sync("1m", queue=None).want(12)


def test_missing_and_partial_data_lower_nothing() -> None:
    line = target(8).sync("0s", queue=None).want(8, outcome="blocked")
    partial = Values((10_000,), (Gap(GapKind.PARTIAL, "a shard is down"),))
    line.sync("1m", queue=partial).want(8, outcome="blocked").sync("2m", queue=30).want(4)
    line.sync("3m", queue=Values((50_000,), partial.gaps)).want(8)


def test_a_gap_and_a_hold_keep_the_count() -> None:
    line = target(8).over(120).sync("0s", queue=80).sync("15s", queue=None)
    line.sync("3m", queue=10).want(8, stabilized="ScaleDownStabilized")
    line.sync("5m36s", queue=10).want(4)
    held = target(8).holds(HoldReading(1, "{}")).sync("0s", queue=10).want(8)
    assert held.decision.hold is not None
    assert held.decision.hold.replicas == 4


def test_a_restart_and_a_takeover_continue() -> None:
    line = target(12, rate=SLOW).sync("0s", queue=30).want(8).restart()
    line.sync("30s", queue=30).want(8).sync("1m1s", queue=30).want(4)
    line.controlled_by('HorizontalPodAutoscaler "web"').sync("2m", queue=90).want(4)
    assert line.decision.desired == 12
    line.by_hand(6).sync("3m", queue=60).want(6).controlled_by(None)
    line.sync("4m", queue=70).want(8)


def test_a_count_by_others_stays_until_the_metrics_change_it() -> None:
    line = target(8).sync("0s", queue=80).by_hand(7)
    line.sync("1m", queue=70).want(7).sync("2m", queue=80).want(8)


def test_shadow_decides_as_usual() -> None:
    line = target(8, mode=Mode.SHADOW).sync("0s", queue=90).want(8)
    assert (line.decision.desired, line.decision.rounding) == (12, Rounding(4, 9, 12))


@given(
    current=st.integers(0, 40),
    count=st.integers(0, 40),
    low=st.integers(0, 20),
    more=st.integers(0, 20),
    of=st.integers(2, 9),
)
def test_rounding_keeps_bounds_and_direction(
    current: int, count: int, low: int, more: int, of: int
) -> None:
    bounds = spec(QUEUE, minimum=low, maximum=max(low + more, 1))
    count = min(max(count, low), low + more)
    before = RulesOutcome(Zone.METRICS, Outcome.OK, count)
    after = in_multiples(before, bounds, current, of).desired
    assert (after - current) * (count - current) >= 0
    assert after == current or low <= after <= bounds.max_replicas
    is_possible = any(number % of == 0 for number in range(low, bounds.max_replicas + 1))
    assert after in {current, count} or after % of == 0
    assert after == current or after % of == 0 or not is_possible
