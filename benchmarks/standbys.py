"""Daemons of which one leads a stand-in for a cluster, with an account of what it accepted."""

import argparse
import random
import sys
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Self

from tests.worlds.cluster.accounts import Accepted, Account, DisplayedQuery
from tests.worlds.daemon import Document, target, write_config
from tests.worlds.process import ServerProcess
from tests.worlds.prometheus.exporter import Exporter
from tests.worlds.prometheus.server import PrometheusServer
from tests.worlds.waiting import Background, wait_until

NAMESPACE, LEASE, WORKLOADS, METRIC = "shop", "autoscaler", ("api", "web"), "demand"
SYNC_SECONDS = 1.0
_MOST_REPLICAS = 20


@dataclass(frozen=True)
class Times:
    """The durations of the election, seconds; None is in proportion to the lease, as by default."""

    lease: float = 15.0
    renew: float | None = None
    retry: float | None = None

    @staticmethod
    def add_to(parser: argparse.ArgumentParser) -> None:
        """Add the options of a command that say them."""
        add = parser.add_argument
        add("--lease", type=float, default=15.0, metavar="SECONDS", help="leaseDuration (15)")
        add("--renew", type=float, metavar="SECONDS", help="renewDeadline (10 of 15)")
        add("--retry", type=float, metavar="SECONDS", help="retryPeriod (2 of 15)")

    @classmethod
    def from_options(cls, given: argparse.Namespace) -> Self:
        """Return what these options say."""
        return cls(given.lease, given.renew, given.retry)

    def settings(self) -> Document:
        """Return them as a configuration has them."""
        seconds = {
            "leaseDuration": self.lease,
            "renewDeadline": self.renew or self.lease * 10 / 15,
            "retryPeriod": self.retry or self.lease * 2 / 15,
        }
        return {key: f"{round(each * 1000)}ms" for key, each in seconds.items()}


class _Loads(Background):
    """What each workload needs: another count at each sync, so that there is something to write."""

    def __init__(self) -> None:
        super().__init__()
        self.exporter = Exporter()
        self._chance = random.Random(1)  # noqa: S311 - no secret
        self._now: dict[str, int] = {}
        self._change()

    def _change(self) -> None:
        for name in WORKLOADS:
            others = {*range(2, _MOST_REPLICAS)} - {self._now.get(name, 0)}
            self._now[name] = needed = self._chance.choice(sorted(others))
            self.exporter.set(METRIC, {"namespace": NAMESPACE, "deployment": name}, needed)

    def _run(self) -> None:
        while not self._ended.wait(SYNC_SECONDS):
            self._change()


class Daemon:
    """One of the daemons; its log has all its lives."""

    def __init__(self, name: str, config: Path) -> None:
        self.name = name
        argv = [sys.executable, "-m", "autoscaler", "run", "-c", str(config)]
        log = config.with_suffix(".log")
        self.process = ServerProcess([*argv, "--log-format", "json"], log)
        self._read = 0

    def start(self) -> None:
        """Start it; `ready` tells when it is."""
        log = self.process.log_file
        self._read = log.stat().st_size if log.exists() else 0
        self.process.start()

    def ready(self) -> bool:
        """Return whether it has said that it is started."""
        with self.process.log_file.open("rb") as log:
            log.seek(self._read)
            return b'"event": "started"' in log.read()


class Bed:
    """All of it, on loopback."""

    def __init__(self, folder: Path, daemons: int, times: Times, stack: ExitStack) -> None:
        self._times = times
        self._account = Account()
        self._account.deploy(NAMESPACE, *WORKLOADS)
        self.asked: Sequence[DisplayedQuery] = self._account.asked
        """All requests for Leases."""
        exporter = stack.enter_context(stack.enter_context(_Loads()).exporter)
        self._prometheus = stack.enter_context(PrometheusServer(folder / "prometheus"))
        self._prometheus.start([exporter.target])
        names = [f"daemon{number}" for number in range(1, daemons + 1)]
        self.daemons = {name: self._daemon(folder, name, stack) for name in names}
        self._prometheus.wait_for(METRIC, count=len(WORKLOADS))
        for daemon in self.daemons.values():
            stack.callback(daemon.process.stop)
            daemon.start()
        self.wait_ready()

    def wait_ready(self) -> None:
        """Wait until all daemons are started."""
        for daemon in self.daemons.values():
            wait_until(f"{daemon.name} is started", daemon.ready)

    def accepted(self) -> Sequence[Accepted]:
        """Return what was accepted so far, in its order."""
        writes = self._account.accepted()
        return [write for write in writes if write.holder is None or write.name == LEASE]

    def holder(self) -> str:
        """Return the daemon that holds the Lease, "" for nobody."""
        holders = [write.holder for write in self.accepted() if write.holder is not None]
        return holders[-1].partition("_")[0] if holders else ""

    def _daemon(self, folder: Path, name: str, stack: ExitStack) -> Daemon:
        kubeconfig = self._account.kubeconfig(name, folder / f"{name}.kubeconfig", stack)
        document: Document = {
            "prometheus": {"url": self._prometheus.url},
            "kubernetes": {"kubeconfig": str(kubeconfig)},
            "syncPeriod": f"{SYNC_SECONDS:g}s",
            "tolerance": 0,
            "stateDirectory": str(folder / f"{name}.state"),
            "record": None,
            "listen": "127.0.0.1:0",
            "leaderElection": {
                "enabled": True,
                "namespace": NAMESPACE,
                "identity": name,
                **self._times.settings(),
            },
            "queries": {METRIC: METRIC},
            "targets": [_target(workload) for workload in WORKLOADS],
        }
        return Daemon(name, write_config(folder / f"{name}.yaml", document))


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
