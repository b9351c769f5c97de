"""Rolling updates with a surge under a load that does not change: the HPA and the daemon."""

import threading
from contextlib import suppress
from dataclasses import dataclass
from enum import StrEnum
from itertools import product
from typing import Any, Self

import requests

from tests.adapters.prometheus.exporter import Exporter
from tests.controlplane import workloads
from tests.controlplane.api import Api, Json, Watch

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

    def spec(self) -> Json:
        """Return what an HPA and a target of ours say alike."""
        return {
            "scaleTargetRef": {"apiVersion": "apps/v1", "kind": "Deployment", "name": self.name},
            "minReplicas": 2,
            "maxReplicas": 100,
            "metrics": [self._metric()],
            "behavior": {
                "scaleUp": {"policies": [{"type": "Pods", "value": 100, "periodSeconds": 1}]}
            },
        }

    def autoscaler(self) -> Json:
        """Return the HPA."""
        return {
            "apiVersion": "autoscaling/v2",
            "kind": "HorizontalPodAutoscaler",
            "metadata": {"name": self.name},
            "spec": self.spec(),
        }

    def target(self, namespace: str) -> Json:
        """Return the target of ours."""
        spec = self.spec() | {"namespace": namespace}
        return spec | {"ignoreSurge": True} if self.side is Side.SAFE else spec

    def _metric(self) -> Json:
        if self.metric in {Metric.CPU_SHARED, Metric.CPU_EACH}:
            target: Json = {"type": "Utilization", "averageUtilization": 50}
            return {"type": "Resource", "resource": {"name": "cpu", "target": target}}
        target = {"type": "AverageValue", "averageValue": str(PER_REPLICA)}
        if self.metric in {Metric.PODS_SHARED, Metric.PODS_EACH}:
            return {"type": "Pods", "pods": {"metric": {"name": POD_LOAD}, "target": target}}
        if self.metric is Metric.VALUE:
            target = {"type": "Value", "value": str(PER_REPLICA)}
        selector = {"matchLabels": {"app": self.name}}
        metric = {"name": EXTERNAL_LOAD, "selector": selector}
        return {"type": "External", "external": {"metric": metric, "target": target}}


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
        self._watches = [
            (api.watch(workloads.collection("Deployment", namespace)), self._deployment),
            (api.watch(workloads.collection("Pod", namespace)), self._pod),
        ]

    def __enter__(self) -> Self:
        self._threads = [
            threading.Thread(target=self._follow, args=one, daemon=True) for one in self._watches
        ]
        for thread in self._threads:
            thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        watching = all(thread.is_alive() for thread in self._threads)
        for watch, _take in self._watches:
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

    def _follow(self, watch: Watch, take: Any) -> None:
        # The end of the test cuts the watch.
        with suppress(requests.RequestException):
            for event in watch:
                with self._lock:
                    take(event)

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
