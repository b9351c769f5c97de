"""An API server that goes and comes back."""

from dataclasses import replace
from functools import partial

from autoscaler.adapters.cluster import Api
from autoscaler.core.observation import Unavailable
from tests.adapters.watches.targets import (
    QUICK,
    await_pods,
    await_scale,
    has_count,
    names,
    scale_of,
    target,
    watching,
)
from tests.worlds.cluster import manifests
from tests.worlds.cluster.cluster import ClusterUnderTest
from tests.worlds.controlplane.server import ControlPlane


def test_a_restart_of_the_api_server_loses_nothing(
    lone_plane: ControlPlane, lone_cluster: ClusterUnderTest, lone_api: Api, shop: str
) -> None:
    """What is at hand stays, then is said to be old, and follows again once the server is back."""
    with watching(lone_api, [target(shop, "web", pods=True)]) as watched:
        assert scale_of(watched, shop, "web").spec_replicas == 3
        await_pods(watched, shop, "app=web", lambda pods: not pods)
        lone_plane.stop_apiserver(grace=0)
        assert scale_of(watched, shop, "web").spec_replicas == 3
        await_scale(watched, shop, "web", lambda seen: isinstance(seen, Unavailable))
        assert watched.cached_pods(shop, "app=web") is None
        lone_plane.start_apiserver()
        lone_cluster.patch(f"{manifests.deployments(shop)}/web/scale", {"spec": {"replicas": 5}})
        lone_cluster.create(manifests.pods(shop), manifests.pod("p", {"app": "web"}))
        await_scale(watched, shop, "web", partial(has_count, 5))
        await_pods(watched, shop, "app=web", lambda pods: names(pods) == ["p"])


def test_a_short_restart_is_not_noticed_by_readers(
    lone_plane: ControlPlane, lone_cluster: ClusterUnderTest, lone_api: Api, shop: str
) -> None:
    """Within the time of trust the scale is at hand all along, and a change comes through."""
    with watching(lone_api, [target(shop, "web")], pace=replace(QUICK, trusted=60.0)) as watched:
        lone_plane.restart_apiserver(grace=0)
        assert scale_of(watched, shop, "web").spec_replicas == 3
        lone_cluster.patch(f"{manifests.deployments(shop)}/web/scale", {"spec": {"replicas": 5}})
        await_scale(watched, shop, "web", partial(has_count, 5))
