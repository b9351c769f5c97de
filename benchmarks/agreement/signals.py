"""The metrics that workloads are scaled on: what is exported, and how either side reads it.

Each family is one series name. The HPA reads it by a rule of prometheus-adapter, the daemon by a
query: both PromQL select and aggregate the same.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum, auto

from autoscaler.config.queries import CONTAINER, usage_once
from benchmarks.agreement.loads import Load
from tests.worlds.controlplane.api import Json

CONTAINERS = {
    "app": {"cpu": "500m", "memory": "256Mi"},
    "proxy": {"cpu": "100m", "memory": "64Mi"},
}
"""Those of each pod, with their requests."""

APP = "app"
"""The container that the load is in."""

PROXY_SHARE = 0.05
"""What the other one uses, of what the first one does."""


@dataclass(frozen=True)
class Ranges:
    """The ranges of rates: of cpu, and of everything else.

    That of cpu is usually the range of the daemon's built-in query.
    """

    cpu: str = "2m"
    others: str = "1m"


USUAL = Ranges()


class Spread(Enum):
    """How a load becomes series."""

    CONTAINERS = auto()
    """Each container has its share."""
    PODS = auto()
    """Each pod has its share."""
    SHARE = auto()
    """One series has the share of one pod, as a latency does."""
    TOTAL = auto()
    """One series has all of it, as the length of a queue does."""


@dataclass(frozen=True)
class Family:
    """Series of one name; a counter counts what the load is per second.

    `key` is the label that tells workloads apart, where it is not the pod.
    """

    series: str
    spread: Spread
    key: str = ""
    counter: bool = False
    metric: str = ""
    """What the HPA and the daemon call it; the name of the series unless given."""

    @property
    def name(self) -> str:
        """What the HPA and the daemon call it."""
        return self.metric or self.series

    @property
    def labels(self) -> tuple[str, ...]:
        """The labels that are left of it."""
        if self.spread is Spread.PODS:
            return "namespace", "pod"
        return ("queue",) if self.key == "queue" else ("namespace", self.key)

    def query(self, matchers: str = "", range_: str = USUAL.others) -> str:
        """Return the PromQL that reads it; the range is that of a counter's rate."""
        selected = f"{self.series}{{{matchers}}}" if matchers else self.series
        read = f"rate({selected}[{range_}])" if self.counter else selected
        return f"sum by ({', '.join(self.labels)}) ({read})"


CPU = Family("container_cpu_usage_seconds_total", Spread.CONTAINERS, counter=True)
MEMORY = Family("container_memory_working_set_bytes", Spread.CONTAINERS)
REQUESTS = Family(
    "http_requests_total", Spread.PODS, counter=True, metric="http_requests_per_second"
)
LATENCY = Family("service_latency_milliseconds", Spread.SHARE, "service")
WAITING = Family("service_requests_waiting", Spread.TOTAL, "service")
MESSAGES = Family("queue_messages_ready", Spread.TOTAL, "queue")
DELAY = Family("queue_delay_seconds", Spread.SHARE, "queue")
ORDERS = Family("orders_total", Spread.TOTAL, "queue", counter=True, metric="orders_per_second")

CUSTOM = (REQUESTS, LATENCY, WAITING)
"""Those of pods and objects."""

EXTERNAL = (MESSAGES, DELAY, ORDERS)

KEDA_LABEL = "scaledobject.keda.sh/name"


@dataclass(frozen=True)
class Signal:
    """A metric of a workload, and the load behind it; `per_replica` is its target as a number."""

    family: Family
    per_replica: float
    load: Load
    metric: Json
    """As in the HPA's spec."""


def resource(family: Family, target: Json, per_replica: float, load: Load) -> Signal:
    """Return a Resource metric: cpu or memory."""
    source = {"name": _RESOURCES[family], "target": target}
    return Signal(family, per_replica, load, {"type": "Resource", "resource": source})


def container_resource(family: Family, target: Json, per_replica: float, load: Load) -> Signal:
    """Return the same of the container with the load."""
    source = {"name": _RESOURCES[family], "container": APP, "target": target}
    metric = {"type": "ContainerResource", "containerResource": source}
    return Signal(family, per_replica, load, metric)


def pods(per_replica: int, load: Load) -> Signal:
    """Return a Pods metric."""
    source = {"metric": {"name": REQUESTS.name}, "target": average(str(per_replica))}
    return Signal(REQUESTS, per_replica, load, {"type": "Pods", "pods": source})


def of_object(family: Family, name: str, target: Json, per_replica: float, load: Load) -> Signal:
    """Return an Object metric, of the Service of that name."""
    source = {
        "describedObject": {"apiVersion": "v1", "kind": "Service", "name": name},
        "metric": {"name": family.name},
        "target": target,
    }
    return Signal(family, per_replica, load, {"type": "Object", "object": source})


def external(family: Family, name: str, target: Json, per_replica: float, load: Load) -> Signal:
    """Return an External metric, of the queue of that name."""
    selector = {"matchLabels": {family.key: name}}
    source = {"metric": {"name": family.name, "selector": selector}, "target": target}
    return Signal(family, per_replica, load, {"type": "External", "external": source})


def average(amount: str) -> Json:
    """Return a target per replica."""
    return {"type": "AverageValue", "averageValue": amount}


def value(amount: str) -> Json:
    """Return a target of the value as it is."""
    return {"type": "Value", "value": amount}


def utilization(percent: int) -> Json:
    """Return a target in percent of the request."""
    return {"type": "Utilization", "averageUtilization": percent}


def cpu_query(range_: str) -> str:
    """Return the daemon's query of cpu with that range."""
    return usage_once(f"rate({CPU.series}{{{_ONE_CONTAINER}}}[{range_}])", CONTAINER)


def keda_metric(trigger: int) -> str:
    """Return the name that KEDA gives the metric of a trigger of type prometheus."""
    return f"s{trigger}-prometheus"


def named_queries(ranges: Ranges) -> dict[str, str]:
    """Return the daemon's queries of all families but cpu and memory, which are built in."""
    return {family.name: family.query("", ranges.others) for family in (*CUSTOM, *EXTERNAL)}


def resource_queries(ranges: Ranges) -> Json:
    """Return the daemon's queries of cpu and memory that are not built in."""
    if ranges.cpu == USUAL.cpu:
        return {}
    return {"cpu": {"query": cpu_query(ranges.cpu), "window": ranges.cpu}}


def adapter_rules(
    ranges: Ranges, keda_queues: Sequence[str], without: Sequence[Family] = ()
) -> Json:
    """Return the configuration of prometheus-adapter, without rules for some families.

    Queues in `keda_queues` are also read as KEDA names them.
    """
    custom, external = (
        [_rule(family, ranges) for family in families if family not in without]
        for families in (CUSTOM, EXTERNAL)
    )
    return {
        "rules": custom,
        "externalRules": [*external, *map(_keda_rule, keda_queues)],
        "resourceRules": {
            "cpu": _resource_rule(f"rate({_selected(CPU)}[{ranges.cpu}])"),
            "memory": _resource_rule(_selected(MEMORY)),
            "window": ranges.cpu,
        },
    }


_RESOURCES = {CPU: "cpu", MEMORY: "memory"}
_MATCHERS = "<<.LabelMatchers>>"
_ONE_CONTAINER = 'container!="", container!="POD"'


def _rule(family: Family, ranges: Ranges) -> Json:
    resources: Json = {"namespaced": False}
    if family in CUSTOM:
        resources = {"overrides": {label: {"resource": label} for label in family.labels}}
    return {
        "seriesQuery": f'{{__name__="{family.series}"}}',
        "resources": resources,
        "name": {"matches": f"^{family.series}$", "as": family.name},
        "metricsQuery": family.query(_MATCHERS, ranges.others),
    }


def _keda_rule(queue: str) -> Json:
    """KEDA's label is no name that PromQL knows, so that the selector is left out."""
    matchers = f'queue="{queue}"'
    return {
        "seriesQuery": f'{{__name__="{MESSAGES.series}",{matchers}}}',
        "resources": {"namespaced": False},
        "name": {"matches": f"^{MESSAGES.series}$", "as": keda_metric(0)},
        "metricsQuery": MESSAGES.query(matchers),
    }


def _selected(family: Family) -> str:
    return f"{family.series}{{{_MATCHERS},{_ONE_CONTAINER}}}"


def _resource_rule(read: str) -> Json:
    query = f"sum by (<<.GroupBy>>) ({read})"
    return {
        "containerQuery": query,
        "nodeQuery": query,
        "resources": {
            "overrides": {one: {"resource": one} for one in ("namespace", "pod", "node")}
        },
        "containerLabel": "container",
    }
