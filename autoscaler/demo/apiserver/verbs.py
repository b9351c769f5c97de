"""The verbs of the API on the resources that the stand-in serves."""

import json
from collections.abc import Callable, Iterator, Mapping
from typing import NamedTuple
from urllib.parse import parse_qsl, unquote, urlsplit

from autoscaler import clock
from autoscaler.core import selectors
from autoscaler.demo.apiserver.store import (
    DEPLOYMENTS,
    NAMESPACES,
    RESOURCES,
    KubeObject,
    ObjectStore,
    ServedResource,
    StatusError,
    StoreChange,
    UnknownPathError,
    bad_request,
    if_there,
    key,
    labels,
    meta,
    refused_object,
    typed,
)
from autoscaler.kubernetes.discovery import selector_text

Selection = Callable[[KubeObject | None], bool]
"""Returns whether an object is asked for; None is not."""


def selection(namespace: str, query: Mapping[str, str]) -> Selection:
    """Read the selectors of a query; an empty text matches all.  Raises `StatusError`."""
    try:
        selector = selectors.parse(query.get("labelSelector", ""))
    except ValueError as error:
        raise bad_request(f"unable to parse requirement: {error}") from None
    field_name, _, name = query.get("fieldSelector", "").partition("=")
    if field_name not in {"", "metadata.name"}:
        raise bad_request(f"field label not supported: {field_name}")

    def is_selected(obj: KubeObject | None) -> bool:
        if obj is None:
            return False
        own_namespace, own_name = key(obj)
        in_place = namespace in {"", own_namespace} and name in {"", own_name}
        return in_place and selector.matches(labels(obj))

    return is_selected


_LONGEST_SECONDS = 1800
_POLL_SECONDS = 1.0


def watch_events(
    store: ObjectStore,
    resource: ServedResource,
    namespace: str,
    query: Mapping[str, str],
    going: Callable[[], bool],
) -> Iterator[KubeObject | None]:
    """Read the query and return the stream, which yields None about each second without events.

    It begins after the query's `resourceVersion`, or now.  It ends at its `timeoutSeconds`, with a
    bookmark where they are allowed, or with one ERROR event, or when ``going`` returns False: the
    server stops, or the client disconnects.  An object that becomes selected is
    ADDED, one that is selected no more DELETED.  Raises `StatusError` for an invalid query.
    """
    asked = selection(namespace, query)
    version = _number(query, "resourceVersion") or store.version
    deadline = clock.monotonic() + (_number(query, "timeoutSeconds") or _LONGEST_SECONDS)
    bookmarks = query.get("allowWatchBookmarks") == "true"

    def stream(version: int) -> Iterator[KubeObject | None]:
        while going() and (left := deadline - clock.monotonic()) > 0:
            try:
                changes = store.changes_after(version, min(left, _POLL_SECONDS))
            except StatusError as refused:
                yield {"type": "ERROR", "object": refused.status}
                return
            for change in changes:
                version = change.version
                if change.resource == resource.qualified:
                    event = _event(change, asked)
                    if event is not None:
                        yield event
            if not changes:
                yield None
        if bookmarks and going():
            bookmark = typed(resource, {"metadata": {"resourceVersion": str(version)}})
            yield {"type": "BOOKMARK", "object": bookmark}

    return stream(version)


def _event(change: StoreChange, asked: Selection) -> KubeObject | None:
    """Return the watch event of a change, if it matches the request."""
    before, after = change.previous, change.current
    if after is not None and asked(after):
        return {"type": "MODIFIED" if asked(before) else "ADDED", "object": after}
    if before is not None and asked(before):
        metadata = {**meta(before), "resourceVersion": str(change.version)}
        return {"type": "DELETED", "object": {**before, "metadata": metadata}}
    return None


def _number(query: Mapping[str, str], name: str) -> int:
    """Read a number of a request, 0 without one.  Raises `StatusError` for other texts."""
    text = query.get(name) or "0"
    if not text.isdecimal():
        raise bad_request(f'{name}: Invalid value: "{text}"')
    return int(text)


MERGE_PATCH = "application/merge-patch+json"
APPLY_PATCH = "application/apply-patch+yaml"
_JSON = "application/json"
_SCALE_VERSION = "autoscaling/v1"
_SCALE_METADATA = ("name", "namespace", "uid", "resourceVersion", "creationTimestamp")
_SERVER_FIELDS = (*_SCALE_METADATA, "generation")
_MODIFIED = (
    "Operation cannot be fulfilled on {}: the object has been modified; please apply your changes "
    "to the latest version and try again"
)
_TRUE = frozenset({"1", "true"})


class ApiRequest(NamedTuple):
    """A request, its path divided into the parts of a resource's path."""

    method: str
    resource: ServedResource
    namespace: str
    name: str
    scale: bool
    query: Mapping[str, str]
    content_type: str
    body: bytes


class ApiAnswer(NamedTuple):
    """A status code and the object to send."""

    code: int
    body: KubeObject


WatchEvents = Iterator[KubeObject | None]
"""A stream of watch events; None means a moment without an event."""


def parse(method: str, target: str, content_type: str, body: bytes) -> ApiRequest:
    """Parse the path and query of a request.  Raises `UnknownPathError` for other paths."""
    url = urlsplit(target)
    parts = [unquote(part) for part in url.path.strip("/").split("/")]
    group, rest = ("", parts[1:]) if parts[0] == "api" else ("/".join(parts[1:2]), parts[2:])
    version, *rest = rest or [""]
    namespace = ""
    if rest[:1] == ["namespaces"] and len(rest) > 2:
        namespace, rest = rest[1], rest[2:]
    plural, name, subresource, *more = [*rest, "", "", ""]
    for resource in RESOURCES:
        if (resource.group, resource.version, resource.plural) == (group, version, plural):
            scale = subresource == "scale" and resource is DEPLOYMENTS
            reached = bool(namespace) or not name if resource.namespaced else not namespace
            if parts[0] not in {"api", "apis"} or any(more) or not reached:
                break
            if subresource and not scale:
                break
            query = dict(parse_qsl(url.query, keep_blank_values=True))
            plain = content_type.partition(";")[0].strip().lower()
            return ApiRequest(method, resource, namespace, name, scale, query, plain, body)
    raise UnknownPathError


class Verbs:
    """Carries out requests.  Its methods raise `StatusError`."""

    def __init__(self, store: ObjectStore) -> None:
        self._store = store

    def handle(self, request: ApiRequest, going: Callable[[], bool]) -> ApiAnswer | WatchEvents:
        """Answer one request; a watch ends once ``going`` returns False."""
        match request.method, bool(request.name):
            case "GET", True:
                return self._get(request)
            case "GET", False if request.query.get("watch", "").lower() in _TRUE:
                return watch_events(
                    self._store, request.resource, request.namespace, request.query, going
                )
            case "GET", False:
                return self._list(request)
            case "POST", False:
                return self._create(request)
            case (("PUT" | "PATCH"), True):
                return self._write(request)
            case "DELETE", True if not request.scale:
                return self._delete(request)
        message = "the server does not allow this method on the requested resource"
        raise StatusError(405, "MethodNotAllowed", message, {})

    def _get(self, request: ApiRequest) -> ApiAnswer:
        obj = self._store.get(request.resource, request.namespace, request.name)
        return ApiAnswer(200, _scale_of(obj) if request.scale else obj)

    def _list(self, request: ApiRequest) -> ApiAnswer:
        """List what is selected, all at once: a server need not heed a `limit`."""
        asked = selection(request.namespace, request.query)
        objects, version = self._store.list_all(request.resource)
        items = [
            {part: value for part, value in obj.items() if part not in {"kind", "apiVersion"}}
            for obj in objects
            if asked(obj)
        ]
        listed = {"metadata": {"resourceVersion": str(version)}, "items": items}
        kind = f"{request.resource.kind}List"
        return ApiAnswer(
            200, {**listed, "kind": kind, "apiVersion": request.resource.group_version}
        )

    def _create(self, request: ApiRequest) -> ApiAnswer:
        resource, obj = request.resource, _decode(request)
        if not meta(obj).get("name"):
            raise bad_request("name is required")
        if request.namespace:
            self._store.get(NAMESPACES, "", request.namespace)
        if resource is DEPLOYMENTS:
            spec = {"replicas": 1, **(obj.get("spec") or {})}
            if not {"selector", "template"} <= spec.keys():
                raise bad_request("spec.selector and spec.template are required")
            obj = {**obj, "spec": spec}
        return ApiAnswer(201, self._store.create(resource, request.namespace, obj))

    def _write(self, request: ApiRequest) -> ApiAnswer:
        """Update or patch an object or its scale."""
        body = _decode(request)

        def change(old: KubeObject) -> KubeObject:
            patched = request.method == "PATCH" and request.content_type == MERGE_PATCH
            new = _merged(_scale_of(old) if request.scale else old, body) if patched else body
            given = meta(new).get("resourceVersion", "")
            if given not in {"", meta(old)["resourceVersion"]}:
                raise refused_object(409, "Conflict", request.resource, request.name, _MODIFIED)
            if request.scale:
                written = _scaled(old, new, request)
            else:
                written = _updated(request.resource, old, new)
            if "generation" in meta(old) and written.get("spec") != old["spec"]:
                written["metadata"]["generation"] = meta(old)["generation"] + 1
            return written

        written = self._store.update(request.resource, request.namespace, request.name, change)
        return ApiAnswer(200, _scale_of(written) if request.scale else written)

    def _delete(self, request: ApiRequest) -> ApiAnswer:
        """Delete at once, a namespace with all that is in it."""
        deleted = self._store.delete(request.resource, request.namespace, request.name)
        if request.resource is NAMESPACES:
            for resource in RESOURCES:
                for obj in self._store.list_all(resource)[0]:
                    if key(obj)[0] == request.name:
                        with if_there():
                            self._store.delete(resource, *key(obj))
        return ApiAnswer(200, deleted)


def _decode(request: ApiRequest) -> KubeObject:
    """Read the body.  Raises 415 for another content type, 400 if it is not an object."""
    forms = {MERGE_PATCH, *([APPLY_PATCH] if request.scale else [])}
    if request.content_type not in (forms if request.method == "PATCH" else {_JSON}):
        message = "the body of the request was in an unknown format"
        raise StatusError(415, "UnsupportedMediaType", message)
    try:
        obj = json.loads(request.body)
    except ValueError as error:
        raise bad_request(f"json parse error: {error}") from None
    if not isinstance(obj, dict) or any(
        not isinstance(obj.get(part) or {}, dict) for part in ("metadata", "spec")
    ):
        raise bad_request("the object, its metadata or its spec is not an object")
    return obj


def _merged(obj: object, patch: KubeObject) -> KubeObject:
    """Apply a merge patch (RFC 7386): null removes, objects merge, all else replaces."""
    merged = dict(obj) if isinstance(obj, dict) else {}
    for name, value in patch.items():
        if value is None:
            merged.pop(name, None)
        else:
            merged[name] = _merged(merged.get(name), value) if isinstance(value, dict) else value
    return merged


def _updated(resource: ServedResource, old: KubeObject, new: KubeObject) -> KubeObject:
    """Return the object after an update: what the server keeps of it stays."""
    own = {part: meta(old)[part] for part in _SERVER_FIELDS if part in meta(old)}
    status = {"status": old["status"]} if "status" in old else {}
    return typed(resource, {**new, **status, "metadata": {**meta(new), **own}})


def _scale_of(obj: KubeObject) -> KubeObject:
    """Return the Scale of a Deployment, in which a count of zero is left out, as in Go."""
    replicas = obj["spec"]["replicas"]
    status = {
        "replicas": obj.get("status", {}).get("replicas", 0),
        "selector": selector_text(obj["spec"]["selector"]),
    }
    return {
        "kind": "Scale",
        "apiVersion": _SCALE_VERSION,
        "metadata": {part: meta(obj)[part] for part in _SCALE_METADATA if part in meta(obj)},
        "spec": {"replicas": replicas} if replicas else {},
        "status": status,
    }


def _scaled(obj: KubeObject, scale: KubeObject, request: ApiRequest) -> KubeObject:
    """Return a Deployment with the count of a Scale; a missing count is zero.

    Of its field managers only the count's is kept, so that none conflict.  An update to zero
    leaves none: it is left out of the Scale.
    """
    replicas = (scale.get("spec") or {}).get("replicas", 0)
    if not isinstance(replicas, int) or replicas < 0:
        raise bad_request(f"spec.replicas: Invalid value: {replicas}")
    applied = request.content_type == APPLY_PATCH
    managed: KubeObject = {
        "manager": request.query.get("fieldManager", ""),
        "operation": "Apply" if applied else "Update",
        "apiVersion": DEPLOYMENTS.group_version,
        "fieldsType": "FieldsV1",
        "fieldsV1": {"f:spec": {"f:replicas": {}}},
        "subresource": "scale",
    }
    managers = {"managedFields": [managed] if replicas or applied else []}
    spec, metadata = {**obj["spec"], "replicas": replicas}, {**meta(obj), **managers}
    return {**obj, "spec": spec, "metadata": metadata}
