"""The parts of rules between fields: conditions, which are JSON Schema, and their sentences.

Rules read the plain document, not the models, so that they are reported together with errors of
form: a rule ignores a field with a wrong form.
"""

import functools
from collections.abc import Callable, Collection, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field
from itertools import combinations
from types import NoneType
from typing import Any, NamedTuple, TypeAlias, get_args

from pydantic import JsonValue

from autoscaler.config.documents import child, entries
from autoscaler.config.error_messages import closest, suggestion
from autoscaler.config.settings import DEFAULT_SERVER
from autoscaler.core.spec import MetricSpec

Schema: TypeAlias = dict[str, JsonValue]
Fields: TypeAlias = Mapping[str, object]
"""A mapping of the document as it is written; null in it counts as absent."""
PER_POD = tuple(kind.type for kind in get_args(MetricSpec) if kind.of_pods)
NO_ZERO_OF_PODS = (
    "`empty: zero` is for values, but this query returns samples of pods, which are never made up: "
    "leave it out"
)


class Context(NamedTuple):
    """What rules compare a mapping with."""

    pod_namespace: str | None = None
    """Of the pod that we run in; None outside a pod."""
    queries: Mapping[str, object] | None = None
    """`queries` of all files; None if they are not looked up."""
    resources: Mapping[str, AbstractSet[str]] | None = None
    """By Prometheus server: the resources with a query there; None if they are not looked up."""
    clusters: Mapping[str, str | None] | None = None
    """The names of `clusters`, each with its default server; None if they are not looked up."""
    target: Mapping[str, object] = {}
    """The target that contains the mapping, if any."""


@dataclass(frozen=True, slots=True)
class Rule:
    """A rule for the mappings that are validated against one model."""

    at: str
    """The key of the finding; empty for the mapping itself."""
    broken: Callable[[Fields, Context], object]
    """Returns the value for ``{}`` of the sentence, two as a tuple; falsy without a fault."""
    sentence: str
    """The sentence, with ``{}`` for each value."""
    schema: Schema = field(default_factory=dict)
    """The rule as JSON Schema of the mapping, as far as possible."""
    fixed_by: Sequence[str] = ()
    """Paths in the mapping; any of them would fix the fault."""
    shown: bool = False
    """Whether the finding shows the value at the place."""


_TYPES: dict[str, type] = {"array": list, "null": NoneType, "object": Mapping}


def accepts(schema: Any, value: Any) -> bool:
    """Return whether a value satisfies a schema with the keywords of the rules.

    A type precedes the other keywords, which apply to values of this type.
    """
    if "if" in schema:
        return not accepts(schema["if"], value) or accepts(schema["then"], value)
    return all(_KEYWORDS[keyword](wanted, value) for keyword, wanted in schema.items())


_KEYWORDS: Mapping[str, Callable[[Any, Any], bool]] = {
    "type": lambda names, value: isinstance(
        value, tuple(_TYPES[name] for name in ([names] if isinstance(names, str) else names))
    ),
    "enum": lambda choices, value: any(
        type(choice) is type(value) and choice == value for choice in choices
    ),
    "not": lambda schema, value: not accepts(schema, value),
    "allOf": lambda schemas, value: all(accepts(schema, value) for schema in schemas),
    "anyOf": lambda schemas, value: any(accepts(schema, value) for schema in schemas),
    "oneOf": lambda schemas, value: sum(accepts(schema, value) for schema in schemas) == 1,
    "required": lambda keys, value: (
        not isinstance(value, Mapping) or all(key in value for key in keys)
    ),
    "properties": lambda schemas, value: (
        not isinstance(value, Mapping)
        or all(accepts(schema, value[key]) for key, schema in schemas.items() if key in value)
    ),
    "items": lambda schema, value: all(accepts(schema, item) for item in value or ()),
    "maxItems": lambda most, value: len(value or ()) <= most,
}


def stated(
    at: str, schema: Schema, sentence: str, *, fixed_by: Sequence[str] = (), shown: bool = False
) -> Rule:
    """Return a rule that its schema expresses completely."""
    return Rule(
        at, lambda fields, _: not accepts(schema, fields), sentence, schema, fixed_by, shown
    )


def with_key(key: str, value: Schema) -> Schema:
    """Return the schema of a mapping with a key, and a schema for its value."""
    return {"required": [key], "properties": {key: value}}


def has(key: str) -> Schema:
    """Return the schema of a key with a value."""
    return with_key(key, {"not": {"type": "null"}})


def where(key: str, *values: JsonValue) -> Schema:
    """Return the schema of a key with one of some values."""
    return with_key(key, {"enum": [*values]})


def implies(condition: Schema, then: Schema) -> Schema:
    """Return the schema of an implication."""
    return {"if": condition, "then": then}


def properties(**schemas: JsonValue) -> Schema:
    """Return the schemas of the values of keys that are present."""
    return {"properties": schemas}


def not_both(key: str, other: str) -> Schema:
    """Return the schema in which one of two keys has no value."""
    return {"not": {"allOf": [has(key), has(other)]}}


def null(key: str) -> Schema:
    """Return the schema of a key without a value."""
    return {"properties": {key: {"type": "null"}}}


# A misspelt type is reported as such, and may have been meant for another one.
_METRIC_OF_PODS: Schema = {"type": "object", **where("type", *PER_POD)}
_METRICS_OF_PODS: Schema = {"type": ["array", "null"], "items": _METRIC_OF_PODS}
WITHOUT_PODS: Schema = {"not": properties(metrics=_METRICS_OF_PODS)}
"""The schema of a target with a metric that can be read without pods."""


def integer(fields: Fields, key: str, default: int | None = None) -> int | None:
    """Return a whole number, the default if it is absent; None for anything else."""
    value = fields.get(key)
    if value is None:
        return default
    return value if isinstance(value, int) and not isinstance(value, bool) else None


def given(fields: Fields, *keys: str) -> bool:
    """Return whether all keys have a value."""
    return all(fields.get(key) is not None for key in keys)


def needs(key: str, other: str) -> Rule:
    """Return the rule that a key requires another one."""
    sentence = f"needs {other} too (the same file, if it has both)"
    return stated(key, implies(has(key), has(other)), sentence)


def any_of(keys: Sequence[str], sentence: str) -> Rule:
    """Return the rule that at least one of some keys is present."""
    return stated("", {"anyOf": [has(key) for key in keys]}, sentence, fixed_by=keys)


def only_one_of(keys: Sequence[str], sentence: str) -> Rule:
    """Return the rule that at most one of some keys is present."""

    def several(fields: Fields, _: Context) -> str | None:
        found = [key for key in keys if given(fields, key)]
        return f"{', '.join(found[:-1])} and {found[-1]}" if len(found) > 1 else None

    pairs: JsonValue = [not_both(*pair) for pair in combinations(keys, 2)]
    return Rule("", several, sentence, {"allOf": pairs})


def repeated_name(around: Fields, key: str) -> object:
    """Return the first `name` of two entries in a list."""
    names = [child(entry, "name") for _, entry in entries(around, key)]
    return next((name for name in names if isinstance(name, str) and names.count(name) > 1), None)


def unknown_name(source: Fields, names: Collection[str] | None) -> str | None:
    """Return the known names; a source without its own query has no name."""
    name = source.get("name")
    if names is None or not isinstance(name, str) or source.get("query") is not None:
        return None
    return None if name in names else suggestion(name, names)


def clusters_named(target: Fields) -> list[str]:
    """Return the cluster names of a target that are texts."""
    names = (target.get("cluster"), *(name for _, name in entries(target, "clusters")))
    return [name for name in names if isinstance(name, str) and name.strip()]


def _unknown_server(key: str, fields: Fields, context: Context) -> str | None:
    name, servers = fields.get(key), context.resources
    if servers is None or not isinstance(name, str) or not name.strip() or name in servers:
        return None
    if len(servers) > 1 or closest(name, servers) is not None:
        return suggestion(name, servers)
    return f"none; {DEFAULT_SERVER} is the server at the top of `prometheus`"


def is_zero(query: object) -> bool:
    """Return whether a query takes an answer without series as 0."""
    return child(query, "empty") == "zero"


def server_rule(key: str) -> Rule:
    """Return the rule that a key names a server."""
    unknown = functools.partial(_unknown_server, key)
    return Rule(key, unknown, "unknown server in `prometheus.servers`: {}", shown=True)


SERVER = server_rule("server")
