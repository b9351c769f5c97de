"""Patches: RFC 7386 (merge) and the operations of RFC 6902 (JSON patch) that clients use."""

import copy
import json
from typing import Any

from autoscaler.demo.apiserver import status
from autoscaler.demo.apiserver.objects import KubeObject
from autoscaler.demo.apiserver.resources import Resource

MERGE = "application/merge-patch+json"
STRATEGIC = "application/strategic-merge-patch+json"
JSON_PATCH = "application/json-patch+json"


def apply(resource: Resource, content_type: str, body: bytes, obj: KubeObject) -> KubeObject:
    """Return the object with the patch applied; the object given is not changed.

    A strategic merge patch is merged as a plain one: lists are replaced whole, also those
    that Kubernetes merges by a key.  Raises 415 for another type and 400 for what is no patch.
    """
    accepted = (JSON_PATCH, MERGE) if resource.custom else (JSON_PATCH, MERGE, STRATEGIC)
    if content_type not in accepted:
        if resource.custom:
            raise status.unsupported_media_type(accepted)
        message = "415: Unsupported Media Type"
        raise status.ApiError(415, "UnsupportedMediaType", message, {})
    try:
        patch = json.loads(body)
    except ValueError as error:
        raise status.bad_request(f"error decoding patch: {error}") from None
    if content_type == JSON_PATCH:
        return _operations(obj, patch)
    if not isinstance(patch, dict):
        raise status.bad_request(
            "error decoding patch: json: cannot unmarshal array into Go value of type "
            "map[string]interface {}"
        )
    return merge(obj, patch)


def merge(target: KubeObject, patch: KubeObject) -> KubeObject:
    """Apply a merge patch: null removes, objects merge, everything else replaces."""
    merged = dict(target)
    for name, value in patch.items():
        if value is None:
            merged.pop(name, None)
        elif isinstance(value, dict):
            old = merged.get(name)
            merged[name] = merge(old if isinstance(old, dict) else {}, value)
        else:
            merged[name] = value
    return merged


def _operations(obj: KubeObject, patch: object) -> KubeObject:
    if not isinstance(patch, list):
        raise status.bad_request(
            "error decoding patch: json: cannot unmarshal object into Go value of type "
            "jsonpatch.Patch"
        )
    root: KubeObject = copy.deepcopy(obj)
    for operation in patch:
        try:
            _operate(root, operation)
        except (LookupError, TypeError, ValueError) as error:
            raise _rejected(f"the server rejected our request: {error}") from None
    return root


def _operate(root: KubeObject, operation: dict[str, Any]) -> None:
    *parents, last = [
        part.replace("~1", "/").replace("~0", "~") for part in operation["path"].split("/")[1:]
    ]
    holder: Any = root
    for part in parents:
        holder = holder[int(part)] if isinstance(holder, list) else holder[part]
    verb = operation["op"]
    if isinstance(holder, list):
        position = len(holder) if last == "-" else int(last)
        if verb == "add":
            holder.insert(position, operation["value"])
            return
        place: Any = position
    else:
        place = last
    if verb == "test":
        if holder[place] != operation["value"]:
            raise ValueError(f"testing value {operation['path']} failed")
    elif verb == "add":
        holder[place] = operation["value"]
    elif verb == "replace":
        holder[place] = (holder[place], operation["value"])[1]
    elif verb == "remove":
        del holder[place]
    else:
        raise ValueError(f"unexpected kind: {verb}")


def _rejected(message: str) -> status.ApiError:
    return status.ApiError(422, "Invalid", message, {})
