"""Targets, their metrics and the outages that they meet."""

from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum

from autoscaler.config.conversion import DEFAULTS
from tests.worlds.daemon import Document, external, target
from tests.worlds.outages.loads import CPU, DEPTH, JOBS

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
    QUEUE_HELD = "queue-held"
    """The same; `holdScaleDownQuery` holds while one of the exporters is down."""
    GAUGE = "gauge"
    GAUGE_HELD = "gauge-held"

    @property
    def per_pod(self) -> bool:
        """Whether it has a series for each pod."""
        return self in {Metric.CPU, Metric.CPU_UP}

    @property
    def is_held(self) -> bool:
        """Whether its target asks for the exporters."""
        return self in {Metric.QUEUE_HELD, Metric.GAUGE_HELD}


@dataclass(frozen=True)
class Case:
    """One target; times are in seconds.  ``job`` is the job of its exporters.

    By default it cannot grow: added pods have no load here.
    """

    job: str
    metric: Metric
    range: int
    window: int
    exporters: int = 1
    maximum: int = REPLICAS

    @property
    def name(self) -> str:
        return f"{self.job}-{self.metric.value}-{self.range}s-{self.window}s"

    @property
    def promql(self) -> str:
        match self.metric:
            case Metric.CPU:
                return DEFAULTS["cpu"].promql.replace("[2m]", f"[{self.range}s]")
            case Metric.CPU_UP:
                rate = f"rate({CPU}" + '{container!="", container!="POD"}' + f"[{self.range}s])"
                down = f"min_over_time(up[{self.range}s]) == 0"
                known = f"{rate} unless on (job, instance, metrics_path) ({down})"
                return f"sum by (namespace, pod, container) ({known})"
            case Metric.QUEUE | Metric.QUEUE_HELD:
                return f'sum(rate({JOBS}{{queue="{self.name}"}}[{self.range}s]))'
        return f'sum({DEPTH}{{queue="{self.name}"}})'

    def target(self, namespace: str) -> Document:
        held = {"holdScaleDownQuery": f'up{{job="{self.job}"}} == 0'}
        rules = {"policies": [{"type": "Pods", "value": 100, "periodSeconds": 1}]}
        # A busy machine scrapes late, which changes readings a little.
        down = {**rules, "tolerance": "0.2", "stabilizationWindowSeconds": self.window}
        return target(
            namespace,
            self.name,
            self._metric(),
            maxReplicas=self.maximum,
            behavior={"scaleUp": rules, "scaleDown": down},
            **(held if self.metric.is_held else {}),
        )

    def _metric(self) -> Document:
        query: dict[str, object] = {"query": self.promql}
        if self.metric not in {Metric.GAUGE, Metric.GAUGE_HELD}:
            query["window"] = f"{self.range}s"
        if self.metric.per_pod:
            half = {"type": "Utilization", "averageUtilization": 50}
            return {"type": "Resource", "resource": {"name": "cpu", "query": query, "target": half}}
        found = external("load", PER_REPLICA)
        found["external"]["metric"]["query"] = query
        return found


def configuration(prometheus: str, namespace: str, cases: Sequence[Case]) -> Document:
    """Return the configuration of a daemon that decides once a second."""
    return {
        "prometheus": {"url": prometheus},
        "syncPeriod": "1s",
        "cpuInitializationPeriod": "0s",
        "initialReadinessDelay": "0s",
        "events": False,
        "targets": [case.target(namespace) for case in cases],
    }
