"""Without the right to watch, objects are read directly, with one note; the watch is retried."""

from functools import partial

import pytest

from autoscaler import clock
from autoscaler.core.observation import Scale
from autoscaler.kubernetes import Api
from tests.adapters.watches.targets import (
    WEB,
    await_scale,
    has_count,
    names,
    scale_of,
    target,
    watch_threads,
    watching,
)
from tests.narrowing import assert_parts
from tests.worlds.cluster import manifests
from tests.worlds.cluster.cluster import ClusterUnderTest, eventually
from tests.worlds.cluster.clusters import crew_served
from tests.worlds.cluster.roles import AUTOSCALERS, READ_SCALES, WATCH, await_granted, grant


@pytest.fixture
def shops(lone_cluster: ClusterUnderTest, two_namespaces: list[str]) -> list[str]:
    for shop in two_namespaces:
        lone_cluster.create(manifests.deployments(shop), manifests.deployment("web"))
        lone_cluster.create(manifests.pods(shop), manifests.pod("web-1", {"app": "web"}))
    return two_namespaces


def test_forbidden_scales_are_read_directly_until_they_are_allowed(
    lone_cluster: ClusterUnderTest, limited: Api, shops: list[str]
) -> None:
    shop = shops[0]
    grant(lone_cluster, shop, "scales", READ_SCALES, AUTOSCALERS)
    await_granted(limited, f"{manifests.deployments(shop)}/web/scale")
    notes: list[str] = []
    with watching(limited, [target(shop, "web")], notes=notes) as watched:
        assert watched.cached_scale(shop, WEB) is None
        assert isinstance(watched.read_scale(shop, WEB, clock.monotonic() + 5), Scale)
        name = f'Deployment.apps in namespace "{shop}"'
        (note,) = notes
        assert_parts(note, name, 'User "limited"', 'list resource "deployments"')
        grant(lone_cluster, shop, "watch", WATCH)
        await_scale(watched, shop, WEB, lambda seen: isinstance(seen, Scale))
        eventually(lambda: notes[1:], bool)
        (allowed,) = notes[1:]
        assert allowed.startswith(f"good: {name}")


def test_a_role_in_each_namespace_is_enough(
    lone_cluster: ClusterUnderTest, limited: Api, shops: list[str]
) -> None:
    for shop in shops:
        grant(lone_cluster, shop, "watch", WATCH, AUTOSCALERS)
        await_granted(limited, manifests.pods(shop))
    notes: list[str] = []
    targets = [target(shop, "web", pods=True) for shop in shops]
    with watching(limited, targets, notes=notes) as watched:
        for shop in shops:
            assert isinstance(watched.cached_scale(shop, WEB), Scale)
            pods = watched.cached_pods(shop, "app=web")
            assert isinstance(pods, tuple)
            assert names(pods) == ["web-1"]
        # All at once is tried again now and then.
        assert len([name for name in watch_threads() if "Deployment" in name]) == 3
    for note, name in zip(
        sorted(notes), ("Deployment.apps ", "HorizontalPodAutoscaler.autoscaling "), strict=True
    ):
        assert_parts(note, name, "each namespace")


def test_a_definition_that_may_not_be_read_leaves_its_kind_unwatched(
    lone_cluster: ClusterUnderTest, limited: Api, shops: list[str]
) -> None:
    grant(lone_cluster, shops[0], "autoscalers", AUTOSCALERS)
    await_granted(limited, f"/apis/autoscaling/v2/namespaces/{shops[0]}/horizontalpodautoscalers")
    notes: list[str] = []
    with (
        crew_served(lone_cluster, "secret", shops[0]) as (crew, _),
        watching(limited, [target(shops[0], crew)], notes=notes) as watched,
    ):
        assert watched.cached_scale(shops[0], crew) is None
    (note,) = notes
    assert f'"crews.secret.{manifests.CRD_GROUP}" is forbidden' in note


def test_a_definition_whose_paths_change_is_read_again(
    lone_cluster: ClusterUnderTest, lone_api: Api, shops: list[str]
) -> None:
    name = f"{manifests.CRDS}/crews.moving.{manifests.CRD_GROUP}"
    with (
        crew_served(lone_cluster, "moving", shops[0]) as (crew, _),
        watching(lone_api, [target(shops[0], crew)]) as watched,
    ):
        assert scale_of(watched, shops[0], crew).spec_replicas == 4
        versions = lone_cluster.get(name).body["spec"]["versions"]
        schema = versions[0]["schema"]["openAPIV3Schema"]["properties"]["spec"]
        schema["properties"]["crew"] = {"type": "integer", "default": 7}
        versions[0]["subresources"]["scale"]["specReplicasPath"] = ".spec.crew"
        assert lone_cluster.patch(name, {"spec": {"versions": versions}}).status == 200
        await_scale(watched, shops[0], crew, partial(has_count, 7))
