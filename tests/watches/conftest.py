"""Clusters to watch: each server in turn, and a control plane that only these tests use."""

import secrets
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
import requests

from autoscaler.adapters.cluster import Api, connect
from autoscaler.demo.apiserver import StandInCluster
from tests.contract import manifests
from tests.contract.cluster import ClusterUnderTest, Json
from tests.controlplane.binaries import ControlPlaneUnavailable
from tests.controlplane.fixtures import unavailable
from tests.controlplane.server import ControlPlane

REAL = "control plane"
STAND_IN = "stand-in"


@contextmanager
def stand_in_cluster() -> Iterator[ClusterUnderTest]:
    """Run the demo's stand-in for a cluster."""
    with StandInCluster(ready_after=0.3, stop_after=0.1) as stand_in, requests.Session() as session:
        session.trust_env = False
        yield ClusterUnderTest(
            url=stand_in.url,
            token=stand_in.token,
            reader_token=stand_in.read_only_token,
            ca_file=None,
            forget_changes=stand_in.expire_watches,
            session=session,
        )


@contextmanager
def real_cluster(plane: ControlPlane) -> Iterator[ClusterUnderTest]:
    """Use a control plane; its "viewer" has no role here."""
    with requests.Session() as session:
        session.trust_env = False
        yield ClusterUnderTest(
            url=plane.url,
            token=plane.admin_token,
            reader_token=plane.token_for("viewer"),
            ca_file=plane.ca_file,
            forget_changes=lambda: None,
            session=session,
        )


@pytest.fixture(scope="session", params=[REAL, STAND_IN])
def cluster(request: pytest.FixtureRequest) -> Iterator[ClusterUnderTest]:
    """Run each server of the Kubernetes API."""
    if request.param == STAND_IN:
        with stand_in_cluster() as cluster:
            yield cluster
        return
    plane = request.getfixturevalue("control_plane")
    request.getfixturevalue("kubelet")
    with real_cluster(plane) as cluster:
        yield cluster


@pytest.fixture
def namespace(cluster: ClusterUnderTest) -> Iterator[str]:
    """Make a fresh namespace, deleted after the test, and give its name."""
    with fresh_namespace(cluster) as name:
        yield name


@contextmanager
def fresh_namespace(cluster: ClusterUnderTest) -> Iterator[str]:
    """Make a namespace, and delete it in the end."""
    name = f"watches-{secrets.token_hex(5)}"
    cluster.create(manifests.NAMESPACES, {"metadata": {"name": name}})
    yield name
    cluster.request("DELETE", f"{manifests.NAMESPACES}/{name}")


@pytest.fixture
def api(cluster: ClusterUnderTest, tmp_path: Path) -> Iterator[Api]:
    """Connect as our programs do."""
    with connect(cluster.write_kubeconfig(tmp_path / "kubeconfig")) as api:
        yield api


CREW_GROUP = f"watches.{manifests.CRD_GROUP}"


@pytest.fixture
def crew_definition(cluster: ClusterUnderTest) -> Iterator[Json]:
    """Have Crews served, in a group of these tests' own."""
    definition = manifests.crew_definition("watches")
    cluster.create(manifests.CRDS, definition)
    path = f"/apis/{CREW_GROUP}/v1/namespaces/default/crews"
    cluster.wait_served(path)
    yield definition
    cluster.request("DELETE", f"{manifests.CRDS}/{definition['metadata']['name']}")
    cluster.wait_served(path, status=404)


@pytest.fixture(scope="session")
def lone_plane() -> Iterator[ControlPlane]:
    """Start a control plane without controllers, to be restarted and to have roles changed."""
    try:
        plane = ControlPlane(controllers=(), users={"viewer": (), "limited": ()})
    except ControlPlaneUnavailable as reason:
        unavailable(reason)
    with plane:
        yield plane


@pytest.fixture
def lone_cluster(lone_plane: ControlPlane) -> Iterator[ClusterUnderTest]:
    """Use it."""
    with real_cluster(lone_plane) as cluster:
        yield cluster
