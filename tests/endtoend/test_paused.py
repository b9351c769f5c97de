"""Somebody pauses a target with kubectl alone, while its load rises."""

import os
import re
import subprocess
import sys
from collections.abc import Iterator, Mapping
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from tests.adapters.prometheus.exporter import Exporter
from tests.controlplane import workloads
from tests.controlplane.api import Api
from tests.controlplane.server import ControlPlane
from tests.controlplane.waiting import wait_until
from tests.endtoend.daemon import write_config
from tests.endtoend.demand import DEMAND, Document, RunningDaemon, running, target

RISEN = 8


@pytest.fixture
def risen(prometheus_exporter: Exporter) -> Iterator[None]:
    """Let the load be as it was after the test."""
    yield
    prometheus_exporter.set("demand", {}, DEMAND)


def annotate(api: Api, namespace: str, name: str, **annotations: str | None) -> None:
    """Do what `kubectl annotate --overwrite` does."""
    named = {f"autoscaler/{one.replace('_', '-')}": text for one, text in annotations.items()}
    path = f"{workloads.collection('Deployment', namespace)}/{name}"
    api.patch(path, {"metadata": {"annotations": named}})


@pytest.mark.usefixtures("risen")
def test_a_paused_target_stays_while_its_load_rises(
    document: Document,
    environment: Mapping[str, str],
    control_plane: ControlPlane,
    admin_api: Api,
    namespace: str,
    prometheus_exporter: Exporter,
    tmp_path: Path,
) -> None:
    """The next sync knows of the pause, its end by itself too; bounds move a paused target not."""
    a, b = (f"{namespace}/Deployment/{name}" for name in "ab")
    document = document | {"targets": [target(namespace, "a"), target(namespace, "b")]}
    operator = {"KUBECONFIG": str(control_plane.kubeconfig)}
    with running(write_config(tmp_path / "autoscaler.yaml", document), environment) as daemon:
        daemon.wait_for_write(a, DEMAND)
        daemon.wait_for_write(b, DEMAND)
        annotate(admin_api, namespace, "a", paused="true")
        soon = datetime.now(UTC) + timedelta(seconds=6)
        until = soon.strftime("%Y-%m-%dT%H:%M:%SZ")
        annotate(admin_api, namespace, "b", paused="scale-up", paused_until=until)
        prometheus_exporter.set("demand", {}, RISEN)
        wait_paused(daemon, a)
        daemon.wait_for_write(b, RISEN)
        assert time_of(daemon, b) >= soon.replace(microsecond=0)
        assert count(admin_api, namespace, "a") == DEMAND
        # Without a maximum of so many the pause is all that keeps it.
        daemon.write(
            document | {"targets": [target(namespace, "a", most=3), document["targets"][1]]}
        )
        daemon.wait_for("target_changed")
        decided = decisions(daemon)
        wait_until("more syncs", lambda: decisions(daemon) >= decided + 6)
        assert count(admin_api, namespace, "a") == DEMAND
        daemon.write(document)
        daemon.wait_for("target_changed", 2)
        annotate(admin_api, namespace, "a", paused=None)
        daemon.wait_for_write(a, RISEN)
        by_command(operator, "pause", "--replicas", "5", a)
        daemon.wait_for_write(a, 5)
        by_command(operator, "resume", a)
        daemon.daemon.wait_for(
            "it goes on", lambda _: daemon.daemon.syncs(a)[-1]["desired_replicas"] == RISEN
        )


def by_command(environment: Mapping[str, str], *arguments: str) -> None:
    """Run a command of ours as an operator."""
    ran = subprocess.run(
        [sys.executable, "-m", "autoscaler", *arguments],
        env=os.environ | dict(environment),
        capture_output=True,
        text=True,
        check=False,
    )
    assert ran.returncode == 0, ran.stdout + ran.stderr


def count(api: Api, namespace: str, name: str) -> int:
    """Return the replicas that a Deployment wants."""
    path = f"{workloads.collection('Deployment', namespace)}/{name}"
    return int(api.get(path)["spec"]["replicas"])


def wait_paused(daemon: RunningDaemon, key: str) -> None:
    """Wait until the target's line tells of the pause, who set it, and what it would want."""
    line = daemon.daemon.wait_for(
        "the pause",
        lambda line: line.get("target") == key and "paused" in line.get("message", ""),
    )
    assert "the annotation autoscaler/paused" in line["message"]
    assert line["desired_replicas"] == line["current_replicas"] == DEMAND


def time_of(daemon: RunningDaemon, key: str) -> datetime:
    """Return when the last write of a target was told."""
    written = [line for line in daemon.daemon.syncs(key) if line.get("write") == "written"]
    return datetime.fromisoformat(written[-1]["time"])


def decisions(daemon: RunningDaemon) -> float:
    """Return how many decisions there were for both targets."""
    found = re.findall(r"autoscaler_decisions_total{.*} (.*)", daemon.page("/metrics"))
    return sum(map(float, found))
