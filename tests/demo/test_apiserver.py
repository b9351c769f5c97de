"""The stand-in's own promises; tests/adapters/cluster has those that Kubernetes shares."""

import json
import threading
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest
import requests
import yaml

from autoscaler.demo.apiserver import StandInCluster, patch
from autoscaler.demo.apiserver.resources import DEPLOYMENTS
from autoscaler.demo.apiserver.status import ApiError
from tests.controlplane.waiting import wait_until

DEPLOYMENTS_PATH = "/apis/apps/v1/namespaces/default/deployments"


@pytest.fixture
def cluster() -> Iterator[StandInCluster]:
    """Run a stand-in that keeps few changes."""
    with StandInCluster(kept_events=20, token="demo-token") as cluster:  # noqa: S106 - made up
        yield cluster


@pytest.fixture
def session() -> Iterator[requests.Session]:
    """Open an administrator's session."""
    with requests.Session() as session:
        session.trust_env = False
        session.headers["Authorization"] = "Bearer demo-token"
        yield session


def watch_events(
    session: requests.Session, cluster: StandInCluster, **query: str
) -> Iterator[dict[str, object]]:
    """Yield the events of a watch of Deployments."""
    with session.get(
        cluster.url + DEPLOYMENTS_PATH, params={"watch": "1", **query}, stream=True, timeout=10
    ) as response:
        for line in response.iter_lines(chunk_size=None):
            yield json.loads(line)


def create_at_rest(cluster: StandInCluster, name: str) -> None:
    """Create a Deployment without pods, and wait for the controllers' own write, of its status."""
    cluster.create_deployment(name, 0)
    wait_until(
        "the status is written",
        lambda: "status" in cluster.store.get(DEPLOYMENTS, "default", name),
    )


def test_nothing_is_left_after_the_end(session: requests.Session) -> None:
    """Threads end with the `with` statement, also those of open watches, and the port is free."""
    before = set(threading.enumerate())
    with StandInCluster(token="demo-token") as cluster:  # noqa: S106 - made up
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
        session.get(f"{url}/version", timeout=5)


def test_an_old_watch_expires(cluster: StandInCluster, session: requests.Session) -> None:
    """Beyond the changes that are kept, a watch gets one ERROR event: 410, reason Expired."""
    create_at_rest(cluster, "web")
    for _ in range(30):
        cluster.store.update(DEPLOYMENTS, "default", "web", _bump)
    (event,) = watch_events(session, cluster, resourceVersion="2")
    assert event["type"] == "ERROR"
    assert event["object"] == {
        "kind": "Status",
        "apiVersion": "v1",
        "metadata": {},
        "status": "Failure",
        "message": f"too old resource version: 2 ({cluster.store.oldest})",
        "reason": "Expired",
        "code": 410,
    }


def _bump(obj: dict[str, object]) -> dict[str, object]:
    return {**obj, "bumps": int(str(obj.get("bumps", 0))) + 1}


def test_an_old_continue_token_expires(cluster: StandInCluster, session: requests.Session) -> None:
    """A list that was begun before the kept changes cannot be continued."""
    for name in ("a", "b"):
        cluster.create_deployment(name, 0)
    url = cluster.url + DEPLOYMENTS_PATH
    token = session.get(url, params={"limit": "1"}, timeout=5).json()["metadata"]["continue"]
    cluster.create_deployment("c", 0)
    cluster.expire_watches()
    answer = session.get(url, params={"limit": "1", "continue": token}, timeout=5)
    assert (answer.status_code, answer.json()["reason"]) == (410, "Expired")


def test_pages_show_one_moment(cluster: StandInCluster, session: requests.Session) -> None:
    """What is created or deleted between two pages does not appear in the second."""
    for name in ("a", "c"):
        cluster.create_deployment(name, 0)
    url = cluster.url + DEPLOYMENTS_PATH
    first = session.get(url, params={"limit": "1"}, timeout=5).json()
    cluster.create_deployment("b", 0)
    cluster.store.delete(DEPLOYMENTS, "default", "c")
    rest = session.get(url, params={"continue": first["metadata"]["continue"]}, timeout=5).json()
    names = [item["metadata"]["name"] for page in (first, rest) for item in page["items"]]
    assert names == ["a", "c"]
    assert rest["metadata"]["resourceVersion"] == first["metadata"]["resourceVersion"]


def test_a_bookmark_comes_before_the_end(
    cluster: StandInCluster, session: requests.Session
) -> None:
    """Two seconds before a watch ends, its client learns how far it has come."""
    create_at_rest(cluster, "web")
    events = list(watch_events(session, cluster, timeoutSeconds="3", allowWatchBookmarks="true"))
    added, *_, bookmark = events
    assert (added["type"], bookmark["type"]) == ("ADDED", "BOOKMARK")
    metadata = bookmark["object"]["metadata"]  # type: ignore[index] # JSON of the answer
    assert metadata == {"resourceVersion": str(cluster.store.version)}


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


def test_the_kubeconfig_is_private(cluster: StandInCluster, tmp_path: Path) -> None:
    """Only its owner may read the token; the file names the server."""
    file = cluster.kubeconfig(tmp_path / "kubeconfig")
    assert file.stat().st_mode & 0o777 == 0o600
    content = yaml.safe_load(file.read_text())
    assert content["clusters"][0]["cluster"]["server"] == cluster.url
    assert content["current-context"] == "demo"


def test_a_dry_run_writes_nothing(cluster: StandInCluster, session: requests.Session) -> None:
    """With dryRun the answer is as if, and the store as before."""
    cluster.create_deployment("web", 1)
    url = f"{cluster.url}{DEPLOYMENTS_PATH}/web"
    scale = session.get(f"{url}/scale", timeout=5).json() | {"spec": {"replicas": 7}}
    scale["metadata"].pop("resourceVersion")
    answer = session.put(f"{url}/scale", json=scale, params={"dryRun": "All"}, timeout=5)
    assert answer.json()["spec"]["replicas"] == 7
    assert session.delete(url, params={"dryRun": "All"}, timeout=5).status_code == 200
    assert cluster.replicas("web") == 1


@pytest.mark.parametrize(
    ("operations", "expected"),
    [
        ([{"op": "replace", "path": "/a/b", "value": 2}], {"a": {"b": 2}, "l": [1, 2]}),
        ([{"op": "add", "path": "/l/1", "value": 9}], {"a": {"b": 1}, "l": [1, 9, 2]}),
        ([{"op": "add", "path": "/l/-", "value": 9}], {"a": {"b": 1}, "l": [1, 2, 9]}),
        ([{"op": "remove", "path": "/l/0"}], {"a": {"b": 1}, "l": [2]}),
        ([{"op": "add", "path": "/a/x~1y", "value": 0}], {"a": {"b": 1, "x/y": 0}, "l": [1, 2]}),
        ([{"op": "test", "path": "/a/b", "value": 5}], None),
        ([{"op": "replace", "path": "/a/none", "value": 5}], None),
        ([{"op": "bogus", "path": "/a/b"}], None),
    ],
)
def test_json_patches(operations: list[object], expected: object) -> None:
    """Operations change what they name; one that cannot is refused, and nothing is changed."""
    obj = {"a": {"b": 1}, "l": [1, 2]}
    body = json.dumps(operations).encode()
    if expected is None:
        with pytest.raises(ApiError) as refused:
            patch.apply(DEPLOYMENTS, patch.JSON_PATCH, body, obj)
        assert refused.value.code == 422
    else:
        assert patch.apply(DEPLOYMENTS, patch.JSON_PATCH, body, obj) == expected
    assert obj == {"a": {"b": 1}, "l": [1, 2]}


@pytest.mark.parametrize(
    ("method", "path", "content_type", "body", "code"),
    [
        ("POST", "", "application/json", "{", 400),
        ("POST", "", "application/json", "[]", 400),
        ("POST", "", "application/json", '{"metadata": 1}', 400),
        ("POST", "", "application/json", '{"metadata": {"name": "x"}, "spec": []}', 400),
        ("POST", "", "text/plain", "{}", 415),
        ("PATCH", "/web", patch.MERGE, '{"spec": 3}', 400),
        ("PATCH", "/web/scale", patch.MERGE, '{"spec": 3}', 400),
        ("PATCH", "/web/scale", patch.JSON_PATCH, "{}", 400),
        ("PATCH", "/web/scale", patch.JSON_PATCH, "[1]", 422),
        ("DELETE", "/web", "application/json", "{", 400),
    ],
)
def test_no_body_breaks_the_server(
    cluster: StandInCluster,
    session: requests.Session,
    method: str,
    path: str,
    content_type: str,
    body: str,
    code: int,
) -> None:
    """What is no object of the kind is refused with a Status, and the server goes on."""
    cluster.create_deployment("web", 1)
    url = cluster.url + DEPLOYMENTS_PATH
    headers = {"Content-Type": content_type}
    answer = session.request(method, url + path, data=body, headers=headers, timeout=5)
    assert (answer.status_code, answer.json()["kind"]) == (code, "Status")
    assert cluster.replicas("web") == 1
