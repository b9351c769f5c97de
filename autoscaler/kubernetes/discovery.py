"""The resource that serves a kind, and a core Scale from JSON: of its scale, or of the object.

A scale that is read from the object equals the answer of GET scale.
"""

import re
import threading
from collections.abc import Callable
from dataclasses import dataclass
from sys import intern
from urllib.parse import quote

from autoscaler import clock
from autoscaler.core.numbers import INT32_MAX
from autoscaler.core.observation import Scale
from autoscaler.core.spec import ScaleTargetRef
from autoscaler.core.text import printable
from autoscaler.kubernetes.api import MALFORMED, Api, JsonObject, path_of
from autoscaler.kubernetes.failures import Failure, malformed, typed

ScaleOf = Callable[[JsonObject, Scale | None], Scale]
"""Reads the scale of an object, given the last one, if any; raises one of MALFORMED."""

FieldPath = tuple[str, ...]
"""The path of a field, such as ``("spec", "replicas")``."""

REPLICAS = ("spec", "replicas")
_LONGEST_MANAGER = 128
"""The API server's limits."""
_ANNOTATION_PREFIX = "autoscaler/"
_MOST_ANNOTATIONS, _LONGEST_ANNOTATION = 16, 100
_NOT_FOUND = 404
_LONGEST_PATH, _LONGEST_KINDS = 200, 500
_LABEL = re.compile(r"[a-z0-9][a-z0-9-]{0,62}")
_FIELD_PATH = re.compile(r"(?:\.[A-Za-z0-9_$-]+)+")


# -- the scale subresource -------------------------------------------------------------------------


def scale_of(answer: JsonObject | Failure, server: str) -> Scale | Failure:
    """Read a Scale, also of `extensions/v1beta1`; an absent count is 0, as the API omits zeros."""
    if isinstance(answer, Failure):
        return answer
    try:
        metadata, spec = answer["metadata"], answer.get("spec") or {}
        status = answer.get("status") or {}
        selector = status.get("selector", "")
        return typed(
            Scale(
                spec_replicas=checked_count(spec.get("replicas", 0)),
                status_replicas=checked_count(status.get("replicas", 0)),
                selector=selector if isinstance(selector, str) else status["targetSelector"],
                resource_version=metadata.get("resourceVersion", ""),
                uid=metadata.get("uid", ""),
            )
        )
    except MALFORMED:
        return malformed(server, "something that is not a Scale")


# -- workloads that every API server has -----------------------------------------------------------


def _of_workload(obj: JsonObject, last: Scale | None) -> Scale:
    """Read a Deployment and the like; the API's defaulting makes an absent `spec.replicas` 1."""
    spec, status = obj["spec"], obj.get("status") or {}
    counts = checked_count(spec.get("replicas", 1)), checked_count(status.get("replicas", 0))
    return _make_scale(obj, counts, intern(selector_text(spec.get("selector"))), last, REPLICAS)


def _of_replication_controller(obj: JsonObject, last: Scale | None) -> Scale:
    selector = {"matchLabels": obj["spec"].get("selector")}
    return _of_workload({**obj, "spec": {**obj["spec"], "selector": selector}}, last)


def selector_text(selector: JsonObject | None) -> str:
    """Return a LabelSelector as Go's `labels.Selector.String()`; raises one of MALFORMED."""
    if not selector:
        return ""
    terms = [(key, f"{key}={value}") for key, value in (selector.get("matchLabels") or {}).items()]
    terms += [_term(requirement) for requirement in selector.get("matchExpressions") or ()]
    # Go's sort is stable for lists of this length.
    terms.sort(key=lambda term: term[0])
    return ",".join(text for _, text in terms)


def _term(requirement: JsonObject) -> tuple[str, str]:
    key, operator = requirement["key"], requirement["operator"]
    if operator == "Exists":
        return key, key
    if operator == "DoesNotExist":
        return key, f"!{key}"
    if operator not in {"In", "NotIn"}:
        raise ValueError(f"{operator!r} is not an operator of a label selector")
    return key, f"{key} {operator.lower()} ({','.join(sorted(requirement['values']))})"


# -- custom resources ------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class ScalePaths:
    """`CustomResourceSubresourceScale`, each path as the names of its steps."""

    spec_replicas: FieldPath
    status_replicas: FieldPath
    selector: FieldPath
    """Empty if the definition declares none."""

    def read(self, obj: JsonObject, last: Scale | None) -> Scale:
        """Read the scale from an object as the API server does; it is a `ScaleOf`."""
        spec = _count(obj, self.spec_replicas)
        if spec is None:
            raise ValueError(f"the spec replicas field {self.spec_replicas} does not exist")
        selector = _value(obj, self.selector) if self.selector else None
        if selector is not None and not isinstance(selector, str):
            raise ValueError(f"{selector!r} is not a selector in string form")
        counts = (spec, _count(obj, self.status_replicas) or 0)
        return _make_scale(obj, counts, selector or "", last, self.spec_replicas)


def _value(obj: JsonObject, path: FieldPath) -> object:
    value: object = obj
    for step in path:
        if value is None:
            return None
        if not isinstance(value, dict):
            raise TypeError(f"{'.'.join(path)}: the parent of {step} is not an object")
        if step not in value:
            return None
        value = value[step]
    if value is None:
        raise ValueError(f"{'.'.join(path)} is null")
    return value


def _count(obj: JsonObject, path: FieldPath) -> int | None:
    value = _value(obj, path)
    return None if value is None else checked_count(value)


def checked_count(value: object) -> int:
    """Return a count of replicas; raises ValueError."""
    if type(value) is not int or not 0 <= value <= INT32_MAX:
        raise ValueError("not a number of replicas")
    return value


def read_paths(api: Api, resource: "ScalableResource", deadline: float) -> ScalePaths | Failure:
    """Return the paths of a custom resource's scale, from its CustomResourceDefinition."""
    name = resource.qualified
    answer = api.get(f"/apis/apiextensions.k8s.io/v1/customresourcedefinitions/{name}", deadline)
    if isinstance(answer, Failure):
        return answer
    try:
        versions = answer["spec"]["versions"]
        version = next(each for each in versions if each["name"] == resource.version)
        scale = version["subresources"]["scale"]
        paths = [scale["specReplicasPath"], scale["statusReplicasPath"]]
        paths += filter(None, [scale.get("labelSelectorPath")])
        wrong = next((path for path in paths if not _FIELD_PATH.fullmatch(path)), None)
    except (*MALFORMED, StopIteration):
        return malformed(api.server, f"a definition of {name} without the paths of its scale")
    if wrong is not None:
        why = f"the definition of {name} has a path that cannot be followed"
        return _unknown(f"{why}: {api.redactor.line(wrong, _LONGEST_PATH)}")
    spec, status, *selector = (tuple(path.split(".")[1:]) for path in paths)
    return ScalePaths(spec, status, *(selector or [()]))


# -- what all objects have -------------------------------------------------------------------------


def _make_scale(
    obj: JsonObject,
    counts: tuple[int, int],
    selector: str,
    last: Scale | None,
    replicas_path: FieldPath,
) -> Scale:
    """Return an object's scale; the manager is searched again only if the count has changed."""
    metadata = obj["metadata"]
    uid, manager = metadata.get("uid", ""), ""
    if last is not None:
        uid = last.uid if last.uid == uid else uid  # Keep one copy of the text.
        manager = last.replicas_by if last.spec_replicas == counts[0] else ""
    return typed(
        Scale(
            *counts,
            selector,
            metadata["resourceVersion"],
            uid,
            manager or manager_of(obj, replicas_path),
            metadata.get("generation", 0),
            annotations_of(metadata),
        )
    )


def annotations_of(metadata: JsonObject) -> tuple[tuple[str, str], ...]:
    """Return our annotations, sorted, few and short, since they are cached; raises MALFORMED."""
    every = metadata.get("annotations") or {}
    ours = sorted(key for key in every if key.startswith(_ANNOTATION_PREFIX))[:_MOST_ANNOTATIONS]
    return tuple(
        [(intern(printable(key)), printable(every[key], _LONGEST_ANNOTATION)) for key in ours]
    )


def manager_of(obj: JsonObject, path: FieldPath) -> str:
    """Return the field manager that owns a field, the latest of several; empty for none.

    Times are in UTC, so their texts sort like the instants; an entry for the scale subresource has
    no time, and its manager takes the field from all others.
    """
    owner, latest = "", ""
    try:
        for entry in obj["metadata"].get("managedFields") or ():
            if entry.get("time", "") >= latest and _includes(entry.get("fieldsV1"), path):
                owner, latest = entry.get("manager", ""), entry.get("time", "")
        return intern(printable(owner, _LONGEST_MANAGER))
    except MALFORMED:
        return ""


def _includes(fields: object, path: FieldPath) -> bool:
    """Return whether a set of fields in the form of `fieldsV1` includes one."""
    for step in path:
        if not isinstance(fields, dict):
            return False
        fields = fields.get(f"f:{step}")
    return fields is not None


# -- kinds -----------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class ScalableResource:
    """A resource with a scale subresource, in one served version."""

    group: str
    version: str
    plural: str
    scale_api_version: str = "autoscaling/v1"

    @property
    def group_version(self) -> str:
        """The apiVersion of its objects."""
        return f"{self.group}/{self.version}" if self.group else self.version

    @property
    def qualified(self) -> str:
        """Its name with the group."""
        return f"{self.plural}.{self.group}" if self.group else self.plural

    @property
    def built_in(self) -> ScaleOf | None:
        """The reader of its objects' scales, if every API server has the resource."""
        return _READERS.get((self.group, self.plural))

    def path(self, namespace: str, name: str = "") -> str:
        """Return the path of the objects, or of one."""
        return path_of(self.group_version, self.plural, namespace, name)


# Known without a request: every version since 1.9 serves apps/v1 and v1.
_KINDS = {
    (group, kind): ScalableResource(group, "v1", f"{kind.lower()}s")
    for group, kind in (
        ("apps", "Deployment"),
        ("apps", "StatefulSet"),
        ("apps", "ReplicaSet"),
        ("", "ReplicationController"),
    )
}
_READERS = {
    (known.group, known.plural): _of_workload if known.group else _of_replication_controller
    for known in _KINDS.values()
}


class ScalableKinds:
    """Finds the resource of each kind once.

    The version of the reference is used if it serves the kind, else the group's preferred version,
    else any (semantics 1.1).
    """

    def __init__(self, api: Api) -> None:
        self._api = api
        self._lock = threading.Lock()
        self._discovered: dict[tuple[str, str], ScalableResource] = {}
        """By apiVersion and kind of a reference."""

    def find(
        self, ref: ScaleTargetRef, deadline: float, *, again: bool = False
    ) -> ScalableResource | Failure:
        """Return the resource; asks the server for the first reference to a kind, and ``again``."""
        key = (ref.api_version, ref.kind)
        known = None if again else self._discovered.get(key) or _KINDS.get((ref.group, ref.kind))
        if known is not None:
            return known
        # One thread asks, the others wait for its answer.
        if not self._lock.acquire(timeout=max(0.0, deadline - clock.monotonic())):
            return Failure("the kinds that the API server serves were not known in time")
        try:
            if again or key not in self._discovered:
                found = self._discover(ref, deadline)
                if isinstance(found, Failure):
                    return found
                self._discovered[key] = found
            return self._discovered[key]
        finally:
            self._lock.release()

    def _discover(self, ref: ScaleTargetRef, deadline: float) -> ScalableResource | Failure:
        versions = self._versions(ref, deadline)
        if isinstance(versions, Failure):
            return versions
        refusal: Failure | None = None
        for version in versions:
            path = f"/apis/{ref.group}/{version}" if ref.group else f"/api/{version}"
            found: JsonObject | ScalableResource | Failure = self._api.get(path, deadline)
            if isinstance(found, dict):
                try:
                    found = self._choose(ref, version, found)
                except MALFORMED:
                    what = f"no list of the resources of {ref.api_version}"
                    found = malformed(self._api.server, what)
            if isinstance(found, ScalableResource):
                return found
            refusal = refusal or found
        return refusal or _unknown(f"the API server serves no version of group {ref.group}")

    def _versions(self, ref: ScaleTargetRef, deadline: float) -> list[str] | Failure:
        if not ref.group:
            return ["v1"]
        if "/" in ref.group:
            return _unknown(f'apiVersion "{ref.api_version}" is not of the form group/version')
        answer = self._api.get(f"/apis/{quote(ref.group, safe='')}", deadline)
        if isinstance(answer, Failure):
            if answer.status != _NOT_FOUND:
                return answer
            return _unknown(
                f'the API server serves no group "{ref.group}" (kind {ref.kind}); '
                "is its CustomResourceDefinition installed?"
            )
        try:
            served = [_label(entry["version"]) for entry in answer["versions"]]
            preferred = answer["preferredVersion"]["version"]
        except MALFORMED:
            return malformed(self._api.server, f"no list of the versions of {ref.group}")
        wanted = ref.api_version.rpartition("/")[2]
        first = [version for version in (wanted, preferred) if version in served]
        return list(dict.fromkeys([*first, *served]))

    def _choose(
        self, ref: ScaleTargetRef, version: str, listed: JsonObject
    ) -> ScalableResource | Failure:
        """Return the resource of the kind; raises one of MALFORMED."""
        resources = {resource["name"]: resource for resource in listed["resources"]}
        kinds = {name: str(resource.get("kind", "")) for name, resource in resources.items()}
        own = [name for name, kind in kinds.items() if kind == ref.kind]
        plurals = [_label(name) for name in own if "/" not in name]
        for plural in plurals:
            scale = resources.get(f"{plural}/scale")
            if scale is not None and resources[plural].get("namespaced"):
                group, of = (str(scale.get(key) or "") for key in ("group", "version"))
                scale_version = f"{group}/{of}" if group and of else "autoscaling/v1"
                return typed(ScalableResource(ref.group, version, plural, scale_version))
        if plurals:
            full = ScalableResource(ref.group, version, plurals[0]).qualified
            return _unknown(f"kind {ref.kind} ({full}) has no scale subresource")
        own = sorted(kind for name, kind in kinds.items() if f"{name}/scale" in kinds)
        scalable = printable(", ".join(own), _LONGEST_KINDS)
        return _unknown(
            f'the API server serves no kind "{ref.kind}" in {ref.group or "the core group"}; '
            f"it can scale there: {scalable or 'nothing'}"
        )


def _label(name: str) -> str:
    """Return a name that is used in paths from now on; raises one of MALFORMED."""
    if not _LABEL.fullmatch(name):
        raise ValueError("not a DNS label")
    return name


def _unknown(message: str) -> Failure:
    """Return the failure for a resource that does not exist, like a 404 for its path."""
    return Failure(message, status=_NOT_FOUND)
