"""config/kubernetes/served on a real control plane: a cluster that is scaled from elsewhere."""

import re
from pathlib import Path

import pytest

from autoscaler.config import LeaderElection
from tests.service import kustomize
from tests.worlds.cluster import manifests
from tests.worlds.controlplane.api import Api, ApiError, Json
from tests.worlds.controlplane.server import ControlPlane
from tests.worlds.service_account import MANIFESTS, token_of

pytestmark = pytest.mark.usefixtures("kustomize_program")


def placed(folder: Path, variant: str, namespace: str) -> list[Json]:
    """Render a variant in a namespace of its own, which is all that an overlay has to say."""
    mine = folder / "mine"
    mine.mkdir()
    # kustomize takes no absolute path.
    (folder / "kubernetes").symlink_to(MANIFESTS)
    text = f"resources: [../kubernetes/{variant}]\nnamespace: {namespace}\n"
    (mine / "kustomization.yaml").write_text(text)
    return kustomize.render(mine)


def test_the_documented_times_are_those_of_the_defaults() -> None:
    """Nobody leads what a lost daemon led until its Lease is over, and at most a try longer."""
    document = (MANIFESTS.parents[1] / "docs" / "guides" / "clusters.md").read_text()
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
    """Its account does with the Lease what an election takes; no Secret is its token."""
    objects = placed(tmp_path, "served", "scaled")
    assert {found["kind"] for found in objects} == {
        *("Namespace", "ServiceAccount"),
        *("ClusterRole", "ClusterRoleBinding", "Role", "RoleBinding"),
    }
    applied.extend(kustomize.apply(admin_api, found) for found in objects)
    leases, elsewhere = map(manifests.leases, ("scaled", "default"))
    token = token_of(admin_api, "scaled")
    with Api(control_plane.url, token, control_plane.ca_file) as api:
        made = api.create(leases, {"metadata": {"name": "autoscaler"}})
        made["spec"] = {"holderIdentity": "autoscaler-0"}
        api.replace(f"{leases}/autoscaler", made)
        one = {"fieldSelector": "metadata.name=autoscaler"}
        listed = api.get(leases, **one)
        assert [one["spec"]["holderIdentity"] for one in listed["items"]] == ["autoscaler-0"]
        watch = api.watch(leases, resourceVersion="0", **one)
        assert next(iter(watch))["object"]["metadata"]["name"] == "autoscaler"
        watch.cancel()
        for path in (leases, elsewhere, "/api/v1/namespaces/scaled/secrets"):
            with pytest.raises(ApiError, match="forbidden"):
                api.get(path)
