"""Validators of the JSON Schemas, with the main one beside each, as editors find it."""

from jsonschema import Draft202012Validator
from referencing import Registry, Resource

from autoscaler.cli.json_schemas import CONFIGURATION, SchemaFile, json_schema


def validator(of: SchemaFile = CONFIGURATION) -> Draft202012Validator:
    """Return the validator of a file."""
    main = Resource.from_contents(json_schema())
    registry = Registry().with_resource(CONFIGURATION.file, main)
    return Draft202012Validator(json_schema(of), registry=registry)
