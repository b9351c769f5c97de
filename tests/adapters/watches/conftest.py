"""Clusters to watch: the shared control plane, and a control plane that only these tests use."""

from collections import deque
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from pathlib import Path

import pytest

from autoscaler.core.target import Target
from autoscaler.kubernetes import Api, WatchedCluster
from autoscaler.kubernetes.watch_requests import WatchTimings
from tests.adapters.watches.targets import SHOP, SLOW, Watch, watching
from tests.worlds.cluster import manifests
from tests.worlds.cluster.cluster import ClusterUnderTest
from tests.worlds.cluster.clusters import fresh_namespace, real_cluster
from tests.worlds.cluster.connecting import Starter, connect
from tests.worlds.cluster.scripted import Answer
from tests.worlds.cluster.watch_script import Script, WatchScript, deployment, listed
from tests.worlds.controlplane.fixtures import if_available
from tests.worlds.controlplane.server import ControlPlane


@pytest.fixture(scope="session")
def lone_plane() -> Iterator[ControlPlane]:
    """Start a control plane without controllers, to be restarted and to have roles changed."""
    with if_available():
        plane = ControlPlane(controllers=(), users={"viewer": (), "limited": ()})
    with plane:
        yield plane


@pytest.fixture
def lone_cluster(lone_plane: ControlPlane) -> Iterator[ClusterUnderTest]:
    with real_cluster(lone_plane) as cluster:
        yield cluster


@pytest.fixture
def lone_api(lone_cluster: ClusterUnderTest, tmp_path: Path) -> Iterator[Api]:
    with connect(lone_cluster.write_kubeconfig(tmp_path / "lone-admin")) as api:
        yield api


@pytest.fixture
def shop(lone_cluster: ClusterUnderTest) -> Iterator[str]:
    """Make a namespace with the Deployment web of 3 replicas, which nothing acts upon."""
    with fresh_namespace(lone_cluster, "watches") as namespace:
        path = manifests.deployments(namespace)
        lone_cluster.create(path, manifests.deployment("web", 3))
        yield namespace


@pytest.fixture
def two_namespaces(lone_cluster: ClusterUnderTest) -> Iterator[list[str]]:
    with (
        fresh_namespace(lone_cluster, "watches") as first,
        fresh_namespace(lone_cluster, "watches") as second,
    ):
        yield sorted((first, second))


@pytest.fixture
def limited(
    lone_plane: ControlPlane, lone_cluster: ClusterUnderTest, tmp_path: Path
) -> Iterator[Api]:
    """Connect as a user who may do nothing yet."""
    token = lone_plane.token_for("limited")
    with connect(lone_cluster.write_kubeconfig(tmp_path / "limited", token)) as api:
        yield api


@pytest.fixture
def script(tmp_path: Path) -> Iterator[Script]:
    with Starter(tmp_path) as starter:
        yield lambda *lists, put=None: starter.start(WatchScript(*lists, put=put))


@pytest.fixture
def watch(script: Script) -> Iterator[Watch]:
    """Watch the targets while a server plays lists, by default one of a Deployment for SHOP."""
    with ExitStack() as stack:

        def start(
            *lists: Answer,
            put: Answer | None = None,
            autoscalers: Sequence[Answer] = (),
            heads: Sequence[Answer] = (),
            targets: Sequence[Target] = (SHOP,),
            pace: WatchTimings = SLOW,
            synced: bool = True,
        ) -> tuple[WatchScript, WatchedCluster, list[str]]:
            server, api = script(*(lists or [listed("7", deployment("7", 1))]), put=put)
            server.autoscalers.lists = deque(autoscalers or server.autoscalers.lists)
            server.heads.extend(heads)
            notes: list[str] = []
            watching_them = watching(api, targets, pace=pace, notes=notes, synced=synced)
            return server, stack.enter_context(watching_them), notes

        yield start
