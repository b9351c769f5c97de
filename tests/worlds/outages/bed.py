"""A Prometheus with its exporters, and daemons that scale a stand-in cluster on it."""

import math
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from itertools import chain
from pathlib import Path
from typing import Any

from autoscaler import clock
from autoscaler.demo.apiserver import StandInCluster
from autoscaler.demo.apiserver.store import DEPLOYMENTS, NAMESPACES, PODS
from tests.worlds.controlplane import workloads
from tests.worlds.daemon import DaemonProcess, write_config
from tests.worlds.outages.cases import CORES, PER_REPLICA, REPLICAS, Case, configuration
from tests.worlds.outages.loads import CPU, DEPTH, JOBS, LoadExporter
from tests.worlds.prometheus.past import sample_line, write_samples
from tests.worlds.prometheus.server import PrometheusServer, ScrapeTarget
from tests.worlds.waiting import Background, wait_until

SCRAPE_SECONDS = 0.5
_FIRST_SCRAPE_SECONDS = 6.5
"""Prometheus scrapes nothing for five seconds after its start, then all within an interval."""


class Counts(Background):
    """Every count of every Deployment that was ever written, with its `clock.monotonic`."""

    def __init__(self, cluster: StandInCluster) -> None:
        super().__init__()
        self._seen = defaultdict[tuple[str, str], list[tuple[float, int]]](list)
        self._cluster = cluster

    def changes(self, namespace: str, name: str) -> list[tuple[float, int]]:
        return self._seen[namespace, name]

    def _run(self) -> None:
        version = 1
        while not self._ended.is_set():
            for change in self._cluster.store.changes_after(version, 0.2):
                version = change.version
                if change.resource == DEPLOYMENTS.qualified and change.current is not None:
                    self._take(change.current)

    def _take(self, deployment: Mapping[str, Any]) -> None:
        metadata, count = deployment["metadata"], deployment["spec"]["replicas"]
        known = self.changes(metadata["namespace"], metadata["name"])
        if not known or known[-1][1] != count:
            known.append((clock.monotonic(), count))


@dataclass
class Side:
    """One Prometheus, its exporters by job, and what is scaled on them in each namespace."""

    folder: Path
    cases: Mapping[str, Sequence[Case]]
    exporters: dict[str, list[LoadExporter]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        for case in chain.from_iterable(self.cases.values()):
            if case.job not in self.exporters:
                self.exporters[case.job] = [LoadExporter() for _ in range(case.exporters)]
        self.scraping_from = math.inf
        """When all that Prometheus knows is its own, in seconds of `clock.monotonic`."""
        self.prometheus = PrometheusServer(
            self.folder, scrape_interval=f"{round(SCRAPE_SECONDS * 1000)}ms"
        )

    def scraped(self, *without: LoadExporter) -> list[ScrapeTarget]:
        """Return a scrape config for each exporter, but those that are left out."""
        return [
            {
                "job_name": exporter.address,
                "honor_labels": True,
                "static_configs": [{"targets": [exporter.address], "labels": {"job": job}}],
            }
            for job, exporters in self.exporters.items()
            for exporter in exporters
            if exporter not in without
        ]

    def load(self, cluster: StandInCluster, namespace: str) -> None:
        """Give every target of a namespace the load that it has the replicas for."""
        for case in self.cases[namespace]:
            exporters = self.exporters[case.job]
            if not case.metric.per_pod:
                whole = PER_REPLICA * REPLICAS / len(exporters)
                for exporter in exporters:
                    exporter.count(JOBS, {"queue": case.name}, whole)
                    exporter.gauge(DEPTH, {"queue": case.name}, whole)
                continue
            for number, pod in enumerate(pods_of(cluster, namespace, case.name)):
                labels = {"namespace": namespace, "pod": pod, "container": "app"}
                exporters[number % len(exporters)].count(CPU, labels, CORES)

    def start(self, stack: ExitStack, seconds_of_past: float) -> None:
        """Start all; the past continues until Prometheus scrapes."""
        for exporter in self.all_exporters():
            stack.enter_context(exporter)
        now = clock.wall()
        end = now + _FIRST_SCRAPE_SECONDS
        # As if it had scraped all the time.
        past = _lines(self.exporters, now - seconds_of_past, end, SCRAPE_SECONDS)
        write_samples(self.folder, past)
        stack.enter_context(self.prometheus)
        self.scraping_from = clock.monotonic() + _FIRST_SCRAPE_SECONDS
        self.prometheus.start(self.scraped())

    def all_exporters(self) -> list[LoadExporter]:
        return [exporter for exporters in self.exporters.values() for exporter in exporters]


def pods_of(cluster: StandInCluster, namespace: str, app: str) -> list[str]:
    return sorted(
        pod["metadata"]["name"]
        for pod in cluster.store.list_all(PODS)[0]
        if pod["metadata"]["namespace"] == namespace and pod["metadata"]["labels"]["app"] == app
    )


def deploy(cluster: StandInCluster, namespace: str, cases: Sequence[Case]) -> None:
    """Create the Deployments of a namespace; their pods request two times what they use."""
    cluster.store.create(NAMESPACES, "", {"metadata": {"name": namespace}})
    request = {"app": {"cpu": f"{round(CORES * 2000)}m"}}
    for case in cases:
        manifest = workloads.deployment(case.name, REPLICAS, containers=request)
        cluster.store.create(DEPLOYMENTS, namespace, manifest)


class Scaler:
    """A daemon of one namespace, which may be killed and continues with its state."""

    def __init__(
        self, folder: Path, cluster: StandInCluster, side: Side, namespace: str, stack: ExitStack
    ) -> None:
        self.namespace, self.cases = namespace, side.cases[namespace]
        self.lives: list[DaemonProcess] = []
        self._side, self._stack = side, stack
        own = folder / f"daemon-{namespace}"
        own.mkdir()
        self._kubeconfig = cluster.kubeconfig(own / "kubeconfig")
        document = configuration(side.prometheus.url, namespace, self.cases)
        kept = {"stateDirectory": str(own / "state")}
        self._file = write_config(own / "autoscaler.yaml", document | kept)

    def start(self) -> None:
        environment = {"KUBECONFIG": str(self._kubeconfig)}
        # Syncs that change nothing are logged at this level only.
        daemon = DaemonProcess(self._file, environment, "--log-level", "debug")
        self.lives.append(self._stack.enter_context(daemon))

    def kill(self) -> None:
        """Kill it with SIGKILL and start it again."""
        self.lives[-1].kill()
        self.start()

    def wait_synced(self) -> None:
        """Wait until it decides on what Prometheus itself has scraped."""
        lines = self.lives[-1].lines

        def synced() -> bool:
            decided = {line["target"] for line in lines[begin:] if line["event"] == "sync"}
            return len(decided) == len(self.cases)

        begin = 0
        wait_until(f"a sync in {self.namespace}", synced)
        wait_until("a scrape", lambda: clock.monotonic() > self._side.scraping_from)
        begin = len(lines)
        wait_until(f"another sync in {self.namespace}", synced)


def _lines(
    scraped: Mapping[str, list[LoadExporter]], begin: float, end: float, step: float
) -> Iterator[str]:
    for job, exporters in scraped.items():
        for exporter in exporters:
            own = {"job": job, "instance": exporter.address}
            for number in range(int((end - begin) / step)):
                instant = begin + number * step
                yield sample_line("up", own, 1.0, instant)
                for name, labels, value in exporter.samples(instant):
                    yield sample_line(name, {**labels, **own}, value, instant)
