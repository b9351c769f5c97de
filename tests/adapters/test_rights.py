"""The rights that a daemon lacks are known before one of them is needed."""

from contextlib import closing
from dataclasses import replace
from pathlib import Path

import pytest

from autoscaler import clock
from autoscaler.core.target import Query, Target
from autoscaler.kubernetes.discovery import ScalableResource
from autoscaler.kubernetes.rights import (
    LEASE,
    TARGETS,
    missing_rights,
    rights_needed,
)
from tests.core.builders import average, external, per_pod, spec
from tests.narrowing import assert_parts
from tests.worlds.cluster.connecting import connect
from tests.worlds.cluster.scripted import Answer, ScriptedServer, failure
from tests.worlds.controlplane.api import Api
from tests.worlds.controlplane.server import ControlPlane
from tests.worlds.service_account import Rights, Rule, manifest, one_by_one, service_account

ELECTION = ("autoscaler", "autoscaler")
RESOURCES = [
    ScalableResource("apps", "v1", "deployments"),
    ScalableResource("apps", "v1", "statefulsets"),
    ScalableResource("example.org", "v1", "fleets"),
]


def target(namespace: str = "shop") -> Target:
    """Return a target that has a metric of its pods and may go to zero."""
    of = spec(per_pod("5"), external(average("30")), minimum=0)
    return Target(namespace, of, (Query("rps"), Query("queue")))


def rules_of(file: str) -> list[Rule]:
    name = file.removeprefix("config/kubernetes/").removesuffix(".yaml")
    return one_by_one(manifest(name)["rules"])


def test_the_rights_needed_are_those_that_the_manifests_grant() -> None:
    asked = {
        (right.manifest, right.group, right.resource, right.verb, right.name)
        for right in rights_needed([target()], RESOURCES, ELECTION, events=True)
        if right.group != "example.org"
    }
    granted = {
        (file, *rule["apiGroups"], *rule["resources"], *rule["verbs"], name)
        for file in (TARGETS, LEASE)
        for rule in rules_of(file)
        for name in rule.get("resourceNames", [""])
    }
    assert asked == granted


def test_only_needed_rights_are_reviewed() -> None:
    of = spec(external(average("30")), minimum=1)
    needed = rights_needed([Target("shop", of, (Query("q"),))], RESOURCES[:1], None, events=False)
    verbs = {(right.resource, right.verb) for right in needed if right.namespaces != ()}
    assert verbs == {
        *(("deployments", verb) for verb in ("list", "watch")),
        *(("deployments/scale", verb) for verb in ("get", "update")),
        *(("horizontalpodautoscalers", verb) for verb in ("list", "watch")),
    }


def test_the_right_to_patch_pods_is_needed_only_by_targets_with_deletion_costs() -> None:
    of = spec(external(average("30")), minimum=1)
    plain = Target("shop", of, (Query("q"),))
    costly = replace(plain, namespace="llm", deletion_cost=Query("busy"))
    needed = rights_needed([plain, costly], RESOURCES[:1], None, events=False)
    pods = [right for right in needed if right.resource == "pods"]
    assert {(right.verb, right.namespaces) for right in pods} == {
        (verb, ("llm",)) for verb in ("list", "watch", "patch")
    }
    (rule,) = manifest("components/pod-deletion-cost/clusterrole")["rules"]
    assert rule == {"apiGroups": [""], "resources": ["pods"], "verbs": ["patch"]}


def without_some(rules: list[Rule]) -> list[Rule]:
    lacked = [(["deployments/scale"], ["update"]), (["leases"], ["update"])]
    lacked += [(["events"], [verb]) for verb in ("create", "patch")]
    return [rule for rule in one_by_one(rules) if (rule["resources"], rule["verbs"]) not in lacked]


@pytest.mark.parametrize("rights", [Rights.CLUSTER, Rights.NAMESPACED])
@pytest.mark.parametrize("whole", [True, False])
def test_missing_rights_are_those_that_a_real_api_server_denies(
    control_plane: ControlPlane,
    admin_api: Api,
    namespace: str,
    tmp_path: Path,
    rights: Rights,
    whole: bool,
) -> None:
    change = list if whole else without_some
    with service_account(admin_api, namespace, rights, change) as token:
        path = control_plane.write_kubeconfig(tmp_path / "kubeconfig", token)
        with closing(connect(path)) as api:
            lease, until = (namespace, "autoscaler"), clock.monotonic() + 20
            found = missing_rights(api, [target(namespace)], lease, events=True, deadline=until)
            writing = [right.resource for right in found if right.prevents_writes]
            origin = api.origin
    lacked = [
        ("update deployments.apps/scale", "[deployments/scale], verbs: [update]}"),
        ("create and patch events", "[events], verbs: [create, patch]}"),
        ("update leases.coordination.k8s.io", "[leases], verbs: [update]}"),
    ]
    assert writing == ([] if whole else ["deployments/scale", "leases"])
    for right, parts in zip(found, [] if whole else lacked, strict=True):
        assert_parts(right.sentence, origin, namespace, *parts)


def allowed(*, yes: bool, error: str = "") -> Answer:
    status = {"allowed": yes} | ({"evaluationError": error} if error else {})
    return Answer(201, {"kind": "SelfSubjectAccessReview", "status": status})


REFUSED = failure(403, "Forbidden", "selfsubjectaccessreviews is forbidden")


@pytest.fixture
def path(tmp_path: Path) -> Path:
    file = tmp_path / "kubeconfig"
    file.touch(mode=0o600)
    return file


def reviewed(path: Path, *answers: Answer, namespaces: int = 1) -> tuple[list[str], int]:
    """Return the sentences on what answers say, and how many were asked for."""
    with ScriptedServer(*answers) as server:
        server.write_kubeconfig(path)
        with closing(connect(path)) as api:
            targets = [target(f"n{number:03}") for number in range(namespaces)]
            until = clock.monotonic() + 20
            found = missing_rights(api, targets, None, events=True, deadline=until)
            return [right.sentence for right in found], len(server.asked)


@pytest.mark.parametrize(
    "answer",
    [
        REFUSED,
        Answer(404),
        Answer(200, b"<html>"),
        Answer(201, {"status": "odd"}),
        Answer(201, {"status": {}}),
        allowed(yes=False, error="no answer"),
    ],
)
def test_without_a_review_no_right_counts_as_missing(path: Path, answer: Answer) -> None:
    assert reviewed(path, answer) == ([], 1)


def test_all_namespaces_at_once_are_asked_for_first(path: Path) -> None:
    all_of_them = reviewed(path, allowed(yes=True), namespaces=100)
    assert all_of_them == ([], 11)
    lacked, asked = reviewed(path, allowed(yes=False), namespaces=100)
    assert asked == 200
    assert "n000, n001, n002, n003, n004 and 15 more" in lacked[0]
