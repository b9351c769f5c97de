"""What a user leaves out is filled in as the API server does (semantics 5.1)."""

import gzip
import json
from collections.abc import Iterator
from pathlib import Path

from pydantic import JsonValue

from autoscaler.config import to_core
from autoscaler.config.spec_model import HorizontalPodAutoscalerSpec as SpecModel
from autoscaler.core.spec import (
    ExternalMetric,
    LabelSelector,
    MetricTarget,
    Operator,
    Requirement,
    ResourceMetric,
    TargetType,
)
from tests.config.api_form import defaulted

parsed = SpecModel.model_validate
REF: JsonValue = {"apiVersion": "apps/v1", "kind": "Deployment", "name": "web"}
SPEC: dict[str, JsonValue] = {"scaleTargetRef": REF, "maxReplicas": 5}
PERCENT: JsonValue = {"type": "Percent", "value": 100, "periodSeconds": 15}
UP: dict[str, JsonValue] = {
    "stabilizationWindowSeconds": 0,
    "selectPolicy": "Max",
    "policies": [{"type": "Pods", "value": 4, "periodSeconds": 15}, PERCENT],
}
DOWN: dict[str, JsonValue] = {"selectPolicy": "Max", "policies": [PERCENT]}
CPU: JsonValue = {
    "type": "Resource",
    "resource": {"name": "cpu", "target": {"type": "Utilization", "averageUtilization": 80}},
}


def test_a_bare_spec_has_the_defaults_of_the_api_server() -> None:
    expected = {**SPEC, "minReplicas": 1, "metrics": [CPU]}
    assert defaulted(parsed(SPEC)) == expected
    assert defaulted(parsed({**SPEC, "metrics": [], "behavior": None})) == expected
    core = to_core(parsed(SPEC))
    assert core.min_replicas == 1
    assert core.behavior is None
    target = MetricTarget(TargetType.UTILIZATION, average_utilization=80)
    assert core.metrics == (ResourceMetric("cpu", target),)


def test_numbers_of_a_behavior_are_those_of_the_controller() -> None:
    """0 is not the same as none; of 13m it is the double, one bit beside 0.013."""
    down: JsonValue = {"stabilizationWindowSeconds": 0, "tolerance": 0}
    up: JsonValue = {"tolerance": "0.013"}
    core = to_core(parsed({**SPEC, "behavior": {"scaleDown": down, "scaleUp": up}})).behavior
    assert core is not None
    assert (core.scale_down.stabilization_window_seconds, core.scale_down.tolerance) == (0, 0.0)
    assert core.scale_up.tolerance == 0.013000000000000001


def test_a_quantity_in_any_notation_is_one_number() -> None:
    for value, canonical in ((30, "30"), ("30", "30"), (30.0, "30"), ("30000m", "30")):
        target: JsonValue = {"type": "AverageValue", "averageValue": value}
        source: dict[str, JsonValue] = {"metric": {"name": "m"}, "target": target}
        metric: JsonValue = {"type": "External", "external": source}
        spec = parsed({**SPEC, "metrics": [metric]})
        (core,) = to_core(spec).metrics
        assert core.target.average_value == 30_000
        answered: JsonValue = {"type": "AverageValue", "averageValue": canonical}
        expected = {**source, "target": answered}
        assert defaulted(spec)["metrics"] == [{"type": "External", "external": expected}]


def test_labels_and_all_operators_of_a_selector_are_converted() -> None:
    selector: JsonValue = {
        "matchLabels": {"queue": "orders"},
        "matchExpressions": [
            {"key": "a", "operator": "In", "values": ["x", "y"]},
            {"key": "b", "operator": "NotIn", "values": ["z"]},
            {"key": "c", "operator": "Exists"},
            {"key": "d", "operator": "DoesNotExist", "values": []},
        ],
    }
    target: JsonValue = {"type": "Value", "value": "1"}
    for given, expected in (
        (None, None),
        ({}, LabelSelector()),
        (
            selector,
            LabelSelector(
                (("queue", "orders"),),
                (
                    Requirement("a", Operator.IN, ("x", "y")),
                    Requirement("b", Operator.NOT_IN, ("z",)),
                    Requirement("c", Operator.EXISTS),
                    Requirement("d", Operator.DOES_NOT_EXIST),
                ),
            ),
        ),
    ):
        source: JsonValue = {"metric": {"name": "m", "selector": given}, "target": target}
        spec = parsed({**SPEC, "metrics": [{"type": "External", "external": source}]})
        (metric,) = to_core(spec).metrics
        assert isinstance(metric, ExternalMetric)
        assert metric.metric.selector == expected


def test_a_replication_controller_needs_no_group() -> None:
    for reference in (
        {"kind": "ReplicationController", "name": "old"},
        {"apiVersion": "v1", "kind": "ReplicationController", "name": "old"},
    ):
        spec = parsed({"scaleTargetRef": reference, "maxReplicas": 2})
        assert to_core(spec).scale_target_ref.group == ""
        assert defaulted(spec)["scaleTargetRef"] == reference


# -- all recorded specs ----------------------------------------------------------------------------

VECTORS = Path(__file__).parent.parent / "conformance"


def scenarios() -> Iterator[tuple[str, dict[str, JsonValue], dict[str, JsonValue]]]:
    """Read name, spec and defaulted spec of every scenario."""
    for path in sorted(VECTORS.glob("*.jsonl.gz")):
        with gzip.open(path, "rt", encoding="utf-8") as lines:
            for line in lines:
                scenario = json.loads(line)
                yield scenario["name"], scenario["spec"], scenario["defaultedSpec"]


def test_every_vector_has_its_defaults() -> None:
    """Each spec becomes exactly the defaulted spec, and defaulting that changes nothing."""
    count = 0
    for name, spec, expected in scenarios():
        assert defaulted(parsed(spec)) == expected, name
        assert defaulted(parsed(expected)) == expected, name
        assert to_core(parsed(spec)) == to_core(parsed(expected)), name
        count += 1
    assert count == 630
