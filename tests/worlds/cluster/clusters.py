"""A control plane as the cluster under test, and namespaces in it."""

import secrets
from collections.abc import Iterator
from contextlib import contextmanager

from autoscaler.core.spec import ScaleTargetRef
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
    name = f"{prefix}-{secrets.token_hex(5)}"
    cluster.create(manifests.NAMESPACES, {"metadata": {"name": name}})
    yield name
    cluster.request("DELETE", f"{manifests.NAMESPACES}/{name}")


@contextmanager
def crew_served(
    cluster: ClusterUnderTest, subgroup: str, namespace: str
) -> Iterator[tuple[ScaleTargetRef, str]]:
    """Serve Crews in a group of its own; give the Crew alpha of 4, and its path."""
    definition = manifests.crew_definition(subgroup)
    version = f"{definition['spec']['group']}/v1"
    cluster.create(manifests.CRDS, definition)
    path = f"/apis/{version}/namespaces/{namespace}/crews"
    cluster.wait_served(path)
    cluster.create(path, manifests.crew("alpha", 4) | {"apiVersion": version})
    yield ScaleTargetRef(version, "Crew", "alpha"), f"{path}/alpha"
    cluster.request("DELETE", f"{manifests.CRDS}/{definition['metadata']['name']}")
