"""What a spec says of itself: tolerances in force, the need for pods, a target's key."""

from dataclasses import replace

import pytest

from autoscaler.core.decision import (
    Calculation,
    Formula,
    MetricFailure,
    MetricResult,
    MetricValueStatus,
)
from autoscaler.core.numbers import Tolerance
from autoscaler.core.observation import Gap, GapKind, Values
from autoscaler.core.selectors import LabelSelector, Operator, Requirement, parse
from autoscaler.core.spec import (
    Flags,
    MetricSpec,
    MetricTarget,
    ResourceMetric,
    ScaleTargetRef,
    TargetType,
    needs_pods,
    tolerance_of,
)
from autoscaler.core.status import current_metrics, failure_reason, winner_name
from autoscaler.core.target import Query, Target
from tests.core.builders import (
    average,
    behavior,
    container_cpu,
    cpu,
    external,
    of_object,
    per_pod,
    percent_policy,
    rules,
    spec,
    utilization,
    value,
)
from tests.core.deciding import decided, observe

QUEUE = external(average("10"))
FLAGS = Flags(tolerance=0.2)


@pytest.mark.parametrize(
    ("up", "down", "tolerance"),
    [
        (None, None, Tolerance(down=0.2, up=0.2)),
        (0.05, None, Tolerance(down=0.2, up=0.05)),
        (None, 0.05, Tolerance(down=0.05, up=0.2)),
        # Zero is a choice, not an absence.
        (0.0, 0.0, Tolerance(down=0.0, up=0.0)),
    ],
)
def test_each_direction_may_have_its_own_tolerance(
    up: float | None, down: float | None, tolerance: Tolerance
) -> None:
    """What is unset comes from the flag."""
    both = behavior(
        rules(percent_policy(100), tolerance=up), rules(percent_policy(100), tolerance=down)
    )
    assert tolerance_of(spec(QUEUE, behavior=both), FLAGS) == tolerance


def test_without_behavior_the_flag_holds_both_ways() -> None:
    """There is nowhere else to set it."""
    assert tolerance_of(spec(QUEUE), FLAGS) == Tolerance(0.2, 0.2)


@pytest.mark.parametrize(
    ("metric", "needed"),
    [
        (cpu(utilization(50)), True),
        (container_cpu(average("1")), True),
        (per_pod("1"), True),
        (external(value("1")), True),
        (of_object(value("1")), True),
        (external(average("1")), False),
        (of_object(average("1")), False),
    ],
)
def test_the_need_for_pods(metric: MetricSpec, needed: bool) -> None:  # noqa: FBT001 - a column
    """Averages of External and Object metrics look at no pod; one metric that does is enough."""
    assert needs_pods(spec(metric)) is needed
    assert needs_pods(spec(QUEUE, metric)) is needed


@pytest.mark.parametrize(
    ("api_version", "group", "key"),
    [
        ("v1", "", "shop/Thing/one"),
        ("apps/v1", "apps", "shop/Thing/one"),
        ("example.com/v1beta1", "example.com", "shop/Thing.example.com/one"),
    ],
)
def test_group_and_key(api_version: str, group: str, key: str) -> None:
    """The core group has no name; a target's key shows its group where it is not usual."""
    ref = ScaleTargetRef(api_version, "Thing", "one")
    assert ref.group == group
    assert Target("shop", replace(spec(QUEUE), scale_target_ref=ref), (Query("q"),)).key == key


# -- the metrics of a decision as `currentMetrics`, and the names in reasons -----------------------


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
