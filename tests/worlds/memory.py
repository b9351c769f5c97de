"""A world in memory that fits the ports: scales, pods and metrics under the test's control."""

import math
import threading
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future
from dataclasses import dataclass, field, replace
from typing import Any

from typing_extensions import override

from autoscaler import clock
from autoscaler.clock import Clock
from autoscaler.core.breaker import BreakerState
from autoscaler.core.history import History
from autoscaler.core.observation import (
    ContainerRequests,
    Hpa,
    Pod,
    PodRequests,
    ReadFailure,
    Scale,
    UncheckedControl,
)
from autoscaler.core.series import QueryFailure, QueryResult, Series
from autoscaler.core.spec import (
    ConditionStatus,
    Flags,
    HorizontalPodAutoscalerSpec,
    LabelSelector,
    MetricSpec,
    ScaleTargetRef,
)
from autoscaler.core.sync_result import SyncResult
from autoscaler.core.target import Query, Target
from autoscaler.core.writes import (
    AcceptedWrite,
    SkippedWrite,
    SkippedWriteReason,
    UnsetCosts,
    WriteConflict,
    WriteOutcome,
)
from autoscaler.sync.ports import (
    DEFAULT_CLUSTER,
    BreakerNews,
    Cluster,
    MetricsReader,
    NoHistoryStore,
    Ports,
    Reporter,
    SyncSummary,
)
from autoscaler.sync.ports import Kept as KeptState
from autoscaler.sync.run import Syncer
from tests.core import builders

T0 = 1_800_000_000.0


def external(namespace: str, name: str, queue: str | None = None, promql: str = "queue") -> Target:
    """Return a target of 30 messages a replica, 1 to 20 replicas."""
    selector = None if queue is None else LabelSelector((("queue", queue),))
    metric = builders.external(builders.average("30"), selector=selector)
    return _target(namespace, name, metric, promql)


def per_pod(namespace: str, name: str, promql: str = "rps") -> Target:
    """Return a target of 10 requests a second and pod, 1 to 20 replicas."""
    return _target(namespace, name, builders.per_pod("10"), promql)


def _target(namespace: str, name: str, metric: MetricSpec, promql: str) -> Target:
    ref = ScaleTargetRef("apps/v1", "Deployment", name)
    return Target(namespace, HorizontalPodAutoscalerSpec(ref, 1, 20, (metric,)), (Query(promql),))


def answer(*values: float, now: float = T0, **labels: str) -> QueryResult:
    """Return an answer of one series a value, all with the same labels."""
    return QueryResult([Series(labels, value, now) for value in values])


def pod(name: str) -> Pod:
    """Return a pod that has been running and ready for long."""
    requests = PodRequests((ContainerRequests("app", {}),))
    return Pod(name, "Running", ConditionStatus.TRUE, 0.0, 0.0, deleted=False, requests=requests)


@dataclass
class Memory(Reporter, Cluster, MetricsReader):
    """Fits every port.  Hooks may block or stop within a call, as a slow server would."""

    answers: dict[str, QueryResult | QueryFailure] = field(default_factory=dict)
    scales: dict[str, Scale | ReadFailure] = field(default_factory=dict)
    pod_lists: dict[str, tuple[Pod, ...] | ReadFailure] = field(default_factory=dict)
    outcomes: dict[str, WriteOutcome] = field(default_factory=dict)
    on_query: Mapping[str, Callable[[], object]] = field(default_factory=dict)
    on_write: Callable[[str], object] = lambda _name: None
    queried: list[str] = field(default_factory=list)
    listed: list[str] = field(default_factory=list)
    on_costs: Callable[[str], object] = lambda _namespace: None
    costs: list[tuple[str, dict[str, int | None]]] = field(default_factory=list)
    """The deletion costs that were set, by namespace."""
    unset: UnsetCosts = field(default_factory=UnsetCosts)
    """The costs that are refused."""
    written: list[tuple[str, int]] = field(default_factory=list)
    results: list[SyncResult] = field(default_factory=list)
    news: list[BreakerNews] = field(default_factory=list)
    steps: list[float] = field(default_factory=list)
    faults: list[BaseException] = field(default_factory=list)
    summaries: list[SyncSummary] = field(default_factory=list)
    kept: dict[str, History] = field(default_factory=dict)
    transactions: list[int] = field(default_factory=list)
    breakers: Mapping[str, BreakerState] = field(default_factory=dict)
    leads: bool = True
    led_from: float = -math.inf
    """The time from which it leads."""
    controllers: dict[str, str | UncheckedControl] = field(default_factory=dict)
    hpas: dict[str, Hpa] = field(default_factory=dict)
    scales_cached: bool = False
    planned: bool = False
    """Whether nothing is written."""
    servers: dict[str, MetricsReader] = field(default_factory=dict)
    """The servers in addition to the default one, which is this."""
    wait: Callable[[float], None] | None = None
    """The function that waits while lists are read again."""
    lock: threading.Lock = field(default_factory=threading.Lock)

    @override
    def query(self, promql: str, at: float | None, deadline: float) -> QueryResult | QueryFailure:
        with self.lock:
            self.queried.append(promql)
        self.on_query.get(promql, lambda: None)()
        return self.answers[promql]

    @override
    def leads_since(self, namespace: str) -> float | None:
        return self.led_from if self.leads else None

    @override
    def listing_anew(self) -> Callable[[float], None] | None:
        return self.wait

    @override
    def cached_controller(
        self, namespace: str, ref: ScaleTargetRef
    ) -> str | UncheckedControl | None:
        return self.controllers.get(f"{namespace}/{ref.name}")

    @override
    def cached_hpa(self, namespace: str, ref: ScaleTargetRef, since: float) -> Hpa | None:
        return self.hpas.get(f"{namespace}/{ref.name}")

    @override
    def cached_scale(self, namespace: str, ref: ScaleTargetRef) -> Scale | ReadFailure | None:
        """Fit `Cluster`: scales are cached if the test wants it."""
        return self.scales[f"{namespace}/{ref.name}"] if self.scales_cached else None

    @override
    def cached_pods(self, namespace: str, selector: str) -> tuple[Pod, ...] | ReadFailure | None:
        """Fit `Cluster`: no pods are cached."""
        return None

    @override
    def read_scale(
        self, namespace: str, ref: ScaleTargetRef, deadline: float
    ) -> Scale | ReadFailure:
        return self.scales[f"{namespace}/{ref.name}"]

    @override
    def write_scale(
        self, namespace: str, ref: ScaleTargetRef, scale: Scale, replicas: int, deadline: float
    ) -> WriteOutcome:
        name = f"{namespace}/{ref.name}"
        if self.planned:
            return SkippedWrite(SkippedWriteReason.PLANNED)
        self.on_write(name)
        with self.lock:
            self.written.append((name, replicas))
        outcome = self.outcomes.get(name, AcceptedWrite(replace(scale, spec_replicas=replicas)))
        if isinstance(outcome, AcceptedWrite | WriteConflict):
            self.scales[name] = outcome.scale
        return outcome

    @override
    def list_pods(
        self, namespace: str, selector: str, deadline: float
    ) -> tuple[Pod, ...] | ReadFailure:
        with self.lock:
            self.listed.append(f"{namespace}: {selector}")
        return self.pod_lists.get(f"{namespace}: {selector}", ())

    @override
    def set_deletion_costs(
        self, namespace: str, costs: Mapping[str, int | None], deadline: float
    ) -> UnsetCosts:
        self.on_costs(namespace)
        with self.lock:
            self.costs.append((namespace, dict(costs)))
        return self.unset

    def report(self, result: SyncResult) -> None:
        self.results.append(result)

    def result(self, name: str) -> SyncResult:
        """Return the last result of a target, by namespace/name."""
        return next(
            result
            for result in reversed(self.results)
            if f"{result.target.namespace}/{result.target.spec.scale_target_ref.name}" == name
        )

    def fault(self, error: BaseException) -> None:
        self.faults.append(error)

    def breaker_changed(self, news: BreakerNews) -> None:
        self.news.append(news)

    def clock_set(self, seconds: float) -> None:
        self.steps.append(seconds)

    def synced(self, summary: SyncSummary) -> None:
        self.summaries.append(summary)

    def syncer(
        self, stop: threading.Event | None = None, clock: Clock = clock, **options: Any
    ) -> Syncer:
        """Return a syncer over this world, in which nothing is cached."""
        ports = replace(self.world(), clock=clock)
        return Syncer(Flags(), ports, stop or threading.Event(), **options)

    def world(self) -> Ports:
        return Ports(
            {"": self, **self.servers},
            {DEFAULT_CLUSTER: self},
            self,
            Kept(self),
        )


class Kept(NoHistoryStore):
    """A `HistoryStore` in memory: histories, breakers, and how many each transaction had."""

    def __init__(self, memory: Memory) -> None:
        self._memory = memory

    def intend(self, target: str, history: History) -> Future[None]:
        self._memory.kept[target] = history
        return super().intend(target, history)

    def keep(self, kept: Sequence[KeptState]) -> None:
        self._memory.kept.update({target: history for target, history, _ in kept})
        self._memory.transactions.append(len(kept))

    def keep_breakers(self, states: Mapping[str, BreakerState]) -> None:
        self._memory.breakers = states


def queue(messages: float, **replicas: int) -> Memory:
    """Return a world with some messages, and Deployments with their replicas by name."""
    scales = {
        f"shop/{name}": Scale(count, count, f"app={name}") for name, count in replicas.items()
    }
    return Memory(answers={"queue": answer(messages)}, scales=dict(scales))


def sync_once(world: Memory, *targets: Target) -> None:
    """Sync some targets once, by a process of their own."""
    with world.syncer() as syncer:
        syncer.sync(targets, T0, 10.0)
