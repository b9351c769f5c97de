"""Watches: changes from a resourceVersion on, bookmarks, the end, and a version too old."""

import pytest

from tests.adapters.cluster import manifests
from tests.adapters.cluster.cluster import ClusterUnderTest, Json, eventually


def test_a_watch_tells_what_happens_to_pods(cluster: ClusterUnderTest, namespace: str) -> None:
    """ADDED, MODIFIED and DELETED follow the list that the watch began at, in order."""
    path = manifests.pods(namespace)
    version = cluster.get(path).version
    cluster.create(path, manifests.pod("p", {"step": "one"}))
    assert cluster.patch(f"{path}/p", {"metadata": {"labels": {"step": "two"}}}).status == 200
    # Without grace the pod goes at once, and its deletion is one event.
    cluster.request("DELETE", f"{path}/p", {"gracePeriodSeconds": 0})
    with cluster.watch(path, resourceVersion=version) as events:
        seen: list[tuple[str, str]] = []
        versions: list[int] = []
        for event in events:
            assert event["object"]["kind"] == "Pod"
            seen.append((event["type"], event["object"]["metadata"]["labels"]["step"]))
            versions.append(int(event["object"]["metadata"]["resourceVersion"]))
            if event["type"] == "DELETED":
                break
    assert seen[0] == ("ADDED", "one")
    assert ("MODIFIED", "two") in seen[1:-1]
    assert seen[-1] == ("DELETED", "two")
    assert versions == sorted(set(versions))


def test_a_watch_tells_of_a_scaled_deployment(cluster: ClusterUnderTest, namespace: str) -> None:
    """A write of the scale shows as MODIFIED of the Deployment, under the version it answered."""
    path = manifests.deployments(namespace)
    version = cluster.get(path).version
    cluster.create(path, manifests.deployment("web", 0))
    with cluster.watch(path, resourceVersion=version) as events:
        first = next(events)
        assert (first["type"], first["object"]["spec"]["replicas"]) == ("ADDED", 0)
        written = cluster.patch(f"{path}/web/scale", {"spec": {"replicas": 2}}).version
        event = next(e for e in events if e["object"]["metadata"]["resourceVersion"] == written)
        assert (event["type"], event["object"]["spec"]["replicas"]) == ("MODIFIED", 2)


def test_a_selector_turns_leaving_into_deleted(cluster: ClusterUnderTest, namespace: str) -> None:
    """Under a label selector, what stops matching is DELETED and what starts is ADDED."""
    path = manifests.pods(namespace)
    cluster.create(path, manifests.pod("p", {"side": "in"}))
    version = cluster.get(path).version
    for side in ("out", "in"):
        cluster.patch(f"{path}/p", {"metadata": {"labels": {"side": side}}})
    with cluster.watch(path, resourceVersion=version, labelSelector="side=in") as events:
        types = [next(e["type"] for e in events if e["type"] != "MODIFIED") for _ in range(2)]
    assert types == ["DELETED", "ADDED"]


@pytest.mark.usefixtures("crews")
def test_custom_resources_can_be_watched(cluster: ClusterUnderTest, namespace: str) -> None:
    """A custom resource's watch shows the count at the path that the CRD declares."""
    path = manifests.crews(namespace)
    version = cluster.get(path).version
    cluster.create(path, manifests.crew("alpha", 4))
    with cluster.watch(path, resourceVersion=version) as events:
        event = next(events)
    assert (event["type"], event["object"]["spec"]["size"]) == ("ADDED", 4)


def test_a_watch_ends_when_its_time_is_over(cluster: ClusterUnderTest, namespace: str) -> None:
    """The parameter timeoutSeconds ends the answer in good order."""
    version = cluster.get(manifests.pods(namespace)).version
    query = {"resourceVersion": version, "timeoutSeconds": "1"}
    with cluster.watch(manifests.pods(namespace), **query) as events:
        assert list(events) == []


def test_bookmarks_tell_how_far_a_watch_is(cluster: ClusterUnderTest, namespace: str) -> None:
    """A bookmark is an object of the kind that holds nothing but a version."""
    path = manifests.pods(namespace)
    version = cluster.get(path).version
    cluster.create(f"{manifests.NAMESPACES}/{namespace}/pods", manifests.pod("p", {"n": "0"}))
    query = {"resourceVersion": version, "allowWatchBookmarks": "true", "timeoutSeconds": "4"}

    def told() -> list[Json]:
        with cluster.watch(path, **query) as events:
            return [event["object"] for event in events if event["type"] == "BOOKMARK"]

    # The server tells some time before the end of the watch, unless it is late.
    bookmarks = eventually(told, bool)
    assert bookmarks[-1]["kind"] == "Pod"
    assert int(bookmarks[-1]["metadata"]["resourceVersion"]) > int(version)


@pytest.mark.usefixtures("crews")
def test_a_version_too_old_is_gone(cluster: ClusterUnderTest, namespace: str) -> None:
    """A watch from a forgotten version answers one ERROR: 410 Expired, as a Status."""
    cluster.create(manifests.crews(namespace), manifests.crew("alpha", 1))
    cluster.forget_changes()
    with cluster.watch(manifests.crews(namespace), resourceVersion="1") as events:
        event = next(events)
    assert event["type"] == "ERROR"
    status = event["object"]
    assert (status["kind"], status["status"]) == ("Status", "Failure")
    assert (status["code"], status["reason"]) == (410, "Expired")
