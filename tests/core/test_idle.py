"""To zero and back (semantics 8.3)."""

from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from autoscaler.core.decision import Activity, Zone
from autoscaler.core.extensions import Extensions, Fallback, FallbackBehavior, Idle, Schedule
from autoscaler.core.history import FailureStreak, History, Recommendation
from autoscaler.core.idling import NONE_ACTIVE
from autoscaler.core.observation import (
    Gap,
    GapKind,
    OpenWindow,
    PodSamples,
    Reading,
    Sample,
    Values,
)
from autoscaler.core.spec import SelectPolicy
from tests.core.builders import (
    BASE,
    FREE,
    MAILS,
    QUEUE,
    behavior,
    cpu,
    of_object,
    pods_policy,
    rules,
    spec,
    utilization,
    value,
)
from tests.core.timeline import Timeline
from tests.narrowing import known

MINUTE = Extensions(idle=Idle(after=60.0))
INCOMPLETE = Gap(GapKind.PARTIAL, "store eu")


@pytest.mark.parametrize(
    ("reading", "activation", "activity"),
    [
        (Values((0,)), 0, Activity.INACTIVE),
        (Values((1,)), 0, Activity.ACTIVE),
        (Values((5000,)), 5000, Activity.INACTIVE),
        (Values((5001,)), 5000, Activity.ACTIVE),
        (Values((3000, 3000)), 5000, Activity.ACTIVE),
        (Values((-5,)), 0, Activity.INACTIVE),
        (Values((0,), total=0.0005), 0, Activity.ACTIVE),
        (Values((0,), total=5e-324), 0, Activity.ACTIVE),
        (Values((1,), total=0.0005), 0.5, Activity.INACTIVE),
        (Values((0,), total=0.000500001), 0.5, Activity.ACTIVE),
        (Values((5000,), total=4.9999), 5000, Activity.INACTIVE),
        (Values((70,)), 70, Activity.INACTIVE),
        (Values((0,), total=-0.0005), 0, Activity.INACTIVE),
        (Values((0,)), -1000, Activity.ACTIVE),
        (Values((-1000,)), -1000, Activity.INACTIVE),
        (Values((-1000,), total=-1.0004), -1000, Activity.INACTIVE),
        (Values((0,), (INCOMPLETE,)), 0, Activity.UNKNOWN),
        (Values((9,), (INCOMPLETE,)), 0, Activity.ACTIVE),
        (Gap(GapKind.EMPTY, "no series"), 0, Activity.UNKNOWN),
        (Gap(GapKind.ERROR, "no answer"), 0, Activity.UNKNOWN),
    ],
)
def test_a_metric_is_active_strictly_above_its_activation(
    reading: Reading, activation: float, activity: Activity
) -> None:
    for metric in (QUEUE, of_object(value("10"))):
        line = Timeline(spec(metric), extensions=replace(MINUTE, activations=(activation,)))
        line.sync("0s", queue=reading, hits=reading)
        assert line.decision.metrics[0].activity == activity


def test_a_target_sleeps_after_the_cooldown_and_wakes_at_once() -> None:
    line = Timeline(spec(QUEUE, minimum=2), replicas=3, extensions=MINUTE)
    line.sync("0s", queue=5).want(3)
    line.sync("15s", queue=0).want(3)
    line.sync("1m", queue=0).want(0, reason=NONE_ACTIVE, outcome="ok")
    line.conditions(ScalingActive="Idle").events("SuccessfulRescale")
    line.sync("1m15s", queue=0).want(0, reason=NONE_ACTIVE).events()
    line.sync("1m30s", queue=31).want(4, reason="queue(nil)")
    line.conditions(ScalingActive="ValidMetricFound")
    line.sync("1m45s", queue=0).want(4).sync("2m15s", queue=0).want(4)
    line.sync("2m30s", queue=0).want(0)


def test_the_metric_that_wakes_a_target_is_reported() -> None:
    extensions = replace(MINUTE, activations=(50_000, 0))
    line = Timeline(spec(QUEUE, MAILS), replicas=0, extensions=extensions)
    line.sync("0s", queue=40, mails=1).want(4, reason="mails(nil)")


def test_waking_obeys_the_policies_and_the_minimum() -> None:
    slow = behavior(up=rules(pods_policy(3), window=300))
    line = Timeline(spec(QUEUE, behavior=slow), replicas=0, extensions=MINUTE)
    line.sync("0s", queue=0).want(0).sync("15s", queue=90).want(3, limited="ScaleUpLimit")
    line = Timeline(spec(QUEUE, minimum=5, behavior=slow), replicas=0, extensions=MINUTE)
    line.sync("0s", queue=90).want(5, limited="TooFewReplicas")
    line.conditions(ScalingLimited="TooFewReplicas")


def test_recommendations_from_before_the_sleep_are_dropped() -> None:
    office = Schedule("office", "0 8 * * *", "0 18 * * *", "UTC", min_replicas=2)
    for schedules, count in (((), 1), ((office,), 2)):
        extensions = Extensions(idle=Idle(after=15.0), schedules=schedules)
        line = Timeline(spec(QUEUE), replicas=10, extensions=extensions)
        line.sync("0s", queue=100).want(10).sync("15s", queue=0).want(0)
        line.opened(*(OpenWindow(window, BASE + 60.0, "18:00 UTC") for window in schedules))
        line.sync("30s", queue=10).want(count).sync("45s", queue=10).want(count)


def test_a_prevented_sleep_keeps_the_recommendations() -> None:
    line = Timeline(spec(QUEUE), replicas=10, extensions=Extensions(idle=Idle(after=0.0)))
    line.sync("0s", queue=100).annotated(paused="scale-down")
    line.sync("15s", queue=0).want(10).sync("30s", queue=0).want(10)
    line.annotated().sync("45s", queue=30).want(10, stabilized="ScaleDownStabilized")
    line.releases("5m")
    asleep = Timeline(spec(QUEUE), replicas=3, extensions=MINUTE)
    asleep.sync("0s", queue=5).annotated(paused="scale-down").sync("1m", queue=0).want(3)
    asleep.conditions(ScalingLimited="ScaleDownPaused")
    asleep.annotated().sync("1m15s", queue=0).want(0)
    asleep.sync("1m30s", queue=0).conditions(ScalingLimited="DesiredWithinRange")


def test_no_window_and_no_policy_delays_sleep() -> None:
    never = behavior(down=rules(pods_policy(1), select=SelectPolicy.DISABLED, window=3600))
    line = Timeline(spec(QUEUE, behavior=never), replicas=9, extensions=MINUTE)
    line.sync("0s", queue=5).want(9).sync("59s", queue=0).want(9).sync("1m", queue=0).want(0)


def test_missing_data_sends_nothing_to_sleep_and_wakes_nothing() -> None:
    line = Timeline(spec(QUEUE, MAILS), replicas=3, extensions=MINUTE)
    line.sync("0s", queue=5, mails=0)
    line.sync("30s", queue=0, mails=None).want(3)
    line.sync("1m15s", queue=0, mails=0).want(3)
    line.sync("1m30s", queue=0, mails=0).want(0)
    line.sync("1m45s", queue=0, mails=None).want(0, outcome="partial")
    line.sync("2m", queue=None, mails=None).want(0, outcome="partial")
    line.sync("2m15s", queue=11, mails=None).want(2, outcome="partial")
    at_once = Extensions(idle=Idle(after=0.0))
    target = Timeline(spec(QUEUE, MAILS), replicas=3, extensions=at_once)
    target.sync("0s", queue=5, mails=0).sync("15s", queue=0, mails=None).want(3)
    target.sync("30s", queue=0, mails=0).want(0)
    busy = Timeline(spec(QUEUE, MAILS, cpu(utilization(50))), replicas=3, extensions=at_once)
    busy.sync("0s", queue=5, mails=0, cpu=50).sync("15s", queue=0, mails=None, cpu=100).want(6)


def test_a_reading_that_refills_counts_as_unknown() -> None:
    """A range that lost samples may be zero only because of that."""
    target = Timeline(spec(QUEUE), replicas=3, extensions=Extensions(idle=Idle(after=0.0)))
    target.over(60.0)
    target.sync("0s", queue=0).want(3).sync("1m15s", queue=0).want(3).sync("1m20s", queue=0).want(0)


def test_a_new_target_is_awake_for_a_while() -> None:
    new = Extensions(idle=Idle(after=60.0, initially=120.0))
    line = Timeline(spec(QUEUE), replicas=3, extensions=MINUTE)
    line.sync("0s", queue=0).want(3).sync("1m", queue=0).want(0)
    line = Timeline(spec(QUEUE), replicas=3, extensions=new)
    line.sync("0s", queue=0).sync("1m59s", queue=0).want(3).sync("2m", queue=0).want(0)
    old = Timeline(spec(QUEUE), replicas=3, extensions=new)
    old.history = History(recommendations=(Recommendation(3, BASE - 15.0),))
    old.sync("0s", queue=0).want(3).sync("1m", queue=0).want(0)


def test_the_cooldown_restarts_after_an_absence() -> None:
    target = Timeline(spec(QUEUE), replicas=3, extensions=MINUTE).sync("0s", queue=5).away(3600)
    target.sync("60m", queue=0).want(3).sync("60m45s", queue=0).want(3).sync("61m", queue=0).want(0)
    short = Timeline(spec(QUEUE), replicas=3, extensions=MINUTE).sync("0s", queue=5).away(45)
    short.sync("45s", queue=0).want(3).sync("1m", queue=0).want(0)
    # Recommendations that hold scale-ups are kept in a hand-over: it is not taken for a new target.
    for rules_ in (None, behavior(up=rules(pods_policy(4), window=300))):
        other = Timeline(spec(QUEUE, behavior=rules_), replicas=3, extensions=MINUTE)
        other.sync("0s", queue=5).controlled_by("an HPA").sync("30m", queue=0).sync("31m", queue=0)
        other.controlled_by(None).sync("31m15s", queue=0).want(3)
        other.sync("32m", queue=0).want(3).sync("32m15s", queue=0).want(0)


COURSES = st.lists(
    st.tuples(
        st.sampled_from(("looks", "looks", "has no idle", "is away", "reads no scale", "leaves")),
        st.sampled_from((0.0, 0.0, 0.0, 9.0, None)),
        st.integers(1, 6),
    ),
    max_size=12,
)


@given(COURSES)
@settings(max_examples=60, deadline=None)
def test_a_target_sleeps_after_a_cooldown_with_syncs(
    courses: list[tuple[str, float | None, int]],
) -> None:
    target = Timeline(spec(QUEUE, minimum=2), replicas=3, extensions=MINUTE)
    now, awake_at, nobody_looked = 0, 0, True
    for what, queue in [(what, queue) for what, queue, count in courses for _ in range(count)]:
        now += 60 if what == "is away" else 15
        target.extensions = replace(MINUTE, idle=None) if what == "has no idle" else MINUTE
        target.controlled_by("an HPA" if what == "leaves" else None)
        target.unreadable(on=what == "reads no scale")
        if what == "is away":
            target.away(60)
        decides = what in {"looks", "is away"}
        before = target.replicas
        target.sync(f"{now // 60}m{now % 60}s", queue=queue)
        if queue != 0 or what in {"has no idle", "leaves", "is away"} or nobody_looked:
            awake_at = now
        nobody_looked = what in {"has no idle", "leaves"} or (nobody_looked and not decides)
        if decides and queue == 0:
            assert (target.replicas == 0) == (before == 0 or now - awake_at >= 60)


def test_an_absence_while_asleep_wakes_nothing() -> None:
    target = Timeline(spec(QUEUE), replicas=0, extensions=MINUTE).sync("0s", queue=0).want(0)
    target.away(3600)
    target.sync("60m", queue=0).want(0).sync("60m15s", queue=1).want(1)


def test_activity_while_the_scale_is_unreadable_counts() -> None:
    """The metrics are read all the same: an API server that is away is no time without work."""
    for queue, count in ((5, 3), (None, 3), (0, 0)):
        target = Timeline(spec(QUEUE), replicas=3, extensions=MINUTE).sync("0s", queue=25)
        target.unreadable().sync("15s", queue=0).sync("2m", queue=queue).unreadable(on=False)
        target.sync("2m15s", queue=0).want(count).sync("3m", queue=0).want(0)


def test_zero_is_a_normal_count_whoever_set_it() -> None:
    line = Timeline(spec(QUEUE, minimum=2), replicas=4, extensions=MINUTE)
    line.sync("0s", queue=40).want(4).by_hand(0).sync("15s", queue=40).want(4)
    line.by_hand(0).sync("30s", queue=0).want(0)
    line.by_hand(1).sync("45s", queue=0).want(2)
    Timeline(spec(QUEUE, minimum=2), replicas=0).sync("0s", queue=40).want(0)


def test_idle_may_keep_some_replicas() -> None:
    some = Extensions(idle=Idle(replicas=1, after=30.0))
    line = Timeline(spec(QUEUE, minimum=3), replicas=3, extensions=some)
    line.sync("0s", queue=5).want(3).sync("30s", queue=0).want(1).sync("45s", queue=0).want(1)
    line.by_hand(0).sync("1m", queue=0).want(1)
    line.sync("1m15s", queue=1).want(3, reason="queue(nil)")


def test_metrics_of_pods_keep_no_target_awake() -> None:
    line = Timeline(spec(QUEUE, cpu(utilization(50))), replicas=3, extensions=MINUTE)
    line.sync("0s", queue=5, cpu=90).want(6)
    line.sync("1m", queue=0, cpu=90).want(0)
    line.sync("1m15s", queue=0, cpu=None).want(0, outcome="ok").events()
    line.sync("1m30s", queue=12, cpu=None).want(2, outcome="ok").events("SuccessfulRescale")
    line.sync("1m45s", queue=12, cpu=None).want(2, outcome="partial")


def test_the_record_has_the_idle_status_and_the_activity_of_each_metric() -> None:
    target = Timeline(spec(QUEUE, cpu(utilization(50))), replicas=3, extensions=MINUTE)
    target.sync("0s", queue=5, cpu=50).sync("15s", queue=0, cpu=50)
    status = known(target.decision.idle)
    assert (status.active, status.asleep) == (False, False)
    assert (status.last_active, status.until) == (BASE, BASE + 60.0)
    assert [metric.activity for metric in target.decision.metrics] == [Activity.INACTIVE, None]
    target.sync("1m", queue=0, cpu=50).sync("1m15s", queue=0, cpu=50)
    assert target.decision.zone is Zone.IDLE
    assert known(target.decision.idle).asleep


def test_a_fallback_wakes_a_target() -> None:
    extensions = replace(MINUTE, fallback=Fallback(6, failure_threshold=2))
    line = Timeline(spec(QUEUE), replicas=0, extensions=extensions)
    line.sync("0s", queue=0).want(0).sync("15s", queue=None).want(0)
    line.sync("30s", queue=None).want(4, reason="fallback")
    line.sync("45s", queue=None).want(6)


# -- what a metric proposes that keeps failing -----------------------------------------------------


SIX = Extensions(fallback=Fallback(6))
SIX_AT_ONCE = Extensions(fallback=Fallback(6, 1))


def test_the_third_failure_in_a_row_brings_the_fallback() -> None:
    line = Timeline(spec(QUEUE), replicas=4, extensions=SIX)
    line.sync("0s", queue=None).want(4, outcome="blocked")
    line.sync("15s", queue=None).want(4, outcome="blocked").conditions(Fallback=None)
    line.sync("30s", queue=None)
    line.want(6, outcome="partial", reason="fallback")
    line.conditions(Fallback="FallbackActive", ScalingActive="ValidMetricFound")
    line.events("FailedGetExternalMetric", "FallbackActive", "SuccessfulRescale")
    line.sync("45s", queue=None).want(6).events("FailedGetExternalMetric")
    line.sync("1m", queue=60).want(6, outcome="ok").events("FallbackEnded")
    line.conditions(Fallback="FallbackEnded")
    line.sync("1m15s", queue=60).events()
    line.sync("1m30s", queue=None).want(6, outcome="blocked")


@pytest.mark.parametrize(
    ("behavior_", "of_three", "of_nine"),
    [
        (FallbackBehavior.STATIC, 6, 6),
        (FallbackBehavior.CURRENT_REPLICAS, 3, 9),
        (FallbackBehavior.CURRENT_REPLICAS_IF_HIGHER, 6, 9),
        (FallbackBehavior.CURRENT_REPLICAS_IF_LOWER, 3, 6),
    ],
)
def test_each_behavior_of_a_fallback_has_its_count(
    behavior_: FallbackBehavior, of_three: int, of_nine: int
) -> None:
    extensions = Extensions(fallback=Fallback(6, 1, behavior_))
    for before, after in ((3, of_three), (9, of_nine)):
        target = Timeline(spec(QUEUE, behavior=FREE), replicas=before, extensions=extensions)
        target.sync("0s", queue=None).sync("15s", queue=None).want(after)


def test_a_healthy_metric_that_asks_for_more_wins() -> None:
    """keda#6659."""
    line = Timeline(spec(QUEUE, MAILS), replicas=4, extensions=SIX_AT_ONCE)
    line.sync("0s", queue=None, mails=80).want(8, outcome="partial", reason="mails(nil)")
    line.sync("15s", queue=None, mails=20).want(8)


def test_a_metric_of_pods_has_a_fallback() -> None:
    target = Timeline(spec(cpu(utilization(50))), replicas=4, extensions=SIX_AT_ONCE)
    target.sync("0s", cpu=None).want(6)


def streak_of(name: str) -> FailureStreak:
    return FailureStreak(f"External external metric {name}(nil)", 2)


def test_a_streak_of_failures_is_of_one_metric_and_unbroken() -> None:
    target = Timeline(spec(QUEUE, MAILS), replicas=4, extensions=SIX)
    target.sync("0s", queue=None, mails=None).sync("15s", queue=40, mails=None)
    assert target.history.extended.failures == (streak_of("mails"),)
    target.sync("30s", queue=None, mails=40).sync("45s", queue=None, mails=40)
    assert target.history.extended.failures == (streak_of("queue"),)


def test_bounds_and_policies_apply_to_a_fallback() -> None:
    sixty = Extensions(fallback=Fallback(60, 1))
    line = Timeline(spec(QUEUE, maximum=10), replicas=4, extensions=sixty)
    line.sync("0s", queue=None).want(8, limited="ScaleUpLimit")
    line.sync("15s", queue=None).want(10, limited="TooManyReplicas")


def test_a_target_without_pods_has_no_failed_cpu_metric() -> None:
    of = spec(QUEUE, cpu(utilization(50)), minimum=0)
    target = Timeline(of, replicas=0, extensions=SIX_AT_ONCE).sync("0s", queue=0, cpu=None).want(0)
    assert target.history.extended.failures == ()


def test_the_first_reading_after_a_fallback_lowers_nothing() -> None:
    """The distrust after a gap holds until the range is whole again (semantics 7.2)."""
    line = Timeline(spec(QUEUE, behavior=FREE), replicas=8, extensions=SIX).over(60.0)
    line.sync("0s", queue=80).sync("2m", queue=80)
    line.sync("2m15s", queue=None).sync("2m30s", queue=None).want(8)
    line.sync("2m45s", queue=None).want(6)
    line.sync("3m", queue=20).want(6, outcome="ok").events("FallbackEnded")
    line.sync("4m15s", queue=20).want(6)
    line.sync("4m20s", queue=20).want(2)


AT_LEAST_9 = Values((85_000,), (INCOMPLETE,))


@pytest.mark.parametrize(
    ("behavior_", "replicas", "proposal"),
    [
        (FallbackBehavior.STATIC, 4, 9),
        (FallbackBehavior.STATIC, 12, 12),
        (FallbackBehavior.CURRENT_REPLICAS, 4, 10),
        (FallbackBehavior.CURRENT_REPLICAS_IF_LOWER, 4, 9),
    ],
)
def test_a_fallback_does_not_overrule_what_an_incomplete_reading_asks_for(
    behavior_: FallbackBehavior, replicas: int, proposal: int
) -> None:
    """It asks for 9 at least: the larger of the two counts."""
    extensions = Extensions(fallback=Fallback(replicas, 1, behavior_))
    target = Timeline(spec(QUEUE, behavior=FREE), replicas=10, extensions=extensions)
    target.sync("0s", queue=100).sync("15s", queue=AT_LEAST_9).want(proposal, outcome="partial")
    assert [metric.proposal for metric in target.decision.metrics] == [proposal]


def test_a_fallback_beside_an_incomplete_metric_asks_for_its_own_count() -> None:
    extensions = Extensions(fallback=Fallback(4, 1))
    target = Timeline(spec(QUEUE, MAILS, behavior=FREE), replicas=10, extensions=extensions)
    target.sync("0s", queue=100, mails=100).sync("15s", queue=None, mails=AT_LEAST_9).want(9)
    assert [metric.proposal for metric in target.decision.metrics] == [4, 9]


def test_pods_that_refill_bring_no_fallback() -> None:
    """They were read; their proposal is only too low to be obeyed."""
    extensions = Extensions(fallback=Fallback(1, 1))
    target = Timeline(spec(cpu(utilization(50)), behavior=FREE), replicas=4, extensions=extensions)
    target.over(120.0)
    for number in range(50):
        now = 15.0 * number
        lost = {40: (0, 1), 41: (0, 1), 42: (2, 3), 43: (2, 3)}.get(number, ())
        sample = Sample(100 if number > 43 else 500, BASE + now, 60.0)
        pods = PodSamples({f"p{index}": sample for index in range(4) if index not in lost})
        target.sync(f"{now}s", cpu=pods).want(4)
        assert target.decision.metrics[0].fallback is None


def test_a_fallback_ends_when_it_is_removed() -> None:
    target = Timeline(spec(QUEUE), replicas=4, extensions=SIX_AT_ONCE)
    target.sync("0s", queue=None).want(6)
    target.extensions = Extensions()
    target.sync("15s", queue=None).want(6, outcome="blocked")
    target.conditions(Fallback="FallbackEnded")
    target.sync("30s", queue=None).events("FailedGetExternalMetric", "FailedComputeMetricsReplicas")
