"""Rolling updates with a surge under a load that does not change: the HPA and the daemon."""

import threading
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from enum import StrEnum
from itertools import product
from typing import Self

import requests

from tests.worlds.cluster import others
from tests.worlds.controlplane import workloads
from tests.worlds.controlplane.api import Api, Json, Watch
from tests.worlds.daemon import external, target
from tests.worlds.prometheus.exporter import Exporter

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
        """What it is called."""
        return f"{self.metric}-{self.side}"

    def target(self, namespace: str) -> Json:
        """Return the target of ours; but for its namespace and key it is the HPA's spec."""
        up = {"scaleUp": {"policies": [{"type": "Pods", "value": 100, "periodSeconds": 1}]}}
        bounds = {"minReplicas": 2, "maxReplicas": 100}
        found = target(namespace, self.name, self._metric(), **bounds, behavior=up)
        return found | ({"ignoreSurge": True} if self.side is Side.SAFE else {})

    def autoscaler(self) -> Json:
        """Return the HPA."""
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
    """What the Deployments of a namespace want and which pods they have, and their loads.

    Every count that was ever wanted is kept.
    """

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
            threading.Thread(target=self._follow, args=one, daemon=True) for one in takers.items()
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
        """Return the replicas that a Deployment wants."""
        return self.counts[case.name][-1]

    def ready(self, case: Case) -> int:
        """Return how many pods are ready."""
        return sum(self._pods[case.name].values())

    def set_backlog(self, backlog: int) -> None:
        """Let the backlog of the Value targets be another."""
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
            pods[name] = ("Ready", "True") in {(one["type"], one["status"]) for one in conditions}
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
