"""What `autoscaler run` tells the service manager from its start to its end."""

import fcntl
import os
import re
import signal
import subprocess
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest
import requests

from tests.adapters.prometheus.exporter import Exporter
from tests.adapters.prometheus.server import PrometheusServer
from tests.controlplane import workloads
from tests.controlplane.api import Api
from tests.controlplane.process import free_port
from tests.controlplane.waiting import wait_until
from tests.endtoend.daemon import DaemonProcess, write_config
from tests.service.notify_socket import NotifySocket

TARGETS = 40
WATCHED = {"WATCHDOG_USEC": "60000000"}


@pytest.fixture
def manager(tmp_path: Path) -> Iterator[NotifySocket]:
    """Listen as the service manager does."""
    with NotifySocket(str(tmp_path / "notify")) as listening:
        yield listening


@pytest.fixture
def document(
    prometheus_exporter: Exporter,
    prometheus_server: PrometheusServer,
    admin_api: Api,
    namespace: str,
) -> dict[str, object]:
    """Give a configuration whose targets are fine as they are."""
    queue = f'queue_messages{{namespace="{namespace}"}}'
    prometheus_exporter.set("queue_messages", {"namespace": namespace}, 30)
    prometheus_server.wait_for(queue)
    names = [f"worker-{number}" for number in range(TARGETS)]
    for name in names[:1]:
        admin_api.create(
            workloads.collection("Deployment", namespace), workloads.deployment(name, replicas=1)
        )
    return {
        "prometheus": {"url": prometheus_server.url},
        "syncPeriod": "1s",
        "queries": {"queue": f"sum({queue})"},
        "targets": [_target(namespace, name) for name in names],
    }


def _target(namespace: str, name: str) -> dict[str, object]:
    metric = {"metric": {"name": "queue"}, "target": {"type": "AverageValue", "averageValue": 30}}
    return {
        "namespace": namespace,
        "scaleTargetRef": {"apiVersion": "apps/v1", "kind": "Deployment", "name": name},
        "maxReplicas": 10,
        "metrics": [{"type": "External", "external": metric}],
    }


def test_from_start_to_end(
    manager: NotifySocket,
    document: dict[str, object],
    environment: Mapping[str, str],
    tmp_path: Path,
) -> None:
    """READY once it serves, RELOADING and READY for each reload, WATCHDOG, STOPPING, exit 0.

    A file that is wrong is a reload too, whose READY says that it was refused.
    """
    port = free_port()
    document["listen"] = f"127.0.0.1:{port}"
    file = write_config(tmp_path / "autoscaler.yaml", document)
    variables = {**environment, **manager.environment, **WATCHED}
    with DaemonProcess(file, variables) as daemon:
        ready = manager.wait_for("READY")
        assert str(TARGETS) in ready["STATUS"]
        assert requests.get(f"http://127.0.0.1:{port}/livez", timeout=5).status_code == 200

        os.kill(daemon.pid, signal.SIGHUP)
        manager.wait_for("RELOADING")
        assert "refused" not in manager.wait_for("READY", 2)["STATUS"]

        file.write_text(file.read_text().replace("maxReplicas: 10", "maxReplicas: ten"))
        os.kill(daemon.pid, signal.SIGHUP)
        manager.wait_for("RELOADING", 2)
        assert "refused" in manager.wait_for("READY", 3)["STATUS"]

        fed = manager.said("WATCHDOG")
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
    """Without a way to a cluster it ends with 1, and has said nothing."""
    document = {
        "prometheus": {"url": "http://127.0.0.1:9"},
        "queries": {"queue": "sum(queue_messages)"},
        "targets": [_target("shop", "web")],
    }
    file = write_config(tmp_path / "autoscaler.yaml", document)
    variables = {**os.environ, **manager.environment, "KUBECONFIG": str(tmp_path / "missing")}
    done = subprocess.run(
        [sys.executable, "-m", "autoscaler", "run", "-c", str(file)],
        env=variables,
        capture_output=True,
        check=False,
        timeout=60,
    )
    assert done.returncode == 1, done.stderr
    assert manager.messages == []


def test_the_watchdog_starves_while_syncs_hang(
    manager: NotifySocket,
    document: dict[str, object],
    environment: Mapping[str, str],
    tmp_path: Path,
) -> None:
    """Syncs that hang in the log, which nobody reads, feed no watchdog; read, it is fed again."""
    file = write_config(tmp_path / "autoscaler.yaml", document)
    variables = {**os.environ, **environment, **manager.environment, **WATCHED}
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
            fed = manager.said("WATCHDOG")
            wait_until(
                "the watchdog is fed",
                lambda: os.read(log, 65536) and manager.said("WATCHDOG") > fed,
            )
        finally:
            daemon.kill()


def _wait_for_silence(manager: NotifySocket) -> None:
    """Wait until the watchdog is not fed for so long that it is not by chance."""
    seconds = 2.5

    def silent() -> bool:
        before = manager.said("WATCHDOG")
        try:
            manager.wait_for("WATCHDOG", before + 1, timeout=seconds)
        except AssertionError:
            return True
        return False

    wait_until("nothing feeds the watchdog", silent)
