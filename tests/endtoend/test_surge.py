"""Rolling updates on a real control plane, beside its HPA controller on the same series."""

import threading
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from enum import StrEnum
from itertools import product
from typing import Self

import pytest
import requests

from autoscaler import clock
from tests.endtoend.conftest import HpaWorld
from tests.worlds.cluster import others
from tests.worlds.controlplane import workloads
from tests.worlds.controlplane.api import Api, Json, Watch
from tests.worlds.daemon import external, target
from tests.worlds.prometheus.exporter import Exporter
from tests.worlds.waiting import wait_until

REPLICAS = 8
PERIOD_SECONDS = 2
EXTERNAL_LOAD, POD_LOAD, CPU = "load", "pod_load", "cpu"

PER_REPLICA = 10
"""The target of every metric but cpu; that of cpu is half of the request of one core."""
SHARED = 8.7
"""What all pods do together, in targets: eight replicas are within tolerance, ten are not."""
EACH = 1.05
"""What each pod does, in targets."""


class Metric(StrEnum):
    """What a target is scaled on."""

    EXTERNAL = "external"
    """An AverageValue target of a load that does not depend on the pods."""
    PODS_SHARED = "pods-shared"
    """A load that all pods share."""
    PODS_EACH = "pods-each"
    """A load that each pod has."""
    CPU_SHARED = "cpu-shared"
    CPU_EACH = "cpu-each"
    VALUE = "value"
    """A Value target of a backlog for each wanted replica; the backlog rises in a rollout."""


class Side(StrEnum):
    """By whom a Deployment is scaled."""

    HPA = "hpa"
    OURS = "ours"
    SAFE = "safe"
    """By ours, with `ignoreSurge`."""


@dataclass(frozen=True)
class Case:
    """One Deployment; its name is that of its app and of its autoscaler too."""

    metric: Metric
    side: Side

    @property
    def name(self) -> str:
        return f"{self.metric}-{self.side}"

    def target(self, namespace: str) -> Json:
        """Return the target of ours; but for its namespace and key it is the HPA's spec."""
        up = {"scaleUp": {"policies": [{"type": "Pods", "value": 100, "periodSeconds": 1}]}}
        bounds = {"minReplicas": 2, "maxReplicas": 100}
        found = target(namespace, self.name, self._metric(), **bounds, behavior=up)
        return found | ({"ignoreSurge": True} if self.side is Side.SAFE else {})

    def autoscaler(self) -> Json:
        spec = self.target("")
        del spec["namespace"]
        return others.autoscaler(self.name) | {"spec": spec}

    def _metric(self) -> Json:
        if self.metric in {Metric.CPU_SHARED, Metric.CPU_EACH}:
            half: Json = {"type": "Utilization", "averageUtilization": 50}
            return {"type": "Resource", "resource": {"name": "cpu", "target": half}}
        found = external(EXTERNAL_LOAD, str(PER_REPLICA), app=self.name)
        if self.metric in {Metric.PODS_SHARED, Metric.PODS_EACH}:
            average = found["external"]["target"]
            return {"type": "Pods", "pods": {"metric": {"name": POD_LOAD}, "target": average}}
        if self.metric is Metric.VALUE:
            found["external"]["target"] = {"type": "Value", "value": str(PER_REPLICA)}
        return found


CASES = [Case(metric, side) for metric, side in product(Metric, Side)]
QUERIES = {EXTERNAL_LOAD: EXTERNAL_LOAD, POD_LOAD: POD_LOAD}


def deployment(case: Case) -> Json:
    """Return a Deployment that surges by a quarter and lacks no pod in a rollout."""
    manifest = workloads.deployment(case.name, REPLICAS, containers={"app": {"cpu": "1"}})
    surge = {"maxSurge": "25%", "maxUnavailable": 0}
    manifest["spec"]["strategy"] = {"type": "RollingUpdate", "rollingUpdate": surge}
    return manifest


class Cluster:
    """What the Deployments of a namespace ever wanted, which pods they have, and their loads."""

    def __init__(self, api: Api, namespace: str, exporter: Exporter) -> None:
        self.counts: dict[str, list[int]] = {case.name: [REPLICAS] for case in CASES}
        self.backlog = REPLICAS * PER_REPLICA
        self._api = api
        self._namespace = namespace
        self._exporter = exporter
        self._pods: dict[str, dict[str, bool]] = {case.name: {} for case in CASES}
        self._lock = threading.Lock()
        self._ended = False
        self._watches: dict[str, Watch] = {}

    def __enter__(self) -> Self:
        takers = {"Deployment": self._deployment, "Pod": self._pod}
        self._threads = [
            threading.Thread(target=self._follow, args=taker, daemon=True)
            for taker in takers.items()
        ]
        for thread in self._threads:
            thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        watching = all(thread.is_alive() for thread in self._threads)
        with self._lock:
            self._ended = True
            for watch in self._watches.values():
                watch.cancel()
        for thread in self._threads:
            thread.join(10)
        assert watching, "a watch ended before the test did"

    def wanted(self, case: Case) -> int:
        return self.counts[case.name][-1]

    def ready(self, case: Case) -> int:
        return sum(self._pods[case.name].values())

    def set_backlog(self, backlog: int) -> None:
        with self._lock:
            self.backlog = backlog
            for case in CASES:
                self._set_load(case)

    def patch(self, spec: Json) -> None:
        """Change all Deployments alike."""
        for case in CASES:
            path = f"{workloads.collection('Deployment', self._namespace)}/{case.name}"
            self._api.patch(path, {"spec": spec})

    def _follow(self, kind: str, take: Callable[[Json], None]) -> None:
        """Take every event; a watch that the server ends is resumed where it ended."""
        path = workloads.collection(kind, self._namespace)
        resume: dict[str, str] = {}
        while True:
            with self._lock:
                if self._ended:
                    return
                watch = self._watches[kind] = self._api.watch(path, **resume)
            with suppress(requests.RequestException):
                for event in watch:
                    with self._lock:
                        take(event)
                    version = event["object"]["metadata"]["resourceVersion"]
                    resume = {"resourceVersion": version}

    def _deployment(self, event: Json) -> None:
        name, wanted = event["object"]["metadata"]["name"], event["object"]["spec"]["replicas"]
        if self.counts[name][-1] != wanted:
            self.counts[name].append(wanted)
        self._set_load(_named(name))

    def _pod(self, event: Json) -> None:
        metadata = event["object"]["metadata"]
        app, name = metadata["labels"]["app"], metadata["name"]
        pods = self._pods[app]
        if event["type"] == "DELETED" or "deletionTimestamp" in metadata:
            pods.pop(name, None)
            for series in (POD_LOAD, CPU):
                self._exporter.remove(series, self._labels(app, name))
        else:
            conditions = event["object"].get("status", {}).get("conditions", ())
            pods[name] = ("Ready", "True") in {
                (condition["type"], condition["status"]) for condition in conditions
            }
        self._set_load(_named(app))

    def _set_load(self, case: Case) -> None:
        """Give a Deployment its load; what is shared is shared by all pods that are ready."""
        app, pods = case.name, [name for name, ready in self._pods[case.name].items() if ready]
        match case.metric:
            case Metric.EXTERNAL:
                self._external(app, SHARED * PER_REPLICA)
            case Metric.VALUE:
                self._external(app, self.backlog / self.wanted(case))
            case Metric.PODS_SHARED | Metric.PODS_EACH:
                each = EACH if case.metric is Metric.PODS_EACH else SHARED / max(len(pods), 1)
                for pod in pods:
                    self._exporter.set(POD_LOAD, self._labels(app, pod), each * PER_REPLICA)
            case Metric.CPU_SHARED | Metric.CPU_EACH:
                each = EACH if case.metric is Metric.CPU_EACH else SHARED / max(len(pods), 1)
                for pod in pods:
                    self._exporter.set(CPU, self._labels(app, pod), each / 2)

    def _external(self, app: str, load: float) -> None:
        self._exporter.set(EXTERNAL_LOAD, {"namespace": self._namespace, "app": app}, load)

    def _labels(self, app: str, pod: str) -> dict[str, str]:
        return {"namespace": self._namespace, "app": app, "pod": pod, "container": "app"}


def _named(name: str) -> Case:
    return next(case for case in CASES if case.name == name)


HOLD: Json = {"minReadySeconds": 500}
"""Every pod is ready and none is available: a rollout stays at its surge."""
HPA_FLAGS = (
    f"--horizontal-pod-autoscaler-sync-period={PERIOD_SECONDS}s",
    # Pods count from their start on.
    "--horizontal-pod-autoscaler-cpu-initialization-period=0s",
    "--horizontal-pod-autoscaler-initial-readiness-delay=0s",
    "--concurrent-horizontal-pod-autoscaler-syncs=20",
    "--kube-api-qps=1000",
    "--kube-api-burst=2000",
)
GO_ON: Json = {"minReadySeconds": 0}


CONSTANT = [item for item in Metric if item is not Metric.VALUE]

Counts = Mapping[str, int]


@dataclass(frozen=True)
class Record:
    """What every Deployment wanted: one count after the other, and the last at each surge."""

    counts: Mapping[str, list[int]]
    surges: list[Counts]

    def at_surges(self, case: Case) -> list[int]:
        """Return the counts of one Deployment while its rollouts were at their surge."""
        return [counts[case.name] for counts in self.surges]


@pytest.fixture(scope="module")
def record(hpa_world: HpaWorld) -> Record:
    """Play two rollouts once for all tests."""
    with (
        hpa_world("surging", HPA_FLAGS) as world,
        Cluster(world.api, world.namespace, world.exporter) as cluster,
    ):
        api, namespace = world.api, world.namespace
        for case in CASES:
            api.create(workloads.collection("Deployment", namespace), deployment(case))
        wait_until(
            "all pods",
            lambda: all(cluster.ready(case) >= cluster.wanted(case) for case in CASES),
            timeout=60,
        )
        world.prometheus.wait_for("cpu", count=REPLICAS * 6)
        document = {
            "prometheus": {"url": world.prometheus.url},
            "syncPeriod": f"{PERIOD_SECONDS}s",
            "cpuInitializationPeriod": "0s",
            "initialReadinessDelay": "0s",
            "queries": QUERIES,
            "resourceQueries": {"cpu": CPU},
            "targets": [case.target(namespace) for case in CASES if case.side is not Side.HPA],
        }
        with world.start(document) as daemon:
            for case in CASES:
                if case.side is Side.HPA:
                    others.create(api, namespace, case.autoscaler())
            daemon.wait_event("started")
            surges = play(cluster)
            assert daemon.stop() == 0
    return Record(cluster.counts, surges)


def wait_surge(cluster: Cluster, syncs: float) -> None:
    """Wait until each rollout is at its surge, and has been for so many syncs."""
    settled = clock.monotonic()
    seen: list[tuple[int, int]] = []

    def quiet() -> bool:
        nonlocal settled, seen
        now = [(cluster.wanted(case), cluster.ready(case)) for case in CASES]
        if now != seen or not all(ready == wanted + -(-wanted // 4) for wanted, ready in now):
            settled, seen = clock.monotonic(), now
        return clock.monotonic() > settled + syncs * PERIOD_SECONDS

    wait_until("all surges", quiet, timeout=90)


def play(cluster: Cluster) -> list[Counts]:
    """Roll out twice, each time with a higher backlog; return the counts at each surge."""
    plateaus: list[Counts] = []
    for number, backlog in enumerate((10, 20)):
        template = {"template": {"metadata": {"annotations": {"rollout": str(number)}}}}
        cluster.patch({**HOLD, **template})
        wait_surge(cluster, 0.5)
        cluster.set_backlog(backlog * PER_REPLICA)
        wait_surge(cluster, 2.5)
        plateaus.append({name: counts[-1] for name, counts in cluster.counts.items()})
        if number == 0:
            cluster.patch(GO_ON)
            wait_until(
                "both rollouts",
                lambda: all(cluster.ready(case) == cluster.wanted(case) for case in CASES),
                timeout=60,
            )
    return plateaus


@pytest.mark.parametrize("metric", CONSTANT)
def test_without_ignore_surge_a_rollout_scales_as_the_hpa_does(
    record: Record, metric: Metric
) -> None:
    """Count for count; only a load that each pod has for itself moves neither."""
    theirs = record.counts[Case(metric, Side.HPA).name]
    assert record.counts[Case(metric, Side.OURS).name] == theirs
    each = metric in {Metric.PODS_EACH, Metric.CPU_EACH}
    assert theirs == ([REPLICAS] if each else [REPLICAS, REPLICAS + 1])


@pytest.mark.parametrize("metric", CONSTANT)
def test_with_ignore_surge_a_rollout_scales_nothing(record: Record, metric: Metric) -> None:
    """Eight replicas stay eight."""
    assert record.counts[Case(metric, Side.SAFE).name] == [REPLICAS]


def test_without_ignore_surge_the_pods_of_a_surge_multiply_the_count(record: Record) -> None:
    """A backlog for 10 and then for 20 replicas, in a rollout each, becomes 14 and 26.

    The HPA's feedback of kubernetes/kubernetes#72775: more replicas are a larger surge, and that
    is more replicas.
    """
    for side in (Side.HPA, Side.OURS):
        assert record.at_surges(Case(Metric.VALUE, side)) == [14, 26]


def test_with_ignore_surge_the_count_follows_only_the_load(record: Record) -> None:
    assert record.at_surges(Case(Metric.VALUE, Side.SAFE)) == [10, 20]
    assert record.counts[Case(Metric.VALUE, Side.SAFE).name] == [REPLICAS, 10, 20]
