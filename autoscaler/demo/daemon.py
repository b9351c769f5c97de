"""The demo's autoscaler: the real daemon as a child process, and the syncs in its log."""

import json
import socket
import sys
import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import yaml

from autoscaler.demo.children import Child, free_port
from autoscaler.demo.services import CPU, LOAD, Service, external
from autoscaler.demo.story import DEPLOYMENT, METRIC, QUEUE, Story


@dataclass(frozen=True, slots=True)
class ClusterAccess:
    """How the daemon reaches the cluster; a kubeconfig of None means the environment's."""

    kubeconfig: Path | None
    context: str
    namespace: str


@dataclass(frozen=True, slots=True)
class LogLine:
    """The log line of one sync."""

    message: str
    changed: bool
    """Whether the scale or the state of the target changed."""


def config(
    story: Story, services: Sequence[Service], prometheus_url: str, access: ClusterAccess
) -> dict[str, object]:
    """Return the daemon's configuration, but for what is of a folder and of an address."""
    kubernetes: dict[str, object] = {"context": access.context}
    if access.kubeconfig is not None:
        kubernetes["kubeconfig"] = str(access.kubeconfig)
    of_services = [_target(access, service.name, service.target) for service in services]
    return {
        "prometheus": {"url": prometheus_url},
        "kubernetes": kubernetes,
        "syncPeriod": f"{story.sync_period}s",
        # Pods that have just begun count at once, since all of it lasts a minute.
        "cpuInitializationPeriod": "1s",
        "initialReadinessDelay": "1s",
        "queries": {METRIC: f'{METRIC}{{queue="{QUEUE}"}}', LOAD: LOAD},
        "resourceQueries": {"cpu": {"query": CPU, "window": "1s"}},
        "targets": [_target(access, DEPLOYMENT, _workers(story)), *of_services],
    }


def _workers(story: Story) -> dict[str, object]:
    """Return what the target of the queue's workers is besides its name."""
    slowly = {"scaleDown": {"stabilizationWindowSeconds": story.scale_down_window}}
    each, most = story.messages_per_worker, story.max_workers
    return external({"name": METRIC}, each, maximum=most, behavior=slowly)


def _target(access: ClusterAccess, name: str, scaling: Mapping[str, object]) -> dict[str, object]:
    ref = {"apiVersion": "apps/v1", "kind": "Deployment", "name": name}
    return {"namespace": access.namespace, "scaleTargetRef": ref, **scaling}


class DemoDaemon:
    """The running daemon: its configuration, the address of its pages, and its log.

    ``target`` is the key of the queue's workers.
    """

    def __init__(self, process: Child, file: Path, url: str, target: str) -> None:
        self.process = process
        self.file = file
        self.url = url
        self.target = target
        self._read = 0

    def news(self) -> list[LogLine]:
        """Return the syncs of the queue's workers that were logged since the last call."""
        with self.process.log.open("rb") as log:
            log.seek(self._read)
            syncs = []
            for line in log:
                if not line.endswith(b"\n"):
                    break  # still being written
                self._read += len(line)
                entry = _sync(line, self.target)
                if entry is not None:
                    syncs.append(entry)
            return syncs


@contextmanager
def running(
    document: Mapping[str, object], namespace: str, folder: Path, stop: threading.Event
) -> Iterator[DemoDaemon]:
    """Run `autoscaler run` on a configuration until the `with` statement ends.

    It is yielded once its pages are there, or ``stop`` is set.  Raises DemoError if that takes too
    long.
    """
    folder.mkdir()
    port = free_port()
    file, address = folder / "autoscaler.yaml", f"127.0.0.1:{port}"
    own = {"listen": address, "stateDirectory": str(folder / "state")}
    file.write_text(yaml.safe_dump({**own, **document}, sort_keys=False))
    argv = [sys.executable, "-m", "autoscaler", "run", "-c", str(file)]
    argv += ["--log-level", "debug", "--log-format", "json"]
    with Child("The autoscaler", argv, folder / "autoscaler.log") as process:
        process.wait("listen", lambda: _listens(port), stop)
        workers = f"{namespace}/Deployment/{DEPLOYMENT}"
        yield DemoDaemon(process, file, f"http://{address}/", workers)


def _listens(port: int) -> bool:
    with socket.socket() as probe:
        return probe.connect_ex(("127.0.0.1", port)) == 0


def _sync(line: bytes, target: str) -> LogLine | None:
    """Parse a log line; None if it is not that of a sync of the target."""
    try:
        entry = json.loads(line)
    except ValueError:
        return None
    if not isinstance(entry, dict) or (entry.get("event"), entry.get("target")) != ("sync", target):
        return None
    return LogLine(str(entry.get("message", "")), changed=entry.get("level") != "debug")
