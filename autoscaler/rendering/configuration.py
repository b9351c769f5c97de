"""The configuration of a target that is in force, as a user would write it.

It is complete: what was left out, and what `queries` and `resourceQueries` say, is written at the
target.  A configuration with it has the same target.
"""

from autoscaler.config.durations import format_seconds as duration
from autoscaler.config.queries import range_of
from autoscaler.core.extensions import Extensions, Fallback, Pause, PauseMode, Schedule
from autoscaler.core.quantity import format_milli
from autoscaler.core.selectors import LabelSelector
from autoscaler.core.spec import (
    ContainerResourceMetric,
    ExternalMetric,
    MetricIdentifier,
    MetricSpec,
    MetricTarget,
    ObjectMetric,
    PodsMetric,
    ResourceMetric,
    ScaleTargetRef,
    ScalingRules,
)
from autoscaler.core.target import Query, Target
from autoscaler.rendering.record import Json

__all__ = ["as_written", "duration"]

_USUAL = Query(promql="")
_KEYS = {
    "Resource": "resource",
    "ContainerResource": "containerResource",
    "Pods": "pods",
    "Object": "object",
    "External": "external",
}


def as_written(target: Target) -> Json:
    """Return an entry of `targets`."""
    spec, extensions = target.spec, target.extensions
    shown: Json = {
        "namespace": target.namespace,
        "scaleTargetRef": _reference(spec.scale_target_ref),
        "syncPeriod": duration(target.sync_period),
        "minReplicas": spec.min_replicas,
        "maxReplicas": spec.max_replicas,
        "metrics": [_metric(target, index, one) for index, one in enumerate(spec.metrics)],
    }
    for name, query in (
        ("minReplicasQuery", target.min_replicas_query),
        ("maxReplicasQuery", target.max_replicas_query),
    ):
        if query is not None:
            shown[name] = _bound_query(query)
    if spec.behavior is not None:
        up, down = _rules(spec.behavior.scale_up), _rules(spec.behavior.scale_down)
        shown["behavior"] = {"scaleUp": up, "scaleDown": down}
    return shown | _extensions(extensions)


def _reference(ref: ScaleTargetRef) -> Json:
    shown: Json = {"apiVersion": ref.api_version} if ref.api_version else {}
    return shown | {"kind": ref.kind, "name": ref.name}


def _metric(target: Target, index: int, metric: MetricSpec) -> Json:
    source = _source(metric, _query(target.queries[index]))
    shown: Json = {"type": metric.type, _KEYS[metric.type]: source}
    activations = target.extensions.activations
    if index < len(activations) and activations[index]:
        shown["activation"] = format_milli(activations[index])
    return shown


def _source(metric: MetricSpec, query: Json) -> Json:
    shown: Json = {}
    match metric:
        case ResourceMetric():
            shown |= {"name": metric.name, "query": query}
        case ContainerResourceMetric():
            shown |= {"name": metric.name, "container": metric.container, "query": query}
        case ObjectMetric():
            shown |= {"describedObject": _reference(metric.described_object)}
            shown |= {"metric": _identifier(metric.metric, query)}
        case PodsMetric() | ExternalMetric():
            shown |= {"metric": _identifier(metric.metric, query)}
    return shown | {"target": _target(metric.target)}


def _identifier(metric: MetricIdentifier, query: Json) -> Json:
    shown: Json = {"name": metric.name}
    if metric.selector is not None:
        shown["selector"] = _selector(metric.selector)
    return shown | {"query": query}


def _selector(selector: LabelSelector) -> Json:
    return {
        "matchLabels": dict(selector.match_labels),
        "matchExpressions": [
            {"key": one.key, "operator": one.operator.value, "values": list(one.values)}
            for one in selector.match_expressions
        ],
    }


def _target(target: MetricTarget) -> Json:
    shown: Json = {"type": target.type.value}
    if target.value is not None:
        shown["value"] = format_milli(target.value)
    if target.average_value is not None:
        shown["averageValue"] = format_milli(target.average_value)
    if target.average_utilization is not None:
        shown["averageUtilization"] = target.average_utilization
    return shown


def _query(query: Query) -> Json:
    shown, labels = _bound_query(query), query.labels
    # A window that is written stands for a range too.
    if query.window != _USUAL.window or query.range_seconds != range_of(query.promql):
        shown["window"] = duration(query.window)
    if labels != _USUAL.labels:
        shown["labels"] = {
            "namespace": labels.namespace,
            "pod": labels.pod,
            "container": labels.container,
        }
    return shown


def _bound_query(query: Query) -> Json:
    shown: Json = {"query": query.promql}
    if query.server:
        shown["server"] = query.server
    if query.max_age != _USUAL.max_age:
        shown["maxAge"] = duration(query.max_age)
    if query.empty_is_zero:
        shown["empty"] = "zero"
    if query.nan_is_zero:
        shown["nan"] = "zero"
    if query.use_partial:
        shown["partial"] = "use"
    return shown


def _rules(rules: ScalingRules) -> Json:
    shown: Json = {}
    if rules.stabilization_window_seconds is not None:
        shown["stabilizationWindowSeconds"] = rules.stabilization_window_seconds
    shown["selectPolicy"] = rules.select_policy.value
    shown["policies"] = [
        {"type": one.type.value, "value": one.value, "periodSeconds": one.period_seconds}
        for one in rules.policies
    ]
    if rules.tolerance is not None:
        shown["tolerance"] = f"{rules.tolerance:.9f}".rstrip("0").rstrip(".")
    return shown


def _extensions(one: Extensions) -> Json:
    shown: Json = {}
    if one.idle is not None:
        shown["idle"] = {
            "replicas": one.idle.replicas,
            "after": duration(one.idle.after),
            "initially": duration(one.idle.initially),
        }
    if one.fallback is not None:
        shown["fallback"] = _fallback(one.fallback)
    if one.pause is not None:
        shown["paused"] = _pause(one.pause)
    if one.schedules:
        shown["schedules"] = [_schedule(schedule) for schedule in one.schedules]
    if one.ignore_surge:
        shown["ignoreSurge"] = True
    return shown


def _fallback(one: Fallback) -> Json:
    return {
        "replicas": one.replicas,
        "failureThreshold": one.failure_threshold,
        "behavior": one.behavior.value,
    }


def _pause(one: Pause) -> object:
    if one.replicas is not None:
        return {"replicas": one.replicas}
    return True if one.mode is PauseMode.ALL else one.mode.value


def _schedule(one: Schedule) -> Json:
    shown: Json = {"name": one.name, "start": one.start, "end": one.end, "timezone": one.timezone}
    if one.min_replicas is not None:
        shown["minReplicas"] = one.min_replicas
    if one.max_replicas is not None:
        shown["maxReplicas"] = one.max_replicas
    return shown | ({"gradual": True} if one.gradual else {})
