"""The demo's autoscaler: the real daemon as a child process, and the syncs in its log."""

import json
import socket
import sys
import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import yaml

from autoscaler.demo.children import Child, free_port
from autoscaler.demo.services import CPU, LOAD, Service, external
from autoscaler.demo.story import DEPLOYMENT, METRIC, QUEUE, Region, Story


@dataclass(frozen=True, slots=True)
class ServedCluster:
    """How the daemon reaches a cluster, and what it scales there besides the queue's workers.

    A kubeconfig of None means the environment's.
    """

    region: Region
    kubeconfig: Path | None
    context: str
    namespace: str
    services: Sequence[Service]

    @property
    def workers(self) -> str:
        """The key of the queue's workers."""
        parts = (self.region.name, self.namespace, "Deployment", DEPLOYMENT)
        return "/".join(part for part in parts if part)


class LogLine(NamedTuple):
    """The log line of one sync."""

    message: str
    changed: bool
    """Whether the scale or the state of the target changed."""


def config(
    story: Story, prometheus_url: str, clusters: Sequence[ServedCluster]
) -> dict[str, object]:
    """Return the daemon's configuration, but for what is of a folder and of an address."""
    connections = [_connection(one) for one in clusters]
    several = len(clusters) > 1
    return {
        "prometheus": {"url": prometheus_url},
        **({"clusters": connections} if several else {"kubernetes": connections[0]}),
        "syncPeriod": f"{story.sync_period}s",
        # Pods that have just begun count at once, since all of it lasts a minute.
        "cpuInitializationPeriod": "1s",
        "initialReadinessDelay": "1s",
        "queries": {METRIC: f'{METRIC}{{queue="{QUEUE}"}}', LOAD: LOAD},
        "resourceQueries": {"cpu": {"query": CPU, "window": "1s"}},
        "targets": [target for one in clusters for target in _targets(story, one)],
    }


def _connection(cluster: ServedCluster) -> dict[str, object]:
    region = cluster.region
    made: dict[str, object] = {"name": region.name} if region.name else {}
    if cluster.kubeconfig is not None:
        made["kubeconfig"] = str(cluster.kubeconfig)
    series = {"seriesLabels": region.labels} if region.name else {}
    return {**made, "context": cluster.context, **series}


def _targets(story: Story, cluster: ServedCluster) -> Iterator[dict[str, object]]:
    """Yield the targets of a cluster, the queue's workers first."""
    region = cluster.region
    slowly = {"scaleDown": {"stabilizationWindowSeconds": story.scale_down_window}}
    each, most = story.messages_per_worker, story.max_workers
    workers = external(METRIC, region.labels, each, maximum=most, behavior=slowly)
    place = {"cluster": region.name} if region.name else {}
    for name, scaling in (
        (DEPLOYMENT, workers),
        *((service.name, service.target) for service in cluster.services),
    ):
        ref = {"apiVersion": "apps/v1", "kind": "Deployment", "name": name}
        yield {**place, "namespace": cluster.namespace, "scaleTargetRef": ref, **scaling}


class DemoDaemon:
    """The running daemon: its configuration, the address of its pages, and its log.

    ``targets`` are the keys of the queues' workers by region.
    """

    def __init__(self, process: Child, file: Path, url: str, targets: Mapping[str, str]) -> None:
        self.process = process
        self.file = file
        self.url = url
        self.targets = targets
        self._regions = {key: region for region, key in targets.items()}
        self._read = 0

    def news(self) -> Mapping[str, Sequence[LogLine]]:
        """Return the syncs of each queue's workers that were logged since the last call."""
        with self.process.log.open("rb") as log:
            log.seek(self._read)
            syncs: dict[str, list[LogLine]] = {region: [] for region in self.targets}
            for line in log:
                if not line.endswith(b"\n"):
                    break  # still being written
                self._read += len(line)
                entry = _sync(line)
                if entry.get("target") in self._regions:
                    told, changed = str(entry.get("message", "")), entry.get("level") != "debug"
                    syncs[self._regions[entry["target"]]].append(LogLine(told, changed=changed))
            return syncs


@contextmanager
def running(
    document: Mapping[str, object],
    clusters: Sequence[ServedCluster],
    folder: Path,
    stop: threading.Event,
) -> Iterator[DemoDaemon]:
    """Run `autoscaler run` on a configuration of the clusters until the `with` statement ends.

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
        workers = {one.region.name: one.workers for one in clusters}
        yield DemoDaemon(process, file, f"http://{address}/", workers)


def _listens(port: int) -> bool:
    with socket.socket() as probe:
        return probe.connect_ex(("127.0.0.1", port)) == 0


def _sync(line: bytes) -> dict[str, Any]:
    """Parse a log line; nothing if it is not that of a sync."""
    try:
        entry = json.loads(line)
    except ValueError:
        return {}
    return entry if isinstance(entry, dict) and entry.get("event") == "sync" else {}
