"""To idle by the policies of scale-down (semantics 8.3)."""

from autoscaler.core.decision import Zone
from autoscaler.core.extensions import Extensions, Idle, Mode
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


def test_missing_data_stops_it() -> None:
    line = falling(minimum=5)
    line.sync("1m", queue=0).want(4).sync("1m31s", queue=None).want(4)
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
