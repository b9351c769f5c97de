"""What is scaled on what, and behind which outage."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import Enum

from autoscaler.config.queries import DEFAULTS
from tests.outages.loads import CPU, DEPTH, JOBS

REPLICAS = 8
PER_REPLICA = 10.0
CORES = 0.05
"""What each pod uses: half of its request, which is the target."""


class Metric(Enum):
    """A metric of a target, in the form that its users write."""

    CPU = "cpu"
    """The built-in query."""
    CPU_UP = "cpu-up"
    """The same without the pods whose exporter was down within the range."""
    QUEUE = "queue"
    """A sum of rates."""
    QUEUE_UP = "queue-up"
    """The same; empty where one of the exporters was down within the range."""
    GAUGE = "gauge"
    GAUGE_UP = "gauge-up"

    @property
    def per_pod(self) -> bool:
        """Whether it has a series for each pod."""
        return self in {Metric.CPU, Metric.CPU_UP}


@dataclass(frozen=True)
class Case:
    """One target; times are in seconds.  ``job`` is that of its exporters.

    Unless it is said to, it cannot grow: pods that are added have no load here.
    """

    job: str
    metric: Metric
    range: int
    window: int
    exporters: int = 1
    maximum: int = REPLICAS

    @property
    def name(self) -> str:
        """What the workload is called."""
        return f"{self.job}-{self.metric.value}-{self.range}s-{self.window}s"

    @property
    def promql(self) -> str:
        """The query."""
        up = f'unless on() (min_over_time(up{{job="{self.job}"}}[{self.range}s]) == 0)'
        rate = f"rate({CPU}" + '{container!="", container!="POD"}' + f"[{self.range}s])"
        down = f"min_over_time(up[{self.range}s]) == 0"
        known = f"{rate} unless on (job, instance, metrics_path) ({down})"
        return {
            Metric.CPU: DEFAULTS["cpu"].promql.replace("[2m]", f"[{self.range}s]"),
            Metric.CPU_UP: f"sum by (namespace, pod, container) ({known})",
            Metric.QUEUE: self._rate,
            Metric.QUEUE_UP: f"{self._rate} {up}",
            Metric.GAUGE: self._depth,
            Metric.GAUGE_UP: f"{self._depth} {up}",
        }[self.metric]

    @property
    def _rate(self) -> str:
        return f'sum(rate({JOBS}{{queue="{self.name}"}}[{self.range}s]))'

    @property
    def _depth(self) -> str:
        return f'sum({DEPTH}{{queue="{self.name}"}})'

    def target(self, namespace: str) -> Mapping[str, object]:
        """Return the target of the configuration."""
        rules = {"policies": [{"type": "Pods", "value": 100, "periodSeconds": 1}]}
        # A busy machine scrapes late: what that makes of a reading is no gap.
        down = {**rules, "tolerance": "0.2", "stabilizationWindowSeconds": self.window}
        return {
            "namespace": namespace,
            "scaleTargetRef": {"apiVersion": "apps/v1", "kind": "Deployment", "name": self.name},
            "maxReplicas": self.maximum,
            "metrics": [self._metric()],
            "behavior": {"scaleUp": rules, "scaleDown": down},
        }

    def _metric(self) -> Mapping[str, object]:
        query: dict[str, object] = {"query": self.promql}
        if self.metric not in {Metric.GAUGE, Metric.GAUGE_UP}:
            query["window"] = f"{self.range}s"
        if self.metric.per_pod:
            resource = {"type": "Utilization", "averageUtilization": 50}
            return {
                "type": "Resource",
                "resource": {"name": "cpu", "query": query, "target": resource},
            }
        external = {
            "metric": {"name": "load", "query": query},
            "target": {"type": "AverageValue", "averageValue": PER_REPLICA},
        }
        return {"type": "External", "external": external}


def configuration(prometheus: str, namespace: str, cases: Sequence[Case]) -> dict[str, object]:
    """Return the configuration of a daemon that decides once a second."""
    return {
        "prometheus": {"url": prometheus},
        "syncPeriod": "1s",
        "cpuInitializationPeriod": "0s",
        "initialReadinessDelay": "0s",
        "events": False,
        "targets": [case.target(namespace) for case in cases],
    }
