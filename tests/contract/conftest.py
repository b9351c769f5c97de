"""The cluster under test, each server in turn, and our adapters on it."""

import secrets
import threading
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from functools import partial
from pathlib import Path

import pytest
import requests

from autoscaler.adapters.cluster import Api, Pods, Scales, connect
from autoscaler.demo.apiserver import StandInCluster
from tests.contract import manifests
from tests.contract.cluster import ClusterUnderTest, eventually
from tests.contract.faults import Script
from tests.contract.scripted import Answer, ScriptedServer
from tests.controlplane import binaries
from tests.controlplane.server import ControlPlane

REAL = "control plane"
STAND_IN = "stand-in"

RBAC = "rbac.authorization.k8s.io"


def pytest_collection_finish(session: pytest.Session) -> None:
    """Build the control plane's binaries before the first test that asks for them indirectly."""
    wanted = any(
        item.callspec.params.get("cluster") == REAL
        for item in session.items
        if isinstance(item, pytest.Function) and hasattr(item, "callspec")
    )
    if wanted and not session.config.getoption("collectonly"):
        # The fixture meets the same obstacle and reports it.
        with suppress(binaries.ControlPlaneUnavailable):
            binaries.locate()


@pytest.fixture(scope="session", params=[REAL, STAND_IN])
def cluster(request: pytest.FixtureRequest) -> Iterator[ClusterUnderTest]:
    """Run each server of the Kubernetes API that the contract binds."""
    if request.param == STAND_IN:
        with _stand_in() as cluster:
            yield cluster
        return
    plane = request.getfixturevalue("control_plane")
    request.getfixturevalue("kubelet")
    with _real_cluster(plane) as cluster:
        yield cluster


@contextmanager
def _stand_in() -> Iterator[ClusterUnderTest]:
    """Run the demo's stand-in for a cluster."""
    with StandInCluster(ready_after=0.5, stop_after=0.2) as stand_in, requests.Session() as session:
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
def _real_cluster(plane: ControlPlane) -> Iterator[ClusterUnderTest]:
    """Make a cluster of the control plane, whose user "viewer" gets a role that only reads."""
    with requests.Session() as session:
        session.trust_env = False
        cluster = ClusterUnderTest(
            url=plane.url,
            token=plane.admin_token,
            reader_token=plane.token_for("viewer"),
            ca_file=plane.ca_file,
            # The watch cache of a custom resource begins when its definition does, later than 1.
            forget_changes=lambda: None,
            session=session,
        )
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
    """Make a fresh namespace, deleted after the test, and give its name."""
    name = f"contract-{secrets.token_hex(5)}"
    cluster.create(manifests.NAMESPACES, {"metadata": {"name": name}})
    yield name
    cluster.request("DELETE", f"{manifests.NAMESPACES}/{name}")


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
    """Write the administrator's kubeconfig."""
    return cluster.write_kubeconfig(tmp_path / "kubeconfig")


@pytest.fixture
def api(kubeconfig: Path) -> Iterator[Api]:
    """Connect as our programs do."""
    with connect(kubeconfig) as api:
        yield api


@pytest.fixture
def scales(api: Api) -> Scales:
    """Give our adapter of the scale subresource."""
    return Scales(api)


@pytest.fixture
def pods(api: Api) -> Pods:
    """Give our adapter of pods."""
    return Pods(api)


@pytest.fixture
def script(tmp_path: Path) -> Iterator[Script]:
    """Start servers as the test asks for them, and end them after it."""
    with ExitStack() as stack:

        def start(
            *answers: Answer, timeout: float = 5.0, stop: threading.Event | None = None
        ) -> tuple[ScriptedServer, Api]:
            server = stack.enter_context(ScriptedServer(*answers))
            kubeconfig = server.write_kubeconfig(tmp_path / "kubeconfig")
            api = stack.enter_context(connect(kubeconfig, request_timeout=timeout, stop=stop))
            return server, api

        yield start
