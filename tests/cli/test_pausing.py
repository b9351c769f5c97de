"""`autoscaler pause` and `autoscaler resume`, on a real API server."""

from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import cast

import pytest

from autoscaler import clock
from autoscaler.cli import pausing
from autoscaler.cli.output import CommandError
from autoscaler.cli.pausing import pause, resume
from autoscaler.core.extensions import Pause, PauseMode
from autoscaler.core.guards import pause_in_force
from autoscaler.kubernetes.discovery import annotations_of, manager_of
from tests.cli.refusals import assert_refused
from tests.cli.test_commands import queue_config, ran
from tests.narrowing import assert_parts, instance, known
from tests.worlds.cluster import manifests
from tests.worlds.cluster.cluster import ClusterUnderTest
from tests.worlds.cluster.clusters import fresh_namespace, real_cluster
from tests.worlds.controlplane.api import MERGE_PATCH
from tests.worlds.controlplane.kubelet import FakeKubelet
from tests.worlds.controlplane.server import ControlPlane
from tests.worlds.daemon import write_config
from tests.worlds.process import free_port


@pytest.fixture(scope="module")
def cluster(
    control_plane: ControlPlane,
    kubelet: FakeKubelet,  # noqa: ARG001 - runs the pods
) -> Iterator[ClusterUnderTest]:
    with real_cluster(control_plane) as cluster:
        yield cluster


@dataclass(frozen=True)
class Shop:
    """A namespace with the Deployment web and the ReplicationController db."""

    cluster: ClusterUnderTest
    namespace: str
    folder: Path = field(repr=False)

    def metadata(self, path: str = "") -> dict[str, object]:
        """Return the metadata of web, or of the object at a path."""
        reply = self.cluster.get(path or f"{manifests.deployments(self.namespace)}/web")
        metadata: dict[str, object] = reply.body["metadata"]
        return metadata

    def annotations(self, path: str = "") -> tuple[tuple[str, str], ...]:
        return annotations_of(self.metadata(path))

    def paused(self, path: str = "") -> Pause | None:
        """Return the pause that a daemon finds in its annotations."""
        in_force, problems = pause_in_force(None, self.annotations(path), clock.wall())
        assert problems == ()
        return in_force

    def log_in(self, monkeypatch: pytest.MonkeyPatch, token: str | None = None) -> None:
        """Use the administrator's kubeconfig, or that of a token."""
        path = self.cluster.write_kubeconfig(self.folder / "kubeconfig", token)
        monkeypatch.setenv("KUBECONFIG", str(path))


@pytest.fixture
def shop(
    cluster: ClusterUnderTest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Iterator[Shop]:
    monkeypatch.delenv("KUBERNETES_SERVICE_HOST", raising=False)
    with fresh_namespace(cluster, "pausing") as namespace:
        cluster.create(manifests.deployments(namespace), manifests.deployment("web", 0))
        controllers = f"/api/v1/namespaces/{namespace}/replicationcontrollers"
        cluster.create(controllers, manifests.replication_controller("db", 0))
        made = Shop(cluster, namespace, tmp_path)
        made.log_in(monkeypatch)
        yield made


def test_the_daemon_reads_a_pause_until_resume_ends_it(
    shop: Shop, capsys: pytest.CaptureFixture[str]
) -> None:
    web, db = f"{shop.namespace}/web", f"{shop.namespace}/ReplicationController/db"
    at = f"/api/v1/namespaces/{shop.namespace}/replicationcontrollers/db"
    path = f"{manifests.deployments(shop.namespace)}/web"
    shop.cluster.patch(path, {"metadata": {"annotations": {"example.com/a": "b"}}})

    assert pause([web, db], replicas=5, seconds=7200.0) == 0
    for in_force in (shop.paused(), shop.paused(at)):
        assert in_force is not None
        assert (in_force.mode, in_force.replicas) == (PauseMode.ALL, 5)
        assert in_force.until is not None
        assert clock.wall() + 7190 < in_force.until <= clock.wall() + 7200
    assert pause([web], only="scale-down") == 0
    assert shop.paused() == Pause(PauseMode.SCALE_DOWN, by="the annotation autoscaler/paused")
    assert resume([web, db]) == 0
    assert (shop.paused(), shop.paused(at)) == (None, None)
    annotations = instance(dict, shop.metadata()["annotations"])
    assert annotations["example.com/a"] == "b"
    assert not [key for key in annotations if key.startswith("autoscaler/")]

    first, second, *rest = capsys.readouterr().out.splitlines()
    assert [line.partition(": ")[0] for line in (first, second, *rest)] == [
        *(f"{shop.namespace}/Deployment/web", db, f"{shop.namespace}/Deployment/web"),
        *(f"{shop.namespace}/Deployment/web", db),
    ]
    assert "5 replicas" in first
    assert "5 replicas" in second


def test_a_pause_keeps_the_manager_of_the_replicas(shop: Shop) -> None:
    """The daemon recognizes changes by others by the manager of the field."""
    path = f"{manifests.deployments(shop.namespace)}/web"
    query = {"fieldManager": "helm"}
    body = {"spec": {"replicas": 1}}
    shop.cluster.request("PATCH", path, body, content_type=MERGE_PATCH, query=query)
    before = manager_of({"metadata": shop.metadata()}, ("spec", "replicas"))
    assert pause([f"{shop.namespace}/web"]) == 0
    assert manager_of({"metadata": shop.metadata()}, ("spec", "replicas")) == before


def test_a_refused_name_keeps_no_other_from_being_paused(
    shop: Shop, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    space = shop.namespace
    names = [f"{space}/weeb", f"{space}/deployment/web", f"{space}/web"]
    assert pause(names) == 1
    printed = capsys.readouterr()
    assert [line.partition(": ")[0] for line in printed.out.splitlines()] == [
        f"{space}/Deployment/web"
    ]
    missing, unserved = printed.err.splitlines()
    assert missing.startswith(f'{space}/Deployment/weeb: deployments.apps "weeb"')
    assert unserved.startswith(f"{space}/deployment/web: ")
    assert unserved.endswith("Deployment, ReplicaSet, StatefulSet")
    shop.log_in(monkeypatch, shop.cluster.reader_token)
    assert resume([f"{space}/web"]) == 1
    assert_parts(capsys.readouterr().err, "patch", '"deployments"', '"apps"')
    assert shop.paused() is not None
    shop.log_in(monkeypatch, "s3cret-but-wrong")
    with pytest.raises(CommandError, match=r"autoscaler cannot resume: ") as refused:
        resume([f"{space}/web", f"{space}/weeb"])
    assert "s3cret" not in str(refused.value)
    assert capsys.readouterr().err == ""


def test_with_a_configuration_only_its_targets_are_paused(shop: Shop, tmp_path: Path) -> None:
    file = write_config(
        tmp_path / "a.yaml", queue_config("http://127.0.0.1:1", shop.namespace, "web")
    )
    meant = f"{shop.namespace}/web"
    refused = ran("pause", "-c", str(file), f"{shop.namespace}/weeb")
    assert_refused(refused, 2, f"{shop.namespace}/weeb", f"{meant}?")
    code, out, err = ran("pause", "-c", str(file), "--replicas", "3", meant)
    assert (code, err) == (0, "")
    assert out.startswith(f"{shop.namespace}/Deployment/web: ")
    in_force = known(shop.paused())
    assert (in_force.replicas, in_force.until) == (3, None)


def test_a_pause_of_the_configuration_is_overridden_only_with_force(
    shop: Shop, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    document = queue_config("http://127.0.0.1:1", shop.namespace, "web")
    (target,) = cast("list[dict[str, object]]", document["targets"])
    target["paused"] = True
    file = write_config(tmp_path / "a.yaml", document)
    key = f"{shop.namespace}/Deployment/web"
    configured = Pause()
    assert resume([key], file) == 1
    assert pause_in_force(configured, shop.annotations(), clock.wall())[0] == configured
    assert resume([key], file, force=True) == 0
    assert pause_in_force(configured, shop.annotations(), clock.wall())[0] is None
    still_paused, resumed = capsys.readouterr().out.splitlines()
    assert "--force" in still_paused
    assert resumed.endswith('autoscaler/paused is "false"')


def test_a_server_that_is_away_is_one_error(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    server = f"http://127.0.0.1:{free_port()}"
    away = ClusterUnderTest(server, "s3cret")
    monkeypatch.setenv("KUBECONFIG", str(away.write_kubeconfig(tmp_path / "kubeconfig")))
    monkeypatch.delenv("KUBERNETES_SERVICE_HOST", raising=False)
    monkeypatch.setattr(pausing, "_SECONDS", 0.5)
    with pytest.raises(CommandError) as refused:
        pause(["shop/web", "shop/api"])
    assert refused.value.code == 1
    assert_parts(refused.value, "autoscaler cannot pause: ", server)
    assert capsys.readouterr().err == ""
