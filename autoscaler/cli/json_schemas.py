"""The JSON Schemas of configurations, with the rules between fields."""

from typing import NamedTuple

from pydantic import BaseModel, JsonValue
from pydantic.json_schema import GenerateJsonSchema, JsonSchemaValue
from pydantic_core.core_schema import ModelSchema

from autoscaler.config.checks import rules_of
from autoscaler.config.settings import IncludedFile, MainFile


class SchemaFile(NamedTuple):
    """The subject of a JSON Schema: its title, the model, and the name of its file."""

    title: str
    model: type[BaseModel]
    file: str


_DEFINITIONS = "#/$defs/"

CONFIGURATION = SchemaFile("autoscaler configuration", MainFile, "autoscaler.schema.json")
INCLUDED = SchemaFile("autoscaler targets", IncludedFile, "autoscaler-targets.schema.json")


def json_schema(of: SchemaFile = CONFIGURATION) -> dict[str, JsonValue]:
    """Return the schema (draft 2020-12) of the main file, or of another one.

    Other schemas refer to the main schema's file, which must be in the same folder.
    """
    tidied = _tidied(of.model.model_json_schema(schema_generator=_RuleSchemaGenerator))
    if not isinstance(tidied, dict):
        raise TypeError("a JSON Schema is an object")
    found: dict[str, JsonValue] = {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": of.title,
        **tidied,
        # Keys of the user, such as for anchors.
        "patternProperties": {"^x-": {}},
    }
    return found if of is CONFIGURATION else _referring(found, json_schema())


def _referring(schema: dict[str, JsonValue], main: dict[str, JsonValue]) -> dict[str, JsonValue]:
    """Replace the definitions that the main schema has by references to them."""
    own, shared = schema["$defs"], main["$defs"]
    if not isinstance(own, dict) or not isinstance(shared, dict):
        raise TypeError("$defs is an object")
    same = {name for name, definition in own.items() if shared.get(name) == definition}
    elsewhere = {
        f"{_DEFINITIONS}{name}": f"{CONFIGURATION.file}{_DEFINITIONS}{name}" for name in same
    }

    def referring(value: JsonValue) -> JsonValue:
        if isinstance(value, list):
            return [referring(item) for item in value]
        if not isinstance(value, dict):
            return value
        return {
            key: elsewhere.get(item, item)
            if key == "$ref" and isinstance(item, str)
            else referring(item)
            for key, item in value.items()
        }

    kept: JsonValue = {name: item for name, item in own.items() if name not in same}
    return {key: referring(kept if key == "$defs" else item) for key, item in schema.items()}


class _RuleSchemaGenerator(GenerateJsonSchema):
    """Adds the rules between fields to the models."""

    def model_schema(self, schema: ModelSchema) -> JsonSchemaValue:
        result = super().model_schema(schema)
        if not getattr(schema["cls"], "has_rules", True):
            return result
        fragments = [rule.schema for rule in rules_of(schema["cls"]) if rule.schema]
        return result | {"allOf": fragments} if fragments else result


def _tidied(schema: JsonValue) -> JsonValue:
    """Drop pydantic's titles and empty defaults, and close the mappings of free names."""
    if isinstance(schema, list):
        return [_tidied(item) for item in schema]
    if not isinstance(schema, dict):
        return schema
    result: dict[str, JsonValue] = {}
    for key, value in schema.items():
        empty = key == "default" and value in (None, "")
        if empty or (key == "title" and isinstance(value, str)):
            continue
        if key == "patternProperties" and isinstance(value, dict) and len(value) == 1:
            (pattern, values), *_ = value.items()
            result["propertyNames"] = {"pattern": pattern}
            result["additionalProperties"] = _tidied(values)
        else:
            result[key] = _tidied(value)
    return result
