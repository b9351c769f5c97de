"""Manifests of the kinds of workload that can be scaled.

`containers` maps the name of each container to its requests, for example {"cpu": "250m"}; an empty
mapping requests nothing. `annotations` are those of the pods; the fake kubelet reads its delays
there (`podstatus.READY_AFTER`).
"""

from collections.abc import Mapping
from types import MappingProxyType

from tests.controlplane.api import Json

Containers = Mapping[str, Mapping[str, str]]

ONE_CONTAINER: Containers = MappingProxyType(
    {"app": MappingProxyType({"cpu": "100m", "memory": "64Mi"})}
)
NO_ANNOTATIONS: Mapping[str, str] = MappingProxyType({})

FLEET_GROUP = "fleets.test"

_COLLECTIONS = {
    "Pod": "/api/v1/namespaces/{}/pods",
    "ReplicationController": "/api/v1/namespaces/{}/replicationcontrollers",
    "Deployment": "/apis/apps/v1/namespaces/{}/deployments",
    "ReplicaSet": "/apis/apps/v1/namespaces/{}/replicasets",
    "StatefulSet": "/apis/apps/v1/namespaces/{}/statefulsets",
    "Fleet": f"/apis/{FLEET_GROUP}/v1/namespaces/{{}}/fleets",
}


def collection(kind: str, namespace: str) -> str:
    """Return the API path of the objects of that kind in the namespace."""
    return _COLLECTIONS[kind].format(namespace)


def pod_template(
    app: str,
    containers: Containers = ONE_CONTAINER,
    annotations: Mapping[str, str] = NO_ANNOTATIONS,
) -> Json:
    """Return the template of pods labelled app=`app`."""
    return {
        "metadata": {"labels": {"app": app}, "annotations": dict(annotations)},
        "spec": {
            "containers": [
                {"name": name, "image": "app:1", "resources": {"requests": dict(requests)}}
                for name, requests in containers.items()
            ]
        },
    }


def deployment(
    name: str,
    replicas: int = 1,
    *,
    containers: Containers = ONE_CONTAINER,
    annotations: Mapping[str, str] = NO_ANNOTATIONS,
) -> Json:
    """Return a Deployment whose pods are labelled app=`name`."""
    return _set("Deployment", name, replicas, pod_template(name, containers, annotations))


def replica_set(
    name: str,
    replicas: int = 1,
    *,
    containers: Containers = ONE_CONTAINER,
    annotations: Mapping[str, str] = NO_ANNOTATIONS,
) -> Json:
    """Return a ReplicaSet whose pods are labelled app=`name`."""
    return _set("ReplicaSet", name, replicas, pod_template(name, containers, annotations))


def stateful_set(
    name: str,
    replicas: int = 1,
    *,
    containers: Containers = ONE_CONTAINER,
    annotations: Mapping[str, str] = NO_ANNOTATIONS,
) -> Json:
    """Return a StatefulSet whose pods are labelled app=`name` and start all at once."""
    manifest = _set("StatefulSet", name, replicas, pod_template(name, containers, annotations))
    manifest["spec"] |= {"serviceName": name, "podManagementPolicy": "Parallel"}
    return manifest


def replication_controller(
    name: str,
    replicas: int = 1,
    *,
    containers: Containers = ONE_CONTAINER,
    annotations: Mapping[str, str] = NO_ANNOTATIONS,
) -> Json:
    """Return a ReplicationController whose pods are labelled app=`name`."""
    manifest = _set(
        "ReplicationController", name, replicas, pod_template(name, containers, annotations)
    )
    manifest["apiVersion"] = "v1"
    # Its selector is the plain mapping of the time before set-based selectors.
    manifest["spec"]["selector"] = {"app": name}
    return manifest


def fleet(name: str, replicas: int = 1) -> Json:
    """Return a custom object with the subresource scale; no controller acts on it."""
    return {
        "apiVersion": f"{FLEET_GROUP}/v1",
        "kind": "Fleet",
        "metadata": {"name": name},
        "spec": {"replicas": replicas},
    }


def fleet_definition() -> Json:
    """Return the CustomResourceDefinition of Fleet.

    Its scale reads spec.replicas, status.replicas and status.selector.
    """
    integer = {"type": "integer"}
    status = {"type": "object", "properties": {"replicas": integer, "selector": {"type": "string"}}}
    spec = {"type": "object", "properties": {"replicas": integer}}
    version = {
        "name": "v1",
        "served": True,
        "storage": True,
        "schema": {
            "openAPIV3Schema": {"type": "object", "properties": {"spec": spec, "status": status}}
        },
        "subresources": {
            "status": {},
            "scale": {
                "specReplicasPath": ".spec.replicas",
                "statusReplicasPath": ".status.replicas",
                "labelSelectorPath": ".status.selector",
            },
        },
    }
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": f"fleets.{FLEET_GROUP}"},
        "spec": {
            "group": FLEET_GROUP,
            "scope": "Namespaced",
            "names": {"kind": "Fleet", "plural": "fleets", "singular": "fleet"},
            "versions": [version],
        },
    }


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
