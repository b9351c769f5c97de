"""Who may do what: the shapes of 401 and 403."""

from tests.adapters.cluster import manifests
from tests.adapters.cluster.cluster import ClusterUnderTest

UNKNOWN = "nobody-knows-me"


def test_an_unknown_token_is_unauthorized(cluster: ClusterUnderTest) -> None:
    """401 is a Status with reason Unauthorized."""
    reply = cluster.request("GET", "/api/v1/pods", token=UNKNOWN)
    assert (reply.status, reply.body["kind"]) == (401, "Status")
    assert (reply.body["reason"], reply.body["message"]) == ("Unauthorized", "Unauthorized")


def test_no_token_is_forbidden_as_anonymous(cluster: ClusterUnderTest) -> None:
    """Who sends no credentials is system:anonymous, and may not list pods."""
    reply = cluster.request("GET", "/api/v1/pods", token="")
    assert (reply.status, reply.body["reason"]) == (403, "Forbidden")
    assert 'User "system:anonymous" cannot list resource "pods"' in reply.body["message"]


def test_a_reader_reads_but_may_not_scale(cluster: ClusterUnderTest, namespace: str) -> None:
    """403 is a Status that names user, verb, resource, group and namespace."""
    path = f"{manifests.deployments(namespace)}/web/scale"
    cluster.create(manifests.deployments(namespace), manifests.deployment("web", 0))
    read = cluster.request("GET", path, token=cluster.reader_token)
    assert read.status == 200
    reply = cluster.request("PUT", path, read.body, token=cluster.reader_token)
    assert (reply.status, reply.body["kind"]) == (403, "Status")
    assert reply.body["reason"] == "Forbidden"
    assert reply.body["details"] == {"name": "web", "group": "apps", "kind": "deployments"}
    message = reply.body["message"]
    assert message.startswith('deployments.apps "web" is forbidden: User "')
    assert message.endswith(
        'cannot update resource "deployments/scale" in API group "apps" '
        f'in the namespace "{namespace}"'
    )
