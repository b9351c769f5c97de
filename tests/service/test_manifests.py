"""config/kubernetes on a real control plane: it applies, and its pods are allowed to run."""

import re
from pathlib import Path

import pytest

from autoscaler import __version__
from autoscaler.config import LeaderElection, load
from autoscaler.config.settings import STATE_DIRECTORY
from autoscaler.daemon.service import LONGEST_SYNC_SECONDS
from tests.service import kustomize
from tests.worlds.cluster import manifests
from tests.worlds.controlplane.api import Api, ApiError, Json
from tests.worlds.controlplane.kubelet import FakeKubelet
from tests.worlds.controlplane.server import ControlPlane
from tests.worlds.service_account import MANIFESTS, manifest, token_of
from tests.worlds.waiting import wait_until

BASE = MANIFESTS / "base"
DOCKERFILE = Path(__file__).parents[2] / "Dockerfile"
OPERATIONS = (Path(__file__).parents[2] / "docs" / "guides" / "operations.md").read_text()


pytestmark = pytest.mark.usefixtures("built_programs")


def only(objects: list[Json], kind: str) -> Json:
    (found,) = [each for each in objects if each["kind"] == kind]
    return found


def pod_spec() -> Json:
    found: Json = manifest("base/deployment")["spec"]["template"]["spec"]
    return found


def test_the_base_applies_and_its_pods_run(
    admin_api: Api,
    kubelet: FakeKubelet,  # noqa: ARG001 - makes the pods ready
    applied: list[Json],
) -> None:
    objects = kustomize.render(BASE)
    applied.extend(kustomize.apply(admin_api, found) for found in objects)
    deployment = only(objects, "Deployment")
    path = kustomize.path(deployment)
    wait_until(
        "both replicas available",
        lambda: admin_api.get(path)["status"].get("availableReplicas") == 2,
    )
    template = deployment["spec"]["template"]
    template["spec"]["containers"][0]["securityContext"]["allowPrivilegeEscalation"] = True
    pod = {"metadata": {"name": "more"}, "spec": template["spec"]}
    with pytest.raises(ApiError, match="violates PodSecurity"):
        admin_api.create("/api/v1/namespaces/autoscaler/pods", pod)


@pytest.mark.usefixtures("monitoring")
def test_the_namespaced_variant_and_the_components_apply(
    admin_api: Api, applied: list[Json], tmp_path: Path
) -> None:
    admin_api.create("/api/v1/namespaces", {"metadata": {"name": "shop"}})
    applied.append({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "shop"}})
    objects = kustomize.overlay(
        tmp_path,
        "resources: [../kubernetes/namespaced]\n"
        "components: [../kubernetes/components/podmonitor, "
        "../kubernetes/components/networkpolicy]\n",
    )
    applied.extend(kustomize.apply(admin_api, found) for found in objects)
    assert not [found for found in objects if found["kind"].startswith("Cluster")]
    monitored = only(objects, "PodMonitor")["spec"]["selector"]["matchLabels"]
    shielded = only(objects, "NetworkPolicy")["spec"]["podSelector"]["matchLabels"]
    labels = only(objects, "Deployment")["spec"]["template"]["metadata"]["labels"]
    assert monitored.items() <= labels.items()
    assert shielded.items() <= labels.items()


def test_the_component_of_deletion_costs_grants_its_right_to_the_daemon(tmp_path: Path) -> None:
    objects = kustomize.overlay(
        tmp_path,
        "resources: [../kubernetes/base]\nnamespace: scaling\n"
        "components: [../kubernetes/components/pod-deletion-cost]\n",
    )
    bindings = [found for found in objects if found["kind"] == "ClusterRoleBinding"]
    bound = {each["roleRef"]["name"]: each["subjects"] for each in bindings}
    account = [{"kind": "ServiceAccount", "name": "autoscaler", "namespace": "scaling"}]
    assert bound == {"autoscaler": account, "autoscaler-pod-deletion-cost": account}


def test_shards_are_a_stateful_set(admin_api: Api, applied: list[Json], tmp_path: Path) -> None:
    objects = kustomize.overlay(
        tmp_path,
        "resources: [../kubernetes/base]\ncomponents: [../kubernetes/components/shards]\n",
    )
    applied.extend(kustomize.apply(admin_api, found) for found in objects)
    assert not [found for found in objects if found["kind"] == "Deployment"]
    spec, service = only(objects, "StatefulSet")["spec"], only(objects, "Service")
    assert spec["serviceName"] == service["metadata"]["name"]
    assert service["spec"]["selector"].items() <= spec["template"]["metadata"]["labels"].items()
    (_, leases) = only(objects, "Role")["rules"]
    assert "list" in leases["verbs"]
    assert "resourceNames" not in leases


def test_the_network_policy_admits_the_namespace_of_prometheus_only(tmp_path: Path) -> None:
    shown = re.search(r"(?ms)^```yaml\n(# networkpolicy.*?)^```", OPERATIONS)
    assert shown is not None
    objects = kustomize.overlay(
        tmp_path,
        "resources: [../kubernetes/base]\n"
        "components: [../kubernetes/components/networkpolicy]\n" + shown[1],
    )
    spec = only(objects, "NetworkPolicy")["spec"]
    assert spec["policyTypes"] == ["Ingress"]
    (rule,) = spec["ingress"]
    (source,) = rule["from"]
    labels = {"kubernetes.io/metadata.name": "observability"}
    assert source == {"namespaceSelector": {"matchLabels": labels}}
    (container,) = only(objects, "Deployment")["spec"]["template"]["spec"]["containers"]
    assert [port["port"] for port in rule["ports"]] == [container["ports"][0]["name"]]


def test_another_namespace_and_image_are_one_line_each(tmp_path: Path) -> None:
    objects = kustomize.overlay(
        tmp_path,
        "resources: [../kubernetes/base]\nnamespace: scaling\n"
        "images: [{name: autoscaler, newName: registry.example/autoscaler, newTag: v9}]\n",
    )
    names = {found["metadata"].get("namespace") for found in objects}
    assert names == {None, "scaling"}
    assert only(objects, "Namespace")["metadata"]["name"] == "scaling"
    subjects = [subject for found in objects for subject in found.get("subjects", ())]
    assert {subject["namespace"] for subject in subjects} == {"scaling"}
    (container,) = only(objects, "Deployment")["spec"]["template"]["spec"]["containers"]
    assert container["image"] == "registry.example/autoscaler:v9"


def test_the_namespaced_rights_are_those_of_the_cluster_role() -> None:
    everywhere = manifest("base/clusterrole")["rules"]
    cluster_wide = [rule for rule in everywhere if "customresourcedefinitions" in rule["resources"]]
    assert len(cluster_wide) == 1
    here = manifest("namespaced/shop/role")["rules"]
    assert here == [rule for rule in everywhere if rule not in cluster_wide]


def test_the_configuration_fits_the_pod() -> None:
    config = load(BASE / "autoscaler.yaml", lambda: "autoscaler")
    assert config.leader_election.enabled
    (container,) = pod_spec()["containers"]
    assert config.listen is not None
    assert (config.listen.host, config.listen.port) == ("", container["ports"][0]["containerPort"])
    assert config.web_listen is not None
    assert config.web_listen.is_loopback
    shown = f"port-forward deploy/autoscaler 9191:{config.web_listen.port}\n"
    assert shown in OPERATIONS
    mounts = {mount["mountPath"] for mount in container["volumeMounts"]}
    assert mounts == {str(Path(container["args"][-1]).parent), STATE_DIRECTORY}
    (_, named) = manifest("base/role")["rules"]
    assert named["resourceNames"] == [config.leader_election.name]


def test_the_pod_fits_the_daemon() -> None:
    spec = pod_spec()
    assert spec["terminationGracePeriodSeconds"] > LONGEST_SYNC_SECONDS
    assert spec["containers"][0]["image"] == f"autoscaler:{__version__}"
    context = spec["securityContext"]
    user = re.search(r"^USER (\S+)$", DOCKERFILE.read_text(), re.MULTILINE)
    assert user is not None
    assert user[1] == f"{context['runAsUser']}:{context['runAsGroup']}"


def test_a_node_can_be_drained_of_a_single_replica() -> None:
    """One pod may be evicted at a time: one of several, or the only one."""
    assert manifest("base/poddisruptionbudget")["spec"]["maxUnavailable"] == 1
    assert "minAvailable" not in manifest("base/poddisruptionbudget")["spec"]


# -- a cluster that is scaled from elsewhere ------------------------------------------------------


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
    text = "resources: [../kubernetes/served]\nnamespace: scaled\n"
    objects = kustomize.overlay(tmp_path, text)
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
        item = {"fieldSelector": "metadata.name=autoscaler"}
        listed = api.get(leases, **item)
        assert [target["spec"]["holderIdentity"] for target in listed["items"]] == ["autoscaler-0"]
        watch = api.watch(leases, resourceVersion="0", **item)
        assert next(iter(watch))["object"]["metadata"]["name"] == "autoscaler"
        watch.cancel()
        for path in (leases, elsewhere, "/api/v1/namespaces/scaled/secrets"):
            with pytest.raises(ApiError, match="forbidden"):
                api.get(path)
