"""The verbs of the API on the resources that it serves."""

import base64
import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass

from autoscaler import clock
from autoscaler.demo.apiserver import admission, patch, scale, selection, status, watches
from autoscaler.demo.apiserver.objects import KubeObject, key, meta, timestamp
from autoscaler.demo.apiserver.registry import Registry
from autoscaler.demo.apiserver.requests import Request
from autoscaler.demo.apiserver.resources import CRDS, NAMESPACES, PODS, Resource
from autoscaler.demo.apiserver.store import ObjectStore

_BODIES = ("application/json",)
_BUILT_IN_BODIES = ("application/json", "application/yaml", "application/vnd.kubernetes.protobuf")


@dataclass(frozen=True, slots=True)
class Answer:
    """A status code and the object to send."""

    code: int
    body: KubeObject


@dataclass(frozen=True, slots=True)
class WatchAnswer:
    """A stream of watch events; None stands for a moment without one."""

    events: Iterator[KubeObject | None]


class Verbs:
    """Carries out the requests for resources.  Its methods raise `ApiError`."""

    def __init__(self, store: ObjectStore, registry: Registry) -> None:
        self._store = store
        self._registry = registry

    def handle(self, request: Request, going: Callable[[], bool]) -> Answer | WatchAnswer:
        """Answer one request; a watch ends once ``going`` returns False."""
        resource = self._registry.find(request)
        verb = request.verb
        if verb == "watch":
            chosen = selection.of(resource, request.namespace, request.query)
            return WatchAnswer(watches.events(self._store, resource, chosen, request.query, going))
        if verb == "list":
            return self._list(resource, request)
        if verb == "get":
            return self._get(resource, request)
        if verb in {"create", "delete"} and not request.subresource:
            _check_dry_run(request, verb)
            if verb == "delete":
                return self._delete(resource, request)
            if not request.name and bool(request.namespace) == resource.namespaced:
                return self._create(resource, request)
        if verb in {"update", "patch"}:
            if request.name:
                _check_dry_run(request, verb)
                return self._write(resource, request)
            if resource.custom:
                raise status.bad_request("name must be provided")
        raise status.method_not_allowed(resource, verb)

    def _get(self, resource: Resource, request: Request) -> Answer:
        found = self._store.get(resource, request.namespace, request.name)
        if request.subresource == "scale":
            return Answer(200, scale.read(resource, found))
        return Answer(200, _typed(resource, found))

    def _list(self, resource: Resource, request: Request) -> Answer:
        chosen = selection.of(resource, request.namespace, request.query)
        limit = selection.number(request.query, "limit")
        objects, version = self._store.list_all(resource)
        start = ("", "")
        if request.query.get("continue"):
            version, start = _read_token(request.query["continue"])
            objects = self._store.list_at(resource, version)
        else:
            _check_known(request.query.get("resourceVersion", ""), version)
        left = [obj for obj in objects if chosen.matches(obj) and key(obj) > start]
        page = left[:limit] if limit > 0 else left
        metadata: KubeObject = {"resourceVersion": str(version)}
        if len(page) < len(left):
            metadata["continue"] = _write_token(version, key(page[-1]))
            if not chosen.partial:
                metadata["remainingItemCount"] = len(left) - len(page)
        # Items of built-in lists name no kind, those of custom resources do.
        items = [_typed(resource, obj) if resource.custom else _untyped(obj) for obj in page]
        head = {"kind": f"{resource.kind}List", "apiVersion": resource.group_version}
        return Answer(200, {**head, "metadata": metadata, "items": items})

    def _create(self, resource: Resource, request: Request) -> Answer:
        obj = _decode(resource, request)
        if request.namespace:
            self._check_namespace(resource, request.namespace, meta(obj).get("name", ""))
        made = admission.for_create(resource, request.namespace, obj)
        made = self._store.create(resource, made, dry_run="dryRun" in request.query)
        return Answer(201, _typed(resource, made))

    def _check_namespace(self, resource: Resource, namespace: str, name: str) -> None:
        found = self._store.get(NAMESPACES, "", namespace)
        if "deletionTimestamp" in meta(found):
            cause = {
                "reason": "NamespaceTerminating",
                "message": f"namespace {namespace} is being terminated",
                "field": "metadata.namespace",
            }
            raise status.ApiError(
                403,
                "Forbidden",
                f'{resource.qualified} "{name}" is forbidden: unable to create new content in '
                f"namespace {namespace} because it is being terminated",
                {**status.details_of(resource, name), "causes": [cause]},
            )

    def _write(self, resource: Resource, request: Request) -> Answer:
        """Update or patch an object, its status or its scale."""
        scaled = request.subresource == "scale"
        put = _decode(resource, request) if request.verb == "update" else None
        if put is not None:
            _check_body(resource, request, put)

        def change(old: KubeObject) -> KubeObject:
            if scaled:
                new = put or _patched_scale(resource, request, old)
                return scale.apply(resource, old, new)
            new = put or _patched(resource, request, _typed(resource, old))
            admission.check_name(request.name, meta(new))
            made = admission.for_update(resource, old, new, request.subresource)
            return {**made, "kind": resource.kind, "apiVersion": resource.group_version}

        found = self._store.update(
            resource,
            request.namespace,
            request.name,
            change,
            dry_run="dryRun" in request.query,
        )
        body = scale.read(resource, found, lenient=True) if scaled else _typed(resource, found)
        return Answer(200, body)

    def _delete(self, resource: Resource, request: Request) -> Answer:
        options = _options(request.body)
        found = self._store.get(resource, request.namespace, request.name)
        admission.check_version(resource, found, options.get("preconditions") or {})
        if "dryRun" in request.query:
            return Answer(200, _typed(resource, found))
        grace = request.query.get("gracePeriodSeconds", options.get("gracePeriodSeconds"))
        if resource is NAMESPACES or (resource is PODS and _stays(found, grace)):
            return Answer(200, self._mark_deleted(resource, request))
        if resource is CRDS:
            self._delete_instances(found)
        found = self._store.delete(resource, request.namespace, request.name)
        if resource in {PODS, CRDS}:
            return Answer(200, _typed(resource, found))
        details = {**status.details_of(resource, request.name), "uid": meta(found)["uid"]}
        body = {"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Success"}
        return Answer(200, {**body, "details": details})

    def _mark_deleted(self, resource: Resource, request: Request) -> KubeObject:
        def mark(obj: KubeObject) -> KubeObject:
            if "deletionTimestamp" not in meta(obj):
                meta(obj)["deletionTimestamp"] = timestamp(clock.wall())
                if resource is NAMESPACES:
                    obj["status"] = {"phase": "Terminating"}
                else:
                    meta(obj)["deletionGracePeriodSeconds"] = 30
            return obj

        marked = self._store.update(resource, request.namespace, request.name, mark)
        return _typed(resource, marked)

    def _delete_instances(self, crd: KubeObject) -> None:
        for resource in self._registry.resources():
            if resource.custom and resource.qualified == meta(crd)["name"]:
                for obj in self._store.list_all(resource)[0]:
                    self._store.delete(resource, *key(obj))


def _stays(pod: KubeObject, grace: object) -> bool:
    """Return whether a deleted pod stays for now: for a finalizer, or until its node stopped it."""
    on_node = bool((pod.get("spec") or {}).get("nodeName")) and str(grace) != "0"
    return on_node or bool(meta(pod).get("finalizers"))


def _patched(resource: Resource, request: Request, obj: KubeObject) -> KubeObject:
    patched = patch.apply(resource, request.content_type, request.body, obj)
    admission.check_shape(patched)
    return patched


def _patched_scale(resource: Resource, request: Request, old: KubeObject) -> KubeObject:
    current = scale.read(resource, old, lenient=True)
    patched = _patched(resource, request, current)
    wrong = scale.check_count(patched)
    if wrong is not None:
        said = json.dumps(json.dumps(patched, separators=(",", ":")))
        reason = wrong.partition(": ")[2]
        error = status.FieldError("patch", f"Invalid value: {said}: {reason}")
        raise status.invalid("", "", "", [error])
    admission.check_name(request.name, meta(patched))
    return patched


def _options(body: bytes) -> KubeObject:
    """Read `DeleteOptions`, which may be left out."""
    try:
        options = json.loads(body or b"{}")
    except ValueError as error:
        raise status.bad_request(f"couldn't get version/kind; json parse error: {error}") from None
    return options if isinstance(options, dict) else {}


def _decode(resource: Resource, request: Request) -> KubeObject:
    accepted = _BODIES if resource.custom else _BUILT_IN_BODIES
    if request.content_type != "application/json":
        raise status.unsupported_media_type(accepted)
    if request.subresource != "scale":
        return admission.decode(
            request.body, resource.group_version, resource.kind, custom=resource.custom
        )
    obj = admission.decode(request.body, scale.GROUP_VERSION, "Scale", custom=False)
    wrong = scale.check_count(obj)
    if wrong is not None:
        raise status.bad_request(wrong)
    return obj


def _check_body(resource: Resource, request: Request, obj: KubeObject) -> None:
    admission.check_name(request.name, meta(obj))
    admission.check_namespace(request.namespace, meta(obj))
    given = meta(obj).get("resourceVersion", "")
    if resource.custom and request.subresource != "scale" and given in {"", "0"}:
        error = status.FieldError(
            "metadata.resourceVersion", "Invalid value: 0: must be specified for an update"
        )
        raise status.invalid(resource.plural, resource.group, request.name, [error])


def _check_dry_run(request: Request, verb: str) -> None:
    given = request.query.get("dryRun", "All")
    if given != "All":
        kind = f"{verb.capitalize()}Options"
        error = status.FieldError(
            "dryRun",
            f'Unsupported value: ["{given}"]: supported values: "All"',
            "FieldValueNotSupported",
        )
        raise status.invalid(kind, "meta.k8s.io", "", [error])


def _check_known(given: str, current: int) -> None:
    if not given:
        return
    if not given.isdecimal():
        raise status.bad_request(
            f'invalid resource version: resourceVersion: Invalid value: "{given}": '
            f'strconv.ParseUint: parsing "{given}": invalid syntax'
        )
    if int(given) > current:
        raise status.too_large(int(given), current)


def _typed(resource: Resource, obj: KubeObject) -> KubeObject:
    return {**obj, "kind": resource.kind, "apiVersion": resource.group_version}


def _untyped(obj: KubeObject) -> KubeObject:
    return {name: value for name, value in obj.items() if name not in {"kind", "apiVersion"}}


def _write_token(version: int, last: tuple[str, str]) -> str:
    return base64.urlsafe_b64encode(json.dumps([version, *last]).encode()).decode()


def _read_token(token: str) -> tuple[int, tuple[str, str]]:
    try:
        version, namespace, name = json.loads(base64.urlsafe_b64decode(token))
    except ValueError as error:
        raise status.bad_request(
            f"invalid continue token: continue key is not valid: {error}"
        ) from None
    return int(version), (str(namespace), str(name))
