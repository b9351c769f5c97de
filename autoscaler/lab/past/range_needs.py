"""The range queries that a replay of targets needs: of their metrics, and of kube-state-metrics.

https://github.com/kubernetes/kube-state-metrics/tree/main/docs
"""

import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import groupby

from typing_extensions import override

from autoscaler.core.spec import Flags
from autoscaler.core.target import QueryKey, Target, metric_key
from autoscaler.lab.engine.answers import EMPTY, Answers
from autoscaler.lab.engine.assumptions import Assumptions
from autoscaler.lab.engine.building import BuildError, ReplayData, built
from autoscaler.lab.engine.loads import Totals
from autoscaler.lab.past.own_pods import of_own_pods, pattern_of, pods_of, totals_of
from autoscaler.lab.past.ranges import Grid, Matrix

_MOST_NAMES = 50
"""The most workloads in one query."""
_FEWEST_PODS_POINTS = 100
_PODS_STEPS = (60, 300, 900, 3600, 4 * 3600, 86400)
"""The interval in seconds at which the pods are requested."""


@dataclass(frozen=True, slots=True)
class TimeGrid:
    """From ``begin`` to ``end``, Unix seconds; a query is evaluated every ``step``.

    The evaluations are at ``begin`` and then after each step, at the instants of syncs.
    """

    begin: float
    end: float
    step: float

    @property
    def points(self) -> int:
        """The number of evaluations."""
        return max(0, -int(-(self.end - self.begin) // self.step))

    def instant(self, number: int) -> float:
        """Return the instant of an evaluation."""
        return self.begin + number * self.step


@dataclass(frozen=True, slots=True)
class Use:
    """The use of an answer: ``made`` is the name of the result of ``make``."""

    name: str
    """Its name; empty for the complete answer."""
    made: str = ""
    make: Callable[[Matrix], Matrix] = lambda matrix: matrix


WHOLE = Use("")


@dataclass(frozen=True, slots=True)
class RangeNeed:
    """One query over the instants of a grid from the number ``begin`` to ``end``."""

    query: QueryKey
    grid: Grid
    begin: int
    end: int
    uses: tuple[Use, ...] = (WHOLE,)


@dataclass
class NeedCollector(ReplayData):
    """Has no data, and notes what is requested."""

    queries: dict[QueryKey, None] = field(default_factory=dict)
    pods: dict[tuple[str, int], Target] = field(default_factory=dict)
    """By key and number: a metric with requested totals."""
    ready: dict[str, Target] = field(default_factory=dict)
    requested: dict[str, Target] = field(default_factory=dict)

    @override
    def answers(self, query: QueryKey) -> Answers:
        self.queries[query] = None
        return lambda _: EMPTY

    @override
    def reading(self, target: Target, number: int) -> Answers:
        return self.answers(target.queries[number].key)

    @override
    def totals(self, target: Target, number: int) -> Totals:
        if target.spec.metrics[number].of_pods:
            self.pods[target.key, number] = target
        else:
            self.reading(target, number)
        return lambda _: None

    @override
    def ready_seconds(self, target: Target) -> None:
        self.ready[target.key] = target

    @override
    def requests(self, target: Target) -> None:
        """# Only a utilization needs the requests."""
        if resources_of(target):
            self.requested[target.key] = target


def resources_of(target: Target) -> set[str]:
    """Return the resources whose requests a target's metrics depend on."""
    return {
        metric.name
        for metric in target.spec.metrics
        if metric.of_resource and metric.target.average_utilization is not None
    }


def wanted_for(
    targets: Sequence[Target], flags: Flags, assumptions: Assumptions, begin: float
) -> NeedCollector:
    """Return what a replay of these targets requests."""
    wanted = NeedCollector()
    for target in targets:
        try:
            built(target, flags, wanted, assumptions, begin)
        except BuildError:
            """# The builder with data reports it."""
    return wanted


# -- the ranges ----------------------------------------------------------------------------------


def grid_of(time: TimeGrid) -> tuple[Grid, int, int]:
    """Return the grid of a replay, and the numbers of its first and last instant."""
    step = round(time.step * 1000)
    grid = Grid(step, round(time.begin * 1000) % step)
    first = grid.first_from(time.begin)
    return grid, first, first + time.points


def pods_grid_of(time: TimeGrid) -> tuple[Grid, int, int]:
    """Return the same for queries about pods, which are not needed at each sync."""
    seconds = time.end - time.begin
    fine = (step for step in _PODS_STEPS if seconds / step <= _FEWEST_PODS_POINTS)
    grid = Grid(next(fine, _PODS_STEPS[-1]) * 1000, 0)
    begin = grid.first_from(time.begin)
    return grid, begin, max(grid.first_from(time.end), begin + 1)


def needs_of(wanted: NeedCollector, targets: Sequence[Target], time: TimeGrid) -> list[RangeNeed]:
    """Return all range queries; each is sent once, whatever its uses."""
    grid, begin, end = grid_of(time)
    uses: dict[QueryKey, list[Use]] = {key: [WHOLE] for key in wanted.queries}
    for (key, number), target in wanted.pods.items():
        query = target.queries[number]
        asked = QueryKey(query.server, of_own_pods(query, target))
        uses.setdefault(asked, []).append(use_of_totals(key, number, target, grid))
    needs = [RangeNeed(key, grid, begin, end, tuple(of)) for key, of in uses.items()]
    needs += (RangeNeed(key, grid, begin, end, of) for key, of in _counts(targets))
    of_pods = (*_started(wanted.ready.values()), *_requested(wanted.requested.values()))
    return [*needs, *(RangeNeed(key, *pods_grid_of(time), of) for key, of in of_pods)]


def use_of_totals(key: str, number: int, target: Target, grid: Grid) -> Use:
    """Return the use of the totals of a metric."""
    metric, query = target.spec.metrics[number], target.queries[number]
    of = f"totals {target.namespace} {pods_of(target)} {metric_key(metric, query)}"
    return Use(f"{key} {number}", of, partial(totals_of, target, number, grid))


# -- kube-state-metrics --------------------------------------------------------------------------

REPLICAS, STARTED, REQUESTED = "replicas", "started", "requested"
"""The uses of answers of kube-state-metrics: the prefix of a use's key."""
_COUNTED = {
    "Deployment": "kube_deployment_spec_replicas",
    "StatefulSet": "kube_statefulset_replicas",
    "ReplicaSet": "kube_replicaset_spec_replicas",
    "ReplicationController": "kube_replicationcontroller_spec_replicas",
}
"""The metric of a workload by its kind, which is the name of its label."""

DisplayedQuery = Iterator[tuple[QueryKey, tuple[Use, ...]]]


def _counts(targets: Iterable[Target]) -> DisplayedQuery:
    for (server, namespace, kind), several in _grouped(targets):
        if kind not in _COUNTED:
            continue
        label, metric = kind.lower(), _COUNTED[kind]
        names = {target.key: target.spec.scale_target_ref.name for target in several}
        pattern = "|".join(map(pattern_of, names.values()))
        matchers = f'namespace="{namespace}",{label}=~"{pattern}"'
        promql = f"max by ({label}) ({metric}{{{matchers}}})"
        uses = [
            Use(f"{REPLICAS} {key}", f"{label} {name}", partial(_labelled, label, re.escape(name)))
            for key, name in names.items()
        ]
        yield QueryKey(server, promql), tuple(uses)


def _started(targets: Iterable[Target]) -> DisplayedQuery:
    """Return the query for the seconds from creation until pods became ready."""
    for (server, namespace, _), several in _grouped(targets):
        of = f"{{{_pods_matchers(namespace, several)}}}"
        became, created = f"kube_pod_status_ready_time{of}", f"kube_pod_created{of}"
        promql = f"max by (pod) ({became}) - max by (pod) ({created})"
        yield QueryKey(server, promql), _uses_of_pods(STARTED, several)


def _requested(targets: Iterable[Target]) -> DisplayedQuery:
    for (server, namespace, _), several in _grouped(targets):
        resources = "|".join(sorted(set().union(*map(resources_of, several))))
        of = f'{_pods_matchers(namespace, several)},resource=~"{resources}"'
        metric = f"kube_pod_container_resource_requests{{{of}}}"
        promql = f"max by (pod, container, resource) ({metric})"
        yield QueryKey(server, promql), _uses_of_pods(REQUESTED, several)


def _grouped(targets: Iterable[Target]) -> Iterator[tuple[tuple[str, str, str], list[Target]]]:
    """Yield targets of one server, namespace and kind, in groups of limited size."""

    def group(target: Target) -> tuple[str, str, str]:
        return target.queries[0].server, target.namespace, target.spec.scale_target_ref.kind

    for key, several in groupby(
        sorted(targets, key=lambda target: (group(target), target.key)), group
    ):
        rest = list(several)
        while rest:
            yield key, rest[:_MOST_NAMES]
            rest = rest[_MOST_NAMES:]


def _pods_matchers(namespace: str, targets: Sequence[Target]) -> str:
    return f'namespace="{namespace}",pod=~"{"|".join(map(pods_of, targets))}"'


def _uses_of_pods(use: str, targets: Sequence[Target]) -> tuple[Use, ...]:
    patterns = {target.key: pods_of(target) for target in targets}
    return tuple(
        Use(f"{use} {key}", f"pods {pattern}", partial(_labelled, "pod", pattern))
        for key, pattern in patterns.items()
    )


def _labelled(label: str, pattern: str, matrix: Matrix) -> Matrix:
    """Return the series with a label that matches."""
    fits = re.compile(pattern).fullmatch
    series = [samples for samples in matrix.series if fits(samples.labels.get(label, ""))]
    return replace(matrix, series=series)
