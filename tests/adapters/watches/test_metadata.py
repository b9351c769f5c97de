"""Metadata of a workload: the manager that set the replicas, and annotations that pause it."""

import pytest

from autoscaler import clock
from autoscaler.core.observation import ReadFailure, Scale
from autoscaler.core.spec import ScaleTargetRef
from autoscaler.core.writes import FIELD_MANAGER, AcceptedWrite, WriteConflict
from autoscaler.kubernetes import Api, Scales, UncachedCluster
from autoscaler.kubernetes.discovery import annotations_of, manager_of
from tests.adapters.watches.targets import (
    SLOW,
    WEB,
    Watch,
    await_scale,
    has_count,
    scale_of,
    target,
    watching,
)
from tests.narrowing import assert_parts, instance
from tests.worlds.cluster import manifests
from tests.worlds.cluster.cluster import ClusterUnderTest, Noting, eventually, soon
from tests.worlds.cluster.clusters import crew_served
from tests.worlds.cluster.manifests import CREW
from tests.worlds.cluster.others import APPLY, set_count
from tests.worlds.cluster.roles import READ_SCALES, await_granted, grant
from tests.worlds.cluster.scripted import Answer
from tests.worlds.cluster.watch_script import Script, deployment, listed
from tests.worlds.controlplane.api import MERGE_PATCH, Json


def test_an_invalid_manager_is_shortened_and_printable() -> None:
    """An API server refuses such names, and one that does not must not reach a terminal."""
    entry = {"manager": "a\n\x1b[2J" + "x" * 1_000_000, "fieldsV1": {"f:spec": {"f:replicas": {}}}}
    found = manager_of({"metadata": {"managedFields": [entry]}}, ("spec", "replicas"))
    assert found.startswith(r"a \x1b[2Jxx")
    assert len(found) == 128


@pytest.mark.parametrize(
    ("part", "kind", "manager"),
    [
        ("/scale", MERGE_PATCH, "kubectl"),
        ("/scale", MERGE_PATCH, "kube-controller-manager"),
        ("", MERGE_PATCH, "helm"),
        ("", APPLY, "argocd-controller"),
    ],
    ids=["kubectl-scale", "hpa", "helm", "server-side-apply"],
)
def test_the_manager_that_set_the_replicas_is_known(
    lone_cluster: ClusterUnderTest, lone_api: Api, shop: str, part: str, kind: str, manager: str
) -> None:
    """The manager is the one that changed the count, by the object or by its scale, seen or listed.

    Who changes something else does not take the count over.
    """
    path = f"{manifests.deployments(shop)}/web"
    with watching(lone_api, [target(shop, "web")], pace=SLOW) as watched:
        assert scale_of(watched, shop, "web").replicas_by == "python-requests"
        set_count(lone_cluster, path + part, 5, manager, kind)
        await_scale(watched, shop, WEB, lambda seen: has_count(5, seen))
        assert scale_of(watched, shop, "web").replicas_by == manager
        before = scale_of(watched, shop, "web").resource_version
        label = {"metadata": {"labels": {"a": "b"}}}
        lone_cluster.request(
            "PATCH", path, label, content_type=MERGE_PATCH, query={"fieldManager": "other"}
        )
        eventually(lambda: scale_of(watched, shop, "web").resource_version, lambda v: v != before)
        assert scale_of(watched, shop, "web").replicas_by == manager
        with watching(lone_api, [target(shop, "web")], pace=SLOW) as late:
            scale = scale_of(late, shop, "web")
            assert scale.replicas_by == manager
            assert scale.uid == lone_cluster.get(path).body["metadata"]["uid"]
            direct = Scales(lone_api).read(shop, WEB, clock.monotonic() + 5)
            assert getattr(direct, "uid", None) == scale.uid


def test_our_own_write_has_our_field_manager(
    lone_cluster: ClusterUnderTest, lone_api: Api, shop: str
) -> None:
    with (
        watching(lone_api, [target(shop, "web")], pace=SLOW) as ours,
        watching(lone_api, [target(shop, "web")], pace=SLOW) as others,
    ):
        ours.write_scale(shop, WEB, scale_of(ours, shop, "web"), 4, clock.monotonic() + 5)
        await_scale(others, shop, WEB, lambda seen: has_count(4, seen))
        assert scale_of(others, shop, "web").replicas_by == FIELD_MANAGER
        eventually(lambda: scale_of(ours, shop, "web").replicas_by, FIELD_MANAGER.__eq__)
    path = f"{manifests.deployments(shop)}/web"
    entries = lone_cluster.get(path).body["metadata"]["managedFields"]
    assert [entry["subresource"] for entry in entries if entry["manager"] == FIELD_MANAGER] == [
        "scale"
    ]


def test_our_zero_differs_from_a_zero_by_hand(
    lone_cluster: ClusterUnderTest, lone_api: Api, shop: str
) -> None:
    scales, path = Scales(lone_api), f"{manifests.deployments(shop)}/web/scale"

    def who_set(count: int) -> str:
        read = instance(Scale, scales.read_annotated(shop, WEB, clock.monotonic() + 5))
        assert read.spec_replicas == count
        with watching(lone_api, [target(shop, "web")], pace=SLOW) as watched:
            seen = scale_of(watched, shop, "web")
            assert seen.replicas_by == read.replicas_by or count
            return seen.replicas_by

    def write(count: int) -> None:
        read = instance(Scale, scales.read(shop, WEB, clock.monotonic() + 5))
        written = instance(
            AcceptedWrite, scales.write(shop, WEB, read, count, clock.monotonic() + 5)
        )
        assert written.scale.spec_replicas == count

    for count in (0, 4, 0):
        write(count)
        assert who_set(count) == FIELD_MANAGER
    for count in (3, 0):
        set_count(lone_cluster, path, count, "kubectl")
        assert who_set(count) == ("kubectl" if count else "")


def test_a_zero_over_another_change_is_a_conflict(
    lone_cluster: ClusterUnderTest, lone_api: Api, shop: str
) -> None:
    scales = Scales(lone_api)
    read = instance(Scale, scales.read(shop, WEB, clock.monotonic() + 5))
    set_count(lone_cluster, f"{manifests.deployments(shop)}/web/scale", 5, "kubectl")
    outcome = instance(WriteConflict, scales.write(shop, WEB, read, 0, clock.monotonic() + 5))
    assert outcome.scale.spec_replicas == 5


@pytest.mark.parametrize("part", ["", "/scale"], ids=["object", "scale"])
def test_the_manager_of_the_count_of_a_custom_resource_is_known(
    lone_cluster: ClusterUnderTest, lone_api: Api, shop: str, part: str
) -> None:
    # The one before may still be on its way out.
    subgroup = "managed-scale" if part else "managed-object"
    with (
        crew_served(lone_cluster, subgroup, shop) as (crew, path),
        watching(lone_api, [target(shop, crew)], pace=SLOW) as watched,
    ):
        body = {"spec": {"replicas": 6} if part else {"size": 6}}
        query = {"fieldManager": "boatswain"}
        lone_cluster.request("PATCH", f"{path}{part}", body, content_type=MERGE_PATCH, query=query)
        await_scale(watched, shop, crew, lambda seen: has_count(6, seen))
        assert scale_of(watched, shop, crew).replicas_by == "boatswain"
        seen = scale_of(watched, shop, crew)
        instance(AcceptedWrite, Scales(lone_api).write(shop, crew, seen, 0, clock.monotonic() + 5))
        await_scale(watched, shop, crew, lambda seen: has_count(0, seen))
        # The API server keeps no manager of a zero in a custom resource, and applies none there.
        assert scale_of(watched, shop, crew).replicas_by == ""


@pytest.mark.parametrize(
    ("entries", "manager"),
    [
        (None, ""),
        ([], ""),
        ("odd", ""),
        ([{"manager": "a", "fieldsV1": {"f:spec": {"f:paused": {}}}}], ""),
        ([{"manager": "a", "fieldsV1": "odd"}, {"manager": "b"}], ""),
        ([{"manager": "a", "fieldsV1": {"f:spec": {"f:replicas": {}}}}], "a"),
        (
            [
                {"manager": manager, "time": time, "fieldsV1": {"f:spec": {"f:replicas": {}}}}
                for manager, time in (
                    ("older", "2026-01-01T09:59:59Z"),
                    ("latest", "2026-01-01T10:00:00Z"),
                    ("timeless", ""),
                )
            ],
            "latest",
        ),
    ],
    ids=["none", "empty", "odd", "other-field", "odd-fields", "one", "several"],
)
def test_the_latest_owner_of_the_field_is_taken(entries: object, manager: str) -> None:
    obj: Json = {"metadata": {"managedFields": entries}}
    assert manager_of(obj, ("spec", "replicas")) == manager


# -- annotations -----------------------------------------------------------------------------------


PAUSED = (("autoscaler/paused", "true"),)


def _annotated(annotations: Json) -> Json:
    return {"metadata": {"annotations": annotations}}


@pytest.mark.usefixtures("crews")
@pytest.mark.parametrize("ref", [WEB, CREW], ids=["Deployment", "custom-resource"])
def test_annotations_appear_with_the_scale_and_disappear(
    cluster: ClusterUnderTest, api: Api, namespace: str, ref: ScaleTargetRef
) -> None:
    if ref is CREW:
        path = manifests.crews(namespace)
        cluster.create(path, manifests.crew("alpha", 4))
    else:
        path = manifests.deployments(namespace)
        cluster.create(path, manifests.deployment("web", 0))
    path = f"{path}/{ref.name}"
    plan = UncachedCluster(api)
    with watching(api, [target(namespace, ref)], pace=SLOW) as watched:
        assert scale_of(watched, namespace, ref).annotations == ()
        both = {"autoscaler/paused-until": "2026-11-22T18:00:00Z", "autoscaler/paused": "true"}
        reply = cluster.patch(path, _annotated(both | {"example.com/paused": "true"}))
        assert reply.status == 200
        wanted = tuple(sorted(both.items()))
        await_scale(
            watched, namespace, ref, lambda seen: getattr(seen, "annotations", None) == wanted
        )
        assert getattr(plan.read_scale(namespace, ref, soon()), "annotations", None) == wanted
        with watching(api, [target(namespace, ref)]) as late:
            assert scale_of(late, namespace, ref).annotations == wanted
        cluster.patch(path, _annotated(dict.fromkeys(both)))
        await_scale(watched, namespace, ref, lambda seen: getattr(seen, "annotations", None) == ())
        assert getattr(plan.read_scale(namespace, ref, soon()), "annotations", None) == ()


def test_annotations_stay_after_our_own_write(
    cluster: ClusterUnderTest, api: Api, namespace: str
) -> None:
    """The answer to a write does not have them: a pause must not end for a moment."""
    path = f"{manifests.deployments(namespace)}/web"
    cluster.create(
        manifests.deployments(namespace),
        manifests.deployment("web", 1)
        | {"metadata": {"name": "web", "annotations": {"autoscaler/paused": "true"}}},
    )
    with watching(api, [target(namespace, "web")]) as watched:
        for count in (2, 3, 4):
            scale = scale_of(watched, namespace, "web")
            assert isinstance(
                watched.write_scale(namespace, WEB, scale, count, soon()), AcceptedWrite
            )
            after = scale_of(watched, namespace, "web")
            assert (after.spec_replicas, after.annotations) == (count, PAUSED)
    assert cluster.get(path).body["spec"]["replicas"] == 4


def test_annotations_are_read_before_the_first_list(watch: Watch) -> None:
    paused = deployment("7", 1)
    paused["metadata"]["annotations"] = {"autoscaler/paused": "true"}
    server, watched, _ = watch(
        Answer(fault="hang"), Answer(body=deployment("7", 1)), listed("7", paused), synced=False
    )
    eventually(lambda: server.count("list"), bool)
    assert watched.cached_scale("shop", WEB) is None
    scale = instance(Scale, watched.read_scale("shop", WEB, soon()))
    assert scale.annotations == PAUSED


def test_without_readable_annotations_nothing_is_decided(script: Script) -> None:
    server, api = script(Answer(body=deployment("7", 1)), Answer(body={"items": [{}]}))
    read = UncachedCluster(api).read_scale("shop", WEB, clock.monotonic() + 1)
    assert_parts(instance(ReadFailure, read), api.server, "deployments")
    assert server.count("list") == 2


def test_without_the_right_to_list_there_are_no_annotations(
    lone_cluster: ClusterUnderTest, limited: Api, shop: str
) -> None:
    """A daemon tries its watch once and not for each scale; a plan has one note."""
    lone_cluster.patch(
        f"{manifests.deployments(shop)}/web", _annotated({"autoscaler/paused": "true"})
    )
    grant(lone_cluster, shop, "scales", READ_SCALES)
    await_granted(limited, f"{manifests.deployments(shop)}/web/scale")
    with watching(limited, [target(shop, "web")]) as watched:
        scale = instance(Scale, watched.read_scale(shop, WEB, soon()))
        assert scale.annotations == ()
    notes: list[str] = []
    plan = UncachedCluster(limited, observer=Noting(notes))
    for _ in range(2):
        assert plan.read_scale(shop, WEB, soon()) == scale
    (note,) = notes
    assert_parts(note, "annotations", '"limited"', '"deployments"', '"web"', f'"{shop}"')


def test_large_annotations_are_cut() -> None:
    """An object has up to 256 KiB of them, from writers that are not trusted."""
    hostile = {f"autoscaler/{'k' * 50}{n}": "a\n\x1b[2J" + "x" * 250_000 for n in range(1000)}
    kept = annotations_of({"annotations": hostile})
    assert len(kept) == 16
    assert all(len(value) == 100 and value.startswith(r"a \x1b[2Jxx") for _, value in kept)
    assert annotations_of({"annotations": None}) == annotations_of({}) == ()
