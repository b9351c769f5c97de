"""The simulated world behind the ports of a sync: what the real `Syncer` reads and writes."""

import math
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from threading import Event

from typing_extensions import override

from autoscaler import clock
from autoscaler.core.breaker import Breaker
from autoscaler.core.observation import Hpa, Pod, ReadFailure, Scale, UncheckedControl
from autoscaler.core.series import QueryFailure, QueryResult
from autoscaler.core.spec import Flags, ScaleTargetRef
from autoscaler.core.target import QueryKey
from autoscaler.core.writes import AcceptedWrite, UnsetCosts, WriteOutcome
from autoscaler.lab.engine.world import SimulatedTarget
from autoscaler.sync.ports import (
    DEFAULT_CLUSTER,
    Cluster,
    MetricsReader,
    NoHistoryStore,
    Ports,
    Reporter,
)
from autoscaler.sync.run import Syncer


@dataclass
class VirtualClock:
    """A clock that stands still until it is set; it fits `autoscaler.clock.Clock`."""

    now: float = 0.0

    def wall(self) -> float:
        return self.now

    def steady(self) -> float:
        return self.now


@dataclass
class SimulatedPorts(Cluster, MetricsReader):
    """Fits `Cluster` and `MetricsReader`: the workloads and loads of simulated targets."""

    targets: Sequence[SimulatedTarget]
    time: VirtualClock = field(default_factory=VirtualClock)
    _asked_at: dict[QueryKey, float] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self._of = {
            (target.rules.target.namespace, target.rules.target.spec.scale_target_ref.name): target
            for target in self.targets
        }
        self._by_selector = {
            (target.rules.target.namespace, target.workload.selector): target
            for target in self.targets
        }

    @override
    def query(self, promql: str, at: float | None, deadline: float) -> QueryResult | QueryFailure:
        """Fit `MetricsReader`: each simulated target has queries of its own."""
        for target in self.targets:
            for query, load in zip(target.rules.target.queries, target.loads, strict=True):
                if query.promql == promql:
                    return load.answer(self.time.now, target.workload)
            for key, other in target.others.items():
                if key.promql == promql:
                    return other(self.time.now)
        raise AssertionError(promql)

    @override
    def cached_scale(self, namespace: str, ref: ScaleTargetRef) -> Scale | ReadFailure | None:
        return self._of[namespace, ref.name].workload.scale

    @override
    def cached_pods(self, namespace: str, selector: str) -> tuple[Pod, ...] | ReadFailure | None:
        return self._by_selector[namespace, selector].workload.pods(self.time.now)

    @override
    def cached_controller(
        self, namespace: str, ref: ScaleTargetRef
    ) -> str | UncheckedControl | None:
        return self._of[namespace, ref.name].controller

    @override
    def cached_hpa(self, namespace: str, ref: ScaleTargetRef, since: float) -> Hpa | None:
        return self._of[namespace, ref.name].hpa

    @override
    def read_scale(
        self, namespace: str, ref: ScaleTargetRef, deadline: float
    ) -> Scale | ReadFailure:
        return self._of[namespace, ref.name].workload.scale

    @override
    def list_pods(
        self, namespace: str, selector: str, deadline: float
    ) -> tuple[Pod, ...] | ReadFailure:
        return self._by_selector[namespace, selector].workload.pods(self.time.now)

    @override
    def leads_since(self, namespace: str) -> float:
        return -math.inf

    @override
    def listing_anew(self) -> None:
        """Its caches are current."""

    @override
    def write_scale(
        self, namespace: str, ref: ScaleTargetRef, scale: Scale, replicas: int, deadline: float
    ) -> WriteOutcome:
        self._of[namespace, ref.name].workload.set(replicas, self.time.now)
        return AcceptedWrite(scale)

    @override
    def set_deletion_costs(
        self, namespace: str, costs: Mapping[str, int | None], deadline: float
    ) -> UnsetCosts:
        """Set none: the simulated pods that go are the last ones."""
        return UnsetCosts()

    def ports(self, reporter: Reporter) -> Ports:
        """Return the ports of a syncer, which leads."""
        return Ports(
            {"": self},
            {DEFAULT_CLUSTER: self},
            reporter,
            NoHistoryStore(),
            clock=self.time,
        )

    def run(
        self,
        begin: float,
        end: float,
        period: float,
        reporter: Reporter,
        breaker: Breaker | None = None,
    ) -> None:
        """Sync all targets by the real `Syncer` once a period, and let time pass between."""
        self.time.now = begin
        targets = [target.rules.target for target in self.targets]
        with ExitStack() as stack:
            syncer = stack.enter_context(
                Syncer(Flags(), self.ports(reporter), Event(), steps=clock.Steps(begin, begin))
            )
            syncer.change(Flags(), self.ports(reporter), targets, {"": 100_000.0}, breaker)
            number = 0
            while (now := begin + number * period) < end:
                self.time.now = now
                syncer.sync(targets, now, period, steady=now, due=now)
                for target in self.targets:
                    target.pass_time(now, min(now + period, end))
                number += 1
