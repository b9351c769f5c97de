"""To idle by the policies of scale-down (semantics 8.3)."""

from autoscaler.core.decision import Zone
from autoscaler.core.extensions import Extensions, Idle, Mode, Pause
from autoscaler.core.observation import Gap, GapKind, HoldReading, Values
from autoscaler.core.spec import SelectPolicy
from tests.core.builders import QUEUE, behavior, pods_policy, rules, spec
from tests.core.timeline import Timeline

GRADUAL = Extensions(idle=Idle(after=60.0, gradual=True))
TWO = behavior(down=rules(pods_policy(2, period=30), window=0))
"""At most two pods less in half a minute."""


def falling(minimum: int = 1, replicas: int = 6) -> Timeline:
    """Return a target of some replicas at the moment when it may go idle."""
    line = Timeline(
        spec(QUEUE, minimum=minimum, behavior=TWO), replicas=replicas, extensions=GRADUAL
    )
    return line.sync("0s", queue=60).want(replicas)


def test_the_policies_apply_on_the_way() -> None:
    line = falling()
    line.sync("1m", queue=0).want(4, limited="ScaleDownLimit")
    line.sync("1m15s", queue=0).want(4, limited="ScaleDownLimit")
    line.sync("1m31s", queue=0).want(2).sync("2m2s", queue=0).want(0).sync("2m15s", queue=0).want(0)
    assert line.decision.zone is Zone.IDLE


def test_a_count_on_the_way_is_not_raised_to_the_minimum() -> None:
    line = falling(minimum=5)
    line.sync("1m", queue=0).want(4).sync("1m31s", queue=0).want(2).sync("2m2s", queue=0).want(0)


def test_an_active_metric_wakes_it_on_the_way() -> None:
    line = falling(minimum=5)
    line.sync("1m", queue=0).want(4).sync("1m15s", queue=70).want(7)
    below = falling(minimum=5)
    below.sync("1m", queue=0).want(4).sync("1m15s", queue=1).want(5)


def test_a_window_does_not_delay_it() -> None:
    slow = behavior(down=rules(pods_policy(2, period=30), window=3600))
    line = Timeline(spec(QUEUE, behavior=slow), replicas=6, extensions=GRADUAL)
    line.sync("0s", queue=60).sync("1m", queue=0).want(4)


def test_disabled_scale_down_prevents_it() -> None:
    never = behavior(down=rules(pods_policy(1), select=SelectPolicy.DISABLED))
    line = Timeline(spec(QUEUE, behavior=never), replicas=6, extensions=GRADUAL)
    line.sync("0s", queue=60).sync("1m", queue=0).want(6)


def test_without_behavior_it_goes_at_once() -> None:
    line = Timeline(spec(QUEUE), replicas=6, extensions=GRADUAL)
    line.sync("0s", queue=60).sync("1m", queue=0).want(0)


def test_missing_data_raises_it_to_the_minimum() -> None:
    line = falling(minimum=5)
    line.sync("1m", queue=0).want(4).sync("1m31s", queue=None).want(5)
    # The unknown metric counts as active for another minute.
    line.sync("1m45s", queue=0).want(5).sync("2m31s", queue=0).want(3)


def test_a_restart_continues_on_the_way() -> None:
    line = falling()
    line.sync("1m", queue=0).want(4).restart()
    line.sync("1m15s", queue=0).want(4).sync("1m31s", queue=0).want(2)


def test_a_pause_holds_it_and_shadow_only_decides() -> None:
    line = falling()
    line.annotated(paused="scale-down").sync("1m", queue=0).want(6)
    line.annotated().sync("1m15s", queue=0).want(4)
    shadow = Extensions(idle=Idle(after=60.0, gradual=True), mode=Mode.SHADOW)
    line = Timeline(spec(QUEUE, behavior=TWO), replicas=6, extensions=shadow)
    line.sync("0s", queue=60).sync("1m", queue=0)
    assert (line.replicas, line.decision.desired) == (6, 4)


def test_a_takeover_makes_it_active_again() -> None:
    line = falling(minimum=5)
    line.sync("1m", queue=0).want(4).controlled_by("another").sync("1m15s", queue=0).want(4)
    line.controlled_by(None).sync("1m30s", queue=0).want(5).sync("2m", queue=0).want(5)
    line.sync("2m31s", queue=0).want(3)


def test_partial_answers_and_ranges_that_fill_stop_it() -> None:
    partial = Values((0,), (Gap(GapKind.PARTIAL, "a shard is down"),))
    falling(minimum=5).sync("1m", queue=0).want(4).sync("1m31s", queue=partial).want(5)
    # The gap lasts longer than the range tolerates, so the value is unknown until it is full.
    gap = falling().over(120).sync("1m", queue=None).want(6)
    gap.sync("1m31s", queue=0).want(6).sync("2m1s", queue=0).want(6).sync("6m", queue=0).want(4)
    assert gap.decision.zone is Zone.IDLE


def test_a_hold_stops_it_and_a_fixed_pause_is_exact() -> None:
    held = falling().holds(HoldReading(1, "{}")).sync("1m", queue=0).want(6)
    held.holds(None).sync("1m15s", queue=0).want(4)
    fixed = falling()
    fixed.extensions = Extensions(idle=GRADUAL.idle, pause=Pause(replicas=3))
    fixed.sync("1m", queue=0).want(3)
