"""Manifests of the kinds of workload that can be scaled.

`containers` maps the name of each container to its requests, for example {"cpu": "250m"}; an empty
mapping requests nothing.
"""

from collections.abc import Mapping, Sequence
from types import MappingProxyType

from tests.worlds.controlplane.api import Api, Json
from tests.worlds.waiting import wait_until

Containers = Mapping[str, Mapping[str, str]]

ONE_CONTAINER: Containers = MappingProxyType(
    {"app": MappingProxyType({"cpu": "100m", "memory": "64Mi"})}
)

_COLLECTIONS = {
    "Pod": "/api/v1/namespaces/{}/pods",
    "Deployment": "/apis/apps/v1/namespaces/{}/deployments",
    "StatefulSet": "/apis/apps/v1/namespaces/{}/statefulsets",
}


def collection(kind: str, namespace: str) -> str:
    return _COLLECTIONS[kind].format(namespace)


def pod_template(app: str, containers: Containers = ONE_CONTAINER) -> Json:
    return {
        "metadata": {"labels": {"app": app}},
        "spec": {
            "containers": [
                {"name": name, "image": "app:1", "resources": {"requests": dict(requests)}}
                for name, requests in containers.items()
            ]
        },
    }


def deployment(name: str, replicas: int = 1, *, containers: Containers = ONE_CONTAINER) -> Json:
    """Return a Deployment whose pods are labelled app=`name`."""
    return _set("Deployment", name, replicas, pod_template(name, containers))


def stateful_set(name: str, replicas: int = 1, *, containers: Containers = ONE_CONTAINER) -> Json:
    """Return a StatefulSet whose pods are labelled app=`name` and start all at once."""
    manifest = _set("StatefulSet", name, replicas, pod_template(name, containers))
    manifest["spec"] |= {"serviceName": name, "podManagementPolicy": "Parallel"}
    return manifest


def definition(group: str, kind: str, spec: Json, status: Json, scale: Sequence[str] = ()) -> Json:
    """Return a CustomResourceDefinition, with the types of its fields.

    ``scale`` has the paths of its subresource: of spec.replicas, status.replicas and the selector.
    """
    names = ("specReplicasPath", "statusReplicasPath", "labelSelectorPath")
    paths = {name: f".{path}" for name, path in zip(names, scale, strict=False)}
    fields = {
        name: {"type": "object", "properties": {value: {"type": of} for value, of in types.items()}}
        for name, types in (("spec", spec), ("status", status))
    }
    plural = f"{kind.lower()}s"
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": f"{plural}.{group}"},
        "spec": {
            "group": group,
            "scope": "Namespaced",
            "names": {"kind": kind, "plural": plural, "singular": kind.lower()},
            "versions": [
                {
                    "name": "v1",
                    "served": True,
                    "storage": True,
                    "schema": {"openAPIV3Schema": {"type": "object", "properties": fields}},
                    "subresources": {"status": {}} | ({"scale": paths} if paths else {}),
                }
            ],
        },
    }


def free_definition(group: str, kind: str, version: str = "v1") -> Json:
    """Return a CustomResourceDefinition whose objects may say anything."""
    made = definition(group, kind, {}, {})
    anything = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
    made["spec"]["versions"][0] |= {"name": version, "schema": {"openAPIV3Schema": anything}}
    return made


def serve(api: Api, definition: Json) -> Json:
    """Define a custom resource, wait until it is served, and return its definition."""
    api.create("/apis/apiextensions.k8s.io/v1/customresourcedefinitions", definition)
    spec = definition["spec"]
    path = f"/apis/{spec['group']}/{spec['versions'][0]['name']}/{spec['names']['plural']}"
    wait_until(f"{path} is served", lambda: api.healthy(path))
    return definition


def _set(kind: str, name: str, replicas: int, template: Json) -> Json:
    return {
        "apiVersion": "apps/v1",
        "kind": kind,
        "metadata": {"name": name},
        "spec": {
            "replicas": replicas,
            "selector": {"matchLabels": {"app": name}},
            "template": template,
        },
    }
