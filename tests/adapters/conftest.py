"""The cluster under test, and a connection to it."""

from collections.abc import Iterator
from functools import partial
from pathlib import Path

import pytest

from autoscaler.kubernetes import Api
from tests.worlds.cluster import manifests
from tests.worlds.cluster.cluster import ClusterUnderTest, eventually
from tests.worlds.cluster.clusters import fresh_namespace, real_cluster
from tests.worlds.cluster.connecting import connect
from tests.worlds.controlplane.kubelet import FakeKubelet
from tests.worlds.controlplane.server import ControlPlane

RBAC = "rbac.authorization.k8s.io"


@pytest.fixture(scope="session")
def cluster(
    control_plane: ControlPlane,
    kubelet: FakeKubelet,  # noqa: ARG001 - runs the pods
) -> Iterator[ClusterUnderTest]:
    """Use the control plane, whose user "viewer" gets a role that only reads."""
    with real_cluster(control_plane) as cluster:
        rules = [{"apiGroups": ["*"], "resources": ["*"], "verbs": ["get", "list", "watch"]}]
        name = {"name": "contract-reader"}
        role = {"apiGroup": RBAC, "kind": "ClusterRole"} | name
        viewer = {"apiGroup": RBAC, "kind": "User", "name": "viewer"}
        binding = {"metadata": name, "roleRef": role, "subjects": [viewer]}
        paths = [f"/apis/{RBAC}/v1/{plural}" for plural in ("clusterroles", "clusterrolebindings")]
        cluster.create(paths[0], {"metadata": name, "rules": rules})
        cluster.create(paths[1], binding)
        # The authorizer learns of a role by a watch.
        look = partial(cluster.request, "GET", "/api/v1/pods", token=cluster.reader_token)
        eventually(look, lambda reply: reply.status == 200)
        yield cluster
        for path in paths:
            cluster.request("DELETE", f"{path}/contract-reader")


@pytest.fixture
def namespace(cluster: ClusterUnderTest) -> Iterator[str]:
    with fresh_namespace(cluster, "contract") as name:
        yield name


@pytest.fixture(scope="session")
def crews(cluster: ClusterUnderTest) -> Iterator[None]:
    """Have the custom resources of `manifests` served: Crew has a scale, Log has none."""
    definitions = (manifests.crew_definition(), manifests.plain_definition())
    for definition in definitions:
        cluster.create(manifests.CRDS, definition)
    for plural in ("crews", "logs"):
        cluster.wait_served(f"/apis/{manifests.CRD_GROUP}/v1/namespaces/default/{plural}")
    yield
    for definition in definitions:
        cluster.request("DELETE", f"{manifests.CRDS}/{definition['metadata']['name']}")


@pytest.fixture
def kubeconfig(cluster: ClusterUnderTest, tmp_path: Path) -> Path:
    return cluster.write_kubeconfig(tmp_path / "kubeconfig")


@pytest.fixture
def api(kubeconfig: Path) -> Iterator[Api]:
    with connect(kubeconfig) as api:
        yield api
