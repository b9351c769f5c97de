"""A control plane as the cluster under test, and namespaces in it."""

import secrets
from collections.abc import Iterator
from contextlib import contextmanager

from tests.worlds.cluster import manifests
from tests.worlds.cluster.cluster import ClusterUnderTest
from tests.worlds.controlplane.server import ControlPlane


@contextmanager
def real_cluster(plane: ControlPlane) -> Iterator[ClusterUnderTest]:
    """Use a control plane; its "viewer" has no role yet."""
    viewer = plane.token_for("viewer")
    with ClusterUnderTest(plane.url, plane.admin_token, viewer, plane.ca_file) as cluster:
        yield cluster


@contextmanager
def fresh_namespace(cluster: ClusterUnderTest, prefix: str) -> Iterator[str]:
    """Make a namespace, and delete it in the end."""
    name = f"{prefix}-{secrets.token_hex(5)}"
    cluster.create(manifests.NAMESPACES, {"metadata": {"name": name}})
    yield name
    cluster.request("DELETE", f"{manifests.NAMESPACES}/{name}")
