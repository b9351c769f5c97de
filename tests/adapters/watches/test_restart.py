"""An API server that goes and comes back."""

from dataclasses import replace
from functools import partial
from pathlib import Path

from autoscaler.adapters.cluster import connect
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
from tests.worlds.cluster.clusters import fresh_namespace
from tests.worlds.controlplane.server import ControlPlane


def test_a_restart_of_the_api_server_loses_nothing(
    lone_plane: ControlPlane, lone_cluster: ClusterUnderTest, tmp_path: Path
) -> None:
    """What is at hand stays, then is said to be old, and follows again once the server is back."""
    with (
        fresh_namespace(lone_cluster, "watches") as namespace,
        connect(lone_cluster.write_kubeconfig(tmp_path / "admin")) as api,
    ):
        path = manifests.deployments(namespace)
        lone_cluster.create(path, manifests.deployment("web", 1))
        with watching(api, [target(namespace, "web", pods=True)]) as watched:
            assert scale_of(watched, namespace, "web").spec_replicas == 1
            await_pods(watched, namespace, "app=web", lambda pods: not pods)
            lone_plane.stop_apiserver(grace=0)
            assert scale_of(watched, namespace, "web").spec_replicas == 1
            await_scale(watched, namespace, "web", lambda seen: isinstance(seen, Unavailable))
            assert watched.cached_pods(namespace, "app=web") is None
            lone_plane.start_apiserver()
            lone_cluster.patch(f"{path}/web/scale", {"spec": {"replicas": 3}})
            lone_cluster.create(manifests.pods(namespace), manifests.pod("p", {"app": "web"}))
            await_scale(watched, namespace, "web", partial(has_count, 3))
            await_pods(watched, namespace, "app=web", lambda pods: names(pods) == ["p"])


def test_a_short_restart_is_not_noticed_by_readers(
    lone_plane: ControlPlane, lone_cluster: ClusterUnderTest, tmp_path: Path
) -> None:
    """Within the time of trust the scale is at hand all along, and a change comes through."""
    with (
        fresh_namespace(lone_cluster, "watches") as namespace,
        connect(lone_cluster.write_kubeconfig(tmp_path / "admin")) as api,
    ):
        path = manifests.deployments(namespace)
        lone_cluster.create(path, manifests.deployment("web", 1))
        pace = replace(QUICK, trusted=60.0)
        with watching(api, [target(namespace, "web")], pace=pace) as watched:
            lone_plane.restart_apiserver(grace=0)
            assert scale_of(watched, namespace, "web").spec_replicas == 1
            lone_cluster.patch(f"{path}/web/scale", {"spec": {"replicas": 3}})
            await_scale(watched, namespace, "web", partial(has_count, 3))
