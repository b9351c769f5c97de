"""The answers of queries as a test file states them: samples at a regular interval.

Instants are Unix seconds.
"""

import math
from bisect import bisect_right
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import NamedTuple

from typing_extensions import override

from autoscaler.core.observation import Reading
from autoscaler.core.series import QueryFailure, QueryResult, Series
from autoscaler.core.target import QueryKey, Target
from autoscaler.lab.engine.answers import EMPTY, LOOKBACK_SECONDS, Answer, Answers
from autoscaler.lab.engine.building import BuildError, ReplayData, other_queries
from autoscaler.lab.engine.loads import (
    Average,
    LoadModel,
    MetricLoad,
    RecordedLoad,
    Total,
    Totals,
    labels_of,
    of_each_pod,
)
from autoscaler.lab.engine.workloads import SimulatedWorkload
from autoscaler.lab.series_notation import SeriesSamples

_DIGITS = 6
"""The tolerance of times, in seconds."""


class StatedSeries(NamedTuple):
    """The samples of one series; without ``labels`` it has those that its reader selects."""

    samples: SeriesSamples
    labels: Mapping[str, str] | None = None


def stated_answers(
    series: Sequence[StatedSeries],
    begin: float,
    interval: float,
    usual: Mapping[str, str] = MappingProxyType({}),
) -> Answers:
    """Return answers of series with samples every ``interval`` seconds from ``begin`` on.

    A sample counts for five minutes, as in Prometheus 3, and each series of an answer is as of the
    requested instant. A series without labels has the ``usual`` ones.
    """

    def answer(instant: float) -> Answer:
        passed = round((instant - begin) / interval, _DIGITS)
        found = []
        for samples, labels in series:
            place = bisect_right(samples.places, math.floor(passed)) - 1
            if place < 0:
                continue
            value, age = samples.values[place], passed - samples.places[place]
            if value is not None and round(age * interval, _DIGITS) < LOOKBACK_SECONDS:
                found.append(Series(usual if labels is None else labels, value, instant))
        return QueryResult(found)

    return answer


@dataclass(slots=True)
class EachPodLoad(MetricLoad):
    """A pod metric with the same reading for each ready pod, whatever their number."""

    target: Target
    number: int
    answers: Answers
    model: LoadModel = LoadModel.RECORDED

    @override
    def answer(self, at: float, workload: SimulatedWorkload) -> Answer:
        answer, names = self.answers(at), workload.ready_names(at)
        if isinstance(answer, QueryFailure) or not answer.series or not names:
            return answer if isinstance(answer, QueryFailure) else EMPTY
        metric, query = self.target.spec.metrics[self.number], self.target.queries[self.number]
        values = [answer.series[0].value] * len(names)
        return of_each_pod(values, names, metric, query, self.target.namespace, at)

    @override
    def demand(self, reading: Reading) -> float | None:
        return None  # The demand in pods is unknown.


@dataclass(frozen=True)
class StatedData(ReplayData):
    """The series of a test as data of a replay; ``of_metrics`` are by target key and number.

    An average over pods is the average over the target's ``replicas`` at the begin.
    """

    begin: float
    interval: float
    of_metrics: Mapping[tuple[str, int], Sequence[StatedSeries]]
    of_queries: Mapping[QueryKey, Sequence[StatedSeries]]
    counts: Mapping[str, int]
    """By target key: the count at the begin."""

    @override
    def answers(self, query: QueryKey) -> Answers:
        if query not in self.of_queries:
            raise BuildError(f"no series is stated of the query {query.promql}")
        return self._answers(self.of_queries[query])

    @override
    def reading(self, target: Target, number: int) -> Answers:
        metric, query = target.spec.metrics[number], target.queries[number]
        labels = labels_of(metric, query, target.namespace)
        series = self.of_metrics.get((target.key, number), ())
        if metric.of_pods:
            own = {query.labels.namespace: target.namespace}
            series = [
                samples
                if samples.labels is None
                else samples._replace(labels={**own, **samples.labels})
                for samples in series
            ]
        return self._answers(series, labels)

    @override
    def others(self, target: Target) -> Mapping[QueryKey, Answers]:
        return {key: self._answers(self.of_queries.get(key, ())) for key in other_queries(target)}

    @override
    def totals(self, target: Target, number: int) -> Totals:
        answers, by_pod = self.reading(target, number), self.is_by_pod(target, number)
        count = max(self.counts[target.key], 1)

        def total(instant: float) -> Total | Average | QueryFailure | None:
            answer = answers(instant)
            if isinstance(answer, QueryFailure) or not answer.series:
                return answer if isinstance(answer, QueryFailure) else None
            summed = sum(series.value for series in answer.series)  # NaN stays NaN.
            if by_pod:
                return Total(summed, len(answer.series))
            return Average(summed, count, count, count)

        return total

    def is_by_pod(self, target: Target, number: int) -> bool:
        """Return whether a metric has series of single pods."""
        series = self.of_metrics.get((target.key, number), ())
        return target.spec.metrics[number].of_pods and any(
            samples.labels is not None for samples in series
        )

    @override
    def replicas(self, target: Target) -> int | None:
        return self.counts[target.key]

    def load(self, load: MetricLoad, target: Target, number: int) -> MetricLoad:
        """Return the load of a metric; without a reaction each pod has the same reading."""
        of_pods = target.spec.metrics[number].of_pods
        if not isinstance(load, RecordedLoad) or not of_pods or self.is_by_pod(target, number):
            return load
        return EachPodLoad(target, number, load.answers)

    def _answers(
        self, series: Sequence[StatedSeries], labels: Mapping[str, str] = MappingProxyType({})
    ) -> Answers:
        return stated_answers(series, self.begin, self.interval, labels)
