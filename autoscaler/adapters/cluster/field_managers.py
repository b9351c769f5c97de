"""Who set a field of an object, as its `metadata.managedFields` tell."""

from sys import intern
from typing import TypedDict, cast

from autoscaler.adapters.cluster.failures import MALFORMED, JsonObject
from autoscaler.core.text import printable

_LONGEST_NAME = 128
"""As the API server allows."""

FieldPath = tuple[str, ...]
"""The steps to a field, such as ``("spec", "replicas")``."""


class _Entry(TypedDict, total=False):
    manager: str
    time: str
    fieldsV1: dict[str, object]


class _MetadataJson(TypedDict, total=False):
    managedFields: list[_Entry] | None


class _ObjectJson(TypedDict, total=False):
    metadata: _MetadataJson


def manager_of(obj: JsonObject, path: FieldPath) -> str:
    """Return the field manager that owns a field; empty where nobody does, or none is told.

    Several own a field that they applied with the same value; the latest of them is taken.
    Times are `metav1.Time` in UTC, so that their texts compare as the instants do; who wrote the
    scale subresource has none, and takes the field from all others.
    """
    owner, latest = "", ""
    try:
        for entry in cast("_ObjectJson", obj)["metadata"].get("managedFields") or ():
            if entry.get("time", "") >= latest and _holds(entry.get("fieldsV1"), path):
                owner, latest = entry.get("manager", ""), entry.get("time", "")
        return intern(printable(owner, _LONGEST_NAME))
    except MALFORMED:
        return ""


def _holds(fields: object, path: FieldPath) -> bool:
    """Tell whether a set of fields in the form of `fieldsV1` holds one."""
    for step in path:
        if not isinstance(fields, dict):
            return False
        fields = fields.get(f"f:{step}")
    return fields is not None
