"""Our adapters of the scale subresource and of pods on a cluster."""

from pathlib import Path

import pytest

from autoscaler.core.observation import Pod, ReadFailure, Scale
from autoscaler.core.spec import ScaleTargetRef
from autoscaler.core.writes import AcceptedWrite, WriteFailure
from autoscaler.kubernetes import Api, Scales, list_pods
from tests.narrowing import assert_parts, instance
from tests.worlds.cluster import manifests
from tests.worlds.cluster.cluster import ClusterUnderTest, eventually, soon
from tests.worlds.cluster.clusters import crew_served
from tests.worlds.cluster.connecting import connect
from tests.worlds.cluster.manifests import WEB


def _read(scales: Scales, namespace: str, ref: ScaleTargetRef = WEB) -> Scale:
    return instance(Scale, scales.read(namespace, ref, soon()))


@pytest.fixture
def web(cluster: ClusterUnderTest, namespace: str) -> str:
    cluster.create(manifests.deployments(namespace), manifests.deployment("web", 2))
    return f"{manifests.deployments(namespace)}/web"


@pytest.mark.usefixtures("web")
def test_a_version_that_is_not_served_is_no_obstacle(scales: Scales, namespace: str) -> None:
    ref = ScaleTargetRef("apps/v1beta1", "Deployment", "web")
    assert _read(scales, namespace, ref).spec_replicas == 2


def test_a_change_of_another_field_is_no_obstacle(
    cluster: ClusterUnderTest, scales: Scales, namespace: str, web: str
) -> None:
    scale = _read(scales, namespace)
    cluster.patch(web, {"metadata": {"annotations": {"example.com/touched": "yes"}}})
    outcome = instance(AcceptedWrite, scales.write(namespace, WEB, scale, 4, soon()))
    assert outcome.scale.spec_replicas == 4
    body = cluster.get(web).body
    assert body["metadata"]["annotations"]["example.com/touched"] == "yes"


def test_an_object_that_is_missing_is_named(scales: Scales, namespace: str) -> None:
    read = instance(ReadFailure, scales.read(namespace, WEB, soon()))
    scale = Scale(1, 1, "app=web", "1")
    written = instance(WriteFailure, scales.write(namespace, WEB, scale, 2, soon()))
    assert not written.unknown
    for outcome in (read, written):
        assert_parts(outcome, 'deployments.apps "web"', f'"{namespace}"')


@pytest.mark.usefixtures("crews")
@pytest.mark.parametrize(
    ("api_version", "kind", "parts"),
    [
        (f"{manifests.CRD_GROUP}/v1", "Log", ["Log", f"logs.{manifests.CRD_GROUP}", "scale"]),
        ("v1", "Pod", ["Pod", "pods", "scale"]),
        ("apps/v1", "Deploymint", ['"Deploymint"', "apps", "Deployment, ReplicaSet, StatefulSet"]),
        (
            "nobody.example.com/v1",
            "Thing",
            ['"nobody.example.com"', "Thing", "CustomResourceDefinition"],
        ),
        ("a/b/c", "Thing", ['"a/b/c"', "group/version"]),
    ],
)
def test_a_kind_that_cannot_be_scaled_is_named_with_what_can_be(
    scales: Scales, namespace: str, api_version: str, kind: str, parts: list[str]
) -> None:
    ref = ScaleTargetRef(api_version, kind, "x")
    assert_parts(instance(ReadFailure, scales.read(namespace, ref, soon())), *parts)


def test_a_kind_that_comes_later_is_found(
    cluster: ClusterUnderTest, scales: Scales, namespace: str
) -> None:
    ref = ScaleTargetRef(f"boats.{manifests.CRD_GROUP}/v1", "Crew", "alpha")
    assert isinstance(scales.read(namespace, ref, soon()), ReadFailure)
    with crew_served(cluster, "boats", namespace) as (_, path):
        assert _read(scales, namespace, ref).spec_replicas == 4
    cluster.wait_served(path, status=404)
    # Discovery may name the group for a moment longer; then the object alone is missing.
    eventually(
        lambda: scales.read(namespace, ref, soon()),
        lambda read: isinstance(read, ReadFailure) and "alpha" not in read.message,
    )


def test_a_forbidden_write_is_reported_in_the_servers_words(
    cluster: ClusterUnderTest, scales: Scales, namespace: str, web: str, tmp_path: Path
) -> None:
    scale = _read(scales, namespace)
    path = cluster.write_kubeconfig(tmp_path / "reader", cluster.reader_token)
    with connect(path) as api:
        reader = Scales(api)
        assert _read(reader, namespace).spec_replicas == 2
        outcome = reader.write(namespace, WEB, scale, 9, soon())
    assert '"deployments/scale"' in instance(WriteFailure, outcome).message
    assert cluster.get(web).body["spec"]["replicas"] == 2


def _list(api: Api, namespace: str, selector: str, page_size: int = 500) -> tuple[Pod, ...]:
    return instance(tuple, list_pods(api, namespace, selector, soon(), page_size=page_size))


def test_every_page_is_read(cluster: ClusterUnderTest, api: Api, namespace: str) -> None:
    for number in range(7):
        labels = {"side": "left" if number else "right"}
        cluster.create(manifests.pods(namespace), manifests.pod(f"p{number}", labels))
    found = _list(api, namespace, "side in (left)", page_size=2)
    assert [pod.name for pod in found] == [f"p{number}" for number in range(1, 7)]


def test_a_terminating_pod_is_marked_as_deleted(
    cluster: ClusterUnderTest, api: Api, namespace: str
) -> None:
    body = manifests.pod("p", {"app": "web"})
    # A finalizer keeps it from vanishing under the test.
    body["metadata"]["finalizers"] = ["example.com/hold"]
    cluster.create(manifests.pods(namespace), body)
    cluster.request("DELETE", f"{manifests.pods(namespace)}/p")
    [pod] = _list(api, namespace, "app=web")
    assert pod.deleted
    cluster.patch(f"{manifests.pods(namespace)}/p", {"metadata": {"finalizers": None}})


def test_a_bad_selector_is_refused_in_the_servers_words(api: Api, namespace: str) -> None:
    answer = instance(ReadFailure, list_pods(api, namespace, "a in b", soon()))
    assert "400 (BadRequest)" in answer.message


def test_a_forbidden_list_is_reported_with_the_user(
    cluster: ClusterUnderTest, namespace: str, tmp_path: Path
) -> None:
    """Anonymous is forbidden; a wrong token has its test in `test_tls`."""
    with connect(cluster.write_kubeconfig(tmp_path / "k", "")) as api:
        answer = list_pods(api, namespace, "app=web", soon())
    assert '"system:anonymous"' in instance(ReadFailure, answer).message
