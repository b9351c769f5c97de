"""GET, PUT and PATCH of the scale subresource."""

import pytest

from tests.adapters.cluster import manifests
from tests.adapters.cluster.cluster import ClusterUnderTest, Json, Reply, eventually

WORKLOADS = [
    pytest.param("apis/apps/v1", "deployments", manifests.deployment, id="Deployment"),
    pytest.param("apis/apps/v1", "statefulsets", manifests.stateful_set, id="StatefulSet"),
    pytest.param("apis/apps/v1", "replicasets", manifests.replica_set, id="ReplicaSet"),
    pytest.param(
        "api/v1",
        "replicationcontrollers",
        manifests.replication_controller,
        id="ReplicationController",
    ),
]


def _scaled(scale: Json, replicas: int) -> Json:
    return scale | {"spec": {"replicas": replicas}}


def _put(cluster: ClusterUnderTest, path: str, replicas: int) -> Reply:
    """Write over the latest version; the controllers write the same object now and then."""
    return eventually(
        lambda: cluster.request("PUT", path, _scaled(cluster.get(path).body, replicas)),
        lambda reply: reply.status != 409,
    )


@pytest.mark.parametrize(("root", "plural", "workload"), WORKLOADS)
def test_every_workload_kind_can_be_scaled(
    cluster: ClusterUnderTest, namespace: str, root: str, plural: str, workload: object
) -> None:
    """A scale shows count, status and selector; PUT and PATCH change the workload's count."""
    assert callable(workload)
    collection = f"/{root}/namespaces/{namespace}/{plural}"
    cluster.create(collection, workload("web", 2))
    path = f"{collection}/web/scale"

    read = cluster.get(path)
    assert read.status == 200
    assert (read.body["apiVersion"], read.body["kind"]) == ("autoscaling/v1", "Scale")
    assert read.body["metadata"]["name"] == "web"
    assert read.body["metadata"]["namespace"] == namespace
    assert read.body["spec"] == {"replicas": 2}
    assert read.body["status"]["selector"] == "app=web"

    put = _put(cluster, path, 3)
    assert put.status == 200
    assert put.body["spec"] == {"replicas": 3}
    assert cluster.patch(path, {"spec": {"replicas": 1}}).body["spec"] == {"replicas": 1}
    assert cluster.get(f"{collection}/web").body["spec"]["replicas"] == 1


def test_a_count_of_zero_is_left_out(cluster: ClusterUnderTest, namespace: str) -> None:
    """The scale of a workload at zero has no spec.replicas."""
    cluster.create(manifests.deployments(namespace), manifests.deployment("idle", 0))
    read = cluster.get(f"{manifests.deployments(namespace)}/idle/scale")
    assert read.body["spec"] == {}
    assert read.body["status"]["replicas"] == 0


@pytest.mark.usefixtures("crews")
def test_a_custom_resource_is_scaled_by_its_own_paths(
    cluster: ClusterUnderTest, namespace: str
) -> None:
    """The CRD's paths say where count, status and selector are."""
    path = manifests.crews(namespace)
    cluster.create(path, manifests.crew("alpha", 4))
    reported = {"status": {"aboard": 3, "selector": "crew=alpha,shift in (day,night)"}}
    assert cluster.patch(f"{path}/alpha/status", reported).status == 200

    read = cluster.get(f"{path}/alpha/scale").body
    assert (read["apiVersion"], read["kind"]) == ("autoscaling/v1", "Scale")
    assert read["spec"] == {"replicas": 4}
    assert read["status"] == {"replicas": 3, "selector": "crew=alpha,shift in (day,night)"}

    put = _put(cluster, f"{path}/alpha/scale", 6)
    assert put.status == 200
    assert cluster.get(f"{path}/alpha").body["spec"]["size"] == 6
    assert cluster.patch(f"{path}/alpha/scale", {"spec": {"replicas": 2}}).status == 200
    assert cluster.get(f"{path}/alpha").body["spec"]["size"] == 2


def test_the_selector_is_in_string_form(cluster: ClusterUnderTest, namespace: str) -> None:
    """Labels and all four operators appear as a list selector understands them."""
    workload = manifests.deployment("web", 0)
    labels = {"app": "web", "tier": "front", "zone": "a"}
    workload["spec"]["template"]["metadata"]["labels"] = labels
    workload["spec"]["selector"] = {
        "matchLabels": {"app": "web"},
        "matchExpressions": [
            {"key": "tier", "operator": "In", "values": ["middle", "front"]},
            {"key": "track", "operator": "NotIn", "values": ["test", "canary"]},
            {"key": "zone", "operator": "Exists"},
            {"key": "draining", "operator": "DoesNotExist"},
        ],
    }
    cluster.create(manifests.deployments(namespace), workload)
    read = cluster.get(f"{manifests.deployments(namespace)}/web/scale")
    assert read.body["status"]["selector"] == (
        "app=web,!draining,tier in (front,middle),track notin (canary,test),zone"
    )


def test_every_write_changes_the_resource_version(
    cluster: ClusterUnderTest, namespace: str
) -> None:
    """The version of the scale is the workload's, and a write makes a new one."""
    path = f"{manifests.deployments(namespace)}/web"
    cluster.create(manifests.deployments(namespace), manifests.deployment("web"))
    before = cluster.get(f"{path}/scale").version
    after = cluster.patch(f"{path}/scale", {"spec": {"replicas": 2}}).version
    assert after != before
    eventually(
        lambda: (cluster.get(f"{path}/scale").version, cluster.get(path).version),
        lambda versions: versions[0] == versions[1],
    )


def test_a_stale_version_is_a_conflict(cluster: ClusterUnderTest, namespace: str) -> None:
    """A PUT with an old resourceVersion changes nothing and says Conflict."""
    path = f"{manifests.deployments(namespace)}/web/scale"
    cluster.create(manifests.deployments(namespace), manifests.deployment("web"))
    old = cluster.get(path).body
    assert _put(cluster, path, 2).status == 200
    reply = cluster.request("PUT", path, _scaled(old, 9))
    assert reply.status == 409
    assert reply.body["kind"] == "Status"
    assert (reply.body["status"], reply.body["reason"]) == ("Failure", "Conflict")
    assert reply.body["code"] == 409
    assert cluster.get(path).body["spec"] == {"replicas": 2}


def test_a_write_without_a_version_is_accepted(cluster: ClusterUnderTest, namespace: str) -> None:
    """No resourceVersion means: whatever is there."""
    path = f"{manifests.deployments(namespace)}/web/scale"
    cluster.create(manifests.deployments(namespace), manifests.deployment("web", 0))
    body = _scaled(cluster.get(path).body, 1)
    del body["metadata"]["resourceVersion"]
    assert cluster.request("PUT", path, body).status == 200


def test_a_missing_object_is_told_by_a_status(cluster: ClusterUnderTest, namespace: str) -> None:
    """404 NotFound names the object, its group and its resource."""
    for suffix in ("/gone", "/gone/scale"):
        reply = cluster.get(f"{manifests.deployments(namespace)}{suffix}")
        assert reply.status == 404
        assert reply.body["kind"] == "Status"
        assert (reply.body["status"], reply.body["reason"]) == ("Failure", "NotFound")
        assert reply.body["message"] == 'deployments.apps "gone" not found'
        assert reply.body["details"] == {"name": "gone", "group": "apps", "kind": "deployments"}


def test_a_negative_count_is_invalid(cluster: ClusterUnderTest, namespace: str) -> None:
    """422 Invalid, and the count stays."""
    path = f"{manifests.deployments(namespace)}/web/scale"
    cluster.create(manifests.deployments(namespace), manifests.deployment("web", 0))
    # The controller may write the status between our read and our write.
    reply = eventually(
        lambda: cluster.request("PUT", path, _scaled(cluster.get(path).body, -1)),
        lambda reply: reply.status != 409,
    )
    assert (reply.status, reply.body["reason"]) == (422, "Invalid")
    assert "spec.replicas" in reply.body["message"]
    assert cluster.get(path).body["spec"] == {}
