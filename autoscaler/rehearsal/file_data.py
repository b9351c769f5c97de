"""Samples of files as the data of a rehearsal: each file has those of one query or metric."""

from collections.abc import Iterable, Mapping

from autoscaler.core.observation import PodRequests
from autoscaler.core.series import QueryFailure, QueryResult, Series
from autoscaler.core.spec import measures_pods
from autoscaler.core.target import QueryKey, Target
from autoscaler.rehearsal.answers import Answers
from autoscaler.rehearsal.building import BuildError, metric_name
from autoscaler.rehearsal.loads import TotalOfAnswers, Totals, labels_of
from autoscaler.rehearsal.samples_file import Samples


class FileData:
    """Fits `RehearsalData`: samples by the name of a query or metric, or by PromQL.

    Those with an empty name are of each query.  ``queries`` are the PromQL of names.
    """

    def __init__(self, files: Mapping[str, Samples], queries: Mapping[str, str]) -> None:
        self._files = files
        self._names = {promql: name for name, promql in queries.items()}
        self.used: set[str] = set()
        """The names of the files that something was asked of."""

    def answers(self, query: QueryKey) -> Answers:
        """Fit `RehearsalData`."""
        return self._samples(query.promql, "").answers()

    def reading(self, target: Target, number: int) -> Answers:
        """Fit `RehearsalData`: the values with the labels that the metric selects by."""
        metric, query = target.spec.metrics[number], target.queries[number]
        samples = self._samples(query.promql, metric_name(metric))
        return LabelledAnswers(samples.answers(), labels_of(metric, query, target.namespace))

    def totals(self, target: Target, number: int) -> Totals:
        """Fit `RehearsalData`: each value is the average of the pods that there were.

        Where the file has no replicas, each value is taken for the total.
        """
        metric, query = target.spec.metrics[number], target.queries[number]
        samples = self._samples(query.promql, metric_name(metric))
        return TotalOfAnswers(samples.answers(), samples.counts())

    def others(self, target: Target) -> Mapping[QueryKey, Answers]:
        """Fit `RehearsalData`."""
        own = {query.key for query in target.queries}
        keys = [query.key for query in target.all_queries if query.key not in own]
        return {key: self.answers(key) for key in keys}

    def ran(self, target: Target) -> Answers | None:
        """Fit `RehearsalData`: the replicas of the first file that has them."""
        for number, metric in enumerate(target.spec.metrics):
            if measures_pods(metric) or metric.target.average_value is not None:
                promql = target.queries[number].promql
                counts = self._samples(promql, metric_name(metric)).counts()
                if counts is not None:
                    return counts
        return None

    def replicas(self, target: Target) -> int | None:
        """Fit `RehearsalData`: those of the first row."""
        for number, metric in enumerate(target.spec.metrics):
            samples = self._samples(target.queries[number].promql, metric_name(metric))
            if samples.replicas:
                return int(samples.replicas[0])
        return None

    def instants(self, target: Target) -> Iterable[float] | None:  # noqa: ARG002 - the port's
        """Fit `RehearsalData`: once a period."""
        return None

    def ready_seconds(self, target: Target) -> float | None:  # noqa: ARG002 - the port's
        """Fit `RehearsalData`: files say nothing of it."""
        return None

    def requests(self, target: Target) -> PodRequests | None:  # noqa: ARG002 - the port's
        """Fit `RehearsalData`: files say nothing of it."""
        return None

    def span(self) -> tuple[float, float]:
        """Return the first instant of all files, and the last one with the step that it holds."""
        every = self._files.values()
        return (
            min(one.times[0] for one in every),
            max(one.times[-1] + one.step for one in every),
        )

    def _samples(self, promql: str, metric: str) -> Samples:
        for name in (self._names.get(promql, promql), metric, promql, ""):
            if name in self._files:
                self.used.add(name)
                return self._files[name]
        known = self._names.get(promql) or metric or promql
        raise BuildError(
            f"there are no samples of {known}: name their file with --csv {known}=FILE"
        )


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
