"""Workloads on the test bed: the controllers and the subresource scale do what a cluster's do."""

import pytest

from tests.controlplane import workloads
from tests.controlplane.api import Api, ApiError
from tests.controlplane.podstatus import is_ready
from tests.controlplane.waiting import wait_until

FACTORIES = {
    "Deployment": workloads.deployment,
    "ReplicaSet": workloads.replica_set,
    "StatefulSet": workloads.stateful_set,
    "ReplicationController": workloads.replication_controller,
}


def ready_replicas(api: Api, path: str) -> int:
    """Return how many ready replicas the object's status reports."""
    return int(api.get(path).get("status", {}).get("readyReplicas", 0))


@pytest.mark.usefixtures("kubelet")
def test_a_deployment_becomes_ready_pods(admin_api: Api, namespace: str) -> None:
    """A Deployment of 3 becomes 3 ready pods, with the requests asked for."""
    containers = {"app": {"cpu": "250m", "memory": "1Gi"}, "sidecar": {"cpu": "10m"}}
    path = workloads.collection("Deployment", namespace)
    admin_api.create(path, workloads.deployment("web", 3, containers=containers))
    wait_until("3 replicas are ready", lambda: ready_replicas(admin_api, f"{path}/web") == 3)
    pods = admin_api.get(workloads.collection("Pod", namespace), labelSelector="app=web")["items"]
    assert len(pods) == 3
    for pod in pods:
        assert is_ready(pod)
        specs = pod["spec"]["containers"]
        assert {each["name"]: each["resources"]["requests"] for each in specs} == containers
        assert [each["ready"] for each in pod["status"]["containerStatuses"]] == [True, True]
        assert pod["status"]["startTime"]


@pytest.mark.usefixtures("kubelet")
@pytest.mark.parametrize("kind", FACTORIES)
def test_each_kind_follows_its_scale(admin_api: Api, namespace: str, kind: str) -> None:
    """A workload of each kind follows a patch of its scale, up from 2 to 4 and down to 1."""
    path = f"{workloads.collection(kind, namespace)}/web"
    admin_api.create(workloads.collection(kind, namespace), FACTORIES[kind]("web", 2))

    def counts() -> tuple[int, int]:
        present = int(admin_api.get(f"{path}/scale")["status"]["replicas"])
        return present, ready_replicas(admin_api, path)

    def wait_for(replicas: int) -> None:
        what = f"{replicas} replicas are there and ready"
        wait_until(what, lambda: counts() == (replicas, replicas))

    wait_for(2)
    for replicas in (4, 1):
        admin_api.patch(f"{path}/scale", {"spec": {"replicas": replicas}})
        wait_for(replicas)


@pytest.mark.usefixtures("kubelet")
def test_scale_reads_a_deployment(admin_api: Api, namespace: str) -> None:
    """The scale of a Deployment holds the wanted count, the present count and the selector."""
    path = workloads.collection("Deployment", namespace)
    admin_api.create(path, workloads.deployment("web", 2))
    wait_until("2 replicas are ready", lambda: ready_replicas(admin_api, f"{path}/web") == 2)
    scale = admin_api.get(f"{path}/web/scale")
    assert (scale["apiVersion"], scale["kind"]) == ("autoscaling/v1", "Scale")
    assert scale["spec"] == {"replicas": 2}
    assert scale["status"] == {"replicas": 2, "selector": "app=web"}


def test_a_stale_scale_conflicts(admin_api: Api, namespace: str) -> None:
    """A PUT of a scale whose resourceVersion is no longer current gets 409 and changes nothing."""
    path = workloads.collection("Deployment", namespace)
    admin_api.create(path, workloads.deployment("web", 0))
    stale = admin_api.get(f"{path}/web/scale")
    admin_api.patch(f"{path}/web", {"metadata": {"labels": {"touched": "yes"}}})
    stale["spec"]["replicas"] = 5
    with pytest.raises(ApiError) as conflict:
        admin_api.replace(f"{path}/web/scale", stale)
    assert (conflict.value.status, conflict.value.reason) == (409, "Conflict")
    assert admin_api.get(f"{path}/web/scale")["spec"].get("replicas", 0) == 0


def test_scale_of_a_custom_resource(admin_api: Api, namespace: str, fleet_kind: str) -> None:
    """The scale of a custom resource reads its three paths and writes the wanted count."""
    path = workloads.collection(fleet_kind, namespace)
    admin_api.create(path, workloads.fleet("north", 3))
    status = {"status": {"replicas": 2, "selector": "app=north"}}
    admin_api.patch(f"{path}/north/status", status)
    scale = admin_api.get(f"{path}/north/scale")
    assert scale["spec"] == {"replicas": 3}
    assert scale["status"] == {"replicas": 2, "selector": "app=north"}
    scale["spec"]["replicas"] = 7
    admin_api.replace(f"{path}/north/scale", scale)
    assert admin_api.get(f"{path}/north")["spec"]["replicas"] == 7


def test_a_deleted_namespace_disappears(admin_api: Api) -> None:
    """The namespace controller empties and removes a namespace that holds a workload."""
    admin_api.create("/api/v1/namespaces", {"metadata": {"name": "ending"}})
    path = workloads.collection("Deployment", "ending")
    admin_api.create(path, workloads.deployment("web", 0))
    admin_api.delete("/api/v1/namespaces/ending")

    def names() -> list[str]:
        spaces = admin_api.get("/api/v1/namespaces")["items"]
        return [space["metadata"]["name"] for space in spaces]

    wait_until("the namespace is gone", lambda: "ending" not in names(), timeout=120)
