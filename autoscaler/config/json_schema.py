"""The JSON Schemas of the configuration's files, for editors and for `autoscaler schema`."""

from pydantic import JsonValue
from pydantic.json_schema import GenerateJsonSchema, JsonSchemaValue
from pydantic_core.core_schema import ModelSchema

from autoscaler.config.rules import rules_of
from autoscaler.config.settings import IncludedFile, MainFile


def json_schema(*, included: bool = False) -> dict[str, JsonValue]:
    """Return the schema (draft 2020-12) of the main file, or of one that it includes."""
    model = IncludedFile if included else MainFile
    tidied = _tidied(model.model_json_schema(schema_generator=_WithRules))
    if not isinstance(tidied, dict):
        raise TypeError("a JSON Schema is an object")
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "autoscaler targets" if included else "autoscaler configuration",
        **tidied,
        # Keys of the user's own, such as for anchors.
        "patternProperties": {"^x-": {}},
    }


class _WithRules(GenerateJsonSchema):
    """Adds the rules between fields to the models."""

    def model_schema(self, schema: ModelSchema) -> JsonSchemaValue:
        """Return the schema of a model."""
        result = super().model_schema(schema)
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
