"""What `autoscaler run` tells the service manager from its start to its end."""

import fcntl
import os
import re
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
import requests

from tests.worlds.daemon import DaemonProcess, Document, command, external, target, write_config
from tests.worlds.notify_socket import NotifySocket
from tests.worlds.waiting import wait_until
from tests.worlds.world import World

TARGETS = 40
WATCHED = {"WATCHDOG_USEC": "60000000"}


@pytest.fixture
def manager(tmp_path: Path) -> Iterator[NotifySocket]:
    """Listen as the service manager does."""
    with NotifySocket(str(tmp_path / "notify")) as listening:
        yield listening


def document(world: World) -> Document:
    """Give a configuration whose targets are fine as they are; all but one are not there."""
    world.deploy("worker-0")
    world.want(1)
    return world.document(*(world.target(f"worker-{number}") for number in range(TARGETS)))


def test_the_service_manager_shows_why_the_daemon_is_not_ready(
    manager: NotifySocket, world: World
) -> None:
    unreachable = world.document(world.target("a")) | {"prometheus": {"url": "http://127.0.0.1:1"}}
    variables = {**world.environment, **manager.environment}
    with DaemonProcess(world.write(unreachable), variables):
        wait_until("the status", lambda: "not ready: prometheus: " in manager.last("STATUS"))


def test_the_service_manager_is_told_of_each_step_from_start_to_stop(
    manager: NotifySocket, world: World
) -> None:
    file = world.write(document(world))
    variables = {**world.environment, **manager.environment, **WATCHED}
    with DaemonProcess(file, variables) as daemon:
        ready = manager.wait_for("READY")
        assert str(TARGETS) in ready["STATUS"]
        assert requests.get(f"http://{daemon.address}/livez", timeout=5).status_code == 200

        os.kill(daemon.pid, signal.SIGHUP)
        manager.wait_for("RELOADING")
        assert "refused" not in manager.wait_for("READY", 2)["STATUS"]

        file.write_text(file.read_text().replace("maxReplicas: 10", "maxReplicas: ten"))
        os.kill(daemon.pid, signal.SIGHUP)
        manager.wait_for("RELOADING", 2)
        assert "refused" in manager.wait_for("READY", 3)["STATUS"]

        fed = manager.count("WATCHDOG")
        manager.wait_for("WATCHDOG", fed + 2)
        assert daemon.stop() == 0
    # What it said last may still be unread when it is gone.
    manager.wait_for("STOPPING")
    assert "STOPPING" in manager.messages[-1]
    states = [
        key
        for message in manager.messages
        for key in ("READY", "RELOADING", "STOPPING")
        if key in message
    ]
    assert re.fullmatch("READY( RELOADING READY){2,} STOPPING", " ".join(states))


def test_a_daemon_that_cannot_start_is_never_ready(manager: NotifySocket, tmp_path: Path) -> None:
    document = {
        "prometheus": {"url": "http://127.0.0.1:9"},
        "queries": {"queue": "sum(queue_messages)"},
        "targets": [target("shop", "web", external("queue", 30))],
    }
    file = write_config(tmp_path / "autoscaler.yaml", document)
    variables = {**manager.environment, "KUBECONFIG": str(tmp_path / "missing")}
    command("run", "-c", file, environment=variables, code=1)
    assert manager.messages == []


def test_the_watchdog_starves_while_syncs_hang(manager: NotifySocket, world: World) -> None:
    """Syncs that hang in the log, which nobody reads, feed no watchdog; read, it is fed again."""
    file = world.write(document(world))
    variables = {**os.environ, **world.environment, **manager.environment, **WATCHED}
    with subprocess.Popen(
        [sys.executable, "-m", "autoscaler", "run", "-c", str(file), "--log-level", "debug"],
        env=variables,
        stdout=subprocess.PIPE,
    ) as daemon:
        assert daemon.stdout is not None
        log = daemon.stdout.fileno()
        try:
            # Full after a few syncs, whose lines at debug tell of each target.
            fcntl.fcntl(log, fcntl.F_SETPIPE_SZ, 32768)
            manager.wait_for("READY")
            _wait_for_silence(manager)
            fed = manager.count("WATCHDOG")
            wait_until(
                "watchdog fed",
                lambda: os.read(log, 65536) and manager.count("WATCHDOG") > fed,
            )
        finally:
            daemon.kill()


def _wait_for_silence(manager: NotifySocket) -> None:
    """Wait until the watchdog is not fed for so long that it is not by chance."""
    seconds = 2.5

    def silent() -> bool:
        before = manager.count("WATCHDOG")
        try:
            manager.wait_for("WATCHDOG", before + 1, timeout=seconds)
        except AssertionError:
            return True
        return False

    wait_until("watchdog not fed", silent)
