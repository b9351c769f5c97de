"""Utilization (semantics 2.2)."""

from collections.abc import Mapping, Sequence

import pytest

from autoscaler.core.decision import Formula, MetricValueStatus
from autoscaler.core.numbers import INT32_MAX, INT64_MAX, Tolerance
from autoscaler.core.observation import Pod, PodRequests, Sample
from autoscaler.core.per_pod import PerPodMetric
from autoscaler.core.spec import ResourceMetric
from tests.core.builders import (
    FALSE,
    TENTH,
    container,
    container_cpu,
    cpu,
    per_pod,
    pod,
    pods,
    samples,
    utilization,
    value,
)
from tests.core.measuring import attempt, proposed, starting

EXACT = Tolerance(0.0, 0.0)


def test_unready_pods_lessen_a_scale_up() -> None:
    """The HPA's own example: 60% on two pods is 200% of target, and 40% over three."""
    two = PodRequests((container("a", cpu="1"), container("b", cpu="1")))
    of = (
        pod("p0", ready=FALSE, start=-20.0, transition=-20.0, requests=two),
        pod("p1", requests=two),
        pod("p2", requests=two),
    )
    result = proposed(cpu(utilization(30)), samples(600, 1000, 1400), of, 3)
    assert (result.proposal, result.rule, result.multiplier) == (4, Formula.REBALANCED, 3)
    assert (result.ratio, result.rebalanced_ratio) == (2.0, 40.0 / 30.0)
    assert result.current == MetricValueStatus(None, 1200, 60, average_request=2000)
    assert result.groups is not None
    assert result.groups.unready == ("p0",)


def test_missing_pods_dampen_a_scale_down() -> None:
    """The HPA's own example: 24% on two of four pods, and 62% when the two count in full."""
    result = proposed(cpu(utilization(100)), samples(800, 190), pods(4, "2"), 4)
    assert (result.proposal, result.ratio, result.rebalanced_ratio) == (3, 0.24, 0.62)
    assert result.current == MetricValueStatus(None, 495, 24, average_request=2000)


def test_missing_pods_are_charged_the_target_above_100_percent() -> None:
    """The HPA's own example: target 300%, so that the missing pod is charged 12000m of 4000m."""
    fourfold = PodRequests((container(cpu="4"),))
    of = (
        starting("p0", "2"),
        pod("p1", requests=PodRequests((container(cpu="2"),))),
        pod("p2", requests=fourfold),
        pod("p3", requests=fourfold),
    )
    result = proposed(cpu(utilization(300)), samples(400, 200, 200), of, 4)
    assert (result.proposal, result.multiplier) == (2, 3)
    assert result.rebalanced_ratio == 124.0 / 300.0
    assert result.current.average_utilization == 6


@pytest.mark.parametrize(
    ("replicas", "usage", "target", "tolerance", "proposal"),
    [
        (3, (500, 500, 500), 50, TENTH, 3),
        (3, (550, 550, 550), 50, TENTH, 3),
        (3, (560, 560, 560), 50, TENTH, 4),
        (3, (450, 450, 450), 50, TENTH, 3),
        # 44% of 50% is 0.88: outside, and the ceiling still asks for three.
        (3, (440, 440, 440), 50, TENTH, 3),
        (3, (330, 330, 330), 50, TENTH, 2),
        # Whole percent: 55.9% counts as 55%, just on the border.
        (3, (559, 559, 559), 50, TENTH, 3),
        # The quota example: three of ten pods exist, and the ready ones multiply.
        (10, (600, 600, 600), 50, TENTH, 4),
        (4, (800, 800, 800, 800), 100, TENTH, 4),
        (3, (1010, 1010, 1010), 100, EXACT, 4),
        (3, (1009, 1009, 1009), 100, EXACT, 3),
        (2, (0, 0), 50, TENTH, 0),
        # Doubles: 7% / 3% over 27 pods is 63.00000000000001.
        (27, (70,) * 27, 3, TENTH, 64),
    ],
)
def test_utilization(
    replicas: int, usage: tuple[int, ...], target: int, tolerance: Tolerance, proposal: int
) -> None:
    """All pods ready, each requesting one cpu: the truncated percentage over the target."""
    of = pods(len(usage))
    assert (
        proposed(cpu(utilization(target)), samples(*usage), of, replicas, tolerance).proposal
        == proposal
    )


def test_utilization_is_that_of_the_sums() -> None:
    """One cpu used of 1 + 3 requested is 25%, not the mean of 100% and 0%."""
    of = (pod("p0"), pod("p1", requests=PodRequests((container(cpu="3"),))))
    result = proposed(cpu(utilization(25)), samples(1000, 0), of, 2)
    assert (result.current.average_utilization, result.ratio) == (25, 1.0)


@pytest.mark.parametrize(
    ("usage", "pod_count", "target", "replicas", "rule", "proposal"),
    [
        # r = 0.5: three missing pods in full bring it to 80% of 100%.
        ((500, 500), 5, 100, 5, Formula.REBALANCED, 4),
        # Only the ratio after filling in is compared with the tolerance.
        ((950, 950), 3, 100, 3, Formula.REBALANCED_AWAY, 3),
        ((1050, 1050), 3, 100, 3, Formula.REBALANCED_AWAY, 3),
        # r = 1.5 turns to 0.75 when the missing pods count as idle: nothing happens.
        ((1500, 1500), 4, 100, 4, Formula.REBALANCED_AWAY, 4),
        # r = 0.8 turns to 1.5 when the missing one is charged 100% of its request at a 50% target.
        ((400,), 2, 50, 2, Formula.REBALANCED_AWAY, 2),
        # The same charge, whole, where it only dampens: 25% of 50%, and not 12%.
        ((0, 0, 0), 4, 50, 4, Formula.REBALANCED, 2),
        # Exactly on target: no sample is filled in, so the sample count stays one.
        ((1000,), 2, 100, 2, Formula.REBALANCED_AWAY, 2),
        # r = 3 over 2 of 3 pods: 2 * 3 = 6, not 3 * 3.
        ((3000, 3000), 3, 100, 3, Formula.REBALANCED, 6),
        # Still above target, but fewer than there are: no scale-down from a ratio above one.
        ((3000, 3000), 3, 100, 9, Formula.REBALANCED_AWAY, 9),
        # Still below target, but more than there are: no scale-up from a ratio below one.
        ((100, 100), 5, 100, 1, Formula.REBALANCED_AWAY, 1),
    ],
)
def test_missing_pods_count_against_the_direction(
    usage: tuple[int, ...], pod_count: int, target: int, replicas: int, rule: Formula, proposal: int
) -> None:
    """Missing pods: full request (or the target, if larger) going down, nothing going up."""
    result = proposed(cpu(utilization(target)), samples(*usage), pods(pod_count), replicas)
    assert (result.rule, result.proposal) == (rule, proposal)


def test_unready_pods_are_left_out_on_the_way_down() -> None:
    """Their low usage neither counts nor is charged: one pod at 50% of target gives one."""
    of = (pod("p0"), starting("p1"))
    result = proposed(cpu(utilization(100)), samples(500, 1), of, 2)
    assert (result.proposal, result.rule, result.multiplier) == (1, Formula.READY_PODS, 1)
    assert result.current.average_value == 500


def test_unready_pods_are_left_out_on_target() -> None:
    """Only above the target are they counted as idle."""
    of = (pod("p0"), starting("p1"))
    result = proposed(cpu(utilization(100)), samples(1000, 1), of, 2)
    assert (result.proposal, result.rule, result.ratio) == (2, Formula.WITHIN_TOLERANCE, 1.0)


def test_missing_and_unready_pods_together() -> None:
    """Going up both are idle; going down only the missing one is charged."""
    of = (pod("p0"), starting("p1"), pod("p2"))
    up = proposed(cpu(utilization(100)), samples(6000, 10), of, 3)
    assert (up.proposal, up.multiplier, up.rebalanced_ratio) == (6, 3, 2.0)
    down = proposed(cpu(utilization(100)), samples(200, 10), of, 3)
    assert (down.proposal, down.multiplier, down.rebalanced_ratio) == (2, 2, 0.6)


def test_ignored_pods_are_never_filled_in() -> None:
    """A deleting and a failed pod count nowhere, with or without a sample."""
    of = (pod("p0"), pod("p1", deleted=True), pod("p2", phase="Failed"))
    result = proposed(cpu(utilization(100)), samples(500, 9000), of, 3)
    assert (result.proposal, result.current.average_utilization) == (1, 50)


def test_samples_of_unlisted_pods_do_not_count_for_utilization() -> None:
    """Without a request they enter neither sum; yet they multiply after rebalancing."""
    plain = proposed(cpu(utilization(100)), samples(2000, 9000), pods(1), 1)
    assert (plain.proposal, plain.current.average_value) == (2, 2000)
    of = (pod("p0"), pod("missing"))
    rebalanced = proposed(cpu(utilization(100)), samples(4000, 9000), of, 2)
    assert (rebalanced.proposal, rebalanced.multiplier, rebalanced.rebalanced_ratio) == (6, 3, 2.0)


@pytest.mark.parametrize(
    ("metric", "readings", "of", "why"),
    [
        (cpu(utilization(50)), samples(1), (), "no pods match the scale's selector"),
        (per_pod("1"), samples(1), (), "no pods match the scale's selector"),
        (cpu(utilization(50)), {}, pods(2), "no pod that counts has a sample"),
        (
            cpu(utilization(50)),
            samples(1, 1),
            (pod("p0", phase="Pending"), pod("p1", deleted=True)),
            "no pod that counts has a sample",
        ),
        (
            cpu(utilization(50)),
            samples(1),
            (pod("p0"), pod("gone", phase="Failed", requests=PodRequests((container(),)))),
            "pod gone: container app has no request for cpu",
        ),
        (
            cpu(utilization(50)),
            samples(1),
            (pod("p0"), pod("done", deleted=True, requests=PodRequests((container(),)))),
            "pod done: container app has no request for cpu",
        ),
        (
            container_cpu(utilization(50), "web"),
            samples(1),
            pods(1),
            "pod p0: there is no container web",
        ),
        (
            cpu(utilization(50)),
            samples(1, first=7),
            pods(1),
            "the pods with samples request no cpu in sum",
        ),
        (
            cpu(utilization(50)),
            samples(1),
            pods(1, "0"),
            "the pods with samples request no cpu in sum",
        ),
        (
            cpu(value("1")),
            samples(1),
            pods(1),
            "the target has neither averageValue nor averageUtilization",
        ),
    ],
)
def test_what_cannot_be_computed_says_why(
    metric: PerPodMetric, readings: Mapping[str, Sample], of: Sequence[Pod], why: str
) -> None:
    """Each is an error of the metric; a missing request of any listed pod is one, too."""
    assert attempt(metric, readings, of, 1) == why


def test_overflow_saturates_where_kubernetes_wraps() -> None:
    """Extreme usage asks for the most replicas, not for the fewest (semantics 6.1)."""
    huge = proposed(cpu(utilization(1)), samples(INT64_MAX, INT64_MAX), pods(2, "1m"), 2)
    assert huge.current.average_utilization == INT32_MAX
    assert huge.proposal == INT32_MAX
    mean = proposed(per_pod("1m"), samples(INT64_MAX, INT64_MAX), pods(2), 2)
    assert mean.current.average_value == INT64_MAX // 2
    assert mean.proposal == INT32_MAX


def test_whole_percent_of_memory_beyond_92_terabytes() -> None:
    """Usage times 100 saturates, so that utilization never turns negative (semantics 6.1)."""
    usage = 10**17
    one = PodRequests((container(memory="100T"),))
    metric = ResourceMetric("memory", utilization(100))
    result = proposed(metric, samples(usage), (pod("p0", requests=one),), 1)
    assert result.current.average_utilization == INT64_MAX // usage


def test_directions_have_their_own_tolerance() -> None:
    """The side of the ratio chooses, not the side of the resulting count."""
    wide_down = Tolerance(down=0.5, up=0.0)
    assert proposed(cpu(utilization(100)), samples(500), pods(1), 4, wide_down).proposal == 4
    assert proposed(cpu(utilization(100)), samples(1010), pods(1), 4, wide_down).proposal == 2
