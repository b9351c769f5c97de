"""The metrics of a decision as `currentMetrics`, and the names in reasons (semantics 1.7, 2.8)."""

import pytest

from autoscaler.core.decision import (
    Calculation,
    Decision,
    MetricFailure,
    MetricResult,
    MetricValueStatus,
    Outcome,
    Rule,
    Zone,
)
from autoscaler.core.observation import Scale, Values
from autoscaler.core.selectors import LabelSelector, Operator, Requirement, parse
from autoscaler.core.spec import MetricSpec, MetricTarget, ResourceMetric, TargetType
from autoscaler.core.status import current_metrics, failure_reason, winner_name
from tests.core.builders import (
    BASE,
    TENTH,
    average,
    container_cpu,
    cpu,
    external,
    of_object,
    per_pod,
    utilization,
    value,
)


def rendered(metric: MetricSpec, outcome: Calculation | MetricFailure) -> dict[str, object]:
    """Render a decision's only metric."""
    result = MetricResult(metric, winner_name(metric), Values(()), outcome)
    decision = Decision(
        BASE,
        BASE,
        Zone.METRICS,
        Outcome.OK,
        Scale(1, 1, "app=web"),
        1,
        10,
        TENTH,
        1,
        False,  # noqa: FBT003 - rescale
        "",
        (result,),
        None,
        None,
        None,
        (),
        (),
    )
    (status,) = current_metrics(decision)
    return status


def measured(current: MetricValueStatus) -> Calculation:
    """Return a calculation that reports these figures."""
    return Calculation(1, Rule.WITHIN_TOLERANCE, current, 1.0)


@pytest.mark.parametrize(
    ("metric", "current", "status"),
    [
        (
            cpu(utilization(50)),
            MetricValueStatus(average_value=1500, average_utilization=60),
            {
                "type": "Resource",
                "resource": {
                    "name": "cpu",
                    "current": {"averageValue": "1500m", "averageUtilization": 60},
                },
            },
        ),
        (
            container_cpu(utilization(50), "web"),
            MetricValueStatus(average_value=12_000_000, average_utilization=0),
            {
                "type": "ContainerResource",
                "containerResource": {
                    "name": "cpu",
                    "container": "web",
                    "current": {"averageValue": "12k", "averageUtilization": 0},
                },
            },
        ),
        (
            ResourceMetric("memory", average("1Gi")),
            MetricValueStatus(average_value=1024**2 * 1000),
            {
                "type": "Resource",
                "resource": {"name": "memory", "current": {"averageValue": "1Mi"}},
            },
        ),
        (
            per_pod("10"),
            MetricValueStatus(average_value=0),
            {"type": "Pods", "pods": {"metric": {"name": "rps"}, "current": {"averageValue": "0"}}},
        ),
        (
            of_object(value("10")),
            MetricValueStatus(value=1_024_000),
            {
                "type": "Object",
                "object": {
                    "metric": {"name": "hits"},
                    "current": {"value": "1024"},
                    "describedObject": {
                        "apiVersion": "networking.k8s.io/v1",
                        "kind": "Ingress",
                        "name": "front",
                    },
                },
            },
        ),
        (
            external(value("10"), selector=LabelSelector()),
            MetricValueStatus(value=-1500),
            {
                "type": "External",
                "external": {
                    "metric": {"name": "queue", "selector": {}},
                    "current": {"value": "-1500m"},
                },
            },
        ),
        (
            external(
                average("10"),
                selector=LabelSelector(
                    (("queue", "orders"),),
                    (
                        Requirement("env", Operator.IN, ("a", "b")),
                        Requirement("old", Operator.DOES_NOT_EXIST),
                    ),
                ),
            ),
            MetricValueStatus(average_value=2000),
            {
                "type": "External",
                "external": {
                    "metric": {
                        "name": "queue",
                        "selector": {
                            "matchLabels": {"queue": "orders"},
                            "matchExpressions": [
                                {"key": "env", "operator": "In", "values": ["a", "b"]},
                                {"key": "old", "operator": "DoesNotExist"},
                            ],
                        },
                    },
                    "current": {"averageValue": "2"},
                },
            },
        ),
    ],
)
def test_a_metric_that_worked(
    metric: MetricSpec, current: MetricValueStatus, status: object
) -> None:
    """Rendered as autoscaling/v2 has it, memory in powers of 1024."""
    assert rendered(metric, measured(current)) == status


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
