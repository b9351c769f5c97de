"""Samples of files as the data of a rehearsal: each file has those of one query or metric."""

from collections.abc import Iterator, Mapping

from typing_extensions import override

from autoscaler.core.series import QueryFailure, QueryResult, Series
from autoscaler.core.target import QueryKey, Target
from autoscaler.lab.engine.answers import Answer, Answers, constant
from autoscaler.lab.engine.assumptions import Assumptions
from autoscaler.lab.engine.building import BuildError, RehearsalData, metric_name, stated_replicas
from autoscaler.lab.engine.loads import Totals, labels_of, totals_of_answers
from autoscaler.lab.past.samples_file import Samples


class FileData(RehearsalData):
    """Samples by the name of a query or metric, or by PromQL.

    Those with an empty name are of each query.  ``names`` are those of PromQL.
    """

    def __init__(
        self, files: Mapping[str, Samples], names: Mapping[str, str], assumptions: Assumptions
    ) -> None:
        self._files = files
        self._names = names
        self._assumptions = assumptions

    @override
    def answers(self, query: QueryKey) -> Answers:
        # What comes into a queue is called after its metric.
        return self._samples(query.promql, "").answers()

    @override
    def reading(self, target: Target, number: int) -> Answers:
        """Return the values with the labels that the metric selects by."""
        metric, query = target.spec.metrics[number], target.queries[number]
        samples = self._samples(query.promql, metric_name(metric))
        return labelled(samples.answers(), labels_of(metric, query, target.namespace))

    @override
    def totals(self, target: Target, number: int) -> Totals:
        """Return averages: each value is that of the pods that there were.

        Where the file does not say how many, it is the count that is stated.
        """
        metric, query = target.spec.metrics[number], target.queries[number]
        samples, name = self._samples(query.promql, metric_name(metric)), metric_name(metric)
        counts: Answers | None = samples.counts()
        if counts is None:
            stated = stated_replicas(self._assumptions, target)
            if stated is None:
                raise BuildError(
                    f"of how many pods the samples of {name} are the average is not known: give "
                    "their file a third column, replicas, or state replicas with --assume"
                )
            counts = constant(float(stated))
        return totals_of_answers(samples.answers(), counts)

    @override
    def ran(self, target: Target) -> Answers | None:
        """Return the replicas of the first file that has them."""
        counted = (samples.counts() for samples in self._of_metrics(target))
        return next((counts for counts in counted if counts is not None), None)

    @override
    def replicas(self, target: Target) -> int | None:
        """Return those of the first row."""
        counts = (samples.replicas for samples in self._of_metrics(target))
        return next((int(column[0]) for column in counts if column), None)

    def span(self) -> tuple[float, float]:
        """Return the first instant of all files, and the last one with the step that it holds."""
        every = self._files.values()
        return (
            min(one.times[0] for one in every),
            max(one.times[-1] + one.step for one in every),
        )

    def _of_metrics(self, target: Target) -> Iterator[Samples]:
        for metric, query in zip(target.spec.metrics, target.queries, strict=True):
            samples = self._found(query.promql, metric_name(metric))
            if samples is not None:
                yield samples

    def _found(self, promql: str, metric: str) -> Samples | None:
        for name in (self._names.get(promql, promql), metric, promql, ""):
            if name in self._files:
                return self._files[name]
        return None

    def _samples(self, promql: str, metric: str) -> Samples:
        found = self._found(promql, metric)
        if found is not None:
            return found
        known = self._names.get(promql) or metric or promql
        raise BuildError(
            f"there are no samples of {known}: name their file with --csv {known}=FILE"
        )


def labelled(answers: Answers, labels: Mapping[str, str]) -> Answers:
    """Return the one series of some answers with these labels."""

    def answer(instant: float) -> Answer:
        found = answers(instant)
        if isinstance(found, QueryFailure) or not labels:
            return found
        series = [Series(labels, one.value, one.timestamp) for one in found.series]
        return QueryResult(series, found.warnings)

    return answer
