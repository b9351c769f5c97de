"""A decision's metrics as `HorizontalPodAutoscalerStatus.currentMetrics` (semantics 2.8)."""

from autoscaler.core.decision import Calculation, Decision, MetricResult, MetricValueStatus
from autoscaler.core.quantity import format_milli
from autoscaler.core.selectors import LabelSelector
from autoscaler.core.spec import (
    ContainerResourceMetric,
    MetricIdentifier,
    ObjectMetric,
    ResourceMetric,
)

Json = dict[str, object]


def current_metrics(decision: Decision) -> list[Json]:
    """Render the metrics in the order of the spec; a failed one leaves an empty entry."""
    return [_metric_status(result) for result in decision.metrics]


def _metric_status(result: MetricResult) -> Json:
    if not isinstance(result.outcome, Calculation):
        return {"type": ""}
    metric, current = result.metric, result.outcome.current
    if isinstance(metric, ResourceMetric | ContainerResourceMetric):
        body: Json = {"name": metric.name}
        if isinstance(metric, ContainerResourceMetric):
            body["container"] = metric.container
        body["current"] = _value_status(current, binary=metric.name == "memory")
    else:
        body = {"metric": _identifier(metric.metric), "current": _value_status(current)}
        if isinstance(metric, ObjectMetric):
            described = metric.described_object
            body["describedObject"] = {
                "apiVersion": described.api_version,
                "kind": described.kind,
                "name": described.name,
            }
    return {"type": metric.type, metric.type[0].lower() + metric.type[1:]: body}


def _value_status(current: MetricValueStatus, *, binary: bool = False) -> Json:
    status: Json = {}
    if current.value is not None:
        status["value"] = format_milli(current.value, binary=binary)
    if current.average_value is not None:
        status["averageValue"] = format_milli(current.average_value, binary=binary)
    if current.average_utilization is not None:
        status["averageUtilization"] = current.average_utilization
    return status


def _identifier(identifier: MetricIdentifier) -> Json:
    body: Json = {"name": identifier.name}
    if identifier.selector is not None:
        body["selector"] = _selector(identifier.selector)
    return body


def _selector(selector: LabelSelector) -> Json:
    body: Json = {}
    if selector.match_labels:
        body["matchLabels"] = dict(selector.match_labels)
    if selector.match_expressions:
        body["matchExpressions"] = [
            {"key": one.key, "operator": one.operator.value}
            | ({"values": list(one.values)} if one.values else {})
            for one in selector.match_expressions
        ]
    return body
