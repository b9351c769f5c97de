"""Objects that the tests create, and where."""

from tests.adapters.cluster.cluster import Json

NAMESPACES = "/api/v1/namespaces"
CRDS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
CRD_GROUP = "contract.example.com"


def deployments(namespace: str) -> str:
    """Return the path of a namespace's Deployments."""
    return f"/apis/apps/v1/namespaces/{namespace}/deployments"


def pods(namespace: str) -> str:
    """Return the path of a namespace's pods."""
    return f"/api/v1/namespaces/{namespace}/pods"


def crews(namespace: str, version: str = "v1") -> str:
    """Return the path of a namespace's Crews, the custom resource of `crew_definition`."""
    return f"/apis/{CRD_GROUP}/{version}/namespaces/{namespace}/crews"


def pod_template(name: str) -> Json:
    """Return a template with one container that requests CPU and memory."""
    return {
        "metadata": {"labels": {"app": name}},
        "spec": {
            "containers": [
                {
                    "name": "main",
                    "image": "example.com/none",
                    "resources": {"requests": {"cpu": "250m", "memory": "64Mi"}},
                }
            ]
        },
    }


def deployment(name: str, replicas: int = 1) -> Json:
    """Return a Deployment."""
    return {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": name},
        "spec": {
            "replicas": replicas,
            "selector": {"matchLabels": {"app": name}},
            "template": pod_template(name),
        },
    }


def stateful_set(name: str, replicas: int = 1) -> Json:
    """Return a StatefulSet whose pods need not wait for each other."""
    workload = deployment(name, replicas)
    workload["kind"] = "StatefulSet"
    workload["spec"] |= {"serviceName": name, "podManagementPolicy": "Parallel"}
    return workload


def replica_set(name: str, replicas: int = 1) -> Json:
    """Return a ReplicaSet."""
    return deployment(name, replicas) | {"kind": "ReplicaSet"}


def replication_controller(name: str, replicas: int = 1) -> Json:
    """Return a ReplicationController."""
    return {
        "apiVersion": "v1",
        "kind": "ReplicationController",
        "metadata": {"name": name},
        "spec": {
            "replicas": replicas,
            "selector": {"app": name},
            "template": pod_template(name),
        },
    }


def pod(name: str, labels: dict[str, str]) -> Json:
    """Return a pod of its own, owned by nobody."""
    template = pod_template(name)
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "labels": labels},
        "spec": template["spec"],
    }


def crew_definition(subgroup: str = "") -> Json:
    """Return a CRD with scale paths of its own, in CRD_GROUP or a group below it."""
    group = f"{subgroup}.{CRD_GROUP}" if subgroup else CRD_GROUP
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": f"crews.{group}"},
        "spec": {
            "group": group,
            "scope": "Namespaced",
            "names": {
                "plural": "crews",
                "singular": "crew",
                "kind": "Crew",
                "listKind": "CrewList",
            },
            "versions": [
                _version(
                    "v1",
                    storage=True,
                    scale={
                        "specReplicasPath": ".spec.size",
                        "statusReplicasPath": ".status.aboard",
                        "labelSelectorPath": ".status.selector",
                    },
                ),
            ],
        },
    }


def plain_definition() -> Json:
    """Return a CRD without a scale subresource, in the same group."""
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": f"logs.{CRD_GROUP}"},
        "spec": {
            "group": CRD_GROUP,
            "scope": "Namespaced",
            "names": {"plural": "logs", "singular": "log", "kind": "Log", "listKind": "LogList"},
            "versions": [_version("v1", storage=True, scale=None)],
        },
    }


def _version(name: str, *, storage: bool, scale: Json | None) -> Json:
    subresources: Json = {"status": {}}
    if scale is not None:
        subresources["scale"] = scale
    return {
        "name": name,
        "served": True,
        "storage": storage,
        "schema": {
            "openAPIV3Schema": {
                "type": "object",
                "properties": {
                    "spec": {"type": "object", "properties": {"size": {"type": "integer"}}},
                    "status": {
                        "type": "object",
                        "properties": {
                            "aboard": {"type": "integer"},
                            "selector": {"type": "string"},
                        },
                    },
                },
            }
        },
        "subresources": subresources,
    }


def crew(name: str, size: int) -> Json:
    """Return a Crew."""
    return {
        "apiVersion": f"{CRD_GROUP}/v1",
        "kind": "Crew",
        "metadata": {"name": name},
        "spec": {"size": size},
    }
