"""Discovery: which resource serves a kind, and where a custom resource keeps its scale."""

import re
import threading
from dataclasses import dataclass
from typing import TypedDict, cast
from urllib.parse import quote

from autoscaler import clock
from autoscaler.adapters.cluster.api import Api
from autoscaler.adapters.cluster.failures import Failure, malformed
from autoscaler.adapters.cluster.objects import JsonObject, path_of
from autoscaler.adapters.cluster.scale_json import ScalePaths
from autoscaler.core.spec import ScaleTargetRef

_NOT_FOUND = 404
_LONGEST_PATH = 200
_FIELD_PATH = re.compile(r"(?:\.[A-Za-z0-9_$-]+)+")


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

    def scale_path(self, namespace: str, name: str) -> str:
        """Return the path of one object's scale."""
        return f"{path_of(self.group_version, self.plural, namespace, name)}/scale"


class _ResourceJson(TypedDict, total=False):
    name: str
    kind: str
    namespaced: bool
    group: str
    version: str


class _VersionJson(TypedDict):
    version: str


class _GroupJson(TypedDict):
    versions: list[_VersionJson]
    preferredVersion: _VersionJson


_BUILT_IN = {
    ("apps", "Deployment"): ScalableResource("apps", "v1", "deployments"),
    ("apps", "StatefulSet"): ScalableResource("apps", "v1", "statefulsets"),
    ("apps", "ReplicaSet"): ScalableResource("apps", "v1", "replicasets"),
    ("", "ReplicationController"): ScalableResource("", "v1", "replicationcontrollers"),
}
"""Known without a request: every version since 1.9 serves apps/v1 and v1."""


class _ScalePathsJson(TypedDict, total=False):
    specReplicasPath: str
    statusReplicasPath: str
    labelSelectorPath: str


class _SubresourcesJson(TypedDict, total=False):
    scale: _ScalePathsJson


class _DefinitionJson(TypedDict, total=False):
    name: str
    subresources: _SubresourcesJson


class ScalableKinds:
    """Finds the resource of each kind once.

    As the HPA does it: the version of the reference is used if the kind is served in it, else the
    group's preferred version, else any (semantics 1.1).
    """

    def __init__(self, api: Api) -> None:
        self._api = api
        self._lock = threading.Lock()
        self._known: dict[tuple[str, str], ScalableResource] = {}

    def find(self, ref: ScaleTargetRef, deadline: float) -> ScalableResource | Failure:
        """Return the resource; a request is sent only for the first reference to a kind."""
        known = self._known.get((ref.api_version, ref.kind)) or _BUILT_IN.get((ref.group, ref.kind))
        if known is not None:
            return known
        return self._ask(ref, deadline, again=False)

    def rediscover(self, ref: ScaleTargetRef, deadline: float) -> ScalableResource | Failure:
        """Ask the server again, because the known path is not served."""
        return self._ask(ref, deadline, again=True)

    def _ask(
        self, ref: ScaleTargetRef, deadline: float, *, again: bool
    ) -> ScalableResource | Failure:
        # One thread asks, the others wait for its answer.
        if not self._lock.acquire(timeout=max(0.0, deadline - clock.monotonic())):
            return Failure("the kinds that the API server serves were not known in time")
        try:
            known = None if again else self._known.get((ref.api_version, ref.kind))
            return known or self._discover(ref, deadline)
        finally:
            self._lock.release()

    def _discover(self, ref: ScaleTargetRef, deadline: float) -> ScalableResource | Failure:
        versions = self._versions(ref, deadline)
        if isinstance(versions, Failure):
            return versions
        refusal: Failure | None = None
        for version in versions:
            path = f"/apis/{ref.group}/{version}" if ref.group else f"/api/{version}"
            listed = self._api.get(path, deadline)
            if isinstance(listed, Failure):
                refusal = refusal or listed
                continue
            found = self._choose(ref, version, listed)
            if isinstance(found, ScalableResource):
                self._known[(ref.api_version, ref.kind)] = found
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
            group = cast("_GroupJson", answer)
            served = [entry["version"] for entry in group["versions"]]
            preferred = group["preferredVersion"]["version"]
        except (KeyError, TypeError):
            return malformed(self._api.server, f"no list of the versions of {ref.group}")
        wanted = ref.api_version.rpartition("/")[2]
        first = [version for version in (wanted, preferred) if version in served]
        return list(dict.fromkeys([*first, *served]))

    def _choose(
        self, ref: ScaleTargetRef, version: str, listed: JsonObject
    ) -> ScalableResource | Failure:
        try:
            resources = {
                resource["name"]: resource
                for resource in cast("list[_ResourceJson]", listed["resources"])
            }
            plurals = [
                name
                for name, resource in resources.items()
                if resource.get("kind") == ref.kind and "/" not in name
            ]
        except (KeyError, TypeError, AttributeError):
            return malformed(self._api.server, f"no list of the resources of {ref.api_version}")
        for plural in plurals:
            scale = resources.get(f"{plural}/scale")
            if scale is not None and resources[plural].get("namespaced"):
                return ScalableResource(ref.group, version, plural, _api_version(scale))
        if plurals:
            full = f"{plurals[0]}.{ref.group}" if ref.group else plurals[0]
            return _unknown(f"kind {ref.kind} ({full}) has no scale subresource")
        scalable = ", ".join(
            sorted(
                resource.get("kind", "")
                for name, resource in resources.items()
                if f"{name}/scale" in resources
            )
        )
        return _unknown(
            f'the API server serves no kind "{ref.kind}" in {ref.group or "the core group"}; '
            f"it can scale there: {scalable or 'nothing'}"
        )


def _unknown(message: str) -> Failure:
    """Return the failure for a resource that does not exist, which is like a 404 for its path."""
    return Failure(message, status=_NOT_FOUND)


def _api_version(scale: _ResourceJson) -> str:
    group, version = scale.get("group"), scale.get("version")
    return f"{group}/{version}" if group and version else "autoscaling/v1"


def read_paths(api: Api, resource: ScalableResource, deadline: float) -> ScalePaths | Failure:
    """Return where a custom resource keeps its scale, from its CustomResourceDefinition."""
    name = f"{resource.plural}.{resource.group}"
    answer = api.get(f"/apis/apiextensions.k8s.io/v1/customresourcedefinitions/{name}", deadline)
    if isinstance(answer, Failure):
        return answer
    try:
        spec = cast("dict[str, list[_DefinitionJson]]", answer["spec"])
        version = next(each for each in spec["versions"] if each["name"] == resource.version)
        scale = version["subresources"]["scale"]
        paths = [
            scale["specReplicasPath"],
            scale["statusReplicasPath"],
            scale.get("labelSelectorPath") or "",
        ]
    except (KeyError, TypeError, AttributeError, StopIteration):
        return malformed(api.server, f"a definition of {name} without the paths of its scale")
    for path in filter(None, paths):
        if not _FIELD_PATH.fullmatch(path):
            shown = api.line(str(path), _LONGEST_PATH)
            message = f"the definition of {name} has a path that cannot be followed: {shown}"
            return Failure(message, status=404)
    return ScalePaths(*(tuple(path.split(".")[1:]) for path in paths))
