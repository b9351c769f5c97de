"""A running daemon takes up another configuration, all of it or nothing."""

import os
import signal
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
import requests
import yaml

from tests.controlplane import workloads
from tests.controlplane.api import Api
from tests.controlplane.waiting import wait_until
from tests.endtoend.daemon import DaemonProcess, Line, write_config
from tests.prometheus.exporter import Exporter
from tests.prometheus.fixtures import StartPrometheus
from tests.prometheus.server import PrometheusServer

Document = dict[str, Any]
DEMAND = 4


@pytest.fixture
def prometheus(exporter: Exporter, start_prometheus: StartPrometheus) -> PrometheusServer:
    """Run a Prometheus that asks for four replicas of everything."""
    exporter.set("demand", {}, DEMAND)
    server = start_prometheus([exporter.target])
    server.wait_for("demand")
    return server


@pytest.fixture
def document(prometheus: PrometheusServer, admin_api: Api, namespace: str) -> Document:
    """Return a configuration of the target `a`; there are Deployments `a` and `b`."""
    for name in ("a", "b"):
        admin_api.create(
            workloads.collection("Deployment", namespace), workloads.deployment(name, replicas=1)
        )
    return {
        "prometheus": {"url": prometheus.url},
        "syncPeriod": "1s",
        "listen": "127.0.0.1:0",
        "queries": {"demand": "demand"},
        "targets": [target(namespace, "a")],
    }


def target(namespace: str, name: str, most: int = 10) -> Document:
    """Return a target of the demand."""
    external = {"metric": {"name": "demand"}, "target": {"type": "AverageValue", "averageValue": 1}}
    return {
        "namespace": namespace,
        "scaleTargetRef": {"apiVersion": "apps/v1", "kind": "Deployment", "name": name},
        "maxReplicas": most,
        "metrics": [{"type": "External", "external": external}],
    }


class Reloading:
    """A running daemon and its file."""

    def __init__(self, daemon: DaemonProcess, file: Path) -> None:
        self.daemon = daemon
        self.file = file

    def write(self, document: Document) -> None:
        """Write another configuration, and tell nobody."""
        write_config(self.file, document)

    def events(self, event: str) -> list[Line]:
        """Return the lines of one kind so far."""
        return [line for line in self.daemon.lines if line["event"] == event]

    def wait_for(self, event: str, count: int = 1) -> Line:
        """Wait for so many lines of one kind, and return the last of them."""
        self.daemon.wait_for(f"{count} {event}", lambda _: len(self.events(event)) >= count)
        return self.events(event)[count - 1]

    def wait_for_write(self, key: str, replicas: int) -> None:
        """Wait until a target was scaled to a count."""
        self.daemon.wait_for(
            f"{key} at {replicas}",
            lambda line: (
                line.get("target") == key
                and line.get("write") == "written"
                and line["desired"] == replicas
            ),
        )

    def page(self, path: str) -> str:
        """Get a page of the daemon."""
        address = self.events("listening")[0]["address"]
        return requests.get(f"http://{address}{path}", timeout=10).text

    def component(self, name: str) -> Document:
        """Return a component of the health."""
        components = yaml.safe_load(self.page("/readyz"))["components"]
        return next((one for one in components if one["name"] == name), {})


@contextmanager
def running(file: Path, environment: Mapping[str, str]) -> Iterator[Reloading]:
    """Run the daemon until it serves; in the end it must stop as it should, without a fault."""
    with DaemonProcess(file, environment) as daemon:
        reloading = Reloading(daemon, file)
        reloading.wait_for("started")
        yield reloading
        assert daemon.stop() == 0
    assert not reloading.events("fault")
    assert not reloading.events("sync_failed")


def test_a_changed_file_is_taken_up_by_itself(
    document: Document, environment: Mapping[str, str], namespace: str, tmp_path: Path
) -> None:
    """A target is added and scaled, another edited and a third removed, each told in a line."""
    a, b = (f"{namespace}/Deployment/{name}" for name in "ab")
    with running(write_config(tmp_path / "autoscaler.yaml", document), environment) as daemon:
        daemon.wait_for_write(a, 4)
        daemon.write(
            document | {"targets": [target(namespace, "a", most=20), target(namespace, "b")]}
        )
        line = daemon.wait_for("reloaded")
        assert (line["added"], line["removed"], line["changed"]) == (1, 0, 1)
        assert daemon.wait_for("target_added")["target"] == b
        assert daemon.wait_for("target_changed")["message"] == "maxReplicas: 10 -> 20"
        daemon.wait_for_write(b, 4)
        assert b in daemon.page("/metrics")
        daemon.write(document | {"targets": [target(namespace, "a", most=20)]})
        assert daemon.wait_for("target_removed")["target"] == b
        daemon.wait_for("reloaded", 2)
        assert b not in daemon.page("/metrics")


def test_a_broken_file_leaves_the_last_good_one_in_force(
    document: Document, environment: Mapping[str, str], namespace: str, tmp_path: Path
) -> None:
    """Log, health and metrics say what is wrong and where; mended, it is taken up."""
    a, b = (f"{namespace}/Deployment/{name}" for name in "ab")
    with running(write_config(tmp_path / "autoscaler.yaml", document), environment) as daemon:
        daemon.write(
            document
            | {"targets": [target(namespace, "a") | {"maxReplicas": 0}, target(namespace, "b")]}
        )
        line = daemon.wait_for("reload_failed")
        assert line["level"] == "error"
        assert str(daemon.file) in line["problems"][0]
        assert "targets[0].maxReplicas" in line["problems"][0]
        refused = daemon.component("reload")
        assert refused["ok"] is False
        assert "targets[0].maxReplicas" in refused["message"]
        assert "autoscaler_reload_last_success_timestamp_seconds" in daemon.page("/metrics")
        daemon.wait_for_write(a, 4)
        assert not daemon.daemon.syncs(b)
        daemon.write(document | {"targets": [target(namespace, "a"), target(namespace, "b")]})
        daemon.wait_for("reloaded")
        assert daemon.component("reload")["ok"] is True
        daemon.wait_for_write(b, 4)


def test_sighup_reads_again_and_a_storm_of_them_does_no_harm(
    document: Document, environment: Mapping[str, str], namespace: str, tmp_path: Path
) -> None:
    """Each is answered by a reload or by the one that is under way; syncs go on meanwhile."""
    with running(write_config(tmp_path / "autoscaler.yaml", document), environment) as daemon:
        os.kill(daemon.daemon.pid, signal.SIGHUP)
        assert daemon.wait_for("reloaded")["message"] == "nothing has changed"
        for _ in range(500):
            os.kill(daemon.daemon.pid, signal.SIGHUP)
        daemon.write(document | {"targets": [target(namespace, "a"), target(namespace, "b")]})
        daemon.wait_for("target_added")
        daemon.wait_for_write(f"{namespace}/Deployment/b", 4)


def test_the_swapped_link_of_a_mounted_configmap_is_noticed(
    document: Document, environment: Mapping[str, str], namespace: str, tmp_path: Path
) -> None:
    """The kubelet replaces the link `..data`; the file that is named never changes itself."""
    for version, names in (("one", "a"), ("two", "ab")):
        (tmp_path / version).mkdir()
        targets = [target(namespace, name) for name in names]
        write_config(tmp_path / version / "autoscaler.yaml", document | {"targets": targets})
    data = tmp_path / "..data"
    data.symlink_to("one")
    file = tmp_path / "autoscaler.yaml"
    file.symlink_to("..data/autoscaler.yaml")
    with running(file, environment) as daemon:
        (tmp_path / "..data_tmp").symlink_to("two")
        (tmp_path / "..data_tmp").rename(data)
        assert daemon.wait_for("target_added")["target"] == f"{namespace}/Deployment/b"


def test_a_file_that_comes_to_be_included_is_taken_up(
    document: Document, environment: Mapping[str, str], namespace: str, tmp_path: Path
) -> None:
    """A team drops its file into the folder: the workload is scaled."""
    (tmp_path / "targets.d").mkdir()
    document = document | {"include": ["targets.d/*.yaml"]}
    with running(write_config(tmp_path / "autoscaler.yaml", document), environment) as daemon:
        dropped = tmp_path / "targets.d" / "team-b.yaml"
        dropped.write_text(yaml.safe_dump({"targets": [target(namespace, "b")]}))
        daemon.wait_for_write(f"{namespace}/Deployment/b", 4)
        dropped.unlink()
        assert daemon.wait_for("target_removed")["target"] == f"{namespace}/Deployment/b"


def test_another_prometheus_is_asked_without_a_restart(
    document: Document, environment: Mapping[str, str], namespace: str, tmp_path: Path
) -> None:
    """The address was wrong at first; the targets are scaled as soon as it is right."""
    wrong = document | {"prometheus": {"url": "http://127.0.0.1:9"}}
    with running(write_config(tmp_path / "autoscaler.yaml", wrong), environment) as daemon:
        daemon.daemon.wait_for("a failed sync", lambda line: line.get("outcome") == "blocked")
        assert daemon.component("prometheus")["ok"] is False
        daemon.write(document)
        daemon.wait_for_write(f"{namespace}/Deployment/a", 4)
        wait_until("readiness", lambda: daemon.component("prometheus")["ok"], timeout=20)


def test_an_unverified_api_server_is_warned_of_at_every_start(
    document: Document, environment: Mapping[str, str], namespace: str, tmp_path: Path
) -> None:
    """The line names the kubeconfig; the daemon works all the same."""
    kubeconfig = yaml.safe_load(Path(environment["KUBECONFIG"]).read_text())
    cluster = kubeconfig["clusters"][0]["cluster"]
    for authority in ("certificate-authority", "certificate-authority-data"):
        cluster.pop(authority, None)
    cluster["insecure-skip-tls-verify"] = True
    open_to_all = tmp_path / "unverified"
    open_to_all.write_text(yaml.safe_dump(kubeconfig))
    file = write_config(tmp_path / "autoscaler.yaml", document)
    with running(file, {"KUBECONFIG": str(open_to_all)}) as daemon:
        assert str(open_to_all) in daemon.wait_for("insecure")["message"]
        daemon.wait_for_write(f"{namespace}/Deployment/a", 4)
