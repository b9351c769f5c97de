"""The rules between fields, as far as JSON Schema can say them; editors show them while typing.

`autoscaler.config.spec_rules` is what decides; tests hold the two to each other.
"""

from typing import TypeAlias

from pydantic import JsonValue

Schema: TypeAlias = dict[str, JsonValue]
Rules: TypeAlias = list[JsonValue]

_SOURCES = {
    "Resource": "resource",
    "ContainerResource": "containerResource",
    "Pods": "pods",
    "Object": "object",
    "External": "external",
}
_NOT_NULL: Schema = {"not": {"type": "null"}}


def has(key: str) -> Schema:
    """Require a key with a value; YAML's empty value counts as absent, as in Kubernetes."""
    return {"required": [key], "properties": {key: _NOT_NULL}}


def _target(rule: Schema) -> Rules:
    return [{"properties": {"target": rule}}]


def _one_of(*keys: str) -> Schema:
    return {"oneOf": [has(key) for key in keys]}


def _source(kind: str) -> Schema:
    others: Schema = {key: {"type": "null"} for name, key in _SOURCES.items() if name != kind}
    own = _SOURCES[kind]
    return {
        "if": {"properties": {"type": {"const": kind}}, "required": ["type"]},
        "then": {"required": [own], "properties": {own: _NOT_NULL, **others}},
    }


METRIC_SOURCES: Rules = [_source(kind) for kind in _SOURCES]
RESOURCE_TARGET = _target(_one_of("averageUtilization", "averageValue"))
PODS_TARGET = _target(has("averageValue"))
OBJECT_TARGET = _target({"anyOf": [has("value"), has("averageValue")]})
EXTERNAL_TARGET = _target(_one_of("value", "averageValue"))

SELECTOR_VALUES: Rules = [
    {
        "if": {"properties": {"operator": {"enum": ["In", "NotIn"]}}, "required": ["operator"]},
        "then": {
            "required": ["values"],
            "properties": {"values": {"type": "array", "minItems": 1}},
        },
        "else": {"properties": {"values": {"maxItems": 0}}},
    }
]

MIN_REPLICAS_ZERO: Rules = [
    {
        "if": {"properties": {"minReplicas": {"const": 0}}, "required": ["minReplicas"]},
        "then": {
            "required": ["metrics"],
            "properties": {
                "metrics": {
                    "type": "array",
                    "contains": {"properties": {"type": {"enum": ["Object", "External"]}}},
                }
            },
        },
    }
]

SCALE_TARGET_GROUP: Rules = [
    {
        "if": {
            "properties": {"kind": {"not": {"const": "ReplicationController"}}},
            "required": ["kind"],
        },
        "then": {
            "required": ["apiVersion"],
            "properties": {"apiVersion": {"type": "string", "pattern": "^[^/]+/"}},
        },
    }
]

TARGETS_OR_INCLUDE: Rules = [{"anyOf": [has("targets"), has("include")]}]
ONE_CREDENTIAL: Rules = [
    {"not": {"allOf": [has("bearerTokenFile"), has("basicAuth")]}},
]
CERTIFICATE_AND_KEY: Rules = [
    {"if": has("certFile"), "then": has("keyFile")},
    {"if": has("keyFile"), "then": has("certFile")},
]
