"""The stand-in's own promises; test_contract has those that Kubernetes shares."""

import json
import threading
from collections.abc import Iterator
from contextlib import suppress
from functools import partial
from pathlib import Path

import pytest
import requests
import yaml

from autoscaler.demo.apiserver import StandInCluster, deployment
from autoscaler.demo.apiserver.objects import DEPLOYMENTS, NAMESPACES, PODS, ServedResource
from tests.worlds.waiting import wait_until

DEPLOYMENTS_PATH = "/apis/apps/v1/namespaces/default/deployments"


@pytest.fixture
def cluster() -> Iterator[StandInCluster]:
    """Run a stand-in that keeps few changes, with the namespace default."""
    with StandInCluster(kept_changes=20) as cluster:
        cluster.store.create(NAMESPACES, "", {"metadata": {"name": "default"}})
        yield cluster


@pytest.fixture
def session(cluster: StandInCluster) -> Iterator[requests.Session]:
    """Open an administrator's session."""
    with requests.Session() as session:
        session.trust_env = False
        session.headers["Authorization"] = f"Bearer {cluster.token}"
        yield session


def create_at_rest(cluster: StandInCluster, name: str) -> None:
    """Create a Deployment without pods, and wait for the controllers' own write, of its status."""
    cluster.store.create(DEPLOYMENTS, "default", deployment(name, 0))
    wait_until(
        "the status is written",
        lambda: "status" in cluster.store.get(DEPLOYMENTS, "default", name),
    )


def test_nothing_is_left_after_the_end() -> None:
    """Threads end with the `with` statement, also those of open watches, and the port is free."""
    before = set(threading.enumerate())
    with requests.Session() as session, StandInCluster() as cluster:
        session.trust_env = False
        session.headers["Authorization"] = f"Bearer {cluster.token}"
        url = cluster.url
        stream = session.get(
            url + DEPLOYMENTS_PATH,
            params={"watch": "1", "timeoutSeconds": "600"},
            stream=True,
            timeout=10,
        )
    # Threads that earlier tests left to end by themselves may have ended meanwhile.
    assert set(threading.enumerate()) <= before
    # A server that goes may cut an open watch as well as end it.
    with suppress(requests.exceptions.ChunkedEncodingError):
        assert list(stream.iter_lines()) == []
    with pytest.raises(requests.ConnectionError):
        session.get(f"{url}{DEPLOYMENTS_PATH}", timeout=5)


def test_an_old_watch_expires(cluster: StandInCluster, session: requests.Session) -> None:
    """Beyond the changes that are kept, a watch gets one ERROR event: 410, reason Expired."""
    for number in range(30):
        cluster.store.create(DEPLOYMENTS, "default", deployment(f"web-{number}", 0))
    query = {"watch": "1", "resourceVersion": "2"}
    answer = session.get(cluster.url + DEPLOYMENTS_PATH, params=query, timeout=10)
    event = json.loads(answer.text)
    assert event["type"] == "ERROR"
    assert (event["object"]["code"], event["object"]["reason"]) == (410, "Expired")


def test_many_writers_one_wins_each_round(
    cluster: StandInCluster, session: requests.Session
) -> None:
    """Of eight writes of the same scale as it was read exactly one is carried out."""
    create_at_rest(cluster, "web")
    url = f"{cluster.url}{DEPLOYMENTS_PATH}/web/scale"
    scale = session.get(url, timeout=5).json()
    codes: list[int] = []

    def write(replicas: int) -> None:
        with requests.Session() as own:
            own.trust_env = False
            body = {**scale, "spec": {"replicas": replicas}}
            codes.append(own.put(url, json=body, headers=session.headers, timeout=5).status_code)

    writers = [threading.Thread(target=write, args=(n,)) for n in range(1, 9)]
    for writer in writers:
        writer.start()
    for writer in writers:
        writer.join()
    assert sorted(codes) == [200] + [409] * 7


def test_a_namespace_goes_with_all_that_is_in_it(
    cluster: StandInCluster, session: requests.Session
) -> None:
    """Its Deployments, and their pods."""
    cluster.store.create(DEPLOYMENTS, "default", deployment("web", 3))
    wait_until("the pods are there", lambda: len(cluster.store.list_all(PODS)[0]) == 3)
    assert session.delete(f"{cluster.url}/api/v1/namespaces/default", timeout=5).ok
    for resource in (NAMESPACES, DEPLOYMENTS, PODS):
        wait_until("they are gone", partial(is_empty, cluster, resource))


def is_empty(cluster: StandInCluster, resource: ServedResource) -> bool:
    """Return whether there are no objects of a resource."""
    return not cluster.store.list_all(resource)[0]


def test_the_kubeconfig_is_private(cluster: StandInCluster, tmp_path: Path) -> None:
    """Only its owner may read the token; the file names the server."""
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
    session: requests.Session,
    method: str,
    path: str,
    content_type: str,
    body: str,
    code: int,
) -> None:
    """What is not served is refused, and the server goes on."""
    cluster.store.create(DEPLOYMENTS, "default", deployment("web", 1))
    url = cluster.url + DEPLOYMENTS_PATH
    headers = {"Content-Type": content_type}
    answer = session.request(method, url + path, data=body, headers=headers, timeout=5)
    assert answer.status_code == code
    assert session.get(f"{url}/web/scale", timeout=5).json()["spec"] == {"replicas": 1}
