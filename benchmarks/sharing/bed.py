"""Daemons with one configuration, the clusters that they serve, and a proxy between each two."""

import argparse
import random
import sys
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import Self

from autoscaler import clock
from benchmarks.sharing.clusters import NAMESPACE, WORKLOADS, SharedCluster, control_plane, stand_in
from tests.worlds.daemon import Document, target, write_config
from tests.worlds.process import ServerProcess
from tests.worlds.prometheus.exporter import Exporter
from tests.worlds.prometheus.server import PrometheusServer
from tests.worlds.proxies.http import FaultProxy
from tests.worlds.waiting import Background, wait_until

METRIC = "demand"
SYNC_SECONDS = 1.0
_MOST_REPLICAS = 20


@dataclass(frozen=True)
class Times:
    """The durations of the election, seconds; None leaves what the daemon takes."""

    lease: float = 15.0
    renew: float | None = None
    retry: float | None = None

    @property
    def renew_deadline(self) -> float:
        """How long a leader goes on without a renewal."""
        return self.lease * 2 / 3 if self.renew is None else self.renew

    @staticmethod
    def add_to(parser: argparse.ArgumentParser) -> None:
        """Add the options of a command that say them."""
        add = parser.add_argument
        add("--lease", type=float, default=15.0, metavar="SECONDS", help="leaseDuration (15)")
        add("--renew", type=float, metavar="SECONDS", help="renewDeadline")
        add("--retry", type=float, metavar="SECONDS", help="retryPeriod")

    @classmethod
    def of(cls, given: argparse.Namespace) -> Self:
        """Return what these options say."""
        return cls(given.lease, given.renew, given.retry)

    def settings(self) -> Document:
        """Return them as a configuration has them."""
        given = {
            "leaseDuration": self.lease,
            "renewDeadline": self.renew,
            "retryPeriod": self.retry,
        }
        return {key: f"{round(one * 1000)}ms" for key, one in given.items() if one is not None}


class Loads(Background):
    """What each workload needs: another count at each sync, so that there is something to write."""

    def __init__(self, clusters: Sequence[str], seed: int) -> None:
        super().__init__()
        self.exporter = Exporter()
        self._clusters = clusters
        self._chance = random.Random(seed)  # noqa: S311 - no secret
        self._now: dict[tuple[str, str], int] = {}
        self._change()

    def _change(self) -> None:
        for cluster in self._clusters:
            for name in WORKLOADS:
                others = {*range(2, _MOST_REPLICAS)} - {self._now.get((cluster, name), 0)}
                self._now[cluster, name] = needed = self._chance.choice(sorted(others))
                labels = {"cluster": cluster, "namespace": NAMESPACE, "deployment": name}
                self.exporter.set(METRIC, labels, needed)

    def _run(self) -> None:
        while not self._ended.wait(SYNC_SECONDS):
            self._change()


@dataclass
class SharingDaemon:
    """One of the daemons; its log has all its lives."""

    name: str
    process: ServerProcess
    starts: list[float] = field(default_factory=list)
    _read: int = 0

    def start(self) -> None:
        """Start it; `ready` tells when it is."""
        log = self.process.log_file
        self._read = log.stat().st_size if log.exists() else 0
        self.starts.append(clock.wall())
        self.process.start()

    def ready(self) -> bool:
        """Return whether it has said that it is started."""
        with self.process.log_file.open("rb") as log:
            log.seek(self._read)
            return b'"event": "started"' in log.read()


@dataclass(frozen=True)
class Fleet:
    """How many daemons share how many clusters, and how."""

    daemons: int = 3
    clusters: int = 12
    real: int = 0
    """How many of the clusters are real control planes."""
    times: Times = Times()
    share: bool = True
    unelected: frozenset[str] = frozenset()
    """Daemons that write without a Lease: a fault that the judge must find."""

    @property
    def names(self) -> list[str]:
        """The names of the daemons."""
        return ["one", "two", "three", "four", "five"][: self.daemons]


class Bed:
    """All of it, on loopback."""

    def __init__(self, folder: Path, fleet: Fleet, seed: int, stack: ExitStack) -> None:
        names = [f"c{number}" for number in range(1, fleet.clusters + 1)]
        self.fleet = fleet
        self.clusters: dict[str, SharedCluster] = {}
        for number, name in enumerate(names):
            opened = (
                control_plane(name, fleet.names, folder / name)
                if number < fleet.real
                else stand_in(name, fleet.names)
            )
            self.clusters[name] = stack.enter_context(opened)
        self._loads = stack.enter_context(Loads(names, seed))
        exporter = stack.enter_context(self._loads.exporter)
        self._prometheus = stack.enter_context(PrometheusServer(folder / "prometheus"))
        self._prometheus.start([exporter.target])
        self.proxies = {
            (daemon, name): stack.enter_context(
                FaultProxy(cluster.ways[daemon].url, ca_file=cluster.ca_file)
            )
            for daemon in fleet.names
            for name, cluster in self.clusters.items()
        }
        self.daemons = {name: self._daemon(folder, name) for name in fleet.names}
        self._prometheus.wait_for(METRIC, count=len(names) * len(WORKLOADS))
        for daemon in self.daemons.values():
            stack.callback(daemon.process.stop)
            daemon.start()
        self.wait_ready()

    def wait_ready(self) -> None:
        """Wait until all daemons are started."""
        for daemon in self.daemons.values():
            wait_until(f"daemon {daemon.name} is started", daemon.ready)

    def _daemon(self, folder: Path, name: str) -> SharingDaemon:
        own = folder / f"daemon-{name}"
        own.mkdir()
        config = write_config(own / "autoscaler.yaml", self._document(own, name))
        argv = [sys.executable, "-m", "autoscaler", "run", "-c", str(config)]
        process = ServerProcess([*argv, "--log-format", "json"], folder / f"daemon-{name}.log")
        return SharingDaemon(name, process)

    def _document(self, own: Path, name: str) -> Document:
        election: Document = {"enabled": name not in self.fleet.unelected}
        if election["enabled"]:
            election |= {"namespace": NAMESPACE, "identity": name, **self.fleet.times.settings()}
            election |= {"share": True} if self.fleet.share else {}
        return {
            "prometheus": {"url": self._prometheus.url},
            "syncPeriod": f"{SYNC_SECONDS:g}s",
            "tolerance": 0,
            "stateDirectory": str(own / "state"),
            "record": None,
            "listen": "127.0.0.1:0",
            "leaderElection": election,
            "queries": {METRIC: METRIC},
            "clusters": [
                {
                    "name": cluster.name,
                    "kubeconfig": str(self._kubeconfig(own, name, cluster)),
                    "seriesLabels": {"cluster": cluster.name},
                }
                for cluster in self.clusters.values()
            ],
            "targets": [
                {**_target(workload), "clusters": [*self.clusters]} for workload in WORKLOADS
            ],
        }

    def _kubeconfig(self, own: Path, daemon: str, cluster: SharedCluster) -> Path:
        proxy = self.proxies[daemon, cluster.name]
        token = cluster.ways[daemon].token
        return proxy.write_kubeconfig(own / f"{cluster.name}.kubeconfig", token=token)


def _target(name: str) -> Document:
    """Return a workload that may go to any count at each sync."""
    described = {"apiVersion": "apps/v1", "kind": "Deployment", "name": name}
    metric = {
        "describedObject": described,
        "metric": {"name": METRIC},
        "target": {"type": "AverageValue", "averageValue": 1},
    }
    policies = [{"type": "Pods", "value": 100, "periodSeconds": 1}]
    free = {"stabilizationWindowSeconds": 0, "policies": policies}
    more = {"maxReplicas": _MOST_REPLICAS, "behavior": {"scaleUp": free, "scaleDown": free}}
    return target(NAMESPACE, name, {"type": "Object", "object": metric}, **more)
