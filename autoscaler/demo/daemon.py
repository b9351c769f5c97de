"""The demo's autoscaler: the real daemon as a child process, and the syncs in its log."""

import json
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import yaml

from autoscaler.demo.children import Child
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


def config(story: Story, prometheus_url: str, access: ClusterAccess) -> dict[str, object]:
    """Return the daemon's configuration."""
    kubernetes: dict[str, object] = {"context": access.context}
    if access.kubeconfig is not None:
        kubernetes["kubeconfig"] = str(access.kubeconfig)
    metric = {
        "type": "External",
        "external": {
            "metric": {"name": METRIC},
            "target": {
                "type": "AverageValue",
                "averageValue": str(story.messages_per_worker),
            },
        },
    }
    target = {
        "namespace": access.namespace,
        "scaleTargetRef": {"apiVersion": "apps/v1", "kind": "Deployment", "name": DEPLOYMENT},
        "minReplicas": 1,
        "maxReplicas": story.max_workers,
        "metrics": [metric],
        "behavior": {"scaleDown": {"stabilizationWindowSeconds": story.scale_down_window}},
    }
    return {
        "prometheus": {"url": prometheus_url},
        "kubernetes": kubernetes,
        "syncPeriod": f"{story.sync_period}s",
        # The demo leaves nothing behind and does not disturb another daemon.
        "stateDirectory": None,
        "listen": None,
        "queries": {METRIC: f'{METRIC}{{queue="{QUEUE}"}}'},
        "targets": [target],
    }


class DemoDaemon:
    """The running daemon and its log."""

    def __init__(self, process: Child) -> None:
        self.process = process
        self._read = 0

    def news(self) -> list[LogLine]:
        """Return the syncs that were logged since the last call."""
        with self.process.log.open("rb") as log:
            log.seek(self._read)
            found = []
            for line in log:
                if not line.endswith(b"\n"):
                    break  # still being written
                self._read += len(line)
                entry = _sync(line)
                if entry is not None:
                    found.append(entry)
            return found


@contextmanager
def running(document: dict[str, object], folder: Path) -> Iterator[DemoDaemon]:
    """Run `autoscaler run` on a configuration until the `with` statement ends."""
    folder.mkdir()
    file = folder / "autoscaler.yaml"
    file.write_text(yaml.safe_dump(document, sort_keys=False))
    argv = [sys.executable, "-m", "autoscaler", "run", "-c", str(file)]
    argv += ["--log-level", "debug", "--log-format", "json"]
    with Child("The autoscaler", argv, folder / "autoscaler.log") as process:
        yield DemoDaemon(process)


def _sync(line: bytes) -> LogLine | None:
    """Parse a log line; None if it is not that of a sync."""
    try:
        entry = json.loads(line)
    except ValueError:
        return None
    if not isinstance(entry, dict) or entry.get("event") != "sync":
        return None
    return LogLine(str(entry.get("message", "")), changed=entry.get("level") != "debug")
