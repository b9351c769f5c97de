"""A running daemon takes up another configuration, all of it or nothing."""

import os
import signal
from pathlib import Path

import pytest
import yaml

from tests.narrowing import assert_parts
from tests.worlds.cluster.scripted import Answer, ScriptedServer
from tests.worlds.daemon import DaemonProcess, Document, command, running
from tests.worlds.waiting import wait_until
from tests.worlds.world import World

LAST = "autoscaler_reload_last"


def reloads(daemon: DaemonProcess) -> tuple[float, float]:
    """Return how many reloads succeeded and failed."""
    name = "autoscaler_reloads_total"
    return daemon.metric(name, outcome="succeeded"), daemon.metric(name, outcome="failed")


def test_a_changed_file_takes_effect_without_a_signal(world: World, document: Document) -> None:
    a, b = map(world.key, "ab")
    with world.running(document) as daemon:
        daemon.wait_write(a, 4)
        daemon.write(document | {"targets": [world.target("a", maxReplicas=20), world.target("b")]})
        line = daemon.wait_event("reloaded")
        assert (line["added"], line["removed"], line["changed"]) == (1, 0, 1)
        assert daemon.wait_event("target_added")["target"] == b
        changed = daemon.wait_event("target_changed")
        assert changed["target"] == a
        assert_parts(changed["message"], "maxReplicas: 10 -> 20")
        daemon.wait_write(b, 4)
        # The page takes a sync in after the log.
        wait_until("b", lambda: b in daemon.page("/metrics"))
        daemon.write(document | {"targets": [world.target("a", maxReplicas=20)]})
        assert daemon.wait_event("target_removed")["target"] == b
        daemon.wait_event("reloaded", 2)
        assert b not in daemon.page("/metrics")
        status = command("status", "--url", f"http://{daemon.address}").stdout
        _, *rows, summed_up = status.splitlines()
        assert [row.partition("\t")[0] for row in rows] == [a]
        assert summed_up.startswith("1 target")


def test_a_broken_file_leaves_the_last_good_one_in_force(world: World, document: Document) -> None:
    a, b = map(world.key, "ab")
    with world.running(document) as daemon:
        started = daemon.metric(f"{LAST}_success_timestamp_seconds")
        assert reloads(daemon) == (0, 0)
        assert daemon.metric(f"{LAST}_attempt_timestamp_seconds") == started > 0
        daemon.write(document | {"targets": [world.target("a", maxReplicas=0), world.target("b")]})
        line = daemon.wait_event("reload_failed")
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
        daemon.wait_write(a, 4)
        assert not daemon.syncs(b)
        daemon.write(document | {"targets": [world.target("a"), world.target("b")]})
        daemon.wait_event("reloaded")
        wait_until("the reload succeeded", lambda: reloads(daemon) == (1, 1))
        assert daemon.component("reload")["ok"] is True
        assert 'component_ok{component="reload"} 1' in daemon.page("/metrics")
        succeeded = daemon.metric(f"{LAST}_success_timestamp_seconds")
        assert daemon.metric(f"{LAST}_attempt_timestamp_seconds") == succeeded > failed
        daemon.wait_write(b, 4)


def test_sighup_reads_again_and_a_storm_of_them_does_no_harm(
    world: World, document: Document
) -> None:
    with world.running(document) as daemon:
        os.kill(daemon.pid, signal.SIGHUP)
        line = daemon.wait_event("reloaded")
        assert (line["added"], line["removed"], line["changed"]) == (0, 0, 0)
        for _ in range(500):
            os.kill(daemon.pid, signal.SIGHUP)
        daemon.write(document | {"targets": [world.target("a"), world.target("b")]})
        daemon.wait_event("target_added")
        daemon.wait_write(world.key("b"), 4)


@pytest.mark.parametrize("where", ["current-context", "context", "kubeconfig"])
def test_a_reload_never_changes_the_cluster(world: World, document: Document, where: str) -> None:
    kubeconfig = Path(world.environment["KUBECONFIG"])
    with ScriptedServer(Answer(404)) as other:
        elsewhere = other.write_kubeconfig(world.folder / "elsewhere")
        both = yaml.safe_load(kubeconfig.read_text())
        for section, entries in yaml.safe_load(elsewhere.read_text()).items():
            if isinstance(entries, list):
                both[section] += entries
        kubeconfig.write_text(yaml.safe_dump(both))
        with world.running(document) as daemon:
            daemon.wait_write(world.key("a"), 4)
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
                    "targets": [world.target("a"), world.target("b")],
                }
            )
            daemon.wait_write(world.key("b"), 4)
            late = [line["message"] for line in daemon.events("needs_restart")]
            assert len(late) == (where != "current-context")
            assert all(f"kubernetes.{where}" in message for message in late)
        assert other.asked == []


def test_an_unverified_api_server_is_a_warning_at_every_start(
    world: World, document: Document
) -> None:
    kubeconfig = yaml.safe_load(Path(world.environment["KUBECONFIG"]).read_text())
    cluster = kubeconfig["clusters"][0]["cluster"]
    for authority in ("certificate-authority", "certificate-authority-data"):
        cluster.pop(authority, None)
    cluster["insecure-skip-tls-verify"] = True
    open_to_all = world.folder / "unverified"
    open_to_all.touch(mode=0o600)
    open_to_all.write_text(yaml.safe_dump(kubeconfig))
    with running(world.write(document), {"KUBECONFIG": str(open_to_all)}) as daemon:
        line = daemon.wait_event("insecure")
        assert line["level"] == "warning"
        assert_parts(line["message"], str(open_to_all), "insecure-skip-tls-verify")
        daemon.wait_write(world.key("a"), 4)
