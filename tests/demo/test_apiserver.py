"""The stand-in's own promises; test_contract has the promises that Kubernetes shares."""

import threading
from collections.abc import Iterator
from contextlib import ExitStack, suppress
from functools import partial
from pathlib import Path

import pytest
import requests
import yaml

from autoscaler.demo.apiserver import StandInCluster, deployment
from autoscaler.demo.apiserver.store import DEPLOYMENTS, NAMESPACES, PODS
from tests.worlds.cluster.cluster import ClusterUnderTest, eventually
from tests.worlds.waiting import wait_until

DEPLOYMENTS_PATH = "/apis/apps/v1/namespaces/default/deployments"


@pytest.fixture
def cluster() -> Iterator[StandInCluster]:
    """Run a stand-in that keeps few changes, with the namespace default."""
    with StandInCluster(kept_changes=20) as cluster:
        cluster.store.create(NAMESPACES, "", {"metadata": {"name": "default"}})
        yield cluster


@pytest.fixture
def client(cluster: StandInCluster) -> Iterator[ClusterUnderTest]:
    with ClusterUnderTest(cluster.url, cluster.token) as client:
        yield client


def test_nothing_is_left_after_the_end() -> None:
    before = set(threading.enumerate())
    with ExitStack() as stack:
        with StandInCluster() as cluster:
            client = stack.enter_context(ClusterUnderTest(cluster.url, cluster.token))
            watch = client.watch(DEPLOYMENTS_PATH, timeoutSeconds="600")
            events = stack.enter_context(watch)
        # Threads that earlier tests left to end by themselves may have ended meanwhile.
        assert set(threading.enumerate()) <= before
        # A server that goes may cut an open watch as well as end it.
        with suppress(requests.exceptions.ChunkedEncodingError):
            assert list(events) == []
        with pytest.raises(requests.ConnectionError):
            client.get(DEPLOYMENTS_PATH)


def test_an_old_watch_expires(cluster: StandInCluster, client: ClusterUnderTest) -> None:
    for number in range(30):
        cluster.store.create(DEPLOYMENTS, "default", deployment(f"web-{number}", 0))
    with client.watch(DEPLOYMENTS_PATH, resourceVersion="2") as events:
        (event,) = events
    assert event["type"] == "ERROR"
    assert (event["object"]["code"], event["object"]["reason"]) == (410, "Expired")


def test_a_namespace_is_deleted_with_its_objects(
    cluster: StandInCluster, client: ClusterUnderTest
) -> None:
    cluster.store.create(DEPLOYMENTS, "default", deployment("web", 3))
    wait_until("the pods", lambda: len(cluster.store.list_all(PODS)[0]) == 3)
    assert client.request("DELETE", "/api/v1/namespaces/default").status == 200
    for resource in (NAMESPACES, DEPLOYMENTS, PODS):
        left = partial(cluster.store.list_all, resource)
        eventually(left, lambda found: found[0] == [])


def test_the_kubeconfig_is_private(cluster: StandInCluster, tmp_path: Path) -> None:
    file = cluster.kubeconfig(tmp_path / "kubeconfig")
    assert file.stat().st_mode & 0o777 == 0o600
    content = yaml.safe_load(file.read_text())
    assert content["clusters"][0]["cluster"]["server"] == cluster.url
    assert content["current-context"] == "demo"


@pytest.mark.parametrize(
    ("method", "path", "content_type", "body", "code"),
    [
        ("POST", "", "application/json", "{", 400),
        ("POST", "", "application/json", "[]", 400),
        ("POST", "", "application/json", '{"metadata": 1}', 400),
        ("POST", "", "application/json", '{"metadata": {"name": "x"}, "spec": []}', 400),
        ("POST", "", "application/json", '{"metadata": {"name": "x"}}', 400),
        ("POST", "", "text/plain", "{}", 415),
        ("PATCH", "/web", "application/merge-patch+json", '{"spec": 3}', 400),
        ("PATCH", "/web/scale", "application/merge-patch+json", '{"spec": {"replicas": "2"}}', 400),
        ("PATCH", "/web", "application/json-patch+json", "[]", 415),
        ("PUT", "", "application/json", "{}", 405),
        ("GET", "/web/status", "application/json", "", 404),
    ],
)
def test_no_request_breaks_the_server(
    cluster: StandInCluster,
    client: ClusterUnderTest,
    method: str,
    path: str,
    content_type: str,
    body: str,
    code: int,
) -> None:
    cluster.store.create(DEPLOYMENTS, "default", deployment("web", 1))
    headers = {"Content-Type": content_type, "Authorization": f"Bearer {cluster.token}"}
    url = f"{cluster.url}{DEPLOYMENTS_PATH}{path}"
    answer = requests.request(method, url, data=body, headers=headers, timeout=5)
    assert answer.status_code == code
    assert client.get(f"{DEPLOYMENTS_PATH}/web/scale").body["spec"] == {"replicas": 1}
