"""The servers of the Kubernetes API that tests run against, each in turn."""

import secrets
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager

import pytest
import requests

from autoscaler.demo.apiserver import StandInCluster
from tests.adapters.cluster import manifests
from tests.adapters.cluster.cluster import ClusterUnderTest
from tests.controlplane.server import ControlPlane

REAL = "control plane"
STAND_IN = "stand-in"


@contextmanager
def stand_in_cluster() -> Iterator[ClusterUnderTest]:
    """Run the demo's stand-in for a cluster."""
    with StandInCluster(ready_after=1.5, stop_after=0.2) as stand_in, requests.Session() as session:
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
    """Use a control plane; its "viewer" has no role yet."""
    with requests.Session() as session:
        session.trust_env = False
        yield ClusterUnderTest(
            url=plane.url,
            token=plane.admin_token,
            reader_token=plane.token_for("viewer"),
            ca_file=plane.ca_file,
            # The watch cache of a custom resource begins when its definition does, later than 1.
            forget_changes=lambda: None,
            session=session,
        )


def requested_cluster(
    request: pytest.FixtureRequest,
    real: Callable[[ControlPlane], AbstractContextManager[ClusterUnderTest]] = real_cluster,
) -> Iterator[ClusterUnderTest]:
    """Run the server that a fixture's parameter names: REAL or STAND_IN."""
    if request.param == STAND_IN:
        with stand_in_cluster() as cluster:
            yield cluster
        return
    plane = request.getfixturevalue("control_plane")
    request.getfixturevalue("kubelet")
    with real(plane) as cluster:
        yield cluster


@contextmanager
def fresh_namespace(cluster: ClusterUnderTest, prefix: str) -> Iterator[str]:
    """Make a namespace, and delete it in the end."""
    name = f"{prefix}-{secrets.token_hex(5)}"
    cluster.create(manifests.NAMESPACES, {"metadata": {"name": name}})
    yield name
    cluster.request("DELETE", f"{manifests.NAMESPACES}/{name}")
