"""Discovery: which groups, versions and resources a server says that it has."""

import pytest

from tests.adapters.cluster.cluster import ClusterUnderTest, Json
from tests.adapters.cluster.manifests import CRD_GROUP


def _resources(cluster: ClusterUnderTest, path: str) -> dict[str, Json]:
    reply = cluster.get(path)
    assert reply.status == 200
    assert reply.body["kind"] == "APIResourceList"
    return {resource["name"]: resource for resource in reply.body["resources"]}


def test_the_core_group_lists_its_versions(cluster: ClusterUnderTest) -> None:
    """/api names version v1."""
    reply = cluster.get("/api")
    assert reply.body["kind"] == "APIVersions"
    assert "v1" in reply.body["versions"]


def test_groups_name_their_versions_and_the_preferred_one(cluster: ClusterUnderTest) -> None:
    """/apis lists apps with versions and preferredVersion, as /apis/apps alone does."""
    reply = cluster.get("/apis")
    assert reply.body["kind"] == "APIGroupList"
    apps = next(group for group in reply.body["groups"] if group["name"] == "apps")
    assert apps["preferredVersion"] == {"groupVersion": "apps/v1", "version": "v1"}
    alone = cluster.get("/apis/apps").body
    assert alone["kind"] == "APIGroup"
    assert alone["versions"] == apps["versions"]


@pytest.mark.parametrize(
    ("path", "plural", "kind"),
    [
        ("/apis/apps/v1", "deployments", "Deployment"),
        ("/apis/apps/v1", "statefulsets", "StatefulSet"),
        ("/apis/apps/v1", "replicasets", "ReplicaSet"),
        ("/api/v1", "replicationcontrollers", "ReplicationController"),
    ],
)
def test_a_workload_is_listed_with_its_scale(
    cluster: ClusterUnderTest, path: str, plural: str, kind: str
) -> None:
    """The subresource is an entry of its own, whose kind is autoscaling/v1 Scale."""
    resources = _resources(cluster, path)
    assert resources[plural]["kind"] == kind
    assert resources[plural]["namespaced"] is True
    assert {"get", "list", "watch"} <= set(resources[plural]["verbs"])
    scale = resources[f"{plural}/scale"]
    assert (scale["group"], scale["version"], scale["kind"]) == ("autoscaling", "v1", "Scale")
    assert {"get", "patch", "update"} <= set(scale["verbs"])


@pytest.mark.usefixtures("crews")
def test_a_custom_resource_is_listed_with_its_scale(cluster: ClusterUnderTest) -> None:
    """A CRD's group appears in discovery, its scale only where the CRD declares one."""
    group = cluster.get(f"/apis/{CRD_GROUP}").body
    assert group["preferredVersion"]["version"] == "v1"
    resources = _resources(cluster, f"/apis/{CRD_GROUP}/v1")
    assert resources["crews"]["kind"] == "Crew"
    scale = resources["crews/scale"]
    assert (scale["group"], scale["version"], scale["kind"]) == ("autoscaling", "v1", "Scale")
    assert "logs" in resources
    assert "logs/scale" not in resources


def test_an_unknown_group_or_version_is_not_found(cluster: ClusterUnderTest) -> None:
    """A path of discovery that is not served answers 404."""
    for path in ("/apis/nobody.example.com", "/apis/nobody.example.com/v1", "/apis/apps/v9"):
        assert cluster.get(path).status == 404
