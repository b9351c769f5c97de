"""HorizontalPodAutoscalers of autoscaling/v2 as JSON -> `Hpa`; what is odd is left out.

The API server has checked and defaulted them; another program may have written the status.
"""

from collections.abc import Callable, Mapping
from typing import Any, TypeVar

from autoscaler.core.numbers import parse_milli, parse_quantity, tolerance_value
from autoscaler.core.observation import Hpa, HpaCondition, HpaStatus
from autoscaler.core.spec import (
    SOURCES,
    Behavior,
    ContainerResourceMetric,
    ExternalMetric,
    HorizontalPodAutoscalerSpec,
    LabelSelector,
    MetricIdentifier,
    MetricSpec,
    MetricTarget,
    ObjectMetric,
    Operator,
    PodsMetric,
    PolicyType,
    Requirement,
    ResourceMetric,
    ScaleTargetRef,
    ScalingPolicy,
    ScalingRules,
    SelectPolicy,
    TargetType,
)
from autoscaler.core.status import SCALING_ACTIVE
from autoscaler.core.text import printable
from autoscaler.kubernetes.api import MALFORMED, JsonObject
from autoscaler.kubernetes.discovery import checked_count
from autoscaler.kubernetes.failures import typed

KEDA_KIND = "ScaledObject"
_KEDA_LABEL = "scaledobject.keda.sh/name"
_LONGEST_NAME = 253
_LONGEST_REASON = 100
_MOST_METRICS, _MOST_CONDITIONS, _MOST_POLICIES, _MOST_LABELS = 100, 10, 20, 100
_Read = TypeVar("_Read")


def hpa_of(obj: JsonObject, received: float = 0.0) -> Hpa:
    """Return an HPA, whose status was received at a Unix time."""
    metadata = obj["metadata"]
    spec = _or_none(lambda given: typed(_spec(given)), obj.get("spec"))
    metrics = obj["spec"].get("metrics")
    number = min(len(metrics), _MOST_METRICS) if isinstance(metrics, list) else 0
    status = _or_none(lambda given: typed(_status(given, number, received)), obj.get("status"))
    return Hpa(
        printable(metadata["name"], _LONGEST_NAME),
        printable(scaled_object_of(metadata), _LONGEST_NAME),
        spec,
        () if status is None else (status,),
        "" if status is not None else _or_none(_why_undecided, obj.get("status")) or "",
    )


def scaled_object_of(metadata: JsonObject) -> str:
    """Return the name of the ScaledObject for which KEDA made it; empty for none."""
    owners = metadata.get("ownerReferences") or ()
    labelled = (metadata.get("labels") or {}).get(_KEDA_LABEL, "")
    owned = (owner.get("name", "") for owner in owners if owner.get("kind") == KEDA_KIND)
    name: str = next(owned, labelled)
    return name


def _or_none(read: Callable[[Any], _Read], given: object) -> _Read | None:
    """Read what may be odd."""
    try:
        return read(given)
    except MALFORMED:
        return None


# -- the spec ------------------------------------------------------------------------------------


def _spec(given: Mapping[str, Any]) -> HorizontalPodAutoscalerSpec:
    least = given.get("minReplicas")
    behavior = given.get("behavior")
    return HorizontalPodAutoscalerSpec(
        _ref(given["scaleTargetRef"]),
        1 if least is None else checked_count(least),
        checked_count(given["maxReplicas"]),
        tuple(_metric(one) for one in (given.get("metrics") or [])[:_MOST_METRICS]),
        None
        if behavior is None
        else Behavior(_rules(behavior["scaleUp"]), _rules(behavior["scaleDown"])),
    )


def _ref(given: Mapping[str, Any]) -> ScaleTargetRef:
    return ScaleTargetRef(given.get("apiVersion", ""), given["kind"], given["name"])


def _metric(given: Mapping[str, Any]) -> MetricSpec:
    kind = given["type"]
    source = given[SOURCES[kind]]
    target = _target(source["target"])
    if kind == ResourceMetric.type:
        return ResourceMetric(source["name"], target)
    if kind == ContainerResourceMetric.type:
        return ContainerResourceMetric(source["name"], source["container"], target)
    selector = source["metric"].get("selector")
    identifier = MetricIdentifier(
        source["metric"]["name"], None if selector is None else _selector(selector)
    )
    if kind == ObjectMetric.type:
        return ObjectMetric(_ref(source["describedObject"]), identifier, target)
    return (PodsMetric if kind == PodsMetric.type else ExternalMetric)(identifier, target)


def _target(given: Mapping[str, Any]) -> MetricTarget:
    value, average = given.get("value"), given.get("averageValue")
    return MetricTarget(
        TargetType(given["type"]),
        value=None if value is None else parse_milli(str(value)),
        average_value=None if average is None else parse_milli(str(average)),
        average_utilization=given.get("averageUtilization"),
    )


def _selector(given: Mapping[str, Any]) -> LabelSelector:
    labels = list((given.get("matchLabels") or {}).items())[:_MOST_LABELS]
    expressions = (given.get("matchExpressions") or [])[:_MOST_LABELS]
    return LabelSelector(
        tuple(sorted(labels)),
        tuple(
            Requirement(one["key"], Operator(one["operator"]), tuple(one.get("values") or ()))
            for one in expressions
        ),
    )


def _rules(given: Mapping[str, Any]) -> ScalingRules:
    tolerance = given.get("tolerance")
    return ScalingRules(
        given.get("stabilizationWindowSeconds"),
        SelectPolicy(given.get("selectPolicy") or SelectPolicy.MAX),
        tuple(
            ScalingPolicy(PolicyType(one["type"]), one["value"], one["periodSeconds"])
            for one in (given.get("policies") or [])[:_MOST_POLICIES]
        ),
        None if tolerance is None else tolerance_value(parse_quantity(str(tolerance))),
    )


# -- the status ----------------------------------------------------------------------------------


def _why_undecided(given: Mapping[str, Any]) -> str:
    reasons = (
        printable(one.get("reason") or "", _LONGEST_REASON)
        for one in (given.get("conditions") or [])[:_MOST_CONDITIONS]
        if one["type"] == SCALING_ACTIVE and one["status"] != "True"
    )
    return next(reasons, "")


def _status(given: Mapping[str, Any], metrics: int, received: float) -> HpaStatus | None:
    """Return a status; None where nothing was decided yet: that is no count of 0."""
    conditions = tuple(
        HpaCondition(
            printable(one["type"], _LONGEST_REASON),
            one["status"] == "True",
            printable(one.get("reason") or "", _LONGEST_REASON),
        )
        for one in (given.get("conditions") or [])[:_MOST_CONDITIONS]
    )
    current, desired = (
        checked_count(given.get("currentReplicas", 0)),
        checked_count(given["desiredReplicas"]),
    )
    inactive = any(one.type == SCALING_ACTIVE and not one.true for one in conditions)
    if desired == 0 and (not conditions or (inactive and current > 0)):
        return None
    read = (given.get("currentMetrics") or [])[:metrics]
    values = [_or_none(_value, one) for one in read]
    return HpaStatus(
        received,
        current,
        desired,
        # They have the order of the spec; the entry of one that failed is empty.
        (*values, *(None,) * (metrics - len(values))),
        conditions,
    )


def _value(given: Mapping[str, Any]) -> int | None:
    current = given[SOURCES[given["type"]]]["current"]
    percent = current.get("averageUtilization")
    if percent is not None:
        return int(percent)
    value = current.get("averageValue", current.get("value"))
    return None if value is None else parse_milli(str(value))
