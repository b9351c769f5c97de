"""A target as a user writes it, by the fields of the core, and how two configurations differ."""

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, fields, is_dataclass
from enum import Enum
from functools import cache
from typing import TYPE_CHECKING, Any, TypeAlias

from pydantic import BaseModel
from pydantic.alias_generators import to_camel

from autoscaler.config.documents import Location, one_line, path_of
from autoscaler.config.durations import format_seconds
from autoscaler.config.promql import range_of
from autoscaler.config.settings import Config
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
    """Return an entry of `targets` that is the same target anywhere, without what is off."""
    parts: Parts = without_nothing(written(target, complete=False))
    return parts


def written(target: Target, *, complete: bool = True) -> Parts:
    """Return the same with what is off; a ``complete`` one has all of queries, beside metrics."""
    spec, extensions = target.spec, parts_of(target.extensions)
    extensions |= {"pause": _paused(target.extensions.pause)}
    del extensions["activations"]
    activations = target.extensions.activations or (0.0,) * len(spec.metrics)
    metrics = zip(spec.metrics, target.queries, activations, strict=True)
    low, high, hold = target.min_replicas_query, target.max_replicas_query, target.hold
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
    }


def parts_of(thing: "DataclassInstance") -> Parts:
    """Return what a part of a target's spec is written as, by the keys of the YAML."""
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
        # With a `metric`, which holds the name, the query is in it.
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
    """Return the query of a metric; a window that is written stands for a range too."""
    is_range = query.range_seconds != range_of(query.promql, unknown=math.inf)
    window = (query.window != _USUAL.window or is_range) and not query.assumes_range
    return _answer(query, complete=complete) | {
        "window": format_seconds(query.window) if complete or window else None,
        "labels": parts_of(query.labels) if complete or query.labels != _USUAL.labels else None,
    }


def _hold(hold: HoldQuery, *, complete: bool) -> Parts:
    parts = _answer(hold.query, complete=complete) | {"selector": _plain(hold.selector)}
    return {key: part for key, part in parts.items() if key != "empty"}


def _answer(query: Query, *, complete: bool) -> Parts:
    """Return what all queries have; what follows from the PromQL is left out."""
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
    """Leave out what is off: None, false and empty lists."""
    if isinstance(part, dict):
        left = {key: one for key, one in part.items() if one not in (None, [])}
        return {key: without_nothing(one) for key, one in left.items() if one is not False}
    return list(map(without_nothing, part)) if isinstance(part, list) else part


_AT_RESTART = (
    *("stateDirectory.", "record.", "listen.", "web.", "leaderElection."),
    *("kubernetes.kubeconfig.", "kubernetes.context."),
)
"""The keys whose changes take effect when the daemon starts again."""

_SECRET = {"headers", "queryParameters", "endpointParams"}
"""The keys below `prometheus` whose values may be secrets."""


@dataclass(frozen=True, slots=True)
class FieldChange:
    """A field that differs: its place in the YAML, both values or None; secrets are not shown."""

    path: str
    before: str | None
    after: str | None

    def __str__(self) -> str:
        values = ("nothing" if v is None else one_line(v, 200) for v in (self.before, self.after))
        return f"{self.path}: {' -> '.join(values)}"


@dataclass(frozen=True, slots=True)
class TargetChange:
    """A target that both configurations have and describe differently."""

    key: str
    fields: tuple[FieldChange, ...]


@dataclass(frozen=True, slots=True)
class Comparison:
    """What a reload changes.  Targets are named by their keys, in the order of the files."""

    added: tuple[str, ...] = ()
    removed: tuple[str, ...] = ()
    changed: tuple[TargetChange, ...] = ()
    settings: tuple[FieldChange, ...] = ()
    """Of all but the targets, in force at once."""
    at_restart: tuple[FieldChange, ...] = ()
    """Of the keys that are read only when the daemon starts."""


def compare(before: Config, after: Config) -> Comparison:
    """Say what a reload changes of the values in force, wherever and however targets stand."""
    old = {target.key: target for target in before.targets}
    new = {target.key: target for target in after.targets}
    both = (
        TargetChange(key, tuple(field_changes(_of_target(old[key], before), _of_target(to, after))))
        for key, to in new.items()
        if key in old and to != old[key]
    )
    settings = tuple(field_changes(_of_settings(before), _of_settings(after)))
    late = tuple(change for change in settings if f"{change.path}.".startswith(_AT_RESTART))
    return Comparison(
        added=tuple(key for key in new if key not in old),
        removed=tuple(key for key in old if key not in new),
        changed=tuple(change for change in both if change.fields),
        settings=tuple(change for change in settings if change not in late),
        at_restart=late,
    )


def only_targets_differ(before: Config, after: Config) -> bool:
    """Return whether two configurations have the same settings, secrets among them."""
    settings = Config.model_fields.keys() - {"targets", "sources"}
    return all(getattr(before, name) == getattr(after, name) for name in settings)


def _of_settings(config: Config) -> Mapping[str | int, object]:
    left_out = {"path", "sources", "targets"}
    return {key: value for key, value in (_inside(config) or {}).items() if key not in left_out}


def _of_target(target: Target, config: Config) -> Parts:
    own_period = target.sync_period != config.sync_period
    return written(target) | ({} if own_period else {"syncPeriod": None})


def field_changes(before: object, after: object, place: Location = ()) -> Iterator[FieldChange]:
    """Walk to the values that differ of what `written` or a model has."""
    if before == after:
        return
    old, new = _inside(before), _inside(after)
    if old is None and new is None:
        yield FieldChange(path_of(place), _shown(before, place), _shown(after, place))
    old, new = old or {}, new or {}
    for key in old | new:
        yield from field_changes(old.get(key), new.get(key), (*place, key))


def _inside(value: object) -> dict[str | int, object] | None:
    """Return what a value consists of by key or position in the YAML; None for a single value."""
    if isinstance(value, Mapping):
        return dict(value)
    if isinstance(value, tuple | list):
        return dict(enumerate(value))
    if isinstance(value, BaseModel):
        of = type(value).model_fields.items()
        return {field.alias or name: getattr(value, name) for name, field in of}
    return None


def _shown(value: object, place: Location) -> str | None:
    if value is None:
        return None
    if place[:1] == ("prometheus",) and not _SECRET.isdisjoint(place):
        return "(not shown)"
    match value:
        case bool():
            return "true" if value else "false"
        case float() if place[-1] != "tolerance":
            return format_seconds(value)
        case int() if place == ("record", "maxSize"):
            return format_milli(value * 1000, binary=True)
    unit = "%" if place == ("scaleDownBreaker", "share") else ""
    return f"{value}{unit}" or '""'
