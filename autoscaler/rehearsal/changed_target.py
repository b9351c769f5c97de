"""What is recorded of a target, as the data of the same target with other settings.

A record has of each metric a value as its target was, by the metric's number.  So values are read
as the target was, and only metrics that it had can be rehearsed.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass

from autoscaler.core.observation import PodRequests
from autoscaler.core.target import QueryKey, Target
from autoscaler.rehearsal.answers import Answers
from autoscaler.rehearsal.building import BuildError, RehearsalData, metric_name, other_queries
from autoscaler.rehearsal.loads import Totals


@dataclass(frozen=True, slots=True)
class ChangedTargetData(RehearsalData):
    """The data of targets as they were, for targets of the same workloads.

    It fits `RehearsalData`; ``former`` returns a target as it was.
    """

    data: RehearsalData
    former: Callable[[Target], Target]

    def answers(self, query: QueryKey) -> Answers:
        """Fit `RehearsalData`."""
        return self.data.answers(query)

    def reading(self, target: Target, number: int) -> Answers:
        """Fit `RehearsalData`."""
        return self.data.reading(self.former(target), self._number(target, number))

    def totals(self, target: Target, number: int) -> Totals:
        """Fit `RehearsalData`."""
        return self.data.totals(self.former(target), self._number(target, number))

    def others(self, target: Target) -> Mapping[QueryKey, Answers]:
        """Fit `RehearsalData`."""
        known = self.data.others(self.former(target))
        for key in other_queries(target):
            if key not in known:
                raise BuildError(
                    f"nothing is recorded of the query {key.promql}; "
                    "`autoscaler replay` asks Prometheus"
                )
        return known

    def ran_after(self, target: Target) -> Answers | None:
        """Fit `RehearsalData`."""
        return self.data.ran_after(self.former(target))

    def ran(self, target: Target) -> Answers | None:
        """Fit `RehearsalData`."""
        return self.data.ran(self.former(target))

    def replicas(self, target: Target) -> int | None:
        """Fit `RehearsalData`."""
        return self.data.replicas(self.former(target))

    def instants(self, target: Target) -> Iterable[float] | None:
        """Fit `RehearsalData`: with another period it is synced once in each."""
        if target.sync_period != self.former(target).sync_period:
            return None
        return self.data.instants(self.former(target))

    def notes(self, target: Target) -> Sequence[str]:
        """Fit `RehearsalData`."""
        return self.data.notes(self.former(target))

    def ready_seconds(self, target: Target) -> float | None:
        """Fit `RehearsalData`."""
        return self.data.ready_seconds(self.former(target))

    def requests(self, target: Target) -> PodRequests | None:
        """Fit `RehearsalData`."""
        return self.data.requests(self.former(target))

    def _number(self, target: Target, number: int) -> int:
        """Return the number that a metric had.  Raises BuildError for a new one."""
        metric, query = target.spec.metrics[number], target.queries[number]
        name, alike = metric_name(metric), list[str]()
        for former, (other, asked) in enumerate(
            zip(self.former(target).spec.metrics, self.former(target).queries, strict=True)
        ):
            if (
                type(other) is type(metric)
                and asked.key == query.key
                and metric_name(other) == name
            ):
                return former
            alike.append(metric_name(other))
        raise BuildError(
            f"nothing is recorded of the metric {name} with this query; the record has "
            f"{', '.join(alike)} with the queries of then; `autoscaler replay` asks Prometheus"
        )
