"""Targets at zero: to it, back from it, and left alone there (semantics 1.2, 6.7)."""

import pytest

from autoscaler.core.spec import Flags
from tests.core.builders import average, behavior, external, percent_policy, rules, spec
from tests.core.timeline import Timeline

QUEUE = external(average("10"))
"""Ten messages for each replica."""


@pytest.mark.parametrize("rule", [None, behavior(down=rules(percent_policy(100), window=60))])
def test_to_zero_and_back(rule: object) -> None:
    """With minReplicas 0 an empty queue needs no replica, and its first message one."""
    flags = Flags(downscale_stabilization=60.0)
    of = spec(QUEUE, minimum=0, behavior=rule)  # type: ignore[arg-type]  # None or a behavior
    (
        Timeline(of, replicas=1, flags=flags)
        .at("0s", queue=10).want(1)
        .at("15s", queue=0).want(1, stabilized="ScaleDownStabilized")
        .at("1m15s", queue=0).want(0, reason="All metrics below target")
        .events("SuccessfulRescale")
        .at("1m30s", queue=0).want(0, reason="")
        .at("3m", queue=1).want(1, reason="external metric queue(nil) above target")
        .conditions(ScalingActive="ValidMetricFound", AbleToScale="SucceededRescale")
    )  # fmt: skip


def test_a_target_set_to_zero_by_hand_stays_off() -> None:
    """Whatever the queue says, until another count is set."""
    (
        Timeline(spec(QUEUE, minimum=1), replicas=3)
        .at("0s", queue=30).want(3)
        .by_hand(0)
        .at("15s", queue=500).want(0, outcome="ok")
        .conditions(ScalingActive="ScalingDisabled", AbleToScale="SucceededGetScale")
        .events()
        .by_hand(1)
        .at("30s", queue=500).want(4, limited="ScaleUpLimit")
        .conditions(ScalingActive="ValidMetricFound")
    )  # fmt: skip


def test_our_own_zero_comes_back_when_the_minimum_is_raised() -> None:
    """It was we who brought it there, so it is we who bring it to the new minimum."""
    down = behavior(down=rules(percent_policy(100), window=0))
    zero, two = spec(QUEUE, minimum=0, behavior=down), spec(QUEUE, minimum=2, behavior=down)
    (
        Timeline(zero, replicas=1)
        .at("0s", queue=0).want(0)
        .change(two)
        .at("15s", queue=0).want(2, reason="Current number of replicas below Spec.MinReplicas")
        .by_hand(0)
        .at("30s", queue=0).want(0).conditions(ScalingActive="ScalingDisabled")
    )  # fmt: skip


def test_a_zero_by_hand_after_our_own_is_theirs() -> None:
    """Once the count has left our zero, the next zero is not ours."""
    down = behavior(down=rules(percent_policy(100), window=0))
    (
        Timeline(spec(QUEUE, minimum=0, behavior=down), replicas=1)
        .at("0s", queue=0).want(0)
        .by_hand(1)
        .at("15s", queue=10).want(1)
        .by_hand(0)
        .change(spec(QUEUE, minimum=1, behavior=down))
        .at("30s", queue=100).want(0).conditions(ScalingActive="ScalingDisabled")
    )  # fmt: skip


def test_our_own_zero_is_known_by_the_object_after_the_state_was_lost() -> None:
    """As after a window with minReplicas 0 that has ended; a zero by hand stays."""
    down = behavior(down=rules(percent_policy(100), window=0))
    zero, one = spec(QUEUE, minimum=0, behavior=down), spec(QUEUE, minimum=1)
    (
        Timeline(zero, replicas=1)
        .at("0s", queue=0).want(0)
        .change(one)
        .restart()
        .at("15s", queue=0).want(1, reason="Current number of replicas below Spec.MinReplicas")
        .by_hand(0, "kubectl")
        .restart()
        .at("30s", queue=500).want(0).conditions(ScalingActive="ScalingDisabled")
        .by_hand(0)
        .at("45s", queue=500).want(0).conditions(ScalingActive="ScalingDisabled")
    )  # fmt: skip


def test_a_pause_at_zero_ends_after_the_state_was_lost() -> None:
    """The zero that it left is ours."""
    (
        Timeline(spec(QUEUE, minimum=1), replicas=3)
        .annotated(paused_replicas="0")
        .at("0s", queue=30).want(0)
        .annotated()
        .restart()
        .at("15s", queue=30).want(1)
    )  # fmt: skip


@pytest.mark.parametrize(
    ("messages", "wanted"), [(500, True), (0.001, True), (0, False), (None, False)]
)
def test_a_target_that_others_switched_off_says_whether_a_metric_wants_it(
    messages: float | None, *, wanted: bool
) -> None:
    """It stays at zero all the same; what is missing asks for nothing."""
    line = Timeline(spec(QUEUE, minimum=1), replicas=3).at("0s", queue=30).by_hand(0, "kubectl")
    line.at("15s", queue=messages).want(0)
    assert line.decision is not None
    assert line.decision.wanted_by == (QUEUE if wanted else None)
    line.by_hand(1).at("30s", queue=messages)
    assert line.decision.wanted_by is None


def test_percent_policies_alone_cannot_leave_zero() -> None:
    """A hundred percent of 0 is 0."""
    up = behavior(up=rules(percent_policy(100), window=0))
    (
        Timeline(spec(QUEUE, minimum=0, behavior=up), replicas=0)
        .at("0s", queue=50).want(0, limited="ScaleUpLimit")
    )  # fmt: skip
