"""Events on a real API server, as `kubectl describe` would find them."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from autoscaler.core.decision import Event, ForeignChange
from autoscaler.core.sync_result import SyncResult
from autoscaler.kubernetes import Api as ClusterApi
from autoscaler.kubernetes.events import Events
from tests.daemon.events.happenings import FAILED, QUICK, RESCALED, reporting, result
from tests.narrowing import assert_parts
from tests.worlds.cluster.cluster import eventually
from tests.worlds.cluster.connecting import connect
from tests.worlds.cluster.roles import grant
from tests.worlds.controlplane import workloads
from tests.worlds.controlplane.api import Api, Json
from tests.worlds.controlplane.server import ControlPlane

WRITE_EVENTS: Json = {"apiGroups": [""], "resources": ["events"], "verbs": ["create", "patch"]}


@pytest.fixture
def uid(admin_api: Api, namespace: str) -> str:
    """Create the Deployment web, and return its UID."""
    path = workloads.collection("Deployment", namespace)
    created: str = admin_api.create(path, workloads.deployment("web", replicas=0))["metadata"][
        "uid"
    ]
    return created


@pytest.fixture
def nobody(control_plane: ControlPlane, tmp_path: Path) -> Iterator[ClusterApi]:
    """Connect as a user who may do nothing yet."""
    token = control_plane.token_for("nobody")
    with connect(control_plane.write_kubeconfig(tmp_path / "nobody", token)) as api:
        yield api


def described(admin_api: Api, namespace: str, uid: str) -> list[Json]:
    """Return the Events that `kubectl describe deployment web` lists, by what it asks for."""
    about = {"name": "web", "namespace": namespace, "kind": "Deployment", "uid": uid}
    selector = ",".join(f"involvedObject.{field}={value}" for field, value in about.items())
    found: list[Json] = admin_api.get(
        f"/api/v1/namespaces/{namespace}/events", fieldSelector=selector
    )["items"]
    ours = [text for text in found if text["source"] == {"component": "autoscaler"}]
    return sorted(ours, key=lambda our: str(our["reason"]))


def result_in(namespace: str, uid: str, *events: Event, at: float = 0.0) -> SyncResult:
    """Return a result of the Deployment web of a namespace."""
    return result(*events, at=at, uid=uid, namespace=namespace)


def test_events_are_shown_with_the_object_once_they_may_be_written(
    admin_api: Api, namespace: str, uid: str, nobody: ClusterApi
) -> None:
    change, notes = ForeignChange(5, 3, "kubectl", reversal=True), list[str]()
    with reporting(Events(nobody), pace=QUICK, notes=notes) as reporter:
        for number in range(10):
            reporter.report(result_in(namespace, uid, Event("Warning", "R", str(number))))
        eventually(lambda: notes, bool)
        assert_parts(*notes, "nobody", "create", '"events"', namespace, "0.3 seconds")
        grant(admin_api, namespace, "events", WRITE_EVENTS, user="nobody")

        def appeared() -> list[Json]:
            reporter.report(result_in(namespace, uid, RESCALED))
            return described(admin_api, namespace, uid)

        eventually(appeared, bool)
        reporter.report(result(uid=uid, namespace=namespace, foreign=change))
        for second in (15, 30, 45):
            reporter.report(result_in(namespace, uid, FAILED, at=second))
            count = second // 15
            eventually(
                lambda: described(admin_api, namespace, uid)[0],
                lambda item, count=count: (
                    item["reason"] == FAILED.reason and item["count"] == count
                ),  # type: ignore[misc] # bound now
            )
    assert [note[:6] for note in notes[1:]] == ["good: "]
    failed, changed, rescaled = [
        item for item in described(admin_api, namespace, uid) if item["reason"] != "R"
    ]
    assert (rescaled["type"], rescaled["message"]) == ("Normal", RESCALED.message)
    assert (changed["type"], changed["reason"]) == ("Warning", "ReplicasChangedByOther")
    assert "5 -> 3" in changed["message"]
    assert failed["firstTimestamp"] == "2026-01-01T00:00:15Z"
    assert failed["lastTimestamp"] == "2026-01-01T00:00:45Z"
    assert failed["involvedObject"]["apiVersion"] == "apps/v1"
    assert failed["reportingComponent"] == "autoscaler"


def test_events_of_a_namespace_that_is_deleted_are_dropped_without_a_note(
    control_plane: ControlPlane, admin_api: Api, tmp_path: Path
) -> None:
    name, other = "events-going", "events-staying"
    for each in (name, other):
        admin_api.create("/api/v1/namespaces", {"metadata": {"name": each}})
    holder = {"metadata": {"name": "holder", "finalizers": ["example.com/hold"]}, "data": {}}
    admin_api.create(f"/api/v1/namespaces/{name}/configmaps", holder)
    admin_api.delete(f"/api/v1/namespaces/{name}")
    notes: list[str] = []
    with connect(control_plane.write_kubeconfig(tmp_path / "k", control_plane.admin_token)) as api:
        with reporting(Events(api), pace=QUICK, notes=notes) as reporter:
            for each in (name, "events-never-was", other):
                reporter.report(result_in(each, "uid", RESCALED))
            eventually(lambda: described(admin_api, other, "uid"), bool)
        assert (reporter.counts.dropped, reporter.counts.written, notes) == (2, 1, [])
    released = {"metadata": {"finalizers": None}}
    admin_api.patch(f"/api/v1/namespaces/{name}/configmaps/holder", released)
    admin_api.delete(f"/api/v1/namespaces/{other}")
