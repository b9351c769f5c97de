"""Averages of pods: AverageValue of Resource, ContainerResource and Pods (semantics 2.3)."""

import pytest

from autoscaler.core.decision import MetricValueStatus
from autoscaler.core.observation import PodRequests
from autoscaler.core.spec import ResourceMetric
from tests.core.builders import average, container, cpu, per_pod, pod, pods, samples, utilization
from tests.core.measuring import proposed, starting


def test_an_average_needs_no_requests() -> None:
    """AverageValue targets of cpu never look at requests."""
    of = (pod("p0", requests=PodRequests((container(),))),)
    assert proposed(cpu(average("100m")), samples(300), of, 1).proposal == 3


@pytest.mark.parametrize(
    ("usage", "pod_count", "replicas", "proposal", "reported"),
    [
        ((10_000, 20_000), 2, 2, 3, 15_000),
        ((11_000, 11_000), 2, 2, 2, 11_000),
        ((11_001, 11_001), 2, 2, 3, 11_001),
        ((9_000,), 1, 1, 1, 9_000),
        ((2_000, 2_000, 2_000), 3, 3, 1, 2_000),
        # Truncated toward zero, negative as well.
        ((10, 11), 2, 2, 1, 10),
        ((-2, -3), 2, 2, 0, -2),
        # Missing pods: the target itself going down, nothing going up.
        ((5_000, 5_000), 3, 3, 2, 5_000),
        ((30_000,), 2, 2, 3, 30_000),
        # Samples of unlisted pods count in sum and number, and the ready pods multiply.
        ((10_000, 50_000), 1, 1, 3, 30_000),
    ],
)
def test_average_per_pod(
    usage: tuple[int, ...], pod_count: int, replicas: int, proposal: int, reported: int
) -> None:
    """A Pods metric with averageValue 10: the truncated mean of all samples over the target."""
    result = proposed(per_pod("10"), samples(*usage), pods(pod_count), replicas)
    assert result.proposal == proposal
    assert result.current == MetricValueStatus(average_value=reported)


def test_cpu_rules_hold_for_cpu_averages_and_not_for_pods_metrics() -> None:
    """A starting pod is unready for cpu, whatever the target type; for a Pods metric it counts."""
    of = (pod("p0"), starting("p1"))
    by_cpu = proposed(cpu(average("1")), samples(500, 500), of, 2)
    assert by_cpu.groups is not None
    assert by_cpu.groups.unready == ("p1",)
    by_pods = proposed(per_pod("1"), samples(500, 500), of, 2)
    assert by_pods.groups is not None
    assert by_pods.groups.ready == 2


def test_an_average_value_goes_before_a_utilization() -> None:
    """Where a target has both fields the controller uses averageValue, whatever the type."""
    both = utilization(50)
    metric = ResourceMetric("cpu", type(both)(both.type, average_value=100, average_utilization=50))
    result = proposed(metric, samples(200), pods(1), 1)
    assert result.current == MetricValueStatus(average_value=200)
