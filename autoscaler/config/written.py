"""A target as YAML, from the fields of the core."""

import math
from dataclasses import fields, is_dataclass
from enum import Enum
from functools import cache
from typing import TYPE_CHECKING, Any, TypeAlias

from pydantic.alias_generators import to_camel

from autoscaler.config.durations import format_seconds
from autoscaler.config.promql import range_of
from autoscaler.core.extensions import Fallback, FallbackBehavior, Pause, PauseMode
from autoscaler.core.spec import (
    SOURCES,
    LabelSelector,
    MetricSpec,
    MetricTarget,
    ScaleTargetRef,
    ScalingRules,
)
from autoscaler.core.target import HoldQuery, Query, Target
from autoscaler.quantities import format_fine, format_milli

if TYPE_CHECKING:
    from _typeshed import DataclassInstance

Parts: TypeAlias = dict[str, object]

_USUAL = Query(promql="")


def as_written(target: Target) -> Parts:
    """Return an entry of `targets` with the same meaning in any file, without disabled keys."""
    parts: Parts = without_nothing(written(target, complete=False))
    return parts


def written(target: Target, *, complete: bool = True) -> Parts:
    """Return the same without disabled keys; ``complete`` adds all queries to their metrics."""
    spec, extensions = target.spec, parts_of(target.extensions)
    extensions |= {"pause": _paused(target.extensions.pause)}
    del extensions["activations"]
    activations = target.extensions.activations or (0.0,) * len(spec.metrics)
    metrics = zip(spec.metrics, target.queries, activations, strict=True)
    low, high, hold = target.min_replicas_query, target.max_replicas_query, target.hold
    cost = target.deletion_cost
    return {
        "cluster": target.cluster or None,
        "namespace": target.namespace,
        **parts_of(spec),
        "metrics": [_metric(*metric, complete=complete) for metric in metrics],
        "syncPeriod": format_seconds(target.sync_period),
        **{"paused" if key == "pause" else key: part for key, part in extensions.items()},
        "minReplicasQuery": None if low is None else _answer(low, complete=complete),
        "maxReplicasQuery": None if high is None else _answer(high, complete=complete),
        "holdScaleDownQuery": None if hold is None else _hold(hold, complete=complete),
        "scaleDown": None if cost is None else _deletion_cost(cost, complete=complete),
    }


def parts_of(thing: "DataclassInstance") -> Parts:
    """Return the keys of the YAML for a part of a target's spec."""
    return {key: _plain(getattr(thing, name)) for name, key in _keys(type(thing))}


@cache
def _keys(kind: "type[DataclassInstance]") -> tuple[tuple[str, str], ...]:
    return tuple((field.name, to_camel(field.name)) for field in fields(kind))


def _plain(value: object) -> object:
    if isinstance(value, Enum):
        return value.value
    if isinstance(value, float):
        return format_seconds(value)
    if isinstance(value, tuple):
        return [_plain(part) for part in value]
    if is_dataclass(value) and not isinstance(value, type):
        return parts_of(value) | _otherwise(value)
    return value


def _otherwise(value: object) -> Parts:
    match value:
        case LabelSelector():
            return {"matchLabels": dict(value.match_labels) or None}
        case MetricTarget():
            quantities = {"value": value.value, "averageValue": value.average_value}
            return {key: m if m is None else format_milli(m) for key, m in quantities.items()}
        case ScaleTargetRef():
            return {"apiVersion": value.api_version or None}
        case ScalingRules(tolerance=float(tolerance)):
            return {"tolerance": f"{tolerance:.9f}".rstrip("0").rstrip(".")}
        case Fallback(behavior=FallbackBehavior.CURRENT_REPLICAS):
            return {"replicas": None}
    return {}


def _metric(metric: MetricSpec, query: Query, activation: float, *, complete: bool) -> Parts:
    source, asked = parts_of(metric), _query(query, complete=complete)
    if not complete:
        # With a `metric`, which has the name, the query is in it.
        holder: Any = source.get("metric", source)
        holder["query"] = asked
    return {
        "type": metric.type,
        SOURCES[metric.type]: source,
        **(asked if complete else {}),
        "activation": format_fine(activation) if activation else None,
    }


def _paused(pause: Pause | None) -> object:
    if pause is None:
        return False
    if pause.replicas is not None:
        return {"replicas": pause.replicas}
    return True if pause.mode is PauseMode.ALL else pause.mode.value


def _query(query: Query, *, complete: bool) -> Parts:
    """Return the query of a metric; a written window also sets the range."""
    is_range = query.range_seconds != range_of(query.promql, unknown=math.inf)
    window = (query.window != _USUAL.window or is_range) and not query.assumes_range
    return _answer(query, complete=complete) | {
        "window": format_seconds(query.window) if complete or window else None,
        "labels": _labels(query, complete=complete),
    }


def _hold(hold: HoldQuery, *, complete: bool) -> Parts:
    return _shared(hold.query, complete=complete) | {"selector": _plain(hold.selector)}


def _deletion_cost(query: Query, *, complete: bool) -> Parts:
    labels = {"labels": _labels(query, complete=complete)}
    return {"podDeletionCost": _shared(query, complete=complete) | labels}


def _shared(query: Query, *, complete: bool) -> Parts:
    """Return the keys of `SharedQueryModel` and the PromQL."""
    parts = _answer(query, complete=complete)
    return {key: part for key, part in parts.items() if key != "empty"}


def _labels(query: Query, *, complete: bool) -> Parts | None:
    return parts_of(query.labels) if complete or query.labels != _USUAL.labels else None


def _answer(query: Query, *, complete: bool) -> Parts:
    """Return the keys of all queries; omit what follows from the PromQL."""
    parts: Parts = {
        "query": query.promql,
        "server": query.server or None,
        "maxAge": format_seconds(query.max_age),
        "empty": "zero" if query.empty_is_zero else "fail",
        "nan": "zero" if query.nan_is_zero else "fail",
        "partial": "use" if query.use_partial else "hold",
    }
    if complete:
        return parts
    usual = _answer(_USUAL, complete=True)
    return {key: part for key, part in parts.items() if key == "query" or part != usual[key]}


def without_nothing(part: Any) -> Any:
    """Omit disabled keys: None, false and empty lists."""
    if isinstance(part, dict):
        left = {key: value for key, value in part.items() if value not in (None, [])}
        return {key: without_nothing(value) for key, value in left.items() if value is not False}
    return list(map(without_nothing, part)) if isinstance(part, list) else part
