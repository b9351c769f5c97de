"""Several clusters of a daemon: how long the first sync waits for them, and who has Events."""

import socket
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path

import pytest

from autoscaler import clock
from autoscaler.config.settings import ClusterSettings, LeaderElection
from autoscaler.daemon.connections import ConnectedCluster, wait_for_watches
from autoscaler.demo.apiserver import StandInCluster
from tests.worlds.announced import Announced
from tests.worlds.controlplane.credentials import kubeconfig
from tests.worlds.memory import external


@pytest.fixture
def silent() -> Iterator[str]:
    """Give the address of a server that accepts connections and never answers."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        yield f"http://127.0.0.1:{server.getsockname()[1]}"


@pytest.fixture
def stack() -> Iterator[ExitStack]:
    with ExitStack() as stack:
        yield stack


def watched(stack: ExitStack, name: str, path: Path) -> ConnectedCluster:
    """Return a cluster that is watched for one target."""
    settings = ClusterSettings(name=name).model_copy(update={"kubeconfig": path})
    announcements = Announced().announcements
    parts = (LeaderElection(), "me", threading.Event(), announcements)
    cluster = ConnectedCluster(*parts, name, settings, None)
    stack.callback(cluster.close)
    cluster.set_targets([replace(external("shop", "web"), cluster=name)])
    return cluster


def answering(stack: ExitStack, name: str, folder: Path) -> ConnectedCluster:
    server = stack.enter_context(StandInCluster())
    return watched(stack, name, server.kubeconfig(folder / name))


def hanging(stack: ExitStack, name: str, folder: Path, url: str) -> ConnectedCluster:
    path = folder / name
    path.write_text(kubeconfig({"server": url}, {"token": "any"}))
    return watched(stack, name, path)


def waits(*clusters: ConnectedCluster, seconds: float) -> float:
    """Return how long the wait for these takes."""
    begun = clock.monotonic()
    wait_for_watches(clusters, threading.Event(), seconds, 0.1)
    return clock.monotonic() - begun


def test_a_cluster_that_hangs_delays_no_other(
    stack: ExitStack, silent: str, tmp_path: Path
) -> None:
    away = hanging(stack, "away", tmp_path, silent)
    others = [answering(stack, name, tmp_path) for name in ("eu", "us")]
    assert waits(others[0], away, others[1], seconds=30) < 10
    assert all(other.caches.wait_synced(clock.monotonic()) for other in others)


def test_the_first_sync_waits_for_a_single_cluster_or_until_all_have_answered(
    stack: ExitStack, silent: str, tmp_path: Path
) -> None:
    """A cluster by itself has all the time; the wait ends with the last of those that answer."""
    away = hanging(stack, "away", tmp_path, silent)
    assert waits(away, seconds=2.5) >= 2.5
    assert waits(*(answering(stack, name, tmp_path) for name in ("eu", "us")), seconds=30) < 10


@pytest.mark.parametrize(("soft", "hard", "allowed"), [(256, 700, 700), (600, 600, 600)])
def test_the_limit_of_open_files_is_raised_to_the_hard_limit(
    soft: int, hard: int, allowed: int
) -> None:
    """Many clusters take more files than a process may have open by default."""
    program = f"""
import resource
from autoscaler.daemon.connections import allow_many_connections
resource.setrlimit(resource.RLIMIT_NOFILE, ({soft}, {hard}))
allow_many_connections()
print(*resource.getrlimit(resource.RLIMIT_NOFILE))
"""
    argv = [sys.executable, "-c", program]
    done = subprocess.run(argv, capture_output=True, text=True, check=True, timeout=60)
    assert done.stdout.split() == [str(allowed), str(hard)]
