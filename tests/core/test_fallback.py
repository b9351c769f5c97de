"""What a metric proposes that keeps failing (semantics 8.4)."""

from dataclasses import replace

import pytest

from autoscaler.core.decide import decide
from autoscaler.core.extensions import Extensions, Fallback, FallbackBehavior
from autoscaler.core.history import FailureStreak, History
from autoscaler.core.observation import Gap, GapKind, PodSamples, Sample, Values
from autoscaler.core.spec import Flags
from tests.core.builders import BASE, average, behavior, cpu, external, rules, spec, utilization
from tests.core.deciding import ERROR, observe
from tests.core.timeline import Timeline

QUEUE = external(average("10"))
OTHER = external(average("10"), name="other")
SIX = Extensions(fallback=Fallback(6))
FREE = behavior(down=rules(*behavior().scale_down.policies, window=0))


def test_the_third_failure_in_a_row_brings_the_fallback() -> None:
    """And the first good reading ends it."""
    (
        Timeline(spec(QUEUE), replicas=4, extensions=SIX)
        .at("0s", queue=None).want(4, outcome="blocked")
        .at("15s", queue=None).want(4, outcome="blocked").conditions(Fallback=None)
        .at("30s", queue=None)
        .want(6, outcome="partial", reason="fallback for external metric queue(nil)")
        .conditions(Fallback="FallbackActive", ScalingActive="ValidMetricFound")
        .events("FailedGetExternalMetric", "FallbackActive", "SuccessfulRescale")
        .at("45s", queue=None).want(6).events("FailedGetExternalMetric")
        .at("1m", queue=60).want(6, outcome="ok").events("FallbackEnded")
        .conditions(Fallback="FallbackEnded")
        .at("1m15s", queue=60).events()
        .at("1m30s", queue=None).want(6, outcome="blocked")
    )  # fmt: skip


@pytest.mark.parametrize(
    ("behavior_", "of_three", "of_nine"),
    [
        (FallbackBehavior.STATIC, 6, 6),
        (FallbackBehavior.CURRENT_REPLICAS, 3, 9),
        (FallbackBehavior.CURRENT_REPLICAS_IF_HIGHER, 6, 9),
        (FallbackBehavior.CURRENT_REPLICAS_IF_LOWER, 3, 6),
    ],
)
def test_the_four_behaviors(behavior_: FallbackBehavior, of_three: int, of_nine: int) -> None:
    """Two of them can lower a count, to what the operator wrote and no further."""
    extensions = Extensions(fallback=Fallback(6, 1, behavior_))
    for before, after in ((3, of_three), (9, of_nine)):
        target = Timeline(spec(QUEUE, behavior=FREE), replicas=before, extensions=extensions)
        target.at("0s", queue=None).at("15s", queue=None).want(after)


def test_a_healthy_metric_that_asks_for_more_wins() -> None:
    """keda#6659."""
    (
        Timeline(spec(QUEUE, OTHER), replicas=4, extensions=Extensions(fallback=Fallback(6, 1)))
        .at("0s", queue=None, other=80).want(8, outcome="partial",
                                             reason="external metric other(nil) above target")
        .at("15s", queue=None, other=20).want(8)
    )  # fmt: skip


def test_a_metric_of_pods_falls_back_as_well() -> None:
    """The proposal is a count, whatever the type of the metric."""
    extensions = Extensions(fallback=Fallback(6, 1))
    target = Timeline(spec(cpu(utilization(50))), replicas=4, extensions=extensions)
    target.at("0s", cpu=None).want(6)


def test_a_streak_is_of_one_metric_and_without_a_break() -> None:
    """A metric that fails now and then never falls back."""
    target = Timeline(spec(QUEUE, OTHER), replicas=4, extensions=SIX)
    target.at("0s", queue=None, other=None).at("15s", queue=40, other=None)
    assert target.history.extended.failures == (
        FailureStreak("External external metric other(nil)", 2),
    )
    target.at("30s", queue=None, other=40).at("45s", queue=None, other=40)
    assert target.history.extended.failures == (
        FailureStreak("External external metric queue(nil)", 2),
    )


def test_bounds_and_policies_hold_for_a_fallback() -> None:
    """It is a proposal like any other."""
    sixty = Extensions(fallback=Fallback(60, 1))
    (
        Timeline(spec(QUEUE, maximum=10), replicas=4, extensions=sixty)
        .at("0s", queue=None).want(8, limited="ScaleUpLimit")
        .at("15s", queue=None).want(10, limited="TooManyReplicas")
    )  # fmt: skip


def test_a_target_without_pods_is_no_failure_of_its_cpu() -> None:
    """There is nothing that could be measured."""
    extensions = Extensions(fallback=Fallback(6, 1))
    target = Timeline(spec(QUEUE, cpu(utilization(50)), minimum=0), replicas=0,
                      extensions=extensions)  # fmt: skip
    target.at("0s", queue=0, cpu=None).want(0)
    assert target.history.extended.failures == ()


def test_the_first_reading_after_a_fallback_lowers_nothing() -> None:
    """The distrust after a gap holds until the range is whole again (semantics 7.2)."""
    (
        Timeline(spec(QUEUE, behavior=FREE), replicas=8, extensions=SIX).over(60.0)
        .at("0s", queue=80).at("2m", queue=80)
        .at("2m15s", queue=None).at("2m30s", queue=None).want(8)
        .at("2m45s", queue=None).want(6)
        .at("3m", queue=20).want(6, outcome="ok").events("FallbackEnded")
        .at("4m15s", queue=20).want(6)
        .at("4m20s", queue=20).want(2)
    )  # fmt: skip


def incomplete(milli: int) -> Values:
    """Return a reading of which a part is missing."""
    return Values((milli,), (Gap(GapKind.PARTIAL, "store eu is unreachable"),))


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
    target.at("0s", queue=100)
    observed = replace(target.inputs.observation, readings=(incomplete(85_000),))
    decision, _ = decide(
        target.spec, target.flags, observed, target.history, BASE + 15.0, extensions=extensions
    )
    assert [one.proposal for one in decision.metrics] == [proposal]
    assert (decision.desired, decision.outcome) == (proposal, "partial")


def test_a_reading_that_fails_altogether_asks_for_nothing() -> None:
    """The fallback stands alone then, also beside another metric that is incomplete."""
    observed = observe(10, ERROR, incomplete(85_000))
    history = History(recommendations=())
    extensions = Extensions(fallback=Fallback(4, 1))
    of = spec(QUEUE, OTHER, behavior=FREE)
    decision, _ = decide(of, Flags(), observed, history, BASE, extensions=extensions)
    assert [one.proposal for one in decision.metrics] == [4, 9]
    assert decision.desired == 9


def test_pods_that_refill_bring_no_fallback() -> None:
    """They were read; what they ask for is only too low to be obeyed."""
    of = spec(cpu(utilization(50)), behavior=FREE)
    extensions = Extensions(fallback=Fallback(1, 1))
    history, now = History(), BASE
    milli = [500] * 4
    for number in range(50):
        lost = {40: (0, 1), 41: (0, 1), 42: (2, 3), 43: (2, 3)}.get(number, ())
        milli = [100] * 4 if number > 43 else milli
        one = PodSamples(
            {
                f"p{index}": Sample(milli[index], now, 60.0)
                for index in range(4)
                if index not in lost
            }
        )
        seen = replace(observe(4, one), last_read=now - 15.0, ranges=(120.0,))
        decision, history = decide(of, Flags(), seen, history, now, extensions=extensions)
        assert (decision.desired, decision.metrics[0].fallback) == (4, None)
        now += 15.0


def test_a_fallback_that_is_configured_no_more_ends() -> None:
    """The condition does not stay behind."""
    target = Timeline(spec(QUEUE), replicas=4, extensions=Extensions(fallback=Fallback(6, 1)))
    target.at("0s", queue=None).want(6)
    target.extensions = Extensions()
    (
        target.at("15s", queue=None).want(6, outcome="blocked")
        .conditions(Fallback="FallbackEnded")
        .at("30s", queue=None).events("FailedGetExternalMetric", "FailedComputeMetricsReplicas")
    )  # fmt: skip
