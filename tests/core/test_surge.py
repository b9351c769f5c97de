"""A rolling update with more pods than `spec.replicas` moves nothing (semantics 8.5)."""

import pytest

from autoscaler.core.calculator import propose
from autoscaler.core.decision import Calculation, Formula
from autoscaler.core.extensions import Extensions
from autoscaler.core.numbers import Tolerance
from autoscaler.core.observation import Pod, PodSamples, Reading, Sample, Scale, Values
from autoscaler.core.per_pod import MetricContext
from autoscaler.core.spec import Flags, MetricSpec
from tests.core.builders import BASE, average, cpu, external, per_pod, pods, utilization, value

TWENTY = 20
SURGE = 25
TENTH = Tolerance(0.1, 0.1)


def proposal(
    metric: MetricSpec,
    reading: Reading,
    of: tuple[Pod, ...],
    replicas: int = TWENTY,
    *,
    ignore: bool,
) -> Calculation:
    """Return what a metric proposes, with so many pods."""
    scale = Scale(replicas, len(of), "app=web")
    context = MetricContext(scale, of, TENTH, Flags(), BASE, Extensions(ignore_surge=ignore))
    outcome = propose(metric, reading, context)
    assert isinstance(outcome, Calculation)
    return outcome


def each(milli: int, count: int) -> PodSamples:
    """Return a reading in which each of so many pods has the same value."""
    return PodSamples({f"p{index}": Sample(milli, BASE, 60.0) for index in range(count)})


BY_POD = per_pod("100")
CPU = cpu(utilization(50))
SHARED = external(average("100"))
RATIO = external(value("100"))


@pytest.mark.parametrize(
    ("metric", "reading", "of_the_hpa", "without"),
    [
        # Constant load that more pods share: 5 % above the target without the surge.
        (BY_POD, each(84_000, SURGE), 21, 20),
        (CPU, each(420, SURGE), 21, 20),
        (SHARED, Values((2_100_000,)), 21, 20),
        # An eighth above it: not all of the pods agree, and the average is below the target.
        (BY_POD, each(89_000, SURGE), 23, 20),
        # Each pod brings its load.
        (BY_POD, each(105_000, SURGE), 20, 20),
        # 20 % above the target in each pod: the pods that come and go multiply it.
        (BY_POD, each(120_000, SURGE), 30, 24),
        (CPU, each(600, SURGE), 30, 24),
        (RATIO, Values((120_000,)), 30, 24),
        (RATIO, Values((80_000,)), 20, 16),
        # A third less load, shared by more pods, is a third less.
        (BY_POD, each(53_600, SURGE), 14, 14),
        (SHARED, Values((1_340_000,)), 14, 14),
    ],
)
def test_pods_above_the_replicas_do_not_count(
    metric: MetricSpec, reading: Reading, of_the_hpa: int, without: int
) -> None:
    """Neither as a divisor of the tolerance nor as a multiplier of the ratio."""
    of = pods(SURGE)
    assert proposal(metric, reading, of, ignore=False).proposal == of_the_hpa
    assert proposal(metric, reading, of, ignore=True).proposal == without


@pytest.mark.parametrize(
    ("metric", "reading"),
    [
        (BY_POD, each(84_000, TWENTY)),
        (BY_POD, each(130_000, TWENTY)),
        (CPU, each(300, TWENTY)),
        (SHARED, Values((2_500_000,))),
        (RATIO, Values((70_000,))),
    ],
)
def test_without_a_surge_the_flag_changes_nothing(metric: MetricSpec, reading: Reading) -> None:
    """The same proposal by the same rule."""
    of = pods(TWENTY)
    ignored = proposal(metric, reading, of, ignore=True)
    assert ignored == proposal(metric, reading, of, ignore=False)


def test_a_scale_down_that_the_sum_does_not_confirm() -> None:
    """It says so."""
    found = proposal(BY_POD, each(84_000, SURGE), pods(SURGE), ignore=True)
    assert (found.rule, found.multiplier) == (Formula.SURGE, SURGE)


def test_repeated_rollouts_do_not_run_away() -> None:
    """kubernetes/kubernetes#72775: each rollout multiplied the count by its surge."""
    replicas, grown = 383, 383
    for _ in range(3):
        surge, surged = pods(grown * 5 // 4), pods(replicas * 5 // 4)
        # Within tolerance nothing moves either way.
        assert proposal(RATIO, Values((100_000,)), surge, grown, ignore=False).proposal == grown
        grown = proposal(RATIO, Values((111_000,)), surge, grown, ignore=False).proposal
        replicas = proposal(RATIO, Values((111_000,)), surged, replicas, ignore=True).proposal
    assert grown > 383 * 2.5
    assert replicas < 383 * 1.4
