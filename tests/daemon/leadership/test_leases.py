"""Leases on a real API server, and on the stand-in for one."""

from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from autoscaler import clock
from autoscaler.adapters.cluster import Api, Failure, Lease, Leases, connect
from autoscaler.core.election import LeaseRecord
from tests.adapters.cluster.cluster import ClusterUnderTest, Json
from tests.adapters.cluster.clusters import REAL, STAND_IN, fresh_namespace, requested_cluster
from tests.adapters.cluster.scripted import Answer, failure

WALL = 1_800_000_000.123456
OURS = LeaseRecord("a_1", 15, WALL, WALL + 2, 3)


@pytest.fixture(scope="session", params=[REAL, STAND_IN])
def cluster(request: pytest.FixtureRequest) -> Iterator[ClusterUnderTest]:
    """Run each server of the Kubernetes API."""
    yield from requested_cluster(request)


@pytest.fixture
def namespace(cluster: ClusterUnderTest) -> Iterator[str]:
    """Make a fresh namespace, deleted after the test, and give its name."""
    with fresh_namespace(cluster, "leadership") as name:
        yield name


@pytest.fixture
def api(cluster: ClusterUnderTest, tmp_path: Path) -> Iterator[Api]:
    """Connect as our programs do."""
    with connect(cluster.write_kubeconfig(tmp_path / "kubeconfig")) as api:
        yield api


def soon() -> float:
    """Return a deadline that leaves time."""
    return clock.monotonic() + 10


def collection(namespace: str) -> str:
    """Return the path of a namespace's Leases."""
    return f"/apis/coordination.k8s.io/v1/namespaces/{namespace}/leases"


def written(outcome: Lease | Failure | None) -> Lease:
    """Return a Lease that must be one."""
    assert isinstance(outcome, Lease), outcome
    return outcome


def test_a_lease_is_made_read_and_written(
    cluster: ClusterUnderTest, api: Api, namespace: str
) -> None:
    """What is written is read, to the microsecond, in the form of client-go."""
    leases = Leases(api, namespace, "autoscaler")
    assert leases.read(soon()) is None
    made = written(leases.write(OURS, None, soon()))
    assert replace(made.record, version="") == OURS
    assert leases.read(soon()) == made
    spec = cluster.get(f"{collection(namespace)}/autoscaler").body["spec"]
    assert spec == {
        "holderIdentity": "a_1",
        "leaseDurationSeconds": 15,
        "acquireTime": "2027-01-15T08:00:00.123456Z",
        "renewTime": "2027-01-15T08:00:02.123456Z",
        "leaseTransitions": 3,
    }
    renewed = written(leases.write(replace(OURS, renewed=WALL + 4), made, soon()))
    assert renewed.record.renewed == WALL + 4
    assert renewed.record.version != made.record.version


def test_only_one_of_two_writes_over_the_same_record(api: Api, namespace: str) -> None:
    """409, as for the second of two that make it: the record is the first one's."""
    leases = Leases(api, namespace, "autoscaler")
    made = written(leases.write(OURS, None, soon()))
    again = leases.write(replace(OURS, holder="b_2"), None, soon())
    assert isinstance(again, Failure)
    assert again.status == 409
    first = written(leases.write(replace(OURS, holder="c_3"), made, soon()))
    second = leases.write(replace(OURS, holder="b_2"), made, soon())
    assert isinstance(second, Failure)
    assert second.status == 409
    assert leases.read(soon()) == first


def test_a_lease_that_was_deleted_is_not_written(
    cluster: ClusterUnderTest, api: Api, namespace: str
) -> None:
    """404 or 409: a PUT over what is gone makes no Lease."""
    leases = Leases(api, namespace, "autoscaler")
    made = written(leases.write(OURS, None, soon()))
    path = f"{collection(namespace)}/autoscaler"
    assert cluster.request("DELETE", path).status == 200
    answer = leases.write(OURS, made, soon())
    assert isinstance(answer, Failure)
    assert answer.status in {404, 409}
    assert leases.read(soon()) is None


def test_a_lease_without_a_spec_is_nobodys(
    cluster: ClusterUnderTest, api: Api, namespace: str
) -> None:
    """As a manifest may make it; labels and what else it has stay when it is taken."""
    bare = {"metadata": {"name": "autoscaler", "labels": {"app": "autoscaler"}}}
    cluster.create(collection(namespace), bare)
    leases = Leases(api, namespace, "autoscaler")
    seen = written(leases.read(soon()))
    assert replace(seen.record, version="") == LeaseRecord()
    written(leases.write(OURS, seen, soon()))
    found = cluster.get(f"{collection(namespace)}/autoscaler").body
    assert found["metadata"]["labels"] == {"app": "autoscaler"}
    assert found["spec"]["holderIdentity"] == "a_1"


def test_a_lease_is_given_back(cluster: ClusterUnderTest, api: Api, namespace: str) -> None:
    """Its holder is empty then, which the server takes."""
    leases = Leases(api, namespace, "autoscaler")
    made = written(leases.write(OURS, None, soon()))
    freed = written(leases.write(LeaseRecord("", 1, WALL, WALL, 3), made, soon()))
    assert freed.record.holder == ""
    assert not cluster.get(f"{collection(namespace)}/autoscaler").body["spec"]["holderIdentity"]


def test_a_duration_is_written_in_whole_seconds(api: Api, namespace: str) -> None:
    """Rounded up: the others may wait longer, never shorter."""
    leases = Leases(api, namespace, "autoscaler")
    made = written(leases.write(replace(OURS, duration=1.2), None, soon()))
    assert made.record.duration == 2.0


def test_a_namespace_that_is_not_there_is_told(api: Api) -> None:
    """The Lease is missing as any, and making it says why."""
    leases = Leases(api, "nowhere", "autoscaler")
    assert leases.read(soon()) is None
    answer = leases.write(OURS, None, soon())
    assert isinstance(answer, Failure)
    assert (answer.status, answer.message) == (404, 'namespaces "nowhere" not found')


ScriptedLeases = Callable[[Answer], Leases]


@pytest.mark.parametrize(
    "body",
    [
        {},
        {"metadata": {}},
        {"metadata": {"resourceVersion": "1"}, "spec": ["x"]},
        {"metadata": {"resourceVersion": "1"}, "spec": {"renewTime": "yesterday"}},
        {"metadata": {"resourceVersion": "1"}, "spec": {"leaseDurationSeconds": "x"}},
        b"<html>",
    ],
)
def test_what_is_no_lease_is_a_failure(scripted: ScriptedLeases, body: Json | bytes) -> None:
    """Nothing is made of it, least of all a Lease that is free."""
    assert isinstance(scripted(Answer(body=body)).read(soon()), Failure)


def test_a_server_without_leases_is_a_failure(scripted: ScriptedLeases) -> None:
    """404 that names no object: the path itself is unknown there."""
    answer = Answer(404, b"404 page not found", {})
    assert isinstance(scripted(answer).read(soon()), Failure)


def test_an_object_that_is_not_there_is_none(scripted: ScriptedLeases) -> None:
    """404 that names the Lease."""
    missing = failure(404, "NotFound", 'leases "autoscaler" not found', name="autoscaler")
    assert scripted(missing).read(soon()) is None
