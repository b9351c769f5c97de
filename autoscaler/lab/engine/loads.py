"""The readings of a metric if the count of the workload differs from the recorded one.

    recorded   the reading does not depend on the count: requests a second of a whole service
    shared     the recorded total is divided by the pods that are ready now: averages, utilization
    queue      arrivals come in, ready pods take out what they can, and the length follows

Values are in units of the metric, instants Unix seconds.  What was not recorded is not read: a gap
stays a gap.
"""

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import NamedTuple, TypeAlias

from typing_extensions import override

from autoscaler.core.observation import PodRequests, PodSamples, Reading, Values
from autoscaler.core.series import QueryFailure, QueryResult, Series, milli_of
from autoscaler.core.spec import LabelSelector, MetricSpec, Operator
from autoscaler.core.target import Query
from autoscaler.lab.engine.answers import EMPTY, Answer, Answers
from autoscaler.lab.engine.workloads import MOST_PODS, SimulatedWorkload

_NANO = 10**9


class LoadModel(StrEnum):
    """How a reading follows the count."""

    RECORDED = "recorded"
    SHARED = "shared"
    QUEUE = "queue"


def default_model(metric: MetricSpec) -> LoadModel:
    """Return the default model of a metric."""
    return LoadModel.SHARED if metric.of_pods else LoadModel.RECORDED


def target_per_pod(metric: MetricSpec, workload: SimulatedWorkload) -> float | None:
    """Return the load of one pod at the metric's target, in units; None for a `Value` target."""
    target = metric.target
    if target.average_value is not None:
        return target.average_value / 1000
    if target.average_utilization is not None and metric.of_resource:
        requested = requested_by_pod(metric, workload.requests)
        return requested * target.average_utilization / 100 if requested else None
    return None


def requested_by_pod(metric: MetricSpec, requests: PodRequests) -> float | None:
    """Return the request of one pod, or of its container, for the metric's resource, in units."""
    containers = [series for series in requests.counted if metric.container in {None, series.name}]
    return sum(container.requests.get(metric.name, 0) for container in containers) / _NANO or None


class MetricLoad(ABC):
    """The load of one metric of one target."""

    __slots__ = ()

    model: LoadModel

    @abstractmethod
    def answer(self, at: float, workload: SimulatedWorkload) -> Answer:
        """Return the answer to the metric's query as of an instant."""

    @abstractmethod
    def demand(self, reading: Reading) -> float | None:
        """Return the demand in pods as of the last answer; None if unknown.

        ``reading`` is the decision's reading of that answer.
        """


# -- recorded ------------------------------------------------------------------------------------


@dataclass(slots=True)
class RecordedLoad(MetricLoad):
    """A reading that stays as recorded.

    ``per_pod`` is the capacity of one pod, for the demand.
    """

    answers: Answers
    per_pod: float | None
    model: LoadModel = LoadModel.RECORDED

    @override
    def answer(self, at: float, workload: SimulatedWorkload) -> Answer:
        return self.answers(at)

    @override
    def demand(self, reading: Reading) -> float | None:
        if not self.per_pod or not isinstance(reading, Values) or reading.gaps:
            return None
        return max(reading.units, 0.0) / self.per_pod


# -- shared --------------------------------------------------------------------------------------


class Total(NamedTuple):
    """The measured sum over all pods, in units, and the number of pods."""

    value: float
    pods: int


class Average(NamedTuple):
    """The measured average of a pod, in units, while the count was ``replicas``.

    It is an average of ``least`` to ``most`` ready pods. A reading at the same count equals the
    recorded average.
    """

    value: float
    replicas: int
    least: int
    most: int


Totals: TypeAlias = Callable[[float], Total | Average | QueryFailure | None]
"""Returns a total, or an average, as of an instant; None for a gap. Instants never decrease."""


def totals_of_answers(answers: Answers, replicas: Answers | None = None) -> Totals:
    """Return the total of the series of each answer, each of one pod.

    For one series of an average, ``replicas`` is the actual count.
    """

    def total(instant: float) -> Total | Average | QueryFailure | None:
        answer = answers(instant)
        if isinstance(answer, QueryFailure):
            return answer
        values = [series.value for series in answer.series]
        if not values or not all(map(math.isfinite, values)):
            return None
        if replicas is None:
            return Total(sum(values), len(values))
        counted = replicas(instant)
        if isinstance(counted, QueryFailure):
            return counted
        count = pods_in(counted)
        if len(values) != 1 or count is None:
            return None
        return Average(values[0], count, min(count, 1), count)

    return total


def pods_in(answer: Answer) -> int | None:
    """Return the count in an answer with one series; None without one."""
    series = answer.series if isinstance(answer, QueryResult) else ()
    if len(series) != 1 or not 0 <= series[0].value <= MOST_PODS:
        return None
    return round(series[0].value)


@dataclass(slots=True)
class SharedLoad(MetricLoad):
    """A total that is divided by the number of ready pods.

    A pod reads at most its ``capacity``. Where the recorded pods were at their capacity, the
    actual demand may be higher: it is ``censored``. An average is of the recorded ready pods, which
    become ready like the pods of the replay.
    """

    totals: Totals
    metric: MetricSpec
    query: Query
    namespace: str
    per_pod: float | None
    capacity: float | None = None
    labels: Mapping[str, str] = field(default_factory=dict)
    """The labels of the only series of a metric that is not per pod."""
    model: LoadModel = LoadModel.SHARED
    censored: bool = False
    """Whether the last total was censored."""
    _total: Total | None = None
    _recorded: SimulatedWorkload | None = None
    """The pods of an average."""
    _before: float = 0.0

    @override
    def answer(self, at: float, workload: SimulatedWorkload) -> Answer:
        total, is_as_recorded = self.totals(at), False
        if isinstance(total, Average):
            is_as_recorded = total.replicas == workload.replicas
            total = self._total_of(total, at, workload)
        self._total = total if isinstance(total, Total) else None
        self.censored = False
        if isinstance(total, QueryFailure) or total is None:
            return total or EMPTY
        average = total.value / (total.pods or 1)
        self.censored = self.capacity is not None and average >= self.capacity
        ready = workload.ready_names(at)
        if not ready:
            return EMPTY
        value = average if is_as_recorded else total.value / len(ready)
        if self.capacity is not None:
            value = min(value, self.capacity)
        if not self.metric.of_pods:
            return QueryResult([Series(self.labels, value, at)])
        return self._of_each(value, ready, at)

    def _total_of(self, average: Average, at: float, workload: SimulatedWorkload) -> Total:
        """Return the total of an average, from the number of recorded ready pods."""
        pods = self._recorded
        if pods is None:
            pods = SimulatedWorkload("", at, average.replicas, workload.ready_seconds)
        elif pods.replicas != average.replicas:
            # A sync sees changes that were made after the previous sync.
            pods.set(average.replicas, self._before)
        self._recorded, self._before = pods, at
        measured = min(max(pods.ready(at), average.least), average.most)
        return Total(average.value * measured, measured)

    def _of_each(self, value: float, ready: list[str], at: float) -> QueryResult:
        """Return a series for each pod, whose values in milli-units add up to the total."""
        whole, values = milli_of(value * len(ready)), [value] * len(ready)
        if whole is not None:
            least, rest = divmod(whole, len(ready))
            values = [(least + (number < rest)) / 1000 for number in range(len(ready))]
        return of_each_pod(values, ready, self.metric, self.query, self.namespace, at)

    @override
    def demand(self, reading: Reading) -> float | None:
        if self._total is None or not self.per_pod or not math.isfinite(self._total.value):
            return None
        if isinstance(reading, PodSamples) and reading.gaps:
            return None
        return max(self._total.value, 0.0) / self.per_pod


def of_each_pod(
    values: Sequence[float],
    pods: Sequence[str],
    metric: MetricSpec,
    query: Query,
    namespace: str,
    at: float,
) -> QueryResult:
    """Return an answer with one series for each of these pods, as the metric reads them."""
    names, labels = query.labels, {**dict(query.series_labels), query.labels.namespace: namespace}
    if metric.container is not None:
        labels[names.container] = metric.container
    return QueryResult(
        [
            Series({**labels, names.pod: pod}, value, at)
            for value, pod in zip(values, pods, strict=True)
        ]
    )


# -- queue ---------------------------------------------------------------------------------------


class QueueTime(NamedTuple):
    """A queue during a time: its mean length, the served items, and the longest wait."""

    seconds: float
    length: float
    served: float
    wait: float


@dataclass(slots=True)
class QueueLoad(MetricLoad):
    """The length of a queue: arrivals less the items that ready pods remove.

    In a gap of the arrivals the length is unknown: it has no reading, and continues from its last
    value.
    """

    arrivals: Answers
    served_by_pod: float
    """Removed items per pod and second."""
    labels: Mapping[str, str]
    length: float = 0.0
    model: LoadModel = LoadModel.QUEUE
    passed: list[QueueTime] = field(default_factory=list)
    """The times since they were last taken."""
    _rate: float | None = None
    _stood: float = 0.0
    """The seconds without a ready pod."""

    @override
    def answer(self, at: float, workload: SimulatedWorkload) -> Answer:
        answer = self.arrivals(at)
        self._rate = None
        if isinstance(answer, QueryFailure):
            return answer
        values = [series.value for series in answer.series]
        if not values or not all(map(math.isfinite, values)):
            return EMPTY
        self._rate = max(sum(values), 0.0)
        return QueryResult([Series(self.labels, self.length, at)], answer.warnings)

    @override
    def demand(self, reading: Reading) -> float | None:
        # This number of pods removes all arrivals.
        return None if self._rate is None else self._rate / self.served_by_pod

    def advance(self, begin: float, end: float, ready: int) -> None:
        """Let time pass with a number of ready pods."""
        if self._rate is None:
            return
        seconds, before = end - begin, self.length
        most = ready * self.served_by_pod
        grown = (self._rate - most) * seconds
        self.length = max(before + grown, 0.0)
        served = before + self._rate * seconds - self.length
        # Until it is empty the length is a linear function of time.
        falls = before / -grown if before + grown < 0.0 else 1.0
        mean = (before + self.length) / 2 * falls
        # Without a ready pod, waiting items have already waited this long.
        self._stood = 0.0 if most or not self.length else self._stood + seconds
        wait = self.length / most if most else self._stood
        self.passed.append(QueueTime(seconds, mean, served, wait))


def labels_of(metric: MetricSpec, query: Query, namespace: str) -> dict[str, str]:
    """Return the labels of a series that a metric selects."""
    if metric.of_pods:
        return {}
    selector, described = metric.selector or LabelSelector(), metric.described_object
    labels = {**dict(selector.match_labels), **dict(query.series_labels)}
    for expression in selector.match_expressions:
        if expression.operator in {Operator.IN, Operator.EXISTS}:
            labels.setdefault(expression.key, expression.values[0] if expression.values else "any")
    if described is not None:
        labels[query.labels.namespace] = namespace
        if described.kind != "Namespace" or described.group:
            labels[described.kind.lower()] = described.name
    return labels
