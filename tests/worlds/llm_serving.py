"""Simulated model servers, and the counts that different autoscalers give them.

A replica prefills `CAPACITY` requests per second. Below that the P90 of the time to the first token
(TTFT) is `QUICK / (1 - load)` seconds, with an exponential tail as in an M/M/1 queue; what exceeds
the capacity waits in order. Both numbers are chosen so that llm-d's formula gets about its
published result: Qwen3-32B on two H100, 4,000 tokens in and 1,000 out.
"""

import math
import tempfile
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple

from typing_extensions import override

from autoscaler.config import load
from autoscaler.core.observation import Reading
from autoscaler.core.series import QueryResult, Series
from autoscaler.core.step import Step
from autoscaler.core.sync_result import Rules
from autoscaler.lab.engine.answers import EMPTY, Answer
from autoscaler.lab.engine.loads import LoadModel, MetricLoad
from autoscaler.lab.engine.workloads import SimulatedWorkload
from autoscaler.lab.engine.world import SimulatedTarget, World

CAPACITY, FULLEST = 2.0, 0.95
QUICK, DECODE_SECONDS = 0.43, 45
OBJECTIVE, WINDOW = 3.0, 60
"""The most seconds to the first token, and the range of the rate() of each query."""
MOST_RATIO = 2.0
_TAIL = math.log(10.0)
_DRAIN = 3_600
CONFIG = Path(__file__).parents[2] / "config"


class Tokens(NamedTuple):
    """First tokens of one second: their number, how long they waited, and the P90 after that."""

    time: float
    amount: float
    waited: float
    p90: float

    def later_than(self, seconds: float) -> float:
        """Return the share whose TTFT is more than some seconds."""
        return math.exp(-_TAIL * max(seconds - self.waited, 0.0) / self.p90)


@dataclass(slots=True)
class ModelServers:
    """The servers of one model, second by second; a `Watcher`."""

    rate: Callable[[float], float]
    seconds: float
    least: int
    served: deque[Tokens] = field(default_factory=deque)
    waiting: deque[list[float]] = field(default_factory=deque)
    requests: float = 0.0
    late: float = 0.0
    late_seconds: int = 0
    most: int = 0
    replica_seconds: float = 0.0
    ended: float = 0.0
    """When the load had ended and the count was back at its minimum; 0 before."""
    _replicas: int = 0

    def synced(self, target: SimulatedTarget, step: Step) -> None:
        """Take the count after a sync."""
        del step
        self._replicas = target.workload.replicas
        self.most = max(self.most, self._replicas)

    def passed(self, target: SimulatedTarget, begin: float, end: float, ready: int) -> None:
        """Let time pass with some ready pods."""
        del target
        for now in range(math.ceil(begin), math.ceil(end)):
            self._second(float(now), ready)
            if now >= self.seconds and self._replicas == self.least:
                self.ended = self.ended or float(now)
            if not self.ended:
                self.replica_seconds += self._replicas

    def _second(self, now: float, ready: int) -> None:
        arrived = self.rate(now)
        if arrived:
            self.waiting.append([now, arrived])
        most = ready * CAPACITY
        p90 = QUICK / (1.0 - min(arrived / most, FULLEST)) if most else math.inf
        late = total = 0.0
        while self.waiting and most > 0.0:
            since, count = self.waiting[0]
            taken = min(count, most)
            most -= taken
            tokens = Tokens(now, taken, now - since, p90)
            self.served.append(tokens)
            total += taken
            late += taken * tokens.later_than(OBJECTIVE)
            if taken < count:
                self.waiting[0][1] -= taken
                break
            self.waiting.popleft()
        self.requests += total
        self.late += late
        self.late_seconds += late > 0.1 * total
        while self.served and self.served[0].time <= now - WINDOW:
            self.served.popleft()

    @property
    def queue(self) -> float:
        """The requests that wait for a replica."""
        return sum(count for _, count in self.waiting)

    def in_progress(self, now: float) -> float:
        """Return the requests that wait or run."""
        running = sum(each.amount for each in self.served if each.time > now - DECODE_SECONDS)
        return self.queue + running

    def ratio(self) -> float | None:
        """Return the P90 of the last minute divided by the objective; None without a token."""
        total = sum(each.amount for each in self.served)
        if not total:
            return None if self.queue >= 1.0 else 0.0
        low, high = 0.0, MOST_RATIO * OBJECTIVE
        for _ in range(20):
            middle = (low + high) / 2
            late = sum(each.amount * each.later_than(middle) for each in self.served)
            low, high = (middle, high) if late > 0.1 * total else (low, middle)
        return high / OBJECTIVE


Value = Callable[[ModelServers, float, SimulatedWorkload], float | None]


@dataclass(slots=True)
class Signal(MetricLoad):
    """A metric that is computed from the servers, for each ready pod or for all."""

    servers: ModelServers
    value: Value
    by_pod: bool = False
    model: LoadModel = LoadModel.RECORDED

    @override
    def answer(self, at: float, workload: SimulatedWorkload) -> Answer:
        value = self.value(self.servers, at, workload)
        if value is None:
            return EMPTY
        labels: list[Mapping[str, str]] = [{}]
        if self.by_pod:
            labels = [{"namespace": "llm", "pod": pod} for pod in workload.ready_names(at)]
        return QueryResult([Series(each, value, at) for each in labels])

    @override
    def demand(self, reading: Reading) -> float | None:
        return None


class ObjectiveLaw:
    """llm-d's published law: two thresholds of a smoothed ratio, and a credit for loading pods."""

    UP, DOWN, SMOOTHED = 0.55, 0.40, 3

    def __init__(self) -> None:
        self._last: deque[float] = deque(maxlen=self.SMOOTHED)

    def __call__(self, servers: ModelServers, at: float, workload: SimulatedWorkload) -> float:
        """Return the count that the law asks for."""
        self._last.append(servers.ratio() or 0.0)
        ratio = sum(self._last) / len(self._last)
        count, ready = workload.replicas, workload.ready(at)
        if ratio > self.UP:
            credit = ready / count if 0 < ready < count else 1.0
            return count + math.ceil(count * (ratio * credit / self.UP - 1.0))
        if ratio < self.DOWN:
            return count - math.floor(count * (1.0 - ratio / self.DOWN))
        return count


def _compounding(servers: ModelServers, at: float, workload: SimulatedWorkload) -> float | None:
    del at
    ratio = servers.ratio()
    return None if ratio is None else ratio / 0.5 * workload.replicas


def _utilization(servers: ModelServers, at: float, workload: SimulatedWorkload) -> float:
    capacity = max(workload.ready(at), 1) * CAPACITY
    return 1.0 if servers.queue >= 1.0 else min(servers.rate(at - 1) / capacity, 1.0)


def _gpu(servers: ModelServers, at: float, workload: SimulatedWorkload) -> float:
    return 0.97 if servers.in_progress(at) >= workload.ready(at) else 0.0


OURS = "`llm-latency.yaml`"
TARGET = """\
prometheus: {url: "http://127.0.0.1:9090"}
targets:
- namespace: llm
  scaleTargetRef: {apiVersion: apps/v1, kind: Deployment, name: qwen}
  minReplicas: 3
  maxReplicas: 8
  metrics: [%s]
  behavior: {%s}
"""
EXTERNAL = (
    '{type: External, external: {metric: {name: a, query: "sum(a)"}, target: {type: %s, %s}}}'
)
PODS = (
    '{type: Pods, pods: {metric: {name: a, query: "sum by (namespace, pod) (a)"},'
    " target: {type: AverageValue, averageValue: 700m}}}"
)
SLOW_DOWN = (
    "scaleDown: {stabilizationWindowSeconds: %d, policies: [{type: Pods, value: 1, "
    "periodSeconds: 120}]}"
)
ONE_STEP = (
    "scaleUp: {policies: [{type: Percent, value: 100, periodSeconds: 360}, "
    "{type: Pods, value: 4, periodSeconds: 360}]}, "
)
LAW_UP = (
    "scaleUp: {stabilizationWindowSeconds: 30, policies: [{type: Percent, value: 100, "
    "periodSeconds: 60}, {type: Pods, value: 4, periodSeconds: 60}]}, "
)


class Side(NamedTuple):
    """An autoscaler: its configuration, and the values of its metrics."""

    text: str
    values: Sequence[Value]
    by_pod: bool = False


def sides() -> dict[str, Side]:
    """Return the autoscalers that are compared, by name."""
    law = TARGET % (EXTERNAL % ("AverageValue", "averageValue: 1"), LAW_UP + SLOW_DOWN % 180)
    requests = TARGET % (
        EXTERNAL % ("AverageValue", "averageValue: 56"),
        ONE_STEP + SLOW_DOWN % 300,
    )
    return {
        OURS: Side(
            (CONFIG / "llm-latency.yaml").read_text(encoding="utf-8"),
            [
                lambda servers, *_: servers.ratio(),
                lambda *_: 0.25,
                lambda servers, *_: servers.queue,
            ],
        ),
        "56 requests per replica": Side(requests, [lambda servers, at, _: servers.in_progress(at)]),
        "llm-d's formula in KEDA": Side(law, [ObjectiveLaw()]),
        "KEDA, ratio x replicas": Side(
            TARGET % (EXTERNAL % ("AverageValue", "averageValue: 1"), SLOW_DOWN % 300),
            [_compounding],
        ),
        "HPA, 70 % of the capacity": Side(TARGET % (PODS, ""), [_utilization], by_pod=True),
        "HPA, 70 % GPU utilization": Side(TARGET % (PODS, ""), [_gpu], by_pod=True),
    }


def _steps(*stages: tuple[float, float]) -> tuple[Callable[[float], float], float]:
    def rate(at: float) -> float:
        for requests, seconds in stages:
            if at < seconds:
                return requests
            at -= seconds
        return 0.0

    return rate, sum(seconds for _, seconds in stages)


class Shape(NamedTuple):
    """A load: requests per second over time, the time a model loads, and the bound."""

    rate: Callable[[float], float]
    seconds: float
    loads_seconds: float
    peak: float
    most: int

    @property
    def needed(self) -> int:
        """The pods that the peak needs to meet the objective."""
        return math.ceil(self.peak / (CAPACITY * (1.0 - QUICK / OBJECTIVE)))


def shapes() -> dict[str, Shape]:
    """Return the loads, by name."""
    stairs = _steps((2, 330), (4, 360), (6, 360), (8, 360), (10, 360), (4, 360), (1, 300))
    burst = _steps((3, 600), (9, 900), (3, 1800))
    return {
        "llm-d's stairs": Shape(*stairs, 100, 10, 8),
        "burst": Shape(*burst, 180, 9, 16),
        "wave": Shape(lambda at: 5.5 - 3.5 * math.cos(math.tau * at / 5400), 10_800, 180, 9, 16),
    }


class Score(NamedTuple):
    """What came of one autoscaler under one load."""

    attained: float
    above_seconds: int
    replicas: float
    overshoot: int


def score(side: Side, shape: Shape) -> Score:
    """Simulate an autoscaler until the load has ended and the count is at its minimum."""
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "autoscaler.yaml"
        file.write_text(side.text.replace("maxReplicas: 8", f"maxReplicas: {shape.most}"))
        config = load(file)
    (target,) = config.targets
    least = target.spec.min_replicas

    def rate(at: float) -> float:
        return shape.rate(at) if 0 <= at < shape.seconds else 0.0

    servers = ModelServers(rate, shape.seconds, least)
    workload = SimulatedWorkload("qwen", 0.0, least, shape.loads_seconds)
    loads = [Signal(servers, value, side.by_pod) for value in side.values]
    simulated = SimulatedTarget(Rules(target, config.flags), workload, loads)
    end = shape.seconds + _DRAIN
    for _ in World([simulated], servers).run(0.0, end):
        pass
    return Score(
        1.0 - servers.late / servers.requests,
        servers.late_seconds,
        servers.replica_seconds / (servers.ended or end),
        max(servers.most - shape.needed, 0),
    )


HEAD = ("load", "autoscaler", "within 3 s", "above, s", "replicas", "overshoot")


def rows() -> Iterator[list[str]]:
    """Yield a row of the table for each load and autoscaler."""
    for name, shape in shapes().items():
        for autoscaler, side in sides().items():
            found = score(side, shape)
            yield [
                name if autoscaler == OURS else "",
                autoscaler,
                f"{found.attained:.1%}",
                str(found.above_seconds),
                f"{found.replicas:.2f}",
                str(found.overshoot),
            ]
