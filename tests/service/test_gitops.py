"""docs/guides/gitops.md: who keeps and who resets the replicas that the autoscaler wrote.

Flux's own library applies for Flux.  Argo CD applies as kubectl does; with the option
RespectIgnoreDifferences=true it takes ignored fields from the cluster, as `respecting` does here.
"""

import os
import re
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest
import yaml

from autoscaler.core.writes import FIELD_MANAGER
from tests.service import programs
from tests.worlds.controlplane.api import Api, Json
from tests.worlds.controlplane.server import ControlPlane

PAGE = (Path(__file__).parents[2] / "docs" / "guides" / "gitops.md").read_text()
EXAMPLES: dict[str, str] = dict(re.findall(r"(?ms)^```yaml\n# (\S+)\n(.*?)^```", PAGE))
GIT, WRITTEN = 2, 5
"""The replicas in Git, and those that the autoscaler wrote."""

pytestmark = pytest.mark.usefixtures("built_programs")

Apply = Callable[[Json], None]


def workload(namespace: str, replicas: int | None = GIT) -> Json:
    """Return a Deployment as it is in Git."""
    pod = {"metadata": {"labels": {"app": "web"}}, "spec": {"containers": [CONTAINER]}}
    spec: Json = {"selector": {"matchLabels": {"app": "web"}}, "template": pod}
    if replicas is not None:
        spec["replicas"] = replicas
    return {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": "web", "namespace": namespace},
        "spec": spec,
    }


CONTAINER = {"name": "web", "image": "web"}


class Repository:
    """What a tool applies to a namespace, and the Deployment there."""

    def __init__(self, api: Api, namespace: str, kubeconfig: Path, folder: Path) -> None:
        self._api, self._namespace, self._folder = api, namespace, folder
        self._path = f"/apis/apps/v1/namespaces/{namespace}/deployments/web"
        self._environment = {**os.environ, "KUBECONFIG": str(kubeconfig)}

    def kubectl(self, found: Json) -> None:
        self._run("kubectl", "apply", "--filename", self._file("manifest.yaml", found))

    def respecting(self, found: Json) -> None:
        """Apply as Argo CD does with the application of the page."""
        live = self.live()
        for rule in yaml.safe_load(EXAMPLES["application.yaml"])["spec"]["ignoreDifferences"]:
            assert (f"{rule['group']}/v1", rule["kind"]) == (found["apiVersion"], found["kind"])
            for pointer in rule["jsonPointers"]:
                _, parent, field = pointer.split("/")
                found[parent][field] = live[parent][field]
        self.kubectl(found)

    def flux(self, found: Json, ignore: bool = False) -> None:  # noqa: FBT002
        rules = yaml.safe_load(EXAMPLES["kustomization.yaml"])
        if not ignore:
            del rules["spec"]["ignore"]
        kustomization = self._file("kustomization.yaml", rules)
        self._run("flux", "apply", kustomization, self._file("manifest.yaml", found))

    def autoscaler_writes(self, replicas: int) -> None:
        path = f"{self._path}/scale"
        scale = self._api.get(path)
        del scale["metadata"]["resourceVersion"]  # the controller changes the object as well
        scale["spec"]["replicas"] = replicas
        self._api.replace(f"{path}?fieldManager={FIELD_MANAGER}", scale)

    def live(self) -> Json:
        return self._api.get(self._path)

    def _file(self, name: str, document: Json) -> str:
        (self._folder / name).write_text(yaml.safe_dump(document))
        return str(self._folder / name)

    def _run(self, name: str, *arguments: str) -> None:
        command = [str(programs.locate(name)), *arguments]
        done = subprocess.run(
            command, env=self._environment, check=False, capture_output=True, text=True
        )
        assert done.returncode == 0, done.stderr


@pytest.fixture
def git(control_plane: ControlPlane, admin_api: Api, namespace: str, tmp_path: Path) -> Repository:
    return Repository(admin_api, namespace, control_plane.kubeconfig, tmp_path)


@pytest.mark.parametrize("tool", ["kubectl", "flux"])
def test_replicas_of_git_undo_the_autoscaler(git: Repository, namespace: str, tool: str) -> None:
    apply: Apply = getattr(git, tool)
    apply(workload(namespace))
    git.autoscaler_writes(WRITTEN)
    apply(workload(namespace))
    assert git.live()["spec"]["replicas"] == GIT


def test_argo_cd_with_the_documented_rule_keeps_them(git: Repository, namespace: str) -> None:
    git.kubectl(workload(namespace))
    git.autoscaler_writes(WRITTEN)
    for replicas in (GIT, None):
        git.respecting(workload(namespace, replicas))
        assert git.live()["spec"]["replicas"] == WRITTEN


def test_flux_with_the_documented_rule_keeps_them(git: Repository, namespace: str) -> None:
    git.flux(workload(namespace), ignore=True)
    assert git.live()["spec"]["replicas"] == GIT
    git.autoscaler_writes(WRITTEN)
    changed = workload(namespace)
    changed["spec"]["minReadySeconds"] = 7
    git.flux(changed, ignore=True)
    assert git.live()["spec"]["replicas"] == WRITTEN
    assert git.live()["spec"]["minReadySeconds"] == 7


@pytest.mark.parametrize(
    ("tool", "has_written", "left"),
    [("kubectl", False, 1), ("kubectl", True, 1), ("flux", False, 1), ("flux", True, WRITTEN)],
)
def test_replicas_that_git_no_longer_has_stay_if_the_autoscaler_owns_them(
    git: Repository, namespace: str, tool: str, has_written: bool, left: int
) -> None:
    """`kubectl apply` deletes what it applied before, whoever wrote it since."""
    apply: Apply = getattr(git, tool)
    apply(workload(namespace))
    if has_written:
        git.autoscaler_writes(WRITTEN)
    managers = {entry["manager"] for entry in git.live()["metadata"]["managedFields"]}
    assert (FIELD_MANAGER in managers) == has_written
    apply(workload(namespace, None))
    assert git.live()["spec"]["replicas"] == left


def test_a_new_workload_without_replicas_starts_with_one(git: Repository, namespace: str) -> None:
    git.flux(workload(namespace, None))
    assert git.live()["spec"]["replicas"] == 1


def test_flux_accepts_the_helm_release(tmp_path: Path) -> None:
    file = tmp_path / "helmrelease.yaml"
    file.write_text(EXAMPLES[file.name])
    subprocess.run([str(programs.locate("flux")), "check", str(file)], check=True)
