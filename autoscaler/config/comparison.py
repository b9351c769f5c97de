"""What differs between two configurations: for each target, and for everything else."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, fields, is_dataclass
from typing import TYPE_CHECKING

from pydantic import BaseModel
from pydantic.alias_generators import to_camel

from autoscaler.config.document import Location, one_line, path_of
from autoscaler.config.durations import format_seconds
from autoscaler.config.fields import Address
from autoscaler.config.settings import Config
from autoscaler.config.spec_model import SOURCES
from autoscaler.core import quantity
from autoscaler.core.extensions import Extensions, Fallback, FallbackBehavior, PauseMode
from autoscaler.core.selectors import LabelSelector
from autoscaler.core.spec import MetricSpec
from autoscaler.core.target import Query, Target

if TYPE_CHECKING:
    from _typeshed import DataclassInstance

AT_RESTART = (
    "stateDirectory",
    "record",
    "listen",
    "web",
    "leaderElection",
    "kubernetes.kubeconfig",
    "kubernetes.context",
)
"""The keys whose changes take effect when the daemon starts again."""

_LATE = tuple(f"{key}." for key in AT_RESTART)
_HIDDEN = "(not shown)"
_SECRET = {"headers", "queryParameters", "endpointParams"}
"""The keys below `prometheus` whose values may be secrets."""
_QUANTITIES = {("target", "value"), ("target", "averageValue")}
_LONGEST_SHOWN = 200

_Parts = dict[str | int, object]
"""What a value consists of, by key or position in the YAML."""


@dataclass(frozen=True, slots=True)
class FieldChange:
    """A field that differs: where it stands in the YAML, and both values.

    None means absent.  Secrets are not among the values.
    """

    path: str
    before: str | None
    after: str | None

    def __str__(self) -> str:
        """Write it as ``maxReplicas: 10 -> 20``."""
        before, after = (
            "nothing" if value is None else one_line(value, _LONGEST_SHOWN)
            for value in (self.before, self.after)
        )
        return f"{self.path}: {before} -> {after}"


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
    """Say what a reload changes: values as they are in force, with defaults filled in.

    Where the targets stand, in which file and in which order, makes no difference.
    """
    old = {target.key: target for target in before.targets}
    new = {target.key: target for target in after.targets}
    both = (
        TargetChange(key, tuple(_changes(_of_target(old[key], before), _of_target(target, after))))
        for key, target in new.items()
        if key in old and target != old[key]
    )
    settings = tuple(_changes(_of_settings(before), _of_settings(after)))
    late = tuple(change for change in settings if f"{change.path}.".startswith(_LATE))
    return Comparison(
        added=tuple(key for key in new if key not in old),
        removed=tuple(key for key in old if key not in new),
        changed=tuple(change for change in both if change.fields),
        settings=tuple(change for change in settings if change not in late),
        at_restart=late,
    )


def _of_settings(config: Config) -> _Parts:
    left_out = {"path", "sources", "targets"}
    return {key: value for key, value in _parts(config).items() if key not in left_out}


def _of_target(target: Target, config: Config) -> _Parts:
    activations = target.extensions.activations or (0,) * len(target.queries)
    metrics = [
        _of_metric(metric) | _of_query(query) | {"activation": _quantity(activation)}
        for metric, query, activation in zip(
            target.spec.metrics, target.queries, activations, strict=True
        )
    ]
    own_period = None if target.sync_period == config.sync_period else target.sync_period
    return (
        _parts(target.spec)
        | {"metrics": metrics, "syncPeriod": own_period}
        | _of_extensions(target.extensions)
        | {
            "minReplicasQuery": _of_bound_query(target.min_replicas_query),
            "maxReplicasQuery": _of_bound_query(target.max_replicas_query),
        }
    )


def _of_metric(metric: MetricSpec) -> _Parts:
    return {"type": metric.type, SOURCES[metric.type]: metric}


def _quantity(milli: int) -> str | None:
    return quantity.format_milli(milli) if milli else None


def _of_extensions(extensions: Extensions) -> _Parts:
    pause = extensions.pause
    paused: object = pause is not None
    if pause is not None and pause.replicas is not None:
        paused = {"replicas": pause.replicas}
    elif pause is not None and pause.mode is not PauseMode.ALL:
        paused = pause.mode
    return {
        "idle": extensions.idle,
        "fallback": _of_fallback(extensions.fallback),
        "paused": paused,
        "schedules": extensions.schedules,
        "ignoreSurge": extensions.ignore_surge,
    }


def _of_fallback(fallback: Fallback | None) -> _Parts | None:
    """Leave out the count where the behavior needs none."""
    if fallback is None:
        return None
    unused = fallback.behavior is FallbackBehavior.CURRENT_REPLICAS
    return _parts(fallback) | ({"replicas": None} if unused else {})


def _of_query(query: Query) -> _Parts:
    """Leave out what follows from the PromQL and the window."""
    return _of_answer(query) | {"window": query.window, "labels": query.labels}


def _of_bound_query(query: Query | None) -> _Parts | None:
    return None if query is None else _of_answer(query)


def _of_answer(query: Query) -> _Parts:
    return {
        "query": query.promql,
        "server": query.server or None,
        "maxAge": query.max_age,
        "empty": "zero" if query.empty_is_zero else "fail",
        "nan": "zero" if query.nan_is_zero else "fail",
        "partial": "use" if query.use_partial else "hold",
    }


def _changes(before: object, after: object, place: Location = ()) -> Iterator[FieldChange]:
    """Walk to the values that differ."""
    if before == after:
        return
    old, new = _inside(before), _inside(after)
    if old is None and new is None:
        yield FieldChange(path_of(place), _shown(before, place), _shown(after, place))
        return
    for key in {**(old or {}), **(new or {})}:
        yield from _changes((old or {}).get(key), (new or {}).get(key), (*place, key))


def _inside(value: object) -> _Parts | None:
    """Return the parts of a value; None of what has none."""
    if isinstance(value, Mapping):
        return dict(value)
    if isinstance(value, tuple | list):
        return dict(enumerate(value))
    if isinstance(value, LabelSelector):
        labels = dict(value.match_labels)
        return {"matchLabels": labels, "matchExpressions": value.match_expressions}
    if isinstance(value, BaseModel) or (
        is_dataclass(value) and not isinstance(value, Address | type)
    ):
        return _parts(value)
    return None


def _parts(thing: "DataclassInstance | BaseModel") -> _Parts:
    """Return the fields of a dataclass or a model by their keys in the YAML."""
    if isinstance(thing, BaseModel):
        names = {name: field.alias for name, field in type(thing).model_fields.items()}
    else:
        names = {each.name: None for each in fields(thing)}
    return {alias or to_camel(name): getattr(thing, name) for name, alias in names.items()}


def _shown(value: object, place: Location) -> str | None:
    if value is None:
        return None
    if place[:1] == ("prometheus",) and not _SECRET.isdisjoint(place):
        return _HIDDEN
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, float) and place[-1] != "tolerance":
        return format_seconds(value)
    if isinstance(value, int):
        return _shown_number(value, place)
    return str(value) or '""'


def _shown_number(value: int, place: Location) -> str:
    if place[-2:] in _QUANTITIES:
        return quantity.format_milli(value)
    if place == ("record", "maxSize"):
        return quantity.format_milli(value * 1000, binary=True)
    return f"{value}%" if place == ("scaleDownBreaker", "share") else str(value)
