"""The demo's stand-in for a cluster answers as a real API server does."""

import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path

import pytest

from autoscaler.core.observation import Pod, Scale
from autoscaler.core.spec import ConditionStatus
from autoscaler.core.writes import FIELD_MANAGER, AcceptedWrite, WriteConflict
from autoscaler.kubernetes import Api, Failure, Lease, Leases, Scales, list_pods
from autoscaler.kubernetes.discovery import REPLICAS, manager_of
from autoscaler.kubernetes.election import LeaseRecord
from autoscaler.kubernetes.events import EventOutcome, Events, InvolvedObject, Occurrences
from tests.narrowing import instance
from tests.worlds.cluster import manifests
from tests.worlds.cluster.cluster import ClusterUnderTest, eventually, soon
from tests.worlds.cluster.connecting import connect
from tests.worlds.cluster.manifests import WEB
from tests.worlds.controlplane.api import Json


@pytest.fixture
def api(cluster: ClusterUnderTest, tmp_path: Path) -> Iterator[Api]:
    with connect(cluster.write_kubeconfig(tmp_path / "kubeconfig")) as api:
        yield api


def deploy(cluster: ClusterUnderTest, namespace: str, replicas: int) -> str:
    path = manifests.deployments(namespace)
    cluster.create(path, manifests.deployment("web", replicas))
    return f"{path}/web"


@pytest.fixture
def web(cluster: ClusterUnderTest, namespace: str) -> str:
    return deploy(cluster, namespace, 2)


def scale_of(scales: Scales, namespace: str) -> Scale:
    return instance(Scale, scales.read(namespace, WEB, soon()))


@pytest.mark.parametrize("count", [3, 0])
def test_a_written_scale_has_its_count_and_manager(
    cluster: ClusterUnderTest, api: Api, namespace: str, web: str, count: int
) -> None:
    scales = Scales(api)
    scale = scale_of(scales, namespace)
    assert (scale.spec_replicas, scale.selector) == (2, "app=web")
    outcome = instance(AcceptedWrite, scales.write(namespace, WEB, scale, count, soon()))
    assert outcome.scale.resource_version != scale.resource_version
    assert scale_of(scales, namespace).spec_replicas == count
    assert manager_of(cluster.get(web).body, REPLICAS) == FIELD_MANAGER
    body = {"spec": {"replicas": 5}}
    assert cluster.patch(f"{web}/scale?fieldManager=by-hand", body).status == 200
    assert manager_of(cluster.get(web).body, REPLICAS) == "by-hand"


def test_a_count_of_zero_is_left_out(cluster: ClusterUnderTest, namespace: str) -> None:
    read = cluster.get(f"{deploy(cluster, namespace, 0)}/scale").body
    assert (read["apiVersion"], read["kind"], read["spec"]) == ("autoscaling/v1", "Scale", {})
    assert read["status"] == {"replicas": 0, "selector": "app=web"}


@pytest.mark.usefixtures("web")
def test_one_of_many_writers_wins(api: Api, namespace: str) -> None:
    scales = Scales(api)
    scale = scale_of(scales, namespace)
    with ThreadPoolExecutor(8) as pool:
        write = partial(scales.write, namespace, WEB, scale, deadline=soon())
        outcomes = list(pool.map(lambda count: write(replicas=count), range(3, 11)))
    written = [outcome for outcome in outcomes if isinstance(outcome, AcceptedWrite)]
    others = [outcome for outcome in outcomes if isinstance(outcome, WriteConflict)]
    assert (len(written), len(others)) == (1, 7)
    count = written[0].scale.spec_replicas
    assert {outcome.scale.spec_replicas for outcome in others} == {count}
    assert scale_of(scales, namespace).spec_replicas == count


def test_a_missing_object_has_a_status(cluster: ClusterUnderTest, namespace: str) -> None:
    for suffix in ("/gone", "/gone/scale"):
        reply = cluster.get(f"{manifests.deployments(namespace)}{suffix}")
        assert (reply.status, reply.body["reason"]) == (404, "NotFound")
        assert reply.body["message"] == 'deployments.apps "gone" not found'
        assert reply.body["details"] == {"name": "gone", "group": "apps", "kind": "deployments"}


def test_an_unknown_token_is_unauthorized(cluster: ClusterUnderTest) -> None:
    reply = cluster.request("GET", "/api/v1/pods", token="nobody-knows-me")  # noqa: S106 - none
    assert (reply.status, reply.body["reason"]) == (401, "Unauthorized")


@pytest.mark.usefixtures("web")
def test_annotations_are_set_and_removed(api: Api, namespace: str) -> None:
    scales = Scales(api)
    for value, kept in (("true", (("autoscaler/paused", "true"),)), (None, ())):
        assert scales.annotate(namespace, WEB, {"autoscaler/paused": value}, soon()) is None
        read = instance(Scale, scales.read_annotated(namespace, WEB, soon()))
        assert read.annotations == kept


def test_an_event_is_made_and_updated(cluster: ClusterUnderTest, api: Api, namespace: str) -> None:
    events = Events(api)
    web = InvolvedObject("apps/v1", "Deployment", namespace, "web")
    happened = Occurrences(web, "Normal", "SuccessfulRescale", "New size: 3", 1.0, 1.0, 1)
    for count in (1, 2):
        happened.count = count
        assert events.write(happened, soon()).fate is EventOutcome.WRITTEN
    (event,) = cluster.get(f"/api/v1/namespaces/{namespace}/events").body["items"]
    assert (event["reason"], event["count"]) == ("SuccessfulRescale", 2)
    assert event["involvedObject"]["name"] == "web"


def test_one_of_two_writers_of_a_lease_wins(api: Api, namespace: str) -> None:
    leases, record = Leases(api, namespace, "autoscaler"), LeaseRecord("a", 15, 1.0, 1.0)
    assert leases.read(soon()) is None
    made = instance(Lease, leases.write(record, None, soon()))
    first = instance(Lease, leases.write(LeaseRecord("c", 15, 1.0, 1.0), made, soon()))
    for over in (None, made):
        refused = instance(Failure, leases.write(LeaseRecord("b", 15, 2.0, 2.0), over, soon()))
        assert refused.status == 409
    assert leases.read(soon()) == first


def lease(name: str, **labels: str) -> Json:
    """Return a Lease that is held by a."""
    return {
        "apiVersion": "coordination.k8s.io/v1",
        "kind": "Lease",
        "metadata": {"name": name, "labels": labels},
        "spec": {"holderIdentity": "a", "leaseDurationSeconds": 15},
    }


def test_leases_are_watched_by_their_labels(cluster: ClusterUnderTest, namespace: str) -> None:
    path = manifests.leases(namespace)
    for name, group in (("one", "a"), ("other", "b")):
        cluster.create(path, lease(name, group=group))
    query = {"labelSelector": "group=a"}
    listed = cluster.get(path, **query)
    assert [lease["metadata"]["name"] for lease in listed.body["items"]] == ["one"]

    def label(name: str, group: str | None) -> None:
        body = {"metadata": {"labels": {"group": group}}}
        assert cluster.patch(f"{path}/{name}", body).status == 200

    with cluster.watch(path, resourceVersion=listed.version, **query) as events:
        cluster.patch(f"{path}/one", {"spec": {"holderIdentity": "b"}})
        cluster.patch(f"{path}/other", {"spec": {"holderIdentity": "b"}})
        label("other", "a")
        label("one", None)
        label("one", "c")
        assert cluster.request("DELETE", f"{path}/one").status == 200
        assert cluster.request("DELETE", f"{path}/other").status == 200
        changes = [next(events) for _ in range(4)]
    assert [(change["type"], change["object"]["metadata"]["name"]) for change in changes] == [
        ("MODIFIED", "one"),
        ("ADDED", "other"),
        ("DELETED", "one"),
        ("DELETED", "other"),
    ]
    assert changes[2]["object"]["metadata"]["labels"] == {"group": "a"}
    versions = [int(change["object"]["metadata"]["resourceVersion"]) for change in changes]
    assert versions == sorted(set(versions))


def listed(api: Api, namespace: str, selector: str = "app=web") -> tuple[Pod, ...]:
    return instance(tuple, list_pods(api, namespace, selector, soon()))


@pytest.mark.usefixtures("web")
def test_pods_are_selected_by_their_labels(api: Api, namespace: str) -> None:
    assert eventually(lambda: len(listed(api, namespace)), lambda count: count == 2)
    assert len(listed(api, namespace, "app in (api,web),tier!=front")) == 2
    assert listed(api, namespace, "app=api") == listed(api, "default") == ()
    assert not isinstance(list_pods(api, namespace, "a in b", soon()), tuple)


def test_a_watch_has_an_event_of_each_change(cluster: ClusterUnderTest, namespace: str) -> None:
    path = manifests.deployments(namespace)
    version = cluster.get(path).version
    deploy(cluster, namespace, 0)
    with cluster.watch(path, resourceVersion=version) as events:
        first = next(events)
        assert (first["type"], first["object"]["spec"]["replicas"]) == ("ADDED", 0)
        written = cluster.patch(f"{path}/web/scale", {"spec": {"replicas": 2}}).version
        event = next(e for e in events if e["object"]["metadata"]["resourceVersion"] == written)
        assert (event["type"], event["object"]["kind"]) == ("MODIFIED", "Deployment")
        assert event["object"]["metadata"]["generation"] == 2
        assert cluster.request("DELETE", f"{path}/web").status == 200
        last = next(event for event in events if event["type"] == "DELETED")
    assert last["object"]["spec"]["replicas"] == 2
    versions = [int(e["object"]["metadata"]["resourceVersion"]) for e in (first, event, last)]
    assert versions == sorted(set(versions))


def test_a_watch_ends_when_its_time_is_over(cluster: ClusterUnderTest, namespace: str) -> None:
    version = cluster.get(manifests.pods(namespace)).version
    query = {"resourceVersion": version, "timeoutSeconds": "1"}
    with cluster.watch(manifests.pods(namespace), **query) as events:
        assert list(events) == []


def test_bookmarks_have_a_later_version(cluster: ClusterUnderTest, namespace: str) -> None:
    path = manifests.deployments(namespace)
    version = cluster.get(path).version
    deploy(cluster, namespace, 0)
    query = {"resourceVersion": version, "allowWatchBookmarks": "true", "timeoutSeconds": "4"}

    def sent() -> list[Json]:
        with cluster.watch(path, **query) as events:
            return [event["object"] for event in events if event["type"] == "BOOKMARK"]

    # The server sends it some time before the end of the watch, unless it is late.
    bookmarks = eventually(sent, bool)
    assert bookmarks[-1]["kind"] == "Deployment"
    assert int(bookmarks[-1]["metadata"]["resourceVersion"]) > int(version)


def test_pods_follow_the_count_up_and_down(
    cluster: ClusterUnderTest, api: Api, namespace: str
) -> None:
    began, path = time.time(), deploy(cluster, namespace, 1)
    cluster.patch(f"{path}/scale", {"spec": {"replicas": 3}})
    pods = eventually(
        lambda: listed(api, namespace),
        lambda pods: len(pods) == 3 and all(pod.ready is ConditionStatus.TRUE for pod in pods),
    )
    for pod in pods:
        assert pod.name.startswith("web-")
        assert pod.phase == "Running"
        assert not pod.deleted
        assert pod.start_time is not None
        assert pod.ready_transition is not None
        # The API's times are whole seconds.
        assert began - 1 <= pod.start_time <= pod.ready_transition <= time.time()
        [container] = pod.requests.containers
        assert container.name == "main"
        assert container.requests == {"cpu": 250_000_000, "memory": 64 * 2**20 * 10**9}
    assert len({id(pod.requests) for pod in pods}) == 1
    eventually(lambda: cluster.get(path).body["status"].get("readyReplicas"), lambda n: n == 3)
    assert cluster.get(f"{path}/scale").body["status"]["replicas"] == 3

    cluster.patch(f"{path}/scale", {"spec": {"replicas": 1}})
    eventually(lambda: len(listed(api, namespace)), lambda count: count == 1)
    eventually(lambda: cluster.get(f"{path}/scale").body["status"]["replicas"], lambda n: n == 1)
