"""A daemon of three clusters, one of them behind a proxy with TLS, and its log and pages."""

import json
import math
import re
import sys
import threading
from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from autoscaler import clock
from autoscaler.demo.apiserver import StandInCluster, deployment
from autoscaler.demo.apiserver.store import DEPLOYMENTS, NAMESPACES, PODS
from benchmarks.processes import status
from tests.worlds.certificates import KeyPair, of_loopback, self_signed
from tests.worlds.controlplane.credentials import kubeconfig
from tests.worlds.daemon import DaemonProcess, Document, Line, external, target, write_config
from tests.worlds.faults.bed import time_of
from tests.worlds.metronome import Metronome
from tests.worlds.prometheus.exporter import Exporter
from tests.worlds.prometheus.server import PrometheusServer
from tests.worlds.proxies.http import FaultProxy
from tests.worlds.waiting import beside, wait_until

BAD, OTHERS = "bad", ("eu", "us")
LOW, HIGH = 3, 6
PERIOD = 1.0
_SHARE_OF_PERIOD = 0.1
_UNNOTED_SECONDS = 0.05
"""Shorter pauses of the machine the metronome does not note."""
_NAMESPACE = "shop"
_SWING_SECONDS = 0.7
_AT_ONCE: Document = {
    "stabilizationWindowSeconds": 0,
    "policies": [{"type": "Pods", "value": 100, "periodSeconds": 1}],
}


def key(cluster: str, name: str = "web") -> str:
    return f"{cluster}/{_NAMESPACE}/Deployment/{name}"


@dataclass
class Certificates:
    """The certificates between the daemon and the bad cluster."""

    server: KeyPair
    expired_server: KeyPair
    client: KeyPair
    expired_client: KeyPair
    shown: KeyPair
    """The files that the kubeconfig names for the client."""

    @classmethod
    def made(cls, folder: Path) -> "Certificates":
        """Make them; the client's is good."""
        clients = [self_signed(folder, name, days=days) for name, days in (("a", 2), ("b", -1))]
        shown = KeyPair(folder / "client.crt", folder / "client.key")
        made = cls(
            of_loopback(folder, "server"),
            of_loopback(folder, "old-server", days=-1),
            clients[0],
            clients[1],
            shown,
        )
        made.show(made.client)
        return made

    def show(self, pair: KeyPair) -> None:
        self.shown.certificate.write_bytes(pair.certificate.read_bytes())
        self.shown.key.write_bytes(pair.key.read_bytes())

    @staticmethod
    def bundle(path: Path, *pairs: KeyPair) -> Path:
        path.write_bytes(b"".join(pair.certificate.read_bytes() for pair in pairs))
        return path


class Fleet:
    """The daemon, the clusters by name, and the proxy before the bad one."""

    def __init__(
        self,
        clusters: Mapping[str, StandInCluster],
        proxy: FaultProxy,
        certificates: Certificates,
        exporter: Exporter,
        daemon: DaemonProcess,
        metronome: Metronome,
    ) -> None:
        self.proxy = proxy
        self.certificates = certificates
        self.daemon = daemon
        self._clusters = clusters
        self._exporter = exporter
        self._metronome = metronome

    def replicas(self, cluster: str) -> int:
        found = self._clusters[cluster].store.get(DEPLOYMENTS, _NAMESPACE, "web")
        return int(found["spec"]["replicas"])

    def demand(self, cluster: str, replicas: int) -> None:
        """Set the load to what this number of replicas can take."""
        self._exporter.set("load", {"cluster": cluster}, replicas)

    def wait_for(self, cluster: str, replicas: int, timeout: float) -> None:
        wait_until(
            f"{cluster} at {replicas}", lambda: self.replicas(cluster) == replicas, timeout=timeout
        )

    @contextmanager
    def swinging(self) -> Iterator[None]:
        """Let the load of the others go up and down all the time."""
        stop = threading.Event()

        def swing() -> None:
            up = False
            while not stop.wait(_SWING_SECONDS):
                up = not up
                for name in OTHERS:
                    self.demand(name, HIGH if up else LOW)

        with beside(swing, stop):
            yield

    def syncs(self, cluster: str, begin: int, name: str = "web") -> list[Line]:
        return [
            line
            for line in self.daemon.lines[begin:]
            if line["event"] == "sync" and line["target"] == key(cluster, name)
        ]

    def check_grid(self, begin: int) -> None:
        """Check that each target of the others was synced whenever it was due, within a tenth.

        There may be more syncs, as when a cluster gets a leader again.
        """
        for cluster in OTHERS:
            for name in ("web", "api"):
                times = [time_of(line).timestamp() for line in self.syncs(cluster, begin, name)]
                since = clock.monotonic() - (clock.wall() - times[0])
                pause = max(_UNNOTED_SECONDS, self._metronome.latest_since(since))
                allowed = _SHARE_OF_PERIOD * PERIOD + pause
                late = [(at - self._origin(cluster, name)) / PERIOD for at in times]
                due = range(math.ceil(late[0] - allowed), math.floor(late[-1] - allowed) + 1)
                assert set(due) <= {round(at) for at in late if abs(at - round(at)) <= allowed}, (
                    late
                )

    def _origin(self, cluster: str, name: str) -> float:
        """Return a Unix time at which a target was due: most of its syncs lie on its grid."""
        times = [time_of(line).timestamp() for line in self.syncs(cluster, 0, name)]
        return max(times, key=lambda time: sum(_off_grid(time, at) < 0.02 for at in times))

    def settle(self, replicas: int) -> None:
        """Wait until the bad cluster is scaled to a count as the others are."""
        self.demand(BAD, replicas)
        self.wait_for(BAD, replicas, timeout=15)

    def warnings(self, begin: int) -> Counter[str]:
        """Return how often each warning was logged after a mark, whatever its numbers are."""
        return Counter(
            re.sub(r"[0-9.]+", "#", json.dumps({**line, "time": ""}))
            for line in self.daemon.lines[begin:]
            if line["level"] in {"warning", "error"}
        )

    def most_memory_during(self, syncs: int, begin: int) -> float:
        """Return the largest resident memory of the daemon, in MiB, during syncs of the others."""
        most = 0.0

        def over() -> bool:
            nonlocal most
            most = max(most, self.memory())
            return len(self.syncs(OTHERS[0], begin)) > syncs

        wait_until("it lasts", over)
        return most

    def memory(self) -> float:
        return status(self.daemon.pid)["VmRSS"] / 1024


def _off_grid(number: float, other: float) -> float:
    """Return by how much the time between two instants differs from whole periods."""
    periods = (number - other) / PERIOD
    return abs(periods - round(periods)) * PERIOD


def _document(prometheus: str, kubeconfigs: Mapping[str, Path]) -> Document:
    web = target(
        _NAMESPACE,
        "web",
        external("demand", 1),
        behavior={"scaleUp": _AT_ONCE, "scaleDown": dict(_AT_ONCE)},
    )
    pods: Document = {
        "metric": {"name": "rps"},
        "target": {"type": "AverageValue", "averageValue": 1},
    }
    api = target(_NAMESPACE, "api", {"type": "Pods", "pods": pods}, minReplicas=2, maxReplicas=3)
    targets = []
    for name in kubeconfigs:
        own = json.loads(json.dumps(web))
        own["metrics"][0]["external"]["metric"]["selector"] = {"matchLabels": {"cluster": name}}
        targets += [{**own, "cluster": name}, {**json.loads(json.dumps(api)), "cluster": name}]
    return {
        "prometheus": {"url": prometheus},
        "syncPeriod": f"{PERIOD:g}s",
        "listen": "127.0.0.1:0",
        "queries": {"demand": "load", "rps": "rps"},
        "leaderElection": {
            "enabled": True,
            "namespace": _NAMESPACE,
            "leaseDuration": "3s",
            "renewDeadline": "2s",
            "retryPeriod": "0.5s",
        },
        "clusters": [
            {"name": name, "kubeconfig": str(path), "seriesLabels": {"cluster": name}}
            for name, path in kubeconfigs.items()
        ],
        "targets": targets,
    }


@contextmanager
def fleet(
    folder: Path,
    clusters: Mapping[str, StandInCluster],
    prometheus: PrometheusServer,
    exporter: Exporter,
) -> Iterator[Fleet]:
    """Run the daemon until all clusters are synced."""
    for name, cluster in clusters.items():
        cluster.store.create(NAMESPACES, "", {"metadata": {"name": _NAMESPACE}})
        for app, replicas in (("web", LOW), ("api", 2)):
            cluster.store.create(DEPLOYMENTS, _NAMESPACE, deployment(app, replicas))
        exporter.set("load", {"cluster": name}, LOW)
        pods = wait_until("it has pods", lambda: _pods(cluster))  # noqa: B023 - called here
        for pod in pods:
            exporter.set("rps", {"cluster": name, "namespace": _NAMESPACE, "pod": pod}, 1)
    prometheus.wait_for("load", count=len(clusters))
    certificates = Certificates.made(folder)
    server, bad = certificates.server, clusters[BAD]
    with FaultProxy(
        bad.url,
        certificate=(server.certificate, server.key),
        clients=certificates.client.certificate,
    ) as proxy:
        trusted = certificates.bundle(folder / "ca.crt", server, certificates.expired_server)
        user = {
            "token": bad.token,
            "client-certificate": str(certificates.shown.certificate),
            "client-key": str(certificates.shown.key),
        }
        through = folder / f"{BAD}.kubeconfig"
        through.write_text(
            kubeconfig({"server": proxy.url, "certificate-authority": str(trusted)}, user)
        )
        kubeconfigs = {name: clusters[name].kubeconfig(folder / name) for name in OTHERS}
        kubeconfigs[BAD] = through
        file = write_config(folder / "autoscaler.yaml", _document(prometheus.url, kubeconfigs))
        hurried = (sys.executable, "-m", "tests.faults.hurried")
        with (
            DaemonProcess(file, {}, "--log-level", "debug", within=hurried) as daemon,
            Metronome() as metronome,
        ):
            daemon.wait_event("started")
            yield Fleet(clusters, proxy, certificates, exporter, daemon, metronome)
            assert daemon.stop() == 0
        assert not daemon.events("fault")
        assert not daemon.events("sync_failed")


def _pods(cluster: StandInCluster) -> list[str]:
    pods = [pod["metadata"]["name"] for pod in cluster.store.list_all(PODS)[0]]
    return [name for name in pods if name.startswith("api")] if len(pods) == LOW + 2 else []
