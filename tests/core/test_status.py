"""The metrics of a decision as `currentMetrics`, and the names in reasons (semantics 1.7, 2.8)."""

from dataclasses import replace

import pytest

from autoscaler.core.decision import (
    Calculation,
    Formula,
    MetricFailure,
    MetricResult,
    MetricValueStatus,
)
from autoscaler.core.observation import Gap, GapKind, Values
from autoscaler.core.selectors import LabelSelector, Operator, Requirement, parse
from autoscaler.core.spec import MetricSpec, MetricTarget, ResourceMetric, TargetType
from autoscaler.core.status import current_metrics, failure_reason, winner_name
from tests.core.builders import (
    average,
    container_cpu,
    cpu,
    external,
    of_object,
    per_pod,
    spec,
    utilization,
    value,
)
from tests.core.deciding import decided, observe


def rendered(metric: MetricSpec, outcome: Calculation | MetricFailure) -> dict[str, object]:
    """Render a decision's only metric."""
    result = MetricResult(metric, winner_name(metric), Values(()), outcome)
    decision, _ = decided(spec(metric), observe(1, Gap(GapKind.EMPTY, "none")))
    (status,) = current_metrics(replace(decision, metrics=(result,)))
    return status


INGRESS = {"apiVersion": "networking.k8s.io/v1", "kind": "Ingress", "name": "front"}
OF_LABELS = LabelSelector(
    (("queue", "orders"),),
    (Requirement("env", Operator.IN, ("a", "b")), Requirement("old", Operator.DOES_NOT_EXIST)),
)
LABELS = {
    "matchLabels": {"queue": "orders"},
    "matchExpressions": [
        {"key": "env", "operator": "In", "values": ["a", "b"]},
        {"key": "old", "operator": "DoesNotExist"},
    ],
}


@pytest.mark.parametrize(
    ("metric", "current", "source", "body", "shown"),
    [
        (
            cpu(utilization(50)),
            MetricValueStatus(average_value=1500, average_utilization=60),
            "resource",
            {"name": "cpu"},
            {"averageValue": "1500m", "averageUtilization": 60},
        ),
        (
            container_cpu(utilization(50), "web"),
            MetricValueStatus(average_value=12_000_000, average_utilization=0),
            "containerResource",
            {"name": "cpu", "container": "web"},
            {"averageValue": "12k", "averageUtilization": 0},
        ),
        (
            ResourceMetric("memory", average("1Gi")),
            MetricValueStatus(average_value=1024**2 * 1000),
            "resource",
            {"name": "memory"},
            {"averageValue": "1Mi"},
        ),
        (
            per_pod("10"),
            MetricValueStatus(average_value=0),
            "pods",
            {"metric": {"name": "rps"}},
            {"averageValue": "0"},
        ),
        (
            of_object(value("10")),
            MetricValueStatus(value=1_024_000),
            "object",
            {"metric": {"name": "hits"}, "describedObject": INGRESS},
            {"value": "1024"},
        ),
        (
            external(value("10"), selector=LabelSelector()),
            MetricValueStatus(value=-1500),
            "external",
            {"metric": {"name": "queue", "selector": {}}},
            {"value": "-1500m"},
        ),
        (
            external(average("10"), selector=OF_LABELS),
            MetricValueStatus(average_value=2000),
            "external",
            {"metric": {"name": "queue", "selector": LABELS}},
            {"averageValue": "2"},
        ),
    ],
)
def test_a_metric_that_worked(
    metric: MetricSpec,
    current: MetricValueStatus,
    source: str,
    body: dict[str, object],
    shown: dict[str, object],
) -> None:
    """Rendered as autoscaling/v2 has it, memory in powers of 1024."""
    calculation = Calculation(1, Formula.WITHIN_TOLERANCE, current, 1.0)
    kind = source[0].upper() + source[1:]
    assert rendered(metric, calculation) == {"type": kind, source: {**body, "current": shown}}


def test_a_failed_metric_leaves_an_empty_entry() -> None:
    """So that the order of the spec is kept."""
    assert rendered(cpu(utilization(50)), MetricFailure("FailedGet", "none")) == {"type": ""}


BOTH = MetricTarget(TargetType.UTILIZATION, average_value=100, average_utilization=50)
DUMPED = (
    "&LabelSelector{MatchLabels:map[string]string{a: b,},"
    "MatchExpressions:[]LabelSelectorRequirement{},}"
)


@pytest.mark.parametrize(
    ("metric", "name", "reason"),
    [
        (
            cpu(utilization(50)),
            "cpu resource utilization (percentage of request)",
            "FailedGetResourceMetric",
        ),
        (cpu(average("1")), "cpu resource", "FailedGetResourceMetric"),
        (cpu(BOTH), "cpu resource", "FailedGetResourceMetric"),
        (
            container_cpu(utilization(50)),
            "cpu container resource utilization (percentage of request)",
            "FailedGetContainerResourceMetric",
        ),
        (container_cpu(average("1")), "cpu resource", "FailedGetContainerResourceMetric"),
        (per_pod("1"), "pods metric rps", "FailedGetPodsMetric"),
        (of_object(value("1")), "Ingress metric hits", "FailedGetObjectMetric"),
        (of_object(average("1")), "external metric hits(nil)", "FailedGetObjectMetric"),
        (external(value("1")), "external metric queue(nil)", "FailedGetExternalMetric"),
        (
            external(average("1"), selector=parse("a=b")),
            f"external metric queue({DUMPED})",
            "FailedGetExternalMetric",
        ),
    ],
)
def test_names_and_reasons(metric: MetricSpec, name: str, reason: str) -> None:
    """The HPA's own, also where it calls an averaged Object metric external."""
    assert winner_name(metric) == name
    assert failure_reason(metric) == reason
