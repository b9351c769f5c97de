"""Builds the simulated targets of a configuration from recorded data and assumptions."""

import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from fnmatch import fnmatchcase
from typing import TypeVar

from autoscaler.core.extensions import Mode
from autoscaler.core.observation import PodRequests
from autoscaler.core.series import QueryResult
from autoscaler.core.spec import Flags, MetricSpec
from autoscaler.core.sync_result import Rules
from autoscaler.core.target import QueryKey, Target, TargetName
from autoscaler.lab.engine.answers import Answers
from autoscaler.lab.engine.assumptions import Assumptions, LoadAssumption, WorkloadAssumption, units
from autoscaler.lab.engine.loads import (
    LoadModel,
    MetricLoad,
    QueueLoad,
    RecordedLoad,
    SharedLoad,
    Totals,
    default_model,
    labels_of,
    target_per_pod,
)
from autoscaler.lab.engine.workloads import MOST_PODS, SimulatedWorkload, requests_of
from autoscaler.lab.engine.world import SimulatedTarget
from autoscaler.quantities import parse_quantity

READY_SECONDS = 30.0
"""The default time from a pod's creation until it is ready, in seconds."""
_ONE_CORE: Mapping[str, int] = {"cpu": 10**9, "memory": 2**30 * 10**9}
_CONTAINER = "app"

_V = TypeVar("_V")


class ReplayData:
    """The known past: answers to queries, and actual pods.

    Each call returns answers that begin again at the start of the period. Unknown values are None.
    """

    def answers(self, query: QueryKey) -> Answers:
        """Return the complete answers to a query. Raises BuildError without any."""
        raise NotImplementedError

    def reading(self, target: Target, number: int) -> Answers:
        """Return the answers to the query of the metric with this number, as it reads them."""
        raise NotImplementedError

    def totals(self, target: Target, number: int) -> Totals:
        """Return the total over a target's pods of its metric with this number."""
        raise NotImplementedError

    def others(self, target: Target) -> Mapping[QueryKey, Answers]:
        """Return the answers to a target's queries that are not of metrics."""
        return {key: self.answers(key) for key in other_queries(target)}

    def ran(self, target: Target) -> Answers | None:
        """Return the actual count that a sync saw; None if unknown."""

    def ran_after(self, target: Target) -> Answers | None:
        """Return the actual count after a sync; None if only `ran` is known."""

    def replicas(self, target: Target) -> int | None:
        """Return the count at the begin, or at the begin of a warm-up; None if unknown."""

    def instants(self, target: Target) -> Callable[[], Iterable[float]] | None:
        """Return the actual instants of its syncs; None for one per period."""

    def notes(self, target: Target) -> Sequence[str] | None:
        """Return notes about the period, as sentences."""

    def ready_seconds(self, target: Target) -> float | None:
        """Return how long pods of a target took to become ready; None if unknown."""

    def requests(self, target: Target) -> PodRequests | None:
        """Return the requests of a target's pod; None if unknown."""


def other_queries(target: Target) -> list[QueryKey]:
    """Return a target's queries that are not of metrics: of bounds, and of a hold."""
    own = {query.key for query in target.queries}
    return [query.key for query in target.deciding_queries if query.key not in own]


class BuildError(Exception):
    """A target cannot be replayed with the known data; the text is a sentence for the operator."""


@dataclass(slots=True)
class BuiltTarget:
    """A simulated target, and its assumptions as sentences."""

    target: SimulatedTarget
    assumed: list[str] = field(default_factory=list)

    def named_loads(self) -> Iterator[tuple[str, MetricLoad]]:
        """Yield the name of each metric, and its load."""
        metrics = self.target.rules.target.spec.metrics
        yield from zip((metric.name for metric in metrics), self.target.loads, strict=True)


def built(
    target: Target, flags: Flags, data: ReplayData, assumptions: Assumptions, begin: float
) -> BuiltTarget:
    """Return a target for a world that begins at an instant. Raises BuildError.

    A target in shadow is replayed as if it were live.
    """
    live = replace(target, extensions=replace(target.extensions, mode=Mode.LIVE))
    building = _TargetBuilder(live, data, assumptions, begin)
    workload = building.workload()
    simulated = SimulatedTarget(
        Rules(live, flags),
        workload,
        tuple(building.load(number, workload) for number in range(len(live.spec.metrics))),
        data.others(live),
        ran=data.ran(live),
        ran_after=data.ran_after(live),
        instants=data.instants(live),
    )
    return BuiltTarget(simulated, [*building.assumed, *(data.notes(live) or ())])


@dataclass
class _TargetBuilder:
    """The data of a target, and its assumptions so far (``assumed``)."""

    target: Target
    data: ReplayData
    assumptions: Assumptions
    begin: float
    assumed: list[str] = field(default_factory=list)

    def workload(self) -> SimulatedWorkload:
        target, data = self.target, self.data
        stated = list(_of_target(self.assumptions.workloads, target))
        replicas = _first(assumption.replicas for assumption in stated)
        if replicas is None:
            replicas = data.replicas(target)
        if replicas is None:
            replicas = max(target.spec.min_replicas, 1)
            counted = "1 replica" if replicas == 1 else f"{replicas} replicas"
            self.assumed.append(f"it begins with {counted}: the count at the start is not known")
        if replicas > MOST_PODS:
            raise BuildError(
                f"it begins with {replicas:,} replicas; {MOST_PODS:,} can be simulated"
            )
        ready = _first(assumption.ready_after for assumption in stated)
        if ready is None:
            ready = data.ready_seconds(target)
        if ready is None:
            ready = READY_SECONDS
            self.assumed.append(
                f"a pod is ready {ready:g} s after it is created: the actual time is not known"
            )
        name, requests = target.spec.scale_target_ref.name, self._requests(stated)
        return SimulatedWorkload(name, self.begin, replicas, ready, requests)

    def _requests(self, stated: Sequence[WorkloadAssumption]) -> PodRequests:
        texts, metrics = (
            _first(assumption.requests for assumption in stated),
            self.target.spec.metrics,
        )
        of_containers = {metric.container for metric in metrics if metric.container} or {_CONTAINER}
        own = _ONE_CORE
        if texts is not None:
            own = {name: parse_quantity(text) for name, text in texts.items()}
        elif (known := self.data.requests(self.target)) is not None:
            return known
        elif any(metric.target.average_utilization is not None for metric in metrics):
            self.assumed.append(
                "a pod requests 1 core and 1Gi of memory: nothing says how much, and a utilization "
                "is a part of it"
            )
        return requests_of(dict.fromkeys(sorted(of_containers), own))

    def load(self, number: int, workload: SimulatedWorkload) -> MetricLoad:
        target, data = self.target, self.data
        metric, query = target.spec.metrics[number], target.queries[number]
        name, stated = metric.name, stated_loads(self.assumptions, target, metric)
        model_name = _first(assumption.model for assumption in stated)
        model = default_model(metric) if model_name is None else LoadModel(model_name)
        if model is LoadModel.QUEUE:
            return self._queue(number, stated)
        capacity = _first(assumption.capacity for assumption in stated)
        limit = None if capacity is None else units(capacity)
        per_pod = limit or target_per_pod(metric, workload)
        if per_pod is None:
            self.assumed.append(
                f"{name} does not tell how many pods its load needs, so nothing is scored; "
                "state its capacity, the load that one pod handles"
            )
        if model is LoadModel.SHARED:
            labels, totals = labels_of(metric, query, target.namespace), data.totals(target, number)
            return SharedLoad(totals, metric, query, target.namespace, per_pod, limit, labels)
        if metric.target.value is not None:
            self.assumed.append(
                f"{name} is read as it was recorded, whatever the count is; if it falls with more "
                "pods, state model: shared"
            )
        return RecordedLoad(data.reading(target, number), per_pod)

    def _queue(self, number: int, stated: Sequence[LoadAssumption]) -> QueueLoad:
        target = self.target
        metric, query = target.spec.metrics[number], target.queries[number]
        arrivals = _first(assumption.arrivals for assumption in stated)
        served, name = _first(assumption.served_per_pod for assumption in stated), metric.name
        if arrivals is None or served is None or metric.of_pods:
            why = "state arrivals (PromQL, per second) and servedPerPod (per second)"
            why = "it is of each pod" if metric.of_pods else why
            raise BuildError(f"{target.key}: the metric {name} cannot be a queue: {why}")
        self.assumed.append(
            f"{name} is a queue: {arrivals} arrive per second, and a ready pod takes out {served}"
        )
        answers = self.data.answers(QueryKey(query.server, arrivals))
        labels = labels_of(metric, query, target.namespace)
        length = _length(self.data, target, number, self.begin)
        return QueueLoad(answers, units(served), labels, length)


def _length(data: ReplayData, target: Target, number: int, begin: float) -> float:
    """Return the length of a queue at the begin; 0 if unknown."""
    try:
        answer = data.reading(target, number)(begin)
    except BuildError:
        return 0.0
    values = [series.value for series in answer.series] if isinstance(answer, QueryResult) else []
    return max(sum(values), 0.0) if all(map(math.isfinite, values)) else 0.0


def stated_loads(
    assumptions: Assumptions, target: Target, metric: MetricSpec
) -> list[LoadAssumption]:
    """Return the assumptions about a target's metric; the first one counts for each key."""
    name = metric.name
    return [
        assumption
        for assumption in _of_target(assumptions.loads, target)
        if fnmatchcase(name, assumption.metric)
    ]


def unmatched(assumptions: Assumptions, targets: Sequence[Target]) -> Iterator[tuple[str, str]]:
    """Yield the key path of each assumption without a target or a metric, and why."""
    for number, load in enumerate(assumptions.loads):
        own = [target for target in targets if any(_of_target((load,), target))]
        metrics = [metric.name for target in own for metric in target.spec.metrics]
        if not own:
            yield f"loads[{number}].target", f"no target is called {load.target}"
        elif not any(fnmatchcase(name, load.metric) for name in metrics):
            yield f"loads[{number}].metric", f"no metric is called {load.metric}"
    for number, workload in enumerate(assumptions.workloads):
        if not any(any(_of_target((workload,), target)) for target in targets):
            yield f"workloads[{number}].target", f"no target is called {workload.target}"


def stated_replicas(assumptions: Assumptions, target: Target) -> int | None:
    """Return the assumed count of a target; None without one."""
    return _first(assumption.replicas for assumption in _of_target(assumptions.workloads, target))


_A = TypeVar("_A", LoadAssumption, WorkloadAssumption)


def _of_target(stated: Iterable[_A], target: Target) -> Iterator[_A]:
    """Yield the assumptions about a target."""
    return (assumption for assumption in stated if is_called(target, assumption.target))


def is_called(target: Target, pattern: str) -> bool:
    """Return whether a pattern matches a target's key, or the key without its kind."""
    short = TargetName.parse(target.key).short
    return fnmatchcase(target.key, pattern) or fnmatchcase(short, pattern)


def _first(values: Iterable[_V | None]) -> _V | None:
    return next((value for value in values if value is not None), None)
