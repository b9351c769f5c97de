"""The differences between two configurations or specifications: by field, without secrets."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from pydantic import BaseModel

from autoscaler.config.documents import Location, one_line, path_of
from autoscaler.config.durations import format_seconds
from autoscaler.config.settings import Config
from autoscaler.config.written import Parts, written
from autoscaler.core.target import Target
from autoscaler.quantities import format_milli

_AT_RESTART = (
    *("stateDirectory.", "record.", "listen.", "web.", "leaderElection."),
    *("kubernetes.kubeconfig.", "kubernetes.context."),
)
"""The keys whose changes take effect only when the daemon restarts."""

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
class Comparison:
    """The changes of a reload. Targets are named by their keys, in the order of the files."""

    added: tuple[str, ...] = ()
    removed: tuple[str, ...] = ()
    changed: Mapping[str, tuple[FieldChange, ...]] = field(default_factory=dict)
    """Targets that both have, with the fields that differ."""
    settings: tuple[FieldChange, ...] = ()
    """Fields other than targets, in force immediately."""
    at_restart: tuple[FieldChange, ...] = ()
    """Keys that are read only at the start of the daemon."""


def compare(before: Config, after: Config) -> Comparison:
    """Return the effective changes of a reload, regardless of the order and files of targets."""
    old = {target.key: target for target in before.targets}
    new = {target.key: target for target in after.targets}
    both = {
        key: tuple(field_changes(_of_target(old[key], before), _of_target(to, after)))
        for key, to in new.items()
        if key in old and to != old[key]
    }
    settings = tuple(field_changes(_of_settings(before), _of_settings(after)))
    late = tuple(change for change in settings if f"{change.path}.".startswith(_AT_RESTART))
    return Comparison(
        added=tuple(key for key in new if key not in old),
        removed=tuple(key for key in old if key not in new),
        changed={key: fields for key, fields in both.items() if fields},
        settings=tuple(change for change in settings if change not in late),
        at_restart=late,
    )


def only_targets_differ(before: Config, after: Config) -> bool:
    """Return whether two configurations have the same settings, including secrets."""
    settings = Config.model_fields.keys() - {"targets", "sources", "query_models"}
    return all(getattr(before, name) == getattr(after, name) for name in settings)


def _of_settings(config: Config) -> Mapping[str | int, object]:
    left_out = {"path", "sources", "targets", "queryModels"}
    return {key: value for key, value in (_inside(config) or {}).items() if key not in left_out}


def _of_target(target: Target, config: Config) -> Parts:
    own_period = target.sync_period != config.sync_period
    return written(target) | ({} if own_period else {"syncPeriod": None})


def field_changes(before: object, after: object, place: Location = ()) -> Iterator[FieldChange]:
    """Yield the values that differ between two results of `written` or two models."""
    if before == after:
        return
    old, new = _inside(before), _inside(after)
    if old is None and new is None:
        yield FieldChange(path_of(place), _value_text(before, place), _value_text(after, place))
    old, new = old or {}, new or {}
    for key in old | new:
        yield from field_changes(old.get(key), new.get(key), (*place, key))


def _inside(value: object) -> dict[str | int, object] | None:
    """Return the parts of a value by key or position in the YAML; None for a single value."""
    if isinstance(value, Mapping):
        return dict(value)
    if isinstance(value, tuple | list):
        return dict(enumerate(value))
    if isinstance(value, BaseModel):
        of = type(value).model_fields.items()
        return {field.alias or name: getattr(value, name) for name, field in of}
    return None


def _value_text(value: object, place: Location) -> str | None:
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
