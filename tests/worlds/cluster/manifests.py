"""Objects that the tests create, and where."""

from autoscaler.core.spec import ScaleTargetRef
from tests.worlds.controlplane import workloads
from tests.worlds.controlplane.api import Json

NAMESPACES = "/api/v1/namespaces"
CRDS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
CRD_GROUP = "contract.example.com"
_CONTAINERS = {"main": {"cpu": "250m", "memory": "64Mi"}}

WEB = ScaleTargetRef("apps/v1", "Deployment", "web")
CREW = ScaleTargetRef(f"{CRD_GROUP}/v1", "Crew", "alpha")


def deployments(namespace: str) -> str:
    return workloads.collection("Deployment", namespace)


def pods(namespace: str) -> str:
    return workloads.collection("Pod", namespace)


def leases(namespace: str) -> str:
    return f"/apis/coordination.k8s.io/v1/namespaces/{namespace}/leases"


def crews(namespace: str) -> str:
    """Return the path of a namespace's Crews, the custom resource of `crew_definition`."""
    return f"/apis/{CRD_GROUP}/v1/namespaces/{namespace}/crews"


def deployment(name: str, replicas: int = 1) -> Json:
    return workloads.deployment(name, replicas, containers=_CONTAINERS)


def stateful_set(name: str, replicas: int = 1) -> Json:
    """Return a StatefulSet whose pods need not wait for each other."""
    return workloads.stateful_set(name, replicas, containers=_CONTAINERS)


def replica_set(name: str, replicas: int = 1) -> Json:
    return deployment(name, replicas) | {"kind": "ReplicaSet"}


def replication_controller(name: str, replicas: int = 1) -> Json:
    workload = deployment(name, replicas) | {"apiVersion": "v1", "kind": "ReplicationController"}
    workload["spec"]["selector"] = {"app": name}
    return workload


def pod(name: str, labels: dict[str, str]) -> Json:
    """Return a pod without an owner."""
    template = workloads.pod_template(name, _CONTAINERS)
    named = {"name": name, "labels": labels}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": named, "spec": template["spec"]}


def crew_definition(subgroup: str = "") -> Json:
    """Return a CRD with scale paths of its own, in CRD_GROUP or a group below it."""
    group = f"{subgroup}.{CRD_GROUP}" if subgroup else CRD_GROUP
    status = {"aboard": "integer", "selector": "string"}
    paths = ("spec.size", "status.aboard", "status.selector")
    return workloads.definition(group, "Crew", {"size": "integer"}, status, paths)


def plain_definition() -> Json:
    """Return a CRD without a scale subresource, in the same group."""
    return workloads.definition(CRD_GROUP, "Log", {"size": "integer"}, {})


def crew(name: str, size: int) -> Json:
    metadata = {"name": name}
    return {
        "apiVersion": f"{CRD_GROUP}/v1",
        "kind": "Crew",
        "metadata": metadata,
        "spec": {"size": size},
    }
