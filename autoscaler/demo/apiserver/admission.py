"""What happens to an object between a request and the store: decoding, defaults, validation.

Only what the served kinds need: names, replica counts, selectors and pod requests.  Schemas of
custom resources are not enforced beyond their replica count.
"""

import copy
import json
import re
import uuid

from autoscaler import clock
from autoscaler.demo.apiserver import paths, status
from autoscaler.demo.apiserver.objects import (
    KubeObject,
    labels,
    meta,
    random_suffix,
    timestamp,
    workload_selector,
)
from autoscaler.demo.apiserver.resources import (
    CRDS,
    NAMESPACES,
    PODS,
    REPLICATION_CONTROLLERS,
    WORKLOADS,
    Resource,
)
from autoscaler.demo.apiserver.status import FieldError

_SUBDOMAIN = re.compile(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*")
_BAD_NAME = (
    "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or "
    "'.', and must start and end with an alphanumeric character (e.g. 'example.com', regex used "
    "for validation is '[a-z0-9]([-a-z0-9]*[a-z0-9])?(\\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*')"
)
_SERVER_FIELDS = ("uid", "creationTimestamp", "generation", "deletionTimestamp")


def decode(body: bytes, group_version: str, kind: str, *, custom: bool) -> KubeObject:
    """Decode a body that must be an object of a kind.  Raises 400 and 422 as the server does."""
    said = body.decode(errors="replace")
    try:
        obj = json.loads(body)
    except ValueError as error:
        raise status.bad_request(
            f"the object provided is unrecognized (must be of type {kind}): couldn't get "
            f"version/kind; json parse error: {error} ({said[:64]})"
        ) from None
    if not isinstance(obj, dict) or (custom and not obj.get("kind")):
        raise status.bad_request(
            f"the object provided is unrecognized (must be of type {kind}): "
            f"Object 'Kind' is missing in '{said[:64]}' ({said[:64]})"
        )
    check_shape(obj)
    given = obj.setdefault("kind", kind)
    version = obj.setdefault("apiVersion", group_version)
    if (given, version) == (kind, group_version):
        return obj
    if custom and given != kind:
        wrong = FieldError("kind", f'Invalid value: "{given}": must be {kind}')
        group = group_version.partition("/")[0]
        raise status.invalid(given, group, meta(obj).get("name", ""), [wrong])
    raise status.bad_request(
        f'{given} in version "{version.rpartition("/")[2]}" cannot be handled as a {kind}: '
        f'no kind "{given}" is registered here for version "{version}"'
    )


def check_shape(obj: KubeObject) -> None:
    """Raise 400 if a part that must be an object is none."""
    for part in ("metadata", "spec", "status"):
        if not isinstance(obj.get(part, {}), dict):
            raise status.bad_request(
                f"json: cannot unmarshal {json.dumps(obj[part])} into {part}: no object"
            )


def for_create(resource: Resource, namespace: str, obj: KubeObject) -> KubeObject:
    """Return a new object as the server stores it.  Raises ApiError if the server refuses it."""
    made = copy.deepcopy(obj)
    metadata = made.setdefault("metadata", {})
    check_namespace(namespace, metadata)
    if metadata.pop("resourceVersion", "") not in {"", "0"}:
        raise status.ApiError(500, "", "resourceVersion should not be set on objects to be created")
    for name in (*_SERVER_FIELDS, "managedFields", "selfLink"):
        metadata.pop(name, None)
    if not metadata.get("name") and metadata.get("generateName"):
        metadata["name"] = metadata["generateName"] + random_suffix()
    if namespace:
        metadata["namespace"] = namespace
    metadata["uid"] = str(uuid.uuid4())
    metadata["creationTimestamp"] = timestamp(clock.wall())
    if resource is not NAMESPACES:
        metadata["generation"] = 1
    if resource.status:
        made.pop("status", None)
    _default(resource, made)
    _validate(resource, made, _name_errors(made))
    return made


def for_update(resource: Resource, old: KubeObject, new: KubeObject, part: str) -> KubeObject:
    """Return the object after an update of it, or of its status if ``part`` says so.

    Raises Conflict for a resourceVersion or uid that is not the object's.
    """
    metadata = meta(new)
    name = meta(old)["name"]
    check_version(resource, old, metadata)
    made = {**new, "metadata": {**metadata}}
    for field in (*_SERVER_FIELDS, "resourceVersion"):
        made["metadata"].pop(field, None)
        if field in meta(old):
            made["metadata"][field] = meta(old)[field]
    if part == "status":
        made = {**old, "status": new.get("status", {})}
    elif resource.status:
        made.pop("status", None)
        if "status" in old:
            made["status"] = old["status"]
    _default(resource, made)
    errors = []
    if resource in WORKLOADS and resource is not REPLICATION_CONTROLLERS:
        selector = (made.get("spec") or {}).get("selector")
        if selector != old["spec"]["selector"]:
            said = json.dumps(selector, separators=(",", ":"))
            errors.append(FieldError("spec.selector", f"Invalid value: {said}: field is immutable"))
    _validate(resource, made, errors)
    if made.get("spec") != old.get("spec") and "generation" in meta(old):
        made["metadata"]["generation"] = meta(old)["generation"] + 1
    made["metadata"]["name"] = name
    return made


def check_name(url_name: str, metadata: KubeObject) -> None:
    """Raise 400 for a body whose name is not the URL's."""
    name = metadata.get("name", "")
    if name != url_name:
        raise status.bad_request(
            f"the name of the object ({name}) does not match the name on the URL ({url_name})"
        )


def check_namespace(namespace: str, metadata: KubeObject) -> None:
    """Raise 400 for a body whose namespace is not the URL's."""
    if metadata.get("namespace", namespace) != namespace:
        raise status.bad_request(
            "the namespace of the provided object does not match the namespace sent on the request"
        )


def check_version(resource: Resource, old: KubeObject, metadata: KubeObject) -> None:
    """Raise Conflict for a resourceVersion or a uid that the object does not have."""
    name, uid = meta(old)["name"], metadata.get("uid", "")
    given = str(metadata.get("resourceVersion", ""))
    if given and not given.isdecimal():
        message = f'strconv.ParseUint: parsing "{given}": invalid syntax'
        raise status.ApiError(500, "", message)
    if uid and uid != meta(old)["uid"]:
        why = (
            f"Precondition failed: UID in precondition: {uid}, "
            f"UID in object meta: {meta(old)['uid']}"
        )
        raise status.conflict(resource, name, why)
    if given not in {"", "0"} and given != meta(old).get("resourceVersion"):
        raise status.conflict(resource, name)


def _default(resource: Resource, obj: KubeObject) -> None:
    if resource in WORKLOADS:
        spec = obj.setdefault("spec", {})
        if spec.get("replicas") is None:
            spec["replicas"] = 1
        if resource is REPLICATION_CONTROLLERS:
            pod_labels = labels(spec.get("template") or {})
            spec["selector"] = spec.get("selector") or pod_labels
            meta(obj).setdefault("labels", pod_labels)
    elif resource is PODS:
        for container in (obj.get("spec") or {}).get("containers") or ():
            resources = container.setdefault("resources", {})
            if resources.get("limits"):
                resources["requests"] = {**resources["limits"], **resources.get("requests", {})}
        obj.setdefault("status", {"phase": "Pending", "qosClass": "BestEffort"})
    elif resource is NAMESPACES:
        own = {"kubernetes.io/metadata.name": meta(obj).get("name", "")}
        meta(obj)["labels"] = {**labels(obj), **own}
        obj.setdefault("spec", {"finalizers": ["kubernetes"]})
        obj.setdefault("status", {"phase": "Active"})
    elif resource is CRDS:
        obj.setdefault("status", _established(obj))


def _established(crd: KubeObject) -> KubeObject:
    now = timestamp(clock.wall())
    conditions = [
        {"type": kind, "status": "True", "lastTransitionTime": now, "reason": reason}
        for kind, reason in (
            ("NamesAccepted", "NoConflicts"),
            ("Established", "InitialNamesAccepted"),
        )
    ]
    spec = crd.get("spec") or {}
    stored = [v["name"] for v in spec.get("versions") or () if v.get("storage")]
    return {
        "conditions": conditions,
        "acceptedNames": spec.get("names", {}),
        "storedVersions": stored,
    }


def _name_errors(obj: KubeObject) -> list[FieldError]:
    name = meta(obj).get("name", "")
    if not name:
        message = "Required value: name or generateName is required"
        return [FieldError("metadata.name", message, "FieldValueRequired")]
    if not _SUBDOMAIN.fullmatch(name):
        return [FieldError("metadata.name", f'Invalid value: "{name}": {_BAD_NAME}')]
    return []


def _validate(resource: Resource, obj: KubeObject, errors: list[FieldError]) -> None:
    found = list(errors)
    if resource in WORKLOADS:
        found += _workload_errors(resource, obj)
    elif resource is CRDS:
        spec = obj.get("spec") or {}
        expected = f"{(spec.get('names') or {}).get('plural')}.{spec.get('group')}"
        if meta(obj).get("name") != expected:
            message = (
                f'Invalid value: "{meta(obj).get("name")}": '
                'must be spec.names.plural+"."+spec.group'
            )
            found.append(FieldError("metadata.name", message))
    elif resource.custom and resource.scale:
        found += _count_errors(obj, resource.scale.spec_replicas)
    if found:
        raise status.invalid(resource.kind, resource.group, meta(obj).get("name", ""), found)


def _workload_errors(resource: Resource, obj: KubeObject) -> list[FieldError]:
    spec, found = obj["spec"], []
    replicas = spec["replicas"]
    if not isinstance(replicas, int) or isinstance(replicas, bool):
        raise status.bad_request(not_a_count(resource.kind, f"{resource.kind}Spec", replicas))
    if replicas < 0:
        message = f"Invalid value: {replicas}: must be greater than or equal to 0"
        found.append(FieldError("spec.replicas", message))
    if not spec.get("selector"):
        found.append(FieldError("spec.selector", "Required value", "FieldValueRequired"))
    pod_labels = labels(spec.get("template") or {})
    if not spec.get("selector") or not workload_selector(obj).matches(pod_labels):
        said = json.dumps(pod_labels, separators=(",", ":"))
        message = f"Invalid value: {said}: `selector` does not match template `labels`"
        found.append(FieldError("spec.template.metadata.labels", message))
    return found


def not_a_count(kind: str, struct: str, value: object) -> str:
    """Return the sentence of Go's decoder for a replica count that is no integer."""
    named = {str: "string", bool: "bool", float: f"number {value}", dict: "object", list: "array"}
    return (
        f'{kind} in version "v1" cannot be handled as a {kind}: json: cannot unmarshal '
        f"{named.get(type(value), 'value')} into Go struct field {struct}.spec.replicas of type "
        "int32"
    )


def _count_errors(obj: KubeObject, path: str) -> list[FieldError]:
    count = paths.get(obj, path)
    if count is None or (isinstance(count, int) and count >= 0):
        return []
    if isinstance(count, int):
        return [FieldError(path, f"Invalid value: {count}: should be a non-negative integer")]
    message = f"Invalid value: 0: {path} accessor error: {count} is not of the expected type int64"
    return [FieldError(path, message)]
