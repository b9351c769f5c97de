"""Deletion costs of pods on a cluster: set, removed, and never another client's."""

from pathlib import Path

import pytest

from autoscaler import clock
from autoscaler.core.observation import Pod
from autoscaler.core.writes import UnsetCosts
from autoscaler.kubernetes import Api, list_pods
from autoscaler.kubernetes.deletion_costs import DeletionCosts
from autoscaler.kubernetes.election import ALWAYS_OPEN, WriteGate
from autoscaler.kubernetes.pods import DELETION_COST, OUR_DELETION_COST
from autoscaler.kubernetes.reflector import OperatorNotes
from tests.narrowing import assert_parts, instance
from tests.worlds.cluster import manifests
from tests.worlds.cluster.cluster import ClusterUnderTest, Noting, eventually, soon
from tests.worlds.cluster.connecting import connect
from tests.worlds.cluster.faults import BROKEN, HANG, RESET, SLOW_DOWN, Script, within
from tests.worlds.cluster.scripted import Answer, failure
from tests.worlds.controlplane.api import MERGE_PATCH


class Writer:
    """Writes costs, and notes what it reports."""

    def __init__(self, api: Api, gate: WriteGate = ALWAYS_OPEN) -> None:
        self.notes: list[str] = []
        notes = OperatorNotes(Noting(self.notes).watch_changed)
        self._costs = DeletionCosts(api, gate, notes)

    def apply(self, namespace: str, seconds: float = 10.0, **costs: int | None) -> UnsetCosts:
        return self._costs.apply(namespace, costs, clock.monotonic() + seconds)


@pytest.fixture
def pods(cluster: ClusterUnderTest, namespace: str) -> str:
    for name in ("a", "b"):
        cluster.create(manifests.pods(namespace), manifests.pod(name, {"app": "web"}))
    return manifests.pods(namespace)


def costs_of(api: Api, namespace: str) -> dict[str, tuple[int | None, int | None]]:
    """Return the cost of each pod, and which of it is ours, as a sync reads them."""
    found = instance(tuple, list_pods(api, namespace, "app=web", soon()))
    assert all(isinstance(each, Pod) for each in found)
    return {each.name: (each.deletion_cost, each.our_deletion_cost) for each in found}


@pytest.mark.usefixtures("pods")
def test_costs_are_set_changed_and_removed(api: Api, namespace: str) -> None:
    writer = Writer(api)
    assert writer.apply(namespace, a=-2, b=-1) == UnsetCosts()
    assert costs_of(api, namespace) == {"a": (-2, -2), "b": (-1, -1)}
    writer.apply(namespace, a=-1, b=None)
    assert costs_of(api, namespace) == {"a": (-1, -1), "b": (None, None)}
    writer.apply(namespace, a=None, b=None)
    assert costs_of(api, namespace) == {"a": (None, None), "b": (None, None)}
    assert writer.notes == []


def test_a_cost_of_another_client_is_never_changed(
    cluster: ClusterUnderTest, api: Api, namespace: str, pods: str
) -> None:
    """Not even one that was set after the pods were read."""
    writer, theirs = Writer(api), {"metadata": {"annotations": {DELETION_COST: "7"}}}
    cluster.patch(f"{pods}/a", theirs)
    assert writer.apply(namespace, a=-2, b=-1) == UnsetCosts(("a",))
    assert costs_of(api, namespace) == {"a": (7, None), "b": (-1, -1)}
    # And one that replaced ours stays when ours is removed.
    cluster.patch(f"{pods}/b", theirs)
    assert costs_of(api, namespace)["b"] == (7, -1)
    writer.apply(namespace, b=None)
    assert costs_of(api, namespace)["b"] == (7, None)
    assert writer.notes == []


def test_other_annotations_stay(
    cluster: ClusterUnderTest, api: Api, namespace: str, pods: str
) -> None:
    cluster.patch(f"{pods}/a", {"metadata": {"annotations": {"example.com/owner": "team"}}})
    Writer(api).apply(namespace, a=-1)
    assert cluster.get(f"{pods}/a").body["metadata"]["annotations"] == {
        "example.com/owner": "team",
        DELETION_COST: "-1",
        OUR_DELETION_COST: "-1",
    }
    Writer(api).apply(namespace, a=None)
    annotations = cluster.get(f"{pods}/a").body["metadata"]["annotations"]
    assert annotations == {"example.com/owner": "team"}


@pytest.mark.usefixtures("pods")
@pytest.mark.parametrize("is_admin", [True, False])
def test_a_pod_that_is_gone_does_not_keep_the_others_from_their_costs(
    cluster: ClusterUnderTest, api: Api, namespace: str, tmp_path: Path, *, is_admin: bool
) -> None:
    """Nor does the missing right to create a pod, which apply asks for then."""
    rbac = f"/apis/rbac.authorization.k8s.io/v1/namespaces/{namespace}"
    rule = {"apiGroups": [""], "resources": ["pods"], "verbs": ["patch"]}
    role = {"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": "patch"}
    viewer = {"apiGroup": role["apiGroup"], "kind": "User", "name": "viewer"}
    cluster.create(f"{rbac}/roles", {"metadata": {"name": "patch"}, "rules": [rule]})
    binding = {"metadata": {"name": "patch"}, "roleRef": role, "subjects": [viewer]}
    cluster.create(f"{rbac}/rolebindings", binding)
    token = cluster.token if is_admin else cluster.reader_token
    eventually(
        lambda: (
            cluster.request(
                "PATCH",
                f"{manifests.pods(namespace)}/a",
                {"metadata": {"labels": {"seen": "yes"}}},
                content_type=MERGE_PATCH,
                token=token,
            ).status
        ),
        lambda status: status == 200,
    )
    with connect(cluster.write_kubeconfig(tmp_path / "patcher", token)) as patcher:
        writer = Writer(patcher)
        assert writer.apply(namespace, gone=-3, a=-2, b=-1) == UnsetCosts(("gone",))
    assert writer.notes == []
    assert costs_of(api, namespace) == {"a": (-2, -2), "b": (-1, -1)}


@pytest.mark.parametrize(
    "refusal",
    [
        failure(404, "NotFound", 'pods "gone" not found', name="gone"),
        failure(
            403,
            "Forbidden",
            'pods "gone" is forbidden: User "autoscaler" cannot create resource "pods" in API '
            'group "" in the namespace "shop"',
        ),
        failure(409, "Conflict", "Apply failed with 1 conflict"),
        failure(422, "Invalid", "spec.containers: Required value"),
    ],
)
def test_a_refusal_of_one_pod_is_not_reported(script: Script, refusal: Answer) -> None:
    server, api = script(refusal)
    writer = Writer(api)
    writer.apply("shop", a=-2, b=-1)
    assert server.methods == ["PATCH", "PATCH"]
    assert writer.notes == []


def test_costs_that_are_not_removed_are_not_reported_as_unset(script: Script) -> None:
    _, api = script(BROKEN)
    assert Writer(api).apply("shop", a=None, b=-1).pods == ("b",)


@pytest.mark.parametrize(
    "fault",
    [
        failure(403, "Forbidden", 'User "autoscaler" cannot patch resource "pods"'),
        SLOW_DOWN,
        BROKEN,
        RESET,
    ],
)
def test_another_failure_ends_the_attempt_and_is_reported_once(
    script: Script, fault: Answer
) -> None:
    """No request is repeated, since the scale-down waits for the last one."""
    server, api = script(fault)
    writer = Writer(api)
    with within(5):
        unset = writer.apply("shop", a=-2, b=-1)
        writer.apply("shop", a=-2, b=-1)
    assert server.methods == ["PATCH", "PATCH"]
    (note,) = writer.notes
    assert_parts(note, "2 of 2 pods", "shop", unset.why)
    assert unset.pods == ("a", "b")


def test_a_server_that_hangs_delays_the_scale_down_only_until_the_deadline(script: Script) -> None:
    _, api = script(HANG)
    writer = Writer(api)
    with within(4):
        writer.apply("shop", 0.5, **{f"p{number}": -1 for number in range(20)})
    assert len(writer.notes) == 1


@pytest.mark.usefixtures("pods")
def test_a_failure_that_ended_is_reported(script: Script, api: Api, namespace: str) -> None:
    server, failing = script(BROKEN, Answer(body=b"{}"))
    writer = Writer(failing)
    writer.apply("shop", a=-1)
    writer.apply("shop", a=-1)
    assert server.methods == ["PATCH", "PATCH"]
    assert [note.startswith("good: ") for note in writer.notes] == [False, True]
    assert costs_of(api, namespace).keys() == {"a", "b"}


class _Closed(WriteGate):
    def may_write_until(self, _: str | None = None, /) -> float:
        return 0.0


@pytest.mark.usefixtures("pods")
def test_a_process_that_no_longer_leads_writes_nothing(api: Api, namespace: str) -> None:
    writer = Writer(api, _Closed())
    writer.apply(namespace, a=-1)
    assert costs_of(api, namespace)["a"] == (None, None)
    assert writer.notes == []
