"""Who set the replicas, as the real API server tells."""

import pytest

from autoscaler import clock
from autoscaler.core.observation import Scale
from autoscaler.core.writes import FIELD_MANAGER, Superseded, Written
from autoscaler.kubernetes import Api, Scales
from autoscaler.kubernetes.discovery import manager_of
from tests.adapters.watches.targets import (
    SLOW,
    WEB,
    await_scale,
    has_count,
    scale_of,
    target,
    watching,
)
from tests.worlds.cluster import manifests
from tests.worlds.cluster.cluster import ClusterUnderTest, Json, eventually
from tests.worlds.cluster.clusters import crew_served
from tests.worlds.cluster.others import APPLY, set_count
from tests.worlds.controlplane.api import MERGE_PATCH


def test_a_name_that_is_no_name_is_short_and_printable() -> None:
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
    ids=["kubectl scale", "an HPA", "helm", "server-side apply"],
)
def test_who_set_the_replicas_is_told(
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


def test_our_own_write_stands_under_our_name(
    lone_cluster: ClusterUnderTest, lone_api: Api, shop: str
) -> None:
    """Another instance sees that it was one of us."""
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
    assert [one["subresource"] for one in entries if one["manager"] == FIELD_MANAGER] == ["scale"]


def test_a_zero_of_ours_is_told_from_one_by_hand(
    lone_cluster: ClusterUnderTest, lone_api: Api, shop: str
) -> None:
    """With a watch and without, and also once the count has been above zero and is zero again."""
    scales, path = Scales(lone_api), f"{manifests.deployments(shop)}/web/scale"

    def who_set(count: int) -> str:
        read = scales.read_annotated(shop, WEB, clock.monotonic() + 5)
        assert isinstance(read, Scale)
        assert read.spec_replicas == count
        with watching(lone_api, [target(shop, "web")], pace=SLOW) as watched:
            seen = scale_of(watched, shop, "web")
            assert seen.replicas_by == read.replicas_by or count
            return seen.replicas_by

    def write(count: int) -> None:
        read = scales.read(shop, WEB, clock.monotonic() + 5)
        assert isinstance(read, Scale)
        written = scales.write(shop, WEB, read, count, clock.monotonic() + 5)
        assert isinstance(written, Written)
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
    """It is guarded by the version that was read, as every other write."""
    scales = Scales(lone_api)
    read = scales.read(shop, WEB, clock.monotonic() + 5)
    assert isinstance(read, Scale)
    set_count(lone_cluster, f"{manifests.deployments(shop)}/web/scale", 5, "kubectl")
    outcome = scales.write(shop, WEB, read, 0, clock.monotonic() + 5)
    assert isinstance(outcome, Superseded)
    assert outcome.scale.spec_replicas == 5


@pytest.mark.parametrize("part", ["", "/scale"], ids=["object", "scale"])
def test_the_manager_of_a_custom_count_is_told(
    lone_cluster: ClusterUnderTest, lone_api: Api, shop: str, part: str
) -> None:
    """The path of the definition is looked up in the managed fields."""
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
        zero = Scales(lone_api).write(shop, crew, seen, 0, clock.monotonic() + 5)
        assert isinstance(zero, Written)
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
    ids=["none", "empty", "odd", "other field", "odd fields", "one", "several"],
)
def test_the_latest_owner_of_the_field_is_taken(entries: object, manager: str) -> None:
    """What cannot be read tells nobody's name, and breaks nothing."""
    obj: Json = {"metadata": {"managedFields": entries}}
    assert manager_of(obj, ("spec", "replicas")) == manager
