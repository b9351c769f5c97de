"""What queries return as a test states it: samples at a regular interval, failures and warnings.

Instants are Unix seconds.
"""

import math
from bisect import bisect_right
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from autoscaler.core.observation import Reading
from autoscaler.core.series import QueryFailure, QueryResult, Series
from autoscaler.core.spec import measures_pods
from autoscaler.core.target import QueryKey, Target
from autoscaler.lab.engine.answers import LOOKBACK_SECONDS, Answers
from autoscaler.lab.engine.building import BuildError, RehearsalData, other_queries
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
"""Of seconds: what is lost of an instant is no interval."""


class StatedSeries(NamedTuple):
    """The samples of one series; without ``labels`` it has those that its reader selects."""

    samples: SeriesSamples
    labels: Mapping[str, str] | None = None


@dataclass(frozen=True, slots=True)
class StatedAnswers:
    """Answers of series whose samples are ``interval`` seconds apart, from ``begin`` on.

    A sample counts for five minutes, as in Prometheus 3, and each series of an answer is of the
    instant that is asked for.
    """

    series: Sequence[StatedSeries]
    begin: float
    interval: float
    labels: Mapping[str, str] = field(default_factory=dict)
    """Those of a series that states none."""

    def at(self, instant: float) -> QueryResult | QueryFailure:
        """Fit `Answers`."""
        passed = round((instant - self.begin) / self.interval, _DIGITS)
        found = []
        for samples, labels in self.series:
            place = bisect_right(samples.places, math.floor(passed)) - 1
            if place < 0:
                continue
            value, age = samples.values[place], passed - samples.places[place]
            if value is not None and round(age * self.interval, _DIGITS) < LOOKBACK_SECONDS:
                found.append(Series(self.labels if labels is None else labels, value, instant))
        return QueryResult(found)


class Fault(NamedTuple):
    """A time in which a query fails, or answers with a warning."""

    begin: float
    end: float
    failure: str = ""
    warning: str = ""

    def upon(
        self, answer: QueryResult | QueryFailure, instant: float
    ) -> QueryResult | QueryFailure:
        """Return an answer as the fault leaves it."""
        if not self.begin <= instant < self.end:
            return answer
        if self.failure:
            return QueryFailure(self.failure)
        if isinstance(answer, QueryFailure):
            return answer
        return QueryResult(answer.series, (*answer.warnings, self.warning))


@dataclass(slots=True)
class FaultyLoad:
    """A load whose query has faults; the load itself goes on."""

    load: MetricLoad
    faults: Sequence[Fault]
    model: LoadModel = field(init=False)

    def __post_init__(self) -> None:
        self.model = self.load.model

    def answer(self, at: float, workload: SimulatedWorkload) -> QueryResult | QueryFailure:
        """Fit `MetricLoad`."""
        answer = self.load.answer(at, workload)
        for fault in self.faults:
            answer = fault.upon(answer, at)
        return answer

    def demand(self, reading: Reading) -> float | None:
        """Fit `MetricLoad`."""
        return self.load.demand(reading)


@dataclass(slots=True)
class FaultyAnswers:
    """Answers to a query that has faults."""

    answers: Answers
    faults: Sequence[Fault]

    def at(self, instant: float) -> QueryResult | QueryFailure:
        """Fit `Answers`."""
        answer = self.answers.at(instant)
        for fault in self.faults:
            answer = fault.upon(answer, instant)
        return answer


@dataclass(slots=True)
class EachPodLoad:
    """A metric of pods of which each ready one reads the same, however many there are."""

    target: Target
    number: int
    answers: Answers
    per_pod: float | None
    model: LoadModel = LoadModel.RECORDED

    def answer(self, at: float, workload: SimulatedWorkload) -> QueryResult | QueryFailure:
        """Fit `MetricLoad`."""
        answer, names = self.answers.at(at), workload.ready_names(at)
        if isinstance(answer, QueryFailure) or not answer.series or not names:
            return answer if isinstance(answer, QueryFailure) else QueryResult(())
        metric, query = self.target.spec.metrics[self.number], self.target.queries[self.number]
        values = [answer.series[0].value] * len(names)
        return of_each_pod(values, names, metric, query, self.target.namespace, at)

    def demand(self, reading: Reading) -> float | None:  # noqa: ARG002 - the port's
        """Fit `MetricLoad`: it is not known of how many pods it would be the work."""
        return None


@dataclass(frozen=True)
class StatedData(RehearsalData):
    """The series of a test as data of a rehearsal; ``of_metrics`` are by target key and number.

    An average of pods is that of the ``replicas`` of the target at the begin.
    """

    begin: float
    interval: float
    of_metrics: Mapping[tuple[str, int], Sequence[StatedSeries]]
    of_queries: Mapping[QueryKey, Sequence[StatedSeries]]
    counts: Mapping[str, int]
    """By target key the count at the begin."""

    def answers(self, query: QueryKey) -> Answers:
        """Fit `RehearsalData`."""
        if query not in self.of_queries:
            raise BuildError(f"no series is stated of the query {query.promql}")
        return self._answers(self.of_queries[query])

    def reading(self, target: Target, number: int) -> Answers:
        """Fit `RehearsalData`."""
        metric, query = target.spec.metrics[number], target.queries[number]
        labels = labels_of(metric, query, target.namespace)
        series = self.of_metrics.get((target.key, number), ())
        if measures_pods(metric):
            own = {query.labels.namespace: target.namespace}
            series = [
                one if one.labels is None else one._replace(labels={**own, **one.labels})
                for one in series
            ]
        return self._answers(series, labels)

    def others(self, target: Target) -> Mapping[QueryKey, Answers]:
        """Fit `RehearsalData`."""
        return {key: self._answers(self.of_queries.get(key, ())) for key in other_queries(target)}

    def totals(self, target: Target, number: int) -> Totals:
        """Fit `RehearsalData`."""
        by_pod = self.is_by_pod(target, number)
        count = None if by_pod else max(self.counts[target.key], 1)
        return _StatedTotals(self.reading(target, number), count)

    def is_by_pod(self, target: Target, number: int) -> bool:
        """Return whether series of single pods are stated of a metric."""
        series = self.of_metrics.get((target.key, number), ())
        return measures_pods(target.spec.metrics[number]) and any(
            one.labels is not None for one in series
        )

    def replicas(self, target: Target) -> int | None:
        """Fit `RehearsalData`."""
        return self.counts[target.key]

    def load(self, load: MetricLoad, target: Target, number: int) -> MetricLoad:
        """Return the load of a metric, of which each pod reads the same if it does not react."""
        of_pods = measures_pods(target.spec.metrics[number])
        if not isinstance(load, RecordedLoad) or not of_pods or self.is_by_pod(target, number):
            return load
        return EachPodLoad(target, number, load.answers, load.per_pod)

    def _answers(
        self, series: Sequence[StatedSeries], labels: Mapping[str, str] | None = None
    ) -> StatedAnswers:
        return StatedAnswers(series, self.begin, self.interval, labels or {})


@dataclass(frozen=True, slots=True)
class _StatedTotals:
    """The total of the series of pods, or of an average of so many pods; NaN is NaN."""

    answers: Answers
    count: int | None

    def at(self, instant: float) -> Total | Average | QueryFailure | None:
        answer = self.answers.at(instant)
        if isinstance(answer, QueryFailure) or not answer.series:
            return answer if isinstance(answer, QueryFailure) else None
        total = sum(series.value for series in answer.series)
        if self.count is None:
            return Total(total, len(answer.series))
        return Average(total, self.count, self.count, self.count)
