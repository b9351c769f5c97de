"""The workloads: their loads, their metrics, and what the HPA and the daemon are told.

Each family of series has one name.  The HPA reads it by a rule of prometheus-adapter, the daemon by
a query; both PromQL expressions select and aggregate the same.
"""

import math
import random
from bisect import bisect_right
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from itertools import accumulate

from benchmarks import fleet
from tests.worlds.controlplane.api import Json

Load = Callable[[float], float]
"""What a workload would need at exactly its target: replicas at a time in seconds."""

CONTAINERS = {"app": {"cpu": "500m", "memory": "256Mi"}}
"""The container of each pod, with its requests."""

CPU_RANGE = "2m"
"""The range of the daemon's built-in query of cpu."""
RATE_RANGE = "1m"

_HOURS = 4.0
"""How long the changes of a load are drawn ahead; the last one then holds."""
_NOISE_SECONDS = 5.0
_MEBI = 1024 * 1024


# -- loads -----------------------------------------------------------------------------------------


def steps(seed: str, low: float, high: float, every: tuple[float, float] = (180, 420)) -> Load:
    """Return plateaus at random heights, each of a random length."""
    dice = random.Random(seed)  # noqa: S311 - no secret
    lengths = [dice.uniform(*every) for _ in range(math.ceil(_HOURS * 3600 / every[0]))]
    heights = [dice.uniform(low, high) for _ in lengths]
    times = list(accumulate(lengths[:-1], initial=0.0))
    return lambda at: heights[max(0, bisect_right(times, at) - 1)]


def day(seed: str, low: float, high: float, seconds: float = 1800.0) -> Load:
    """Return days and nights, each day squeezed into so many seconds."""
    phase = random.Random(seed).random()  # noqa: S311 - no secret
    middle, swing = (low + high) / 2, (high - low) / 2
    return lambda at: middle - swing * math.cos(2 * math.pi * (at / seconds + phase))


def noisy(seed: str, load: Load, share: float = 0.03) -> Load:
    """Return a load that is off by a random share, at most so large, in each few seconds."""

    def changed(at: float) -> float:
        dice = random.Random(f"{seed} {at // _NOISE_SECONDS}")  # noqa: S311 - no secret
        return load(at) * (1 + dice.uniform(-share, share))

    return changed


# -- metrics ---------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Family:
    """Series of one name: of each pod, or with a label ``key`` that has the workload's name.

    A ``counter`` counts what the load is per second.
    """

    series: str
    name: str
    key: str = ""
    counter: bool = False

    def query(self, matchers: str = "") -> str:
        """Return the PromQL that reads it."""
        selected = f"{self.series}{{{matchers}}}" if matchers else self.series
        read = f"rate({selected}[{RATE_RANGE}])" if self.counter else selected
        return f"sum by (namespace, {self.key or 'pod'}) ({read})"


CPU = Family("container_cpu_usage_seconds_total", "cpu", counter=True)
MEMORY = Family("container_memory_working_set_bytes", "memory")
REQUESTS = Family("http_requests_total", "http_requests_per_second", counter=True)
WAITING = Family("service_requests_waiting", "service_requests_waiting", "service")
MESSAGES = Family("queue_messages_ready", "queue_messages_ready", "queue")
RESOURCES, OTHERS = (CPU, MEMORY), (REQUESTS, WAITING, MESSAGES)


def queries() -> dict[str, str]:
    """Return the daemon's queries of all families but the built-in ones."""
    return {family.name: family.query() for family in OTHERS}


def adapter_rules() -> Json:
    """Return the configuration of prometheus-adapter."""
    matchers = '<<.LabelMatchers>>,container!="",container!="POD"'
    cpu = f"sum by (<<.GroupBy>>) (rate({CPU.series}{{{matchers}}}[{CPU_RANGE}]))"
    memory = f"sum by (<<.GroupBy>>) ({MEMORY.series}{{{matchers}}})"
    return {
        "rules": [_rule(REQUESTS), _rule(WAITING)],
        "externalRules": [_rule(MESSAGES)],
        "resourceRules": {
            "cpu": _resource_rule(cpu),
            "memory": _resource_rule(memory),
            "window": CPU_RANGE,
        },
    }


def _rule(family: Family) -> Json:
    labels = ("namespace",) if family is MESSAGES else ("namespace", family.key or "pod")
    return {
        "seriesQuery": f'{{__name__="{family.series}"}}',
        "resources": {"overrides": {label: {"resource": label} for label in labels}},
        "name": {"matches": f"^{family.series}$", "as": family.name},
        "metricsQuery": family.query("<<.LabelMatchers>>"),
    }


def _resource_rule(query: str) -> Json:
    resources = {name: {"resource": name} for name in ("namespace", "pod", "node")}
    return {
        "containerQuery": query,
        "nodeQuery": query,
        "resources": {"overrides": resources},
        "containerLabel": "container",
    }


# -- workloads -------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Workload:
    """A Deployment with an HPA and a target of the daemon, scaled on one metric.

    ``per_replica`` is the target as a number.  ``theirs`` and ``ours`` are the fields of the
    specification in which one side differs.
    """

    name: str
    family: Family
    per_replica: float
    load: Load
    metric: Json
    behavior: Json | None = None
    theirs: Mapping[str, object] = field(default_factory=dict)
    ours: Mapping[str, object] = field(default_factory=dict)

    @property
    def spec(self) -> Json:
        """What both sides have, but for what differs."""
        spec: Json = {
            "scaleTargetRef": {"apiVersion": "apps/v1", "kind": "Deployment", "name": self.name},
            "minReplicas": 1,
            "maxReplicas": 16,
            "metrics": [self.metric],
        }
        return spec if self.behavior is None else spec | {"behavior": self.behavior}

    @property
    def hpa(self) -> Json:
        """Its HPA."""
        return fleet.hpa(self.spec | dict(self.theirs))

    @property
    def target(self) -> Json:
        """The target of the daemon, without its namespace."""
        return self.spec | dict(self.ours)


def _resource(name: str, **target: object) -> Json:
    return {"type": "Resource", "resource": {"name": name, "target": target}}


def _average(value: str) -> Json:
    return {"type": "AverageValue", "averageValue": value}


def _down(seconds: int) -> Json:
    return {"scaleDown": {"stabilizationWindowSeconds": seconds}}


def _external(name: str, load: Load, behavior: Json | None = None) -> Workload:
    named = {"name": MESSAGES.name, "selector": {"matchLabels": {"queue": name}}}
    metric = {"type": "External", "external": {"metric": named, "target": _average("30")}}
    return Workload(name, MESSAGES, 30, load, metric, behavior)


def _object(name: str, load: Load, behavior: Json | None = None) -> Workload:
    source = {
        "describedObject": {"apiVersion": "v1", "kind": "Service", "name": name},
        "metric": {"name": WAITING.name},
        "target": _average("12"),
    }
    return Workload(name, WAITING, 12, load, {"type": "Object", "object": source}, behavior)


def workloads(seed: int) -> list[Workload]:
    """Return one of each kind; the seed decides how their loads change."""
    loads = [(f"{seed} {number}", 1.5, 11.5) for number in range(10)]
    percent = {"type": "Utilization", "averageUtilization": 60}
    of_app = {"name": "cpu", "container": "app", "target": percent}
    per_pod = {"metric": {"name": REQUESTS.name}, "target": _average("20")}
    pods: Json = {"type": "Pods", "pods": per_pod}
    container: Json = {"type": "ContainerResource", "containerResource": of_app}
    memory = _resource("memory", **_average("200Mi"))
    return [
        Workload("cpu", CPU, 0.3, steps(*loads[0]), _resource("cpu", **percent)),
        Workload(
            *("cpu-average", CPU, 0.4, day(*loads[1])),
            *(_resource("cpu", **_average("400m")), _down(60)),
        ),
        Workload("container", CPU, 0.3, noisy("c", steps(*loads[2])), container, _down(60)),
        Workload("memory", MEMORY, 200 * _MEBI, day(*loads[3]), memory),
        Workload("pods", REQUESTS, 20, noisy("p", day(*loads[4])), pods),
        Workload("pods-quick", REQUESTS, 20, steps(*loads[5]), pods, _down(0)),
        _object("object", day(*loads[6])),
        _object("object-quick", steps(*loads[7]), _down(0)),
        _external("external", steps(*loads[8])),
        _external("external-noise", noisy("e", day(*loads[9])), _down(30)),
    ]


PLANTED: Mapping[str, Mapping[str, object]] = {
    "cpu": {"behavior": {way: {"tolerance": "0.4"} for way in ("scaleUp", "scaleDown")}},
    "memory": {"minReplicas": 9},
    "pods": {"maxReplicas": 6},
    "external": {"behavior": _down(30)},
}
"""The fields of some HPAs that differ on purpose with `--planted`."""
