"""Samples of files as the data of a rehearsal: each file has those of one query or metric."""

from collections.abc import Iterator, Mapping

from autoscaler.core.series import QueryFailure, QueryResult, Series
from autoscaler.core.target import QueryKey, Target
from autoscaler.lab.engine.answers import Answers
from autoscaler.lab.engine.assumptions import Assumptions
from autoscaler.lab.engine.building import BuildError, RehearsalData, metric_name, stated_replicas
from autoscaler.lab.engine.loads import TotalOfAnswers, Totals, labels_of
from autoscaler.lab.past.samples_file import Samples


class FileData(RehearsalData):
    """Fits `RehearsalData`: samples by the name of a query or metric, or by PromQL.

    Those with an empty name are of each query.  ``names`` are those of PromQL.
    """

    def __init__(
        self, files: Mapping[str, Samples], names: Mapping[str, str], assumptions: Assumptions
    ) -> None:
        self._files = files
        self._names = names
        self._assumptions = assumptions

    def answers(self, query: QueryKey) -> Answers:
        """Fit `RehearsalData`: what comes into a queue is called after its metric."""
        return self._samples(query.promql, "").answers()

    def reading(self, target: Target, number: int) -> Answers:
        """Fit `RehearsalData`: the values with the labels that the metric selects by."""
        metric, query = target.spec.metrics[number], target.queries[number]
        samples = self._samples(query.promql, metric_name(metric))
        return LabelledAnswers(samples.answers(), labels_of(metric, query, target.namespace))

    def totals(self, target: Target, number: int) -> Totals:
        """Fit `RehearsalData`: each value is the average of the pods that there were.

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
            counts = _Constant(stated)
        return TotalOfAnswers(samples.answers(), counts)

    def ran(self, target: Target) -> Answers | None:
        """Fit `RehearsalData`: the replicas of the first file that has them."""
        counted = (samples.counts() for samples in self._of_metrics(target))
        return next((counts for counts in counted if counts is not None), None)

    def replicas(self, target: Target) -> int | None:
        """Fit `RehearsalData`: those of the first row."""
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


class _Constant:
    """Fits `Answers`: a number that is always the same."""

    def __init__(self, number: int) -> None:
        self._number = float(number)

    def at(self, instant: float) -> QueryResult | QueryFailure:
        """Fit `Answers`."""
        return QueryResult([Series({}, self._number, instant)])


class LabelledAnswers:
    """The one series of some answers with labels of its own."""

    def __init__(self, answers: Answers, labels: Mapping[str, str]) -> None:
        self._answers = answers
        self._labels = labels

    def at(self, instant: float) -> QueryResult | QueryFailure:
        """Fit `Answers`."""
        answer = self._answers.at(instant)
        if isinstance(answer, QueryFailure) or not self._labels:
            return answer
        labelled = [Series(self._labels, one.value, one.timestamp) for one in answer.series]
        return QueryResult(labelled, answer.warnings)
