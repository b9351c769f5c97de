"""The resources that are served now, and the discovery of them."""

from collections.abc import Iterable

from autoscaler.demo.apiserver import status
from autoscaler.demo.apiserver.objects import KubeObject
from autoscaler.demo.apiserver.requests import Request
from autoscaler.demo.apiserver.resources import (
    ALL_VERBS,
    BUILT_IN,
    CRDS,
    SUBRESOURCE_VERBS,
    Resource,
    of_definition,
)
from autoscaler.demo.apiserver.store import ObjectStore

_BUILT_IN_GROUPS = {resource.group for resource in BUILT_IN}


class Registry:
    """The built-in resources, and those of the CustomResourceDefinitions in the store."""

    def __init__(self, store: ObjectStore) -> None:
        self._store = store

    def resources(self) -> list[Resource]:
        """Return every resource that is served."""
        definitions, _ = self._store.list_all(CRDS)
        return [*BUILT_IN, *(found for crd in definitions for found in of_definition(crd))]

    def find(self, request: Request) -> Resource:
        """Return the resource that a request names.

        Raises `NoSuchPath` or NotFound where it, its scope or its subresource is not served.
        """
        for resource in self.resources():
            same = (resource.group, resource.version, resource.plural) == (
                request.group,
                request.version,
                request.plural,
            )
            if same and _reaches(resource, request):
                return resource
        if request.group in _BUILT_IN_GROUPS:
            raise status.unknown_path()
        raise status.NoSuchPath

    def discover(self, path: str) -> KubeObject:
        """Answer a discovery path.  Raises `NoSuchPath` or NotFound."""
        parts = path.strip("/").split("/")
        served = self.resources()
        if parts == ["api"]:
            return {"kind": "APIVersions", "versions": ["v1"]}
        if parts == ["apis"]:
            groups = [_group(name, served) for name in _ordered(r.group for r in served) if name]
            return {"kind": "APIGroupList", "apiVersion": "v1", "groups": groups}
        if parts[0] == "apis" and len(parts) == 2:
            if parts[1] in {resource.group for resource in served} - {""}:
                found = _group(parts[1], served)
                return {"kind": "APIGroup", "apiVersion": "v1", **found}
        elif parts[0] in {"api", "apis"}:
            group_version = "/".join(parts[1:])
            listed = [r for r in served if r.group_version == group_version]
            if listed:
                return _resource_list(group_version, listed)
            if parts[1] in _BUILT_IN_GROUPS or parts[0] == "api":
                raise status.unknown_path()
        raise status.NoSuchPath


def _reaches(resource: Resource, request: Request) -> bool:
    """Return whether the path has the form that the resource's paths have."""
    if request.subresource and request.subresource not in resource.subresources():
        # A custom resource answers for its own subresources, also those that it lacks.
        if resource.custom and request.subresource in {"status", "scale"}:
            raise status.not_found(resource, request.name)
        return False
    if resource.namespaced:
        return bool(request.namespace) or not request.name
    return not request.namespace


def _ordered(names: Iterable[str]) -> list[str]:
    return list(dict.fromkeys(names))


def _group(name: str, served: list[Resource]) -> KubeObject:
    versions = [
        {"groupVersion": f"{name}/{version}", "version": version}
        for version in _ordered(r.version for r in served if r.group == name)
    ]
    return {"name": name, "versions": versions, "preferredVersion": versions[0]}


def _resource_list(group_version: str, listed: list[Resource]) -> KubeObject:
    entries: list[KubeObject] = []
    for resource in listed:
        entry: KubeObject = {
            "name": resource.plural,
            "singularName": resource.kind.lower(),
            "namespaced": resource.namespaced,
            "kind": resource.kind,
            "verbs": list(ALL_VERBS),
        }
        if resource.short_names:
            entry["shortNames"] = list(resource.short_names)
        entries.append(entry)
        for subresource in resource.subresources():
            part: KubeObject = {
                "name": f"{resource.plural}/{subresource}",
                "singularName": "",
                "namespaced": resource.namespaced,
                "kind": resource.kind,
                "verbs": list(SUBRESOURCE_VERBS),
            }
            if subresource == "scale":
                part |= {"group": "autoscaling", "version": "v1", "kind": "Scale"}
            entries.append(part)
    return {
        "kind": "APIResourceList",
        "apiVersion": "v1",
        "groupVersion": group_version,
        "resources": entries,
    }
