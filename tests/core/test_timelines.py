"""Targets through time: stabilization, rate limits, zero, failures, and other people's hands."""

import pytest

from autoscaler.core.decision import Saturation
from autoscaler.core.reconcile import ALL_BELOW, BELOW_MIN
from autoscaler.core.spec import Flags
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


def test_without_behavior_a_capped_spike_goes_on_climbing() -> None:
    """Raw recommendations are remembered: up to 20 while the metric asks for 8, then for 6.

    With behavior the count stays where the metric no longer asks for more.
    """
    line = Timeline(spec(QUEUE), replicas=4).sync("0s", queue=200)
    line.want(8, limited="ScaleUpLimit", reason="queue(nil)")
    line.sync("15s", queue=80).want(16, limited="ScaleUpLimit", reason="")
    line.events("SuccessfulRescale").sync("30s", queue=60)
    line.want(20, limited="DesiredWithinRange", reason=ALL_BELOW)
    line = Timeline(spec(QUEUE, behavior=behavior()), replicas=4)
    line.sync("0s", queue=200).want(8, limited="ScaleUpLimit")
    line.sync("15.1s", queue=80).want(8, stabilized="ReadyForNewScale")
    line.sync("30.2s", queue=60).want(8, stabilized="ScaleDownStabilized")
    line.releases("5m15.1s")


def test_a_blocked_sync_recommends_nothing() -> None:
    """A minute without data neither extends nor shortens what the window holds."""
    line = Timeline(spec(QUEUE, behavior=behavior()), replicas=6)
    line.sync("0s", queue=60).want(6)
    line.sync("4m", queue=None).want(6, outcome="blocked")
    line.sync("4m15s", queue=10).want(6).releases("5m")
    line.sync("5m", queue=10).want(1).never_releases()


FOUR_A_MINUTE = behavior(up=rules(pods_policy(4, 60), window=0))


def test_a_failed_write_is_tried_again_with_a_whole_allowance() -> None:
    line = Timeline(spec(QUEUE, behavior=FOUR_A_MINUTE), replicas=1)
    line.sync("0s", queue=200, write_fails="etcd is down").want(1).events("FailedRescale")
    line.conditions(AbleToScale="FailedUpdateScale", ScalingLimited="ScaleUpLimit")
    line.sync("15s", queue=200).want(5).sync("30s", queue=200).want(5).releases("1m15s")


def test_a_restart_holds_the_current_count_for_a_window() -> None:
    line = Timeline(spec(QUEUE, behavior=behavior()), replicas=6).sync("0s", queue=60).want(6)
    line.lose_state().sync("4m", queue=10).want(6, stabilized="ScaleDownStabilized").releases("9m")


def test_a_short_absence_keeps_the_window() -> None:
    line = Timeline(spec(QUEUE), replicas=8).sync("0s", queue=80).sync("15s", queue=10).want(8)
    line.away(45)
    line.sync("45s", queue=10).want(8).releases("5m").sync("5m1s", queue=10).want(1)


def test_a_long_absence_lets_nothing_go_down_before_one_window() -> None:
    """Up goes as ever; down, the count that is found holds for a window, as for a new target."""
    line = Timeline(spec(QUEUE), replicas=8).sync("0s", queue=80).want(8)
    line.away(3600)
    line.sync("60m", queue=10).want(8)
    line.sync("61m", queue=100).want(10).sync("64m59s", queue=10).want(10)
    line.sync("66m1s", queue=10).want(1)


# -- more is wanted than bounds and policies permit ------------------------------------------------


def test_a_saturation_has_the_missing_replicas_and_the_start() -> None:
    target = Timeline(spec(QUEUE, maximum=5, behavior=FREE), replicas=5)
    slow = behavior(up=rules(pods_policy(1)), down=rules(pods_policy(1), window=0))
    limited = Timeline(spec(QUEUE, maximum=50, behavior=slow), replicas=5)
    for line, time, queue, saturation in (
        (target, "0s", 50, None),
        (target, "15s", 80, Saturation(3, BASE + 15.0, "TooManyReplicas")),
        (target, "20s", None, None),  # what is not known has not ended
        (target, "30s", 90, Saturation(4, BASE + 15.0, "TooManyReplicas")),
        (target, "45s", 50, None),
        (target, "1m", 90, Saturation(4, BASE + 60.0, "TooManyReplicas")),
        (limited, "0s", 90, Saturation(3, BASE, "ScaleUpLimit")),
        (limited, "15.1s", 90, Saturation(2, BASE, "ScaleUpLimit")),
        (limited, "30.2s", 10, None),  # a limited scale-down lacks nothing
    ):
        assert line.sync(time, queue=queue).decision.saturation == saturation


# -- targets at zero: to it, back from it, and left alone there ------------------------------------


@pytest.mark.parametrize("rule", [None, behavior(down=rules(percent_policy(100), window=60))])
def test_to_zero_and_back(rule: object) -> None:
    flags = Flags(downscale_stabilization=60.0)
    of = spec(QUEUE, minimum=0, behavior=rule)  # type: ignore[arg-type]  # None or a behavior
    line = Timeline(of, replicas=1, flags=flags)
    line.sync("0s", queue=10).want(1)
    line.sync("15s", queue=0).want(1, stabilized="ScaleDownStabilized")
    line.sync("1m15s", queue=0).want(0, reason=ALL_BELOW)
    line.events("SuccessfulRescale")
    line.sync("1m30s", queue=0).want(0, reason="")
    line.sync("3m", queue=1).want(1, reason="queue(nil)")
    line.conditions(ScalingActive="ValidMetricFound", AbleToScale="SucceededRescale")


def test_a_target_set_to_zero_by_hand_stays_off() -> None:
    line = Timeline(spec(QUEUE, minimum=1), replicas=3).sync("0s", queue=30).want(3)
    line.by_hand(0).sync("15s", queue=500).want(0, outcome="ok").events()
    line.conditions(ScalingActive="ScalingDisabled", AbleToScale="SucceededGetScale")
    line.by_hand(1).sync("30s", queue=500).want(4, limited="ScaleUpLimit")
    line.conditions(ScalingActive="ValidMetricFound")


def test_our_own_zero_comes_back_when_the_minimum_is_raised() -> None:
    line = Timeline(spec(QUEUE, minimum=0, behavior=FREE), replicas=1).sync("0s", queue=0).want(0)
    line.change(spec(QUEUE, minimum=2, behavior=FREE)).sync("15s", queue=0)
    line.want(2, reason=BELOW_MIN)
    line.by_hand(0).sync("30s", queue=0).want(0).conditions(ScalingActive="ScalingDisabled")


def test_a_zero_by_hand_after_our_own_is_theirs() -> None:
    line = Timeline(spec(QUEUE, minimum=0, behavior=FREE), replicas=1).sync("0s", queue=0).want(0)
    line.by_hand(1).sync("15s", queue=10).want(1)
    line.by_hand(0).change(spec(QUEUE, minimum=1, behavior=FREE)).sync("30s", queue=100).want(0)
    line.conditions(ScalingActive="ScalingDisabled")


def test_our_own_zero_is_known_by_the_object_after_the_state_was_lost() -> None:
    line = Timeline(spec(QUEUE, minimum=0, behavior=FREE), replicas=1).sync("0s", queue=0).want(0)
    line.change(spec(QUEUE, minimum=1)).lose_state().sync("15s", queue=0)
    line.want(1, reason=BELOW_MIN)
    line.by_hand(0, "kubectl").lose_state().sync("30s", queue=500).want(0)
    line.conditions(ScalingActive="ScalingDisabled")
    line.by_hand(0).sync("45s", queue=500).want(0).conditions(ScalingActive="ScalingDisabled")


def test_a_pause_at_zero_ends_after_the_state_was_lost() -> None:
    line = Timeline(spec(QUEUE, minimum=1), replicas=3).annotated(paused_replicas="0")
    line.sync("0s", queue=30).want(0).annotated().lose_state().sync("15s", queue=30).want(1)


@pytest.mark.parametrize(
    ("messages", "wanted"), [(500, True), (0.001, True), (0, False), (None, False)]
)
def test_a_target_switched_off_by_others_has_the_metric_that_wants_it(
    messages: float | None, *, wanted: bool
) -> None:
    line = Timeline(spec(QUEUE, minimum=1), replicas=3).sync("0s", queue=30).by_hand(0, "kubectl")
    line.sync("15s", queue=messages).want(0)
    assert line.decision.wanted_by == (QUEUE if wanted else None)
    line.by_hand(1).sync("30s", queue=messages)
    assert line.decision.wanted_by is None
