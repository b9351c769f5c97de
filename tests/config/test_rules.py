"""The tables of rules: `load` refuses each fault, and so does the JSON Schema if it can."""

import json
from collections.abc import Iterator
from pathlib import Path

import pytest
from jsonschema import Draft202012Validator
from pydantic import JsonValue

from autoscaler.cli.json_schemas import CONFIGURATION, INCLUDED, json_schema
from autoscaler.config.documents import read
from tests.config import (
    test_document_rules,
    test_extension_rules,
    test_metric_rules,
    test_service_rules,
    test_target_rules,
)
from tests.config.documents import BEYOND_A_SCHEMA, assert_refused, loaded, with_servers
from tests.config.schemas import validator
from tests.narrowing import instance

FOLDER = Path(__file__).parents[2] / "config"
SCHEMA = json_schema()
VALIDATOR = Draft202012Validator(SCHEMA)


def value_of(text: str) -> JsonValue:
    """Read a document as `load` does, whatever is wrong with it."""
    value: JsonValue = json.loads(json.dumps(read(text, lambda *_: None)))
    return value


def test_the_schema_is_valid_by_draft_2020_12() -> None:
    Draft202012Validator.check_schema(SCHEMA)
    assert SCHEMA["$schema"] == "https://json-schema.org/draft/2020-12/schema"


def test_every_field_of_the_schema_has_a_description() -> None:
    for path, schema in properties(SCHEMA, ""):
        assert isinstance(schema.get("description"), str), path
        assert "Model" not in str(schema["description"]), path


def properties(schema: JsonValue, path: str) -> Iterator[tuple[str, dict[str, JsonValue]]]:
    """Walk the properties of all objects that the schema defines."""
    assert isinstance(schema, dict)
    own = instance(dict, schema.get("properties", {}))
    for name, value in own.items():
        assert isinstance(value, dict)
        yield f"{path}.{name}", value
    definitions = instance(dict, schema.get("$defs", {}))
    for name, definition in definitions.items():
        yield from properties(definition, name)


@pytest.mark.parametrize(
    ("text", "path", "fragment"),
    test_target_rules.ROWS
    + test_metric_rules.ROWS
    + test_document_rules.ROWS
    + test_extension_rules.ROWS
    + test_service_rules.ROWS,
)
def test_each_fault_is_refused_by_the_loader_and_the_schema(
    tmp_path: Path, text: str, path: str, fragment: str
) -> None:
    assert_refused(tmp_path, text, path, fragment)
    assert VALIDATOR.is_valid(value_of(text)) == (text in BEYOND_A_SCHEMA)


@pytest.mark.parametrize(
    "text",
    test_target_rules.FINE
    + test_metric_rules.FINE
    + test_service_rules.FINE
    + test_extension_rules.FINE,
)
def test_a_valid_document_is_accepted_by_the_loader_and_the_schema(
    tmp_path: Path, text: str
) -> None:
    loaded(tmp_path, with_servers(text))
    assert [error.message for error in VALIDATOR.iter_errors(value_of(text))] == []


def test_only_keys_at_the_top_that_begin_with_x_are_free() -> None:
    for of in (CONFIGURATION, INCLUDED):
        document = {"prometheus": {"url": "http://p"}} if of is CONFIGURATION else {}
        assert validator(of).is_valid(document | {"targets": [], "x-common": {"a": 1}})
        assert not validator(of).is_valid(document | {"targets": [], "common": {"a": 1}})
