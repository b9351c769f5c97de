"""The servers of the test bed, their life and their credentials."""

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from tests.worlds.controlplane import binaries
from tests.worlds.controlplane.api import Api
from tests.worlds.controlplane.fixtures import if_available
from tests.worlds.controlplane.server import ControlPlane
from tests.worlds.gomodule import ControlPlaneUnavailable
from tests.worlds.waiting import wait_until


def gone(pid: int) -> bool:
    """Whether the process has ended, even if its exit code is not collected yet."""
    try:
        stat = Path(f"/proc/{pid}/stat").read_text()
    except (FileNotFoundError, ProcessLookupError):
        return True
    return stat.rpartition(")")[2].split()[0] == "Z"


def test_the_apiserver_is_the_pinned_version(admin_api: Api) -> None:
    if os.environ.get("KUBEBUILDER_ASSETS"):
        pytest.skip("KUBEBUILDER_ASSETS decides the version")
    version = admin_api.get("/version")["gitVersion"]
    assert version == binaries.kubernetes_version()
    assert version.startswith("v1.37.")


def test_the_servers_die_with_their_python_process(control_plane: ControlPlane) -> None:
    del control_plane  # It has made sure that the binaries are there.
    script = (
        "from tests.worlds.controlplane.server import ControlPlane\n"
        "plane = ControlPlane(controllers=())\n"
        "plane.start()\n"
        "print(*plane.pids.values(), plane.data_dir, flush=True)\n"
        "input()\n"
    )
    with subprocess.Popen(
        [sys.executable, "-c", script], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as child:
        assert child.stdout
        etcd, apiserver, folder = child.stdout.readline().split()
        assert not gone(int(etcd))
        assert not gone(int(apiserver))
        child.send_signal(signal.SIGKILL)
    wait_until("the servers end", lambda: gone(int(etcd)) and gone(int(apiserver)))
    remove_tree(Path(folder))


def remove_tree(folder: Path) -> None:
    """Remove what a killed process could not."""
    for path in sorted(folder.rglob("*"), reverse=True):
        path.rmdir() if path.is_dir() else path.unlink()
    folder.rmdir()


def test_an_unavailable_control_plane_skips_but_fails_under_ci(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    # A skip that escapes would skip this test instead of failing it, so both are caught.
    outcomes = (pytest.skip.Exception, pytest.fail.Exception)
    for ci, outcome in (("", pytest.skip.Exception), ("true", pytest.fail.Exception)):
        monkeypatch.setenv("CI", ci)
        with pytest.raises(outcomes, match="no Go") as caught, if_available():
            raise ControlPlaneUnavailable("no Go")
        assert caught.type is outcome
