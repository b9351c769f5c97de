"""API defaulting of autoscaling/v2 (semantics 5.1), and the form in which the API answers."""

import functools
from typing import TypeVar

from pydantic import BaseModel, JsonValue

from autoscaler.config.spec_model import (
    HorizontalPodAutoscalerBehavior,
    HorizontalPodAutoscalerSpec,
    HPAScalingPolicy,
    HPAScalingRules,
    MetricSpec,
    MetricTarget,
    ResourceMetricSource,
)
from autoscaler.core import quantity

_Spec = TypeVar("_Spec", bound=HorizontalPodAutoscalerSpec)


@functools.cache
def default_metric() -> MetricSpec:
    """Return what an empty list of metrics stands for: cpu at 80 percent of its request."""
    target = MetricTarget(type="Utilization", averageUtilization=80)
    return MetricSpec(type="Resource", resource=ResourceMetricSource(name="cpu", target=target))


@functools.cache
def default_scale_up() -> HPAScalingRules:
    """Return the rules of scaling up where a behavior does not say others."""
    return HPAScalingRules(
        stabilizationWindowSeconds=0,
        selectPolicy="Max",
        policies=(
            HPAScalingPolicy(type="Pods", value=4, periodSeconds=15),
            HPAScalingPolicy(type="Percent", value=100, periodSeconds=15),
        ),
    )


@functools.cache
def default_scale_down() -> HPAScalingRules:
    """Return the rules of scaling down; their window stays unset, which means the flag's."""
    policy = HPAScalingPolicy(type="Percent", value=100, periodSeconds=15)
    return HPAScalingRules(selectPolicy="Max", policies=(policy,))


def completed(spec: _Spec) -> _Spec:
    """Fill in what the user left out.

    An absent behavior stays absent; a present one is completed in both directions, field by
    field, with policies taken as a whole.
    """
    behavior = spec.behavior
    if behavior is not None:
        behavior = HorizontalPodAutoscalerBehavior(
            scaleUp=_rules(behavior.scale_up, default_scale_up()),
            scaleDown=_rules(behavior.scale_down, default_scale_down()),
        )
    return spec.model_copy(
        update={
            "min_replicas": 1 if spec.min_replicas is None else spec.min_replicas,
            "metrics": spec.metrics or (default_metric(),),
            "behavior": behavior,
        }
    )


def _rules(given: HPAScalingRules | None, default: HPAScalingRules) -> HPAScalingRules:
    if given is None:
        return default
    missing = {
        name: getattr(default, name)
        for name in HPAScalingRules.model_fields
        if getattr(given, name) is None
    }
    return given.model_copy(update=missing)


def defaulted(spec: HorizontalPodAutoscalerSpec) -> dict[str, JsonValue]:
    """Return the spec as the API server would: defaulted, camelCase, quantities canonical."""
    result = _json(completed(spec))
    result.pop("namespace", None)
    return result


_OMITTED_EMPTY = {"apiVersion", "matchLabels", "matchExpressions", "values"}
_QUANTITIES = {"value", "averageValue", "tolerance"}


def _json(model: BaseModel) -> dict[str, JsonValue]:
    result: dict[str, JsonValue] = {}
    for name, field in type(model).model_fields.items():
        key, value = field.alias or name, getattr(model, name)
        if value is None or name == "query" or (not value and key in _OMITTED_EMPTY):
            continue
        if isinstance(value, BaseModel):
            result[key] = _json(value)
        elif isinstance(value, tuple):
            result[key] = [_json(v) if isinstance(v, BaseModel) else v for v in value]
        elif key in _QUANTITIES and isinstance(value, str):
            result[key] = quantity.canonical(value)
        else:
            result[key] = value
    return result
