"""`plan` beside a daemon: it says the same, since it goes on with what the daemon remembers."""

import re
import subprocess
import sys
from collections.abc import Mapping
from os import environ
from pathlib import Path

from tests.controlplane import workloads
from tests.controlplane.api import Api
from tests.controlplane.process import free_port
from tests.endtoend.daemon import DaemonProcess, write_config
from tests.endtoend.demand import Document


def explained(file: Path, environment: Mapping[str, str]) -> tuple[str, str]:
    """Return the first line of a plan, and until when the target is held."""
    ran = subprocess.run(
        [sys.executable, "-m", "autoscaler", "plan", "-c", str(file), "--explain"],
        env=environ | dict(environment),
        capture_output=True,
        text=True,
        check=True,
    )
    until = re.search(r"held at 6 until (\S+) by the count of 6 at the first sync, ", ran.stdout)
    assert until, ran.stdout
    assert "stabilize   4 -> 6, ScaleDownStabilized" in ran.stdout
    return ran.stdout.partition("\n")[0], until[1]


def test_a_plan_names_the_same_hold_as_the_daemon_beside_it(
    document: Document,
    environment: Mapping[str, str],
    admin_api: Api,
    namespace: str,
    tmp_path: Path,
) -> None:
    """Its window ends when the daemon's does, also once the daemon has left only its state."""
    path = f"{workloads.collection('Deployment', namespace)}/a"
    admin_api.patch(path, {"spec": {"replicas": 6}})
    address = f"127.0.0.1:{free_port()}"
    # A plan that begins more than three periods after the daemon's end would begin a new hold.
    kept = {"syncPeriod": "5s", "listen": address, "stateDirectory": str(tmp_path / "state")}
    document = document | kept
    file = write_config(tmp_path / "autoscaler.yaml", document)
    key = f"{namespace}/Deployment/a"
    with DaemonProcess(file, environment, "--log-level", "debug") as daemon:
        daemon.wait_for("a sync", lambda _: daemon.syncs(key) != [])
        line = daemon.syncs(key)[-1]
        assert line["stabilize"] == {"before": 4, "after": 6, "reason": "ScaleDownStabilized"}
        first, until = explained(file, environment)
        assert first == (
            f"goes on with what the daemon at http://{address} remembers of the target"
        )
        assert line["releases_at"].endswith(until)
        assert daemon.stop() == 0
    first, until = explained(file, environment)
    assert first.startswith(
        f"no daemon listens at http://{address}; "
        f"goes on with what {tmp_path}/state/autoscaler.db held of the target"
    )
    assert line["releases_at"].endswith(until)
    write_config(file, document | {"stateDirectory": None})
    first, until = explained(file, environment)
    assert first.startswith("decides as a daemon that has just started: no target goes down before")
    assert not line["releases_at"].endswith(until)
