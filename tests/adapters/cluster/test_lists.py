"""Lists: label selectors, pages, and the version that a list is of."""

import pytest

from tests.adapters.cluster import manifests
from tests.adapters.cluster.cluster import ClusterUnderTest


@pytest.fixture
def seven_pods(cluster: ClusterUnderTest, namespace: str) -> str:
    """Make a namespace with pods p0 to p6, labelled n=0 to n=6, the even ones parity=even."""
    for number in range(7):
        labels = {"n": str(number)} | ({"parity": "even"} if number % 2 == 0 else {})
        cluster.create(manifests.pods(namespace), manifests.pod(f"p{number}", labels))
    return namespace


@pytest.mark.parametrize(
    ("selector", "names"),
    [
        ("n=3", ["p3"]),
        ("n==3", ["p3"]),
        ("n in (1,5),parity!=even", ["p1", "p5"]),
        ("n notin (0,1,2,3)", ["p4", "p5", "p6"]),
        ("parity", ["p0", "p2", "p4", "p6"]),
        ("!parity", ["p1", "p3", "p5"]),
        ("parity=odd", []),
    ],
)
def test_a_label_selector_filters(
    cluster: ClusterUnderTest, seven_pods: str, selector: str, names: list[str]
) -> None:
    """All operators of the string form select what they say."""
    reply = cluster.get(manifests.pods(seven_pods), labelSelector=selector)
    assert reply.status == 200
    assert (reply.body["apiVersion"], reply.body["kind"]) == ("v1", "PodList")
    assert [pod["metadata"]["name"] for pod in reply.body["items"]] == names


def test_a_malformed_selector_is_a_bad_request(cluster: ClusterUnderTest, namespace: str) -> None:
    """What is no selector answers 400."""
    reply = cluster.get(manifests.pods(namespace), labelSelector="a in b")
    assert (reply.status, reply.body["reason"]) == (400, "BadRequest")


def test_pages_are_of_one_version(cluster: ClusterUnderTest, seven_pods: str) -> None:
    """The parameters limit and continue give all items once, as at the first page."""
    path = manifests.pods(seven_pods)
    page = cluster.get(path, limit="3")
    names = [pod["metadata"]["name"] for pod in page.body["items"]]
    assert len(names) == 3
    version = page.version
    cluster.create(path, manifests.pod("p9", {"n": "9"}))
    while page.body["metadata"].get("continue"):
        page = cluster.get(path, limit="3", **{"continue": page.body["metadata"]["continue"]})
        assert page.status == 200
        assert page.version == version
        names += [pod["metadata"]["name"] for pod in page.body["items"]]
    assert names == [f"p{number}" for number in range(7)]


def test_a_list_names_its_version(cluster: ClusterUnderTest, namespace: str) -> None:
    """A list's resourceVersion grows with a write; items leave kind and apiVersion out."""
    before = cluster.get(manifests.pods(namespace))
    cluster.create(manifests.pods(namespace), manifests.pod("p", {"n": "0"}))
    after = cluster.get(manifests.pods(namespace))
    assert int(after.version) > int(before.version)
    assert "kind" not in after.body["items"][0]


def test_a_list_spans_namespaces(cluster: ClusterUnderTest, seven_pods: str) -> None:
    """The collection without a namespace holds the pods of all of them."""
    reply = cluster.get("/api/v1/pods", labelSelector="n=3")
    found = [
        pod["metadata"]["name"]
        for pod in reply.body["items"]
        if pod["metadata"]["namespace"] == seven_pods
    ]
    assert found == ["p3"]
