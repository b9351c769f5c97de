"""A running daemon takes up another configuration, all of it or nothing."""

import os
import signal
from collections.abc import Mapping
from pathlib import Path

import pytest
import yaml
from typer.testing import CliRunner

from autoscaler.cli import app
from tests.adapters.cluster.scripted import Answer, ScriptedServer
from tests.controlplane.waiting import wait_until
from tests.endtoend.daemon import write_config
from tests.endtoend.demand import Document, RunningDaemon, running, target

LAST = "autoscaler_reload_last"


def reloads(daemon: RunningDaemon) -> tuple[float, float]:
    """Return how many reloads succeeded and failed."""
    name = "autoscaler_reloads_total"
    return daemon.metric(name, outcome="succeeded"), daemon.metric(name, outcome="failed")


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
        # The page takes a sync in after the log.
        wait_until("b is on the page", lambda: b in daemon.page("/metrics"))
        daemon.write(document | {"targets": [target(namespace, "a", most=20)]})
        assert daemon.wait_for("target_removed")["target"] == b
        daemon.wait_for("reloaded", 2)
        assert b not in daemon.page("/metrics")
        status = CliRunner().invoke(app, ["status", "--url", f"http://{daemon.address}"])
        _, *rows, summed_up = status.stdout.splitlines()
        assert [row.partition("\t")[0] for row in rows] == [a]
        assert summed_up.startswith("1 target: 1 ")


def test_a_broken_file_leaves_the_last_good_one_in_force(
    document: Document, environment: Mapping[str, str], namespace: str, tmp_path: Path
) -> None:
    """Log, health and metrics say what is wrong and where; mended, it is taken up."""
    a, b = (f"{namespace}/Deployment/{name}" for name in "ab")
    with running(write_config(tmp_path / "autoscaler.yaml", document), environment) as daemon:
        started = daemon.metric(f"{LAST}_success_timestamp_seconds")
        assert reloads(daemon) == (0, 0)
        assert daemon.metric(f"{LAST}_attempt_timestamp_seconds") == started > 0
        daemon.write(
            document
            | {"targets": [target(namespace, "a") | {"maxReplicas": 0}, target(namespace, "b")]}
        )
        line = daemon.wait_for("reload_failed")
        assert line["level"] == "error"
        assert str(daemon.file) in line["problems"][0]
        assert "targets[0].maxReplicas" in line["problems"][0]
        wait_until("the reload failed", lambda: reloads(daemon) == (0, 1))
        refused = daemon.component("reload")
        assert refused["ok"] is False
        assert "targets[0].maxReplicas" in refused["message"]
        assert 'component_ok{component="reload"} 0' in daemon.page("/metrics")
        assert daemon.metric(f"{LAST}_success_timestamp_seconds") == started
        failed = daemon.metric(f"{LAST}_attempt_timestamp_seconds")
        assert failed > started
        daemon.wait_for_write(a, 4)
        assert not daemon.daemon.syncs(b)
        daemon.write(document | {"targets": [target(namespace, "a"), target(namespace, "b")]})
        daemon.wait_for("reloaded")
        wait_until("the reload succeeded", lambda: reloads(daemon) == (1, 1))
        assert daemon.component("reload")["ok"] is True
        assert 'component_ok{component="reload"} 1' in daemon.page("/metrics")
        succeeded = daemon.metric(f"{LAST}_success_timestamp_seconds")
        assert daemon.metric(f"{LAST}_attempt_timestamp_seconds") == succeeded > failed
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
        wait_until("readiness", lambda: daemon.component("prometheus")["ok"])


@pytest.mark.parametrize("where", ["current-context", "context", "kubeconfig"])
def test_a_reload_never_leads_to_another_cluster(
    document: Document,
    environment: Mapping[str, str],
    namespace: str,
    tmp_path: Path,
    where: str,
) -> None:
    """It takes a restart: the Lease and the histories are of the cluster that the daemon found.

    All else of the same reload is in force, and of the other cluster nothing is asked.
    """
    kubeconfig = Path(environment["KUBECONFIG"])
    with ScriptedServer(Answer(404)) as other:
        elsewhere = other.write_kubeconfig(tmp_path / "elsewhere")
        both = yaml.safe_load(kubeconfig.read_text())
        for section, entries in yaml.safe_load(elsewhere.read_text()).items():
            if isinstance(entries, list):
                both[section] += entries
        kubeconfig.write_text(yaml.safe_dump(both))
        with running(write_config(tmp_path / "autoscaler.yaml", document), environment) as daemon:
            daemon.wait_for_write(f"{namespace}/Deployment/a", 4)
            if where == "current-context":
                kubeconfig.write_text(yaml.safe_dump(both | {"current-context": "main"}))
            else:
                value = {"context": "main", "kubeconfig": str(elsewhere)}[where]
                document = document | {"kubernetes": {where: value}}
            daemon.write(
                document
                | {
                    "prometheus": document["prometheus"] | {"timeout": "9s"},
                    "events": False,
                    "targets": [target(namespace, "a"), target(namespace, "b")],
                }
            )
            daemon.wait_for_write(f"{namespace}/Deployment/b", 4)
            late = [line["message"] for line in daemon.events("needs_restart")]
            assert len(late) == (where != "current-context")
            assert all(f"kubernetes.{where}" in message for message in late)
        assert other.asked == []


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
    open_to_all.touch(mode=0o600)
    open_to_all.write_text(yaml.safe_dump(kubeconfig))
    file = write_config(tmp_path / "autoscaler.yaml", document)
    with running(file, {"KUBECONFIG": str(open_to_all)}) as daemon:
        told = f"{open_to_all}: insecure-skip-tls-verify is set"
        assert told in daemon.wait_for("insecure")["message"]
        daemon.wait_for_write(f"{namespace}/Deployment/a", 4)
