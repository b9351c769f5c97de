"""What a spec says of itself: tolerances in force, the need for pods, a target's key."""

from dataclasses import replace

import pytest

from autoscaler.core.spec import (
    Flags,
    LabelSelector,
    MetricSpec,
    Operator,
    Requirement,
    ScaleTargetRef,
    Tolerance,
    needs_pods,
    tolerance_of,
)
from autoscaler.core.target import Query, Target
from autoscaler.rendering.hpa import current_metrics
from tests.core.builders import (
    QUEUE,
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
    values,
)
from tests.core.deciding import decided, observe

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
def test_the_need_for_pods(metric: MetricSpec, needed: bool) -> None:
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


def test_the_selector_of_a_reported_metric() -> None:
    """As autoscaling/v2 has it; the recorded ticks of the HPA hold all other fields and names."""
    both = LabelSelector(
        (("queue", "orders"),),
        (Requirement("env", Operator.IN, ("a", "b")), Requirement("old", Operator.DOES_NOT_EXIST)),
    )
    for selector, shown in (
        (LabelSelector(), {}),
        (
            both,
            {
                "matchLabels": {"queue": "orders"},
                "matchExpressions": [
                    {"key": "env", "operator": "In", "values": ["a", "b"]},
                    {"key": "old", "operator": "DoesNotExist"},
                ],
            },
        ),
    ):
        metric = external(average("10"), selector=selector)
        (status,) = current_metrics(decided(spec(metric), observe(2, values(30)))[0])
        identifier = {"name": "queue", "selector": shown}
        body = {"metric": identifier, "current": {"averageValue": "15"}}
        assert status == {"type": "External", "external": body}
