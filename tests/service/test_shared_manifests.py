"""config/kubernetes/shared and served on a real control plane: daemons that share clusters."""

import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from autoscaler.config import Config, LeaderElection, load
from tests.service import kustomize
from tests.service.test_manifests import only
from tests.worlds.controlplane.api import Api, ApiError, Json
from tests.worlds.controlplane.fixtures import if_available
from tests.worlds.controlplane.kubelet import FakeKubelet
from tests.worlds.controlplane.server import ControlPlane
from tests.worlds.service_account import MANIFESTS, token_of
from tests.worlds.waiting import wait_until

LEASES = "/apis/coordination.k8s.io/v1/namespaces/{}/leases"


@pytest.fixture(scope="module", autouse=True)
def _kustomize() -> None:
    """Build kustomize once."""
    with if_available():
        kustomize.locate()


@pytest.fixture
def applied(admin_api: Api) -> Iterator[list[Json]]:
    """Give a list for what the tests apply; it is deleted after them."""
    objects: list[Json] = []
    yield objects
    for path in {kustomize.path(one) for one in objects if "namespace" not in one["metadata"]}:
        admin_api.delete(path)


def placed(folder: Path, variant: str, namespace: str) -> list[Json]:
    """Render a variant in a namespace of its own, which is all that an overlay has to say."""
    mine = folder / "mine"
    mine.mkdir()
    # kustomize takes no absolute path.
    (folder / "kubernetes").symlink_to(MANIFESTS)
    text = f"resources: [../kubernetes/{variant}]\nnamespace: {namespace}\n"
    (mine / "kustomization.yaml").write_text(text)
    return kustomize.render(mine)


def example(folder: Path) -> Config:
    """Return the example as a pod reads it, with a file for each of its kubeconfigs."""
    text = (MANIFESTS / "shared" / "autoscaler.yaml").read_text()
    (folder / "us").touch(0o600)
    file = folder / "autoscaler.yaml"
    file.write_text(text.replace("/etc/kubeconfigs", str(folder)))
    return load(file, lambda: "autoscaler")


def test_three_pods_run_and_have_names(
    admin_api: Api,
    kubelet: FakeKubelet,  # noqa: ARG001 - makes the pods ready
    applied: list[Json],
    tmp_path: Path,
) -> None:
    """All at once, where only Pod Security `restricted` is; no Deployment is beside them."""
    objects = placed(tmp_path, "shared", "sharing")
    applied.extend(kustomize.apply(admin_api, found) for found in objects)
    assert not [found for found in objects if found["kind"] == "Deployment"]
    path = kustomize.path(only(objects, "StatefulSet"))
    wait_until(
        "three pods are ready", lambda: admin_api.get(path)["status"].get("readyReplicas") == 3
    )
    pods = admin_api.get("/api/v1/namespaces/sharing/pods")["items"]
    assert {pod["spec"]["hostname"] for pod in pods} == {f"autoscaler-{n}" for n in range(3)}
    service = only(objects, "Service")
    assert {pod["spec"]["subdomain"] for pod in pods} == {service["metadata"]["name"]}
    labels = pods[0]["metadata"]["labels"]
    for selector in (
        service["spec"]["selector"],
        only(objects, "PodDisruptionBudget")["spec"]["selector"]["matchLabels"],
    ):
        assert selector.items() <= labels.items()


def test_the_example_fits_its_pods(tmp_path: Path) -> None:
    """It shares its clusters, one of which is that of the pods; the others' files are mounted."""
    config = example(tmp_path)
    assert config.leader_election.shared
    assert config.clusters is not None
    own, *others = config.clusters
    assert own.in_cluster
    assert [one.kubeconfig for one in others] == [tmp_path / "us"]
    pod = only(kustomize.render(MANIFESTS / "shared"), "StatefulSet")["spec"]["template"]["spec"]
    (container,) = pod["containers"]
    mounts = {mount["name"]: mount["mountPath"] for mount in container["volumeMounts"]}
    assert mounts["kubeconfigs"] == "/etc/kubeconfigs"
    (secret,) = (one["secret"] for one in pod["volumes"] if one["name"] == "kubeconfigs")
    command = f"create secret generic {secret['secretName']} --from-file=us="
    assert command in (MANIFESTS / "shared" / "kustomization.yaml").read_text()


def test_the_documented_times_are_those_of_the_defaults() -> None:
    """Nobody leads what a lost daemon led until its Lease is over, and at most a try longer."""
    document = (MANIFESTS.parents[1] / "docs" / "clusters.md").read_text()
    usual = LeaderElection()
    for key, seconds in (
        ("leaseDuration", usual.lease_duration),
        ("renewDeadline", usual.renew_deadline),
    ):
        assert f"`{key}`, {seconds:g} s" in document
    (within,) = set(re.findall(r"within (\d+) s \|", document))
    assert usual.lease_duration + usual.retry_period < float(within)


def test_a_cluster_that_is_served_has_the_rights_and_nothing_that_runs(
    control_plane: ControlPlane, admin_api: Api, applied: list[Json], tmp_path: Path
) -> None:
    """Its account does with Leases what sharing takes, in one namespace; no Secret is its token."""
    objects = placed(tmp_path, "served", "scaled")
    assert {found["kind"] for found in objects} == {
        *("Namespace", "ServiceAccount"),
        *("ClusterRole", "ClusterRoleBinding", "Role", "RoleBinding"),
    }
    applied.extend(kustomize.apply(admin_api, found) for found in objects)
    leases, elsewhere = LEASES.format("scaled"), LEASES.format("default")
    token = token_of(admin_api, "scaled")
    with Api(control_plane.url, token, control_plane.ca_file) as api:
        made = api.create(leases, {"metadata": {"name": "member"}})
        made["spec"] = {"holderIdentity": "autoscaler-0"}
        api.replace(f"{leases}/member", made)
        listed = api.get(leases)
        assert [one["spec"]["holderIdentity"] for one in listed["items"]] == ["autoscaler-0"]
        assert api.get(f"{leases}/member")
        watch = api.watch(leases, resourceVersion="0")
        assert next(iter(watch))["object"]["metadata"]["name"] == "member"
        watch.cancel()
        api.delete(f"{leases}/member")
        for path in (elsewhere, "/api/v1/namespaces/scaled/secrets"):
            with pytest.raises(ApiError, match="forbidden"):
                api.get(path)
