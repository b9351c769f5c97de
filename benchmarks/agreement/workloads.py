"""The workloads: one of each kind of HPA, its load, and the same specification for the daemon."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace

from benchmarks import fleet
from benchmarks.agreement import loads, scaled_objects, signals
from benchmarks.agreement.loads import Load
from benchmarks.agreement.signals import (
    CPU,
    DELAY,
    LATENCY,
    MEMORY,
    MESSAGES,
    ORDERS,
    PROXY_SHARE,
    WAITING,
    Family,
    Signal,
    average,
    utilization,
    value,
)
from tests.worlds.controlplane.api import Json

MOST_REPLICAS = 16

KEDA = "keda"
"""The workload whose HPA is as KEDA makes one, though KEDA does not run."""

_DAY = 1800.0
"""Seconds in which a whole day passes."""

_MEBI = 1024 * 1024
_CPU_REQUEST, _MEMORY_REQUEST = 0.600, 320 * _MEBI
"""Of all containers of a pod, in cores and bytes."""


@dataclass(frozen=True)
class Workload:
    """A Deployment with an HPA and a target of the daemon.

    `theirs` and `ours` are the fields of the specification in which one side differs. One that is
    `by_keda` has an HPA as KEDA makes one.
    """

    name: str
    signals: Sequence[Signal]
    behavior: Json | None = None
    bounds: tuple[int, int] = (1, MOST_REPLICAS)
    theirs: Json = field(default_factory=dict)
    ours: Json = field(default_factory=dict)
    by_keda: bool = False

    @property
    def spec(self) -> Json:
        """The HorizontalPodAutoscalerSpec that both sides have, but for what differs."""
        low, high = self.bounds
        scaled = {"apiVersion": "apps/v1", "kind": "Deployment", "name": self.name}
        spec: Json = {
            "scaleTargetRef": scaled,
            "minReplicas": low,
            "maxReplicas": high,
            "metrics": [signal.metric for signal in self.signals],
        }
        return spec if self.behavior is None else spec | {"behavior": self.behavior}

    def reads(self, families: Sequence[Family]) -> bool:
        """Whether a metric of its is of one of these families."""
        return any(signal.family in families for signal in self.signals)

    @property
    def key(self) -> str:
        """What the daemon calls it."""
        return f"{fleet.NAMESPACE}/Deployment/{self.name}"

    @property
    def hpa(self) -> Json:
        """Its HPA."""
        hpa = fleet.hpa(self.spec | self.theirs)
        return scaled_objects.as_of_keda(hpa) if self.by_keda else hpa

    def scaled_object(self, prometheus: str) -> Json:
        """Return the ScaledObject of which KEDA makes such an HPA; it asks that Prometheus."""
        return scaled_objects.scaled_object(self.spec, self.signals, prometheus)

    @property
    def target(self) -> Json:
        """The target of the daemon, without its namespace."""
        spec = self.spec
        if self.by_keda:
            spec["metrics"] = scaled_objects.converted(self.name, self.signals)
        return spec | self.ours


def workloads(seed: int) -> list[Workload]:
    """Return one of each kind; the seed decides how their loads change."""
    return [kind(f"{seed} {number}") for number, kind in enumerate(_KINDS)]


def under_keda(workloads: Sequence[Workload]) -> list[Workload]:
    """Return the workloads as they are where KEDA serves all External metrics.

    Those that have no other metrics are under KEDA, and those that have others too are left out.
    """
    found = []
    for workload in workloads:
        types = {signal.metric["type"] for signal in workload.signals}
        if types == {"External"}:
            found.append(replace(workload, by_keda=True))
        elif "External" not in types:
            found.append(workload)
    return found


def _steps(seed: str) -> Load:
    return loads.steps(seed, (1.5, 11.5), (180, 420))


def _ramps(seed: str) -> Load:
    return loads.ramps(seed, (1.5, 11.5), (240, 480))


def _diurnal(seed: str) -> Load:
    return loads.diurnal(seed, (1.3, 12.6), _DAY)


def _bursts(seed: str) -> Load:
    return loads.bursts(seed, (2.4, 11.6), (240, 480), 90)


def _noisy_steps(seed: str) -> Load:
    return loads.noisy(f"{seed} noise", _steps(seed), 0.03)


def _noisy_diurnal(seed: str) -> Load:
    return loads.noisy(f"{seed} noise", _diurnal(seed), 0.03)


def _down(seconds: int, *policies: Json, **more: object) -> Json:
    rules: Json = {"stabilizationWindowSeconds": seconds, **more}
    return {"scaleDown": rules | ({"policies": list(policies)} if policies else {})}


def _up(seconds: int, *policies: Json, **more: object) -> Json:
    rules: Json = {"stabilizationWindowSeconds": seconds, **more}
    return {"scaleUp": rules | ({"policies": list(policies)} if policies else {})}


def _policy(kind: str, amount: int, seconds: int) -> Json:
    return {"type": kind, "value": amount, "periodSeconds": seconds}


# -- metrics whose targets are the same for all --------------------------------------------------


def _cpu_utilization(load: Load) -> Signal:
    per_replica = 0.60 * _CPU_REQUEST / (1 + PROXY_SHARE)
    return signals.resource(CPU, utilization(60), per_replica, load)


def _cpu_average(load: Load) -> Signal:
    return signals.resource(CPU, average("400m"), 0.400 / (1 + PROXY_SHARE), load)


def _memory_utilization(load: Load) -> Signal:
    per_replica = 0.70 * _MEMORY_REQUEST / (1 + PROXY_SHARE)
    return signals.resource(MEMORY, utilization(70), per_replica, load)


def _memory_average(load: Load) -> Signal:
    return signals.resource(MEMORY, average("200Mi"), 200 * _MEBI / (1 + PROXY_SHARE), load)


def _container_cpu(load: Load) -> Signal:
    return signals.container_resource(CPU, utilization(75), 0.375, load)


def _container_memory(load: Load) -> Signal:
    return signals.container_resource(MEMORY, average("150Mi"), 150 * _MEBI, load)


def _requests(load: Load) -> Signal:
    return signals.pods(20, load)


def _latency(name: str, load: Load) -> Signal:
    return signals.of_object(LATENCY, name, value("250"), 250, load)


def _waiting(name: str, load: Load) -> Signal:
    return signals.of_object(WAITING, name, average("12"), 12, load)


def _messages(name: str, load: Load) -> Signal:
    return signals.external(MESSAGES, name, average("30"), 30, load)


def _delay(name: str, load: Load) -> Signal:
    return signals.external(DELAY, name, value("1500m"), 1.5, load)


def _orders(name: str, load: Load) -> Signal:
    return signals.external(ORDERS, name, average("5"), 5, load)


# -- the kinds -----------------------------------------------------------------------------------

_KINDS: Sequence[Callable[[str], Workload]] = (
    lambda seed: Workload("cpu-utilization", [_cpu_utilization(_steps(seed))]),
    lambda seed: Workload("cpu-average", [_cpu_average(_diurnal(seed))], _down(60)),
    lambda seed: Workload("memory-average", [_memory_average(_ramps(seed))]),
    lambda seed: Workload(
        "memory-utilization",
        [_memory_utilization(_steps(seed))],
        _down(30, _policy("Pods", 2, 30)),
    ),
    lambda seed: Workload("container-cpu", [_container_cpu(_noisy_steps(seed))], _down(60)),
    lambda seed: Workload(
        "container-memory",
        [_container_memory(_ramps(seed))],
        _up(0, _policy("Percent", 50, 30)) | _down(45),
    ),
    lambda seed: Workload("pods", [_requests(_noisy_diurnal(seed))]),
    lambda seed: Workload(
        "pods-slowly",
        [_requests(_steps(seed))],
        _up(30, _policy("Pods", 3, 30), _policy("Percent", 100, 30), selectPolicy="Min")
        | _down(30, _policy("Percent", 25, 30), _policy("Pods", 1, 15), selectPolicy="Min"),
    ),
    lambda seed: Workload("object-value", [_latency("object-value", _steps(seed))], _down(60)),
    lambda seed: Workload("object-average", [_waiting("object-average", _diurnal(seed))]),
    lambda seed: Workload(
        "object-burst", [_waiting("object-burst", _bursts(seed))], _up(0) | _down(0)
    ),
    lambda seed: Workload("external-value", [_delay("external-value", _ramps(seed))], _down(90)),
    lambda seed: Workload("external-average", [_messages("external-average", _steps(seed))]),
    lambda seed: Workload(
        "external-noise", [_messages("external-noise", _noisy_diurnal(seed))], _down(30)
    ),
    lambda seed: Workload(
        "external-rate",
        [_orders("external-rate", _steps(seed))],
        _down(120, _policy("Percent", 50, 60)),
    ),
    lambda seed: Workload(
        "cpu-and-pods", [_cpu_utilization(_steps(seed)), _requests(_diurnal(seed))], _down(60)
    ),
    lambda seed: Workload(
        "three-metrics",
        [
            _messages("three-metrics", _bursts(seed)),
            _memory_average(_diurnal(seed)),
            _waiting("three-metrics", _steps(seed)),
        ],
    ),
    lambda seed: Workload(KEDA, [_messages(KEDA, _bursts(seed))], _down(60), by_keda=True),
    lambda seed: Workload(
        "at-its-bounds", [_messages("at-its-bounds", _diurnal(seed))], _down(0), (3, 8)
    ),
    lambda seed: Workload(
        "never-down",
        [_orders("never-down", _noisy_steps(seed))],
        _up(60) | {"scaleDown": {"selectPolicy": "Disabled"}},
    ),
)

HOW_MANY = len(_KINDS)
