"""Leases on a real API server."""

from collections.abc import Iterator
from dataclasses import replace

import pytest

from autoscaler.kubernetes import Failure, Lease, Leases
from autoscaler.kubernetes.election import LeaseRecord
from tests.narrowing import assert_parts, instance
from tests.worlds.cluster import manifests
from tests.worlds.cluster.cluster import soon
from tests.worlds.cluster.connecting import connect
from tests.worlds.cluster.faults import Script
from tests.worlds.cluster.scripted import Answer
from tests.worlds.controlplane.api import Api
from tests.worlds.controlplane.server import ControlPlane

WALL = 1_800_000_000.123456
OURS = LeaseRecord("a_1", 15, WALL, WALL + 2, 3)


@pytest.fixture
def leases(control_plane: ControlPlane, namespace: str) -> Iterator[Leases]:
    """Give a Lease, by a connection as our programs have it."""
    with connect(control_plane.kubeconfig) as api:
        yield Leases(api, namespace, "autoscaler")


@pytest.fixture
def path(namespace: str) -> str:
    return f"{manifests.leases(namespace)}/autoscaler"


def test_a_lease_is_read_as_it_was_written(admin_api: Api, leases: Leases, path: str) -> None:
    assert leases.read(soon()) is None
    made = instance(Lease, leases.write(OURS, None, soon()))
    assert replace(made.record, version="") == OURS
    assert leases.read(soon()) == made
    assert admin_api.get(path)["spec"] == {
        "holderIdentity": "a_1",
        "leaseDurationSeconds": 15,
        "acquireTime": "2027-01-15T08:00:00.123456Z",
        "renewTime": "2027-01-15T08:00:02.123456Z",
        "leaseTransitions": 3,
    }
    renewed = instance(Lease, leases.write(replace(OURS, renewed=WALL + 4), made, soon()))
    assert renewed.record.renewed == WALL + 4
    assert renewed.record.version != made.record.version


def test_a_lease_that_was_deleted_is_not_written(admin_api: Api, leases: Leases, path: str) -> None:
    made = instance(Lease, leases.write(OURS, None, soon()))
    admin_api.delete(path)
    assert instance(Failure, leases.write(OURS, made, soon())).status in {404, 409}
    assert leases.read(soon()) is None


def test_a_duration_is_rounded_up_to_whole_seconds(leases: Leases) -> None:
    """Rounded up: the others may wait longer, never shorter."""
    made = instance(Lease, leases.write(replace(OURS, duration=1.2), None, soon()))
    assert made.record.duration == 2.0


def test_in_a_missing_namespace_no_lease_is_created(control_plane: ControlPlane) -> None:
    with connect(control_plane.kubeconfig) as api:
        leases = Leases(api, "nowhere", "autoscaler")
        assert leases.read(soon()) is None
        answer = leases.write(OURS, None, soon())
    assert instance(Failure, answer).status == 404
    assert_parts(answer, "namespaces", '"nowhere"')


def answer_of(**spec: object) -> Answer:
    """Return the answer with a Lease of a spec."""
    return Answer(body={"metadata": {"resourceVersion": "1"}, "spec": spec})


@pytest.mark.parametrize(
    "answer",
    [
        Answer(body={}),
        Answer(body={"metadata": {}}),
        Answer(body={"metadata": {"resourceVersion": "1"}, "spec": ["x"]}),
        answer_of(renewTime="yesterday"),
        answer_of(leaseDurationSeconds="x"),
        Answer(body=b"<html>"),
        Answer(404, b"404 page not found", {}),
    ],
)
def test_an_invalid_lease_or_an_unknown_path_is_a_failure(script: Script, answer: Answer) -> None:
    """It is never read as a Lease that is free."""
    leases = Leases(script(answer)[1], "shop", "autoscaler")
    assert isinstance(leases.read(soon()), Failure)
