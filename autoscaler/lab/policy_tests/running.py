"""One policy test in the simulated world, from its begin to its end."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from autoscaler.core.target import QueryKey, Target
from autoscaler.lab.engine.assumptions import Assumptions, LoadAssumption, WorkloadAssumption
from autoscaler.lab.engine.building import Built, built, is_called, metric_name
from autoscaler.lab.engine.stated import StatedData, StatedSeries
from autoscaler.lab.policy_tests.happenings import add_faults, happenings
from autoscaler.lab.policy_tests.kept_world import PolicyTestWorld, TargetRun
from autoscaler.lab.policy_tests.ready import ReadyTest
from autoscaler.lab.policy_tests.series_names import NamedSeries
from autoscaler.lab.policy_tests.settings import PolicyTest
from autoscaler.lab.series_notation import SeriesSamples, samples_of

_FIRST_REPLICAS = 1
_A_MOMENT = 0.001
"""The last sync is at the end itself."""


@dataclass
class PolicyTestRun:
    """What became of all targets of a test, and what was assumed, in sentences."""

    test: ReadyTest
    targets: dict[str, TargetRun]
    assumed: tuple[str, ...]


def built_targets(test: ReadyTest, series: Iterable[NamedSeries]) -> list[Built]:
    """Build the simulated targets of a test.  Raises BuildError."""
    start = test.model.start
    counts = {target.key: _replicas(test.model, target) for target in test.targets}
    of_metrics: dict[tuple[str, int], list[StatedSeries]] = {}
    of_queries: dict[QueryKey, list[StatedSeries]] = {}
    for one in series:
        samples = _samples(one)
        for reader in one.readers:
            stated = StatedSeries(samples, one.labels)
            if isinstance(reader, QueryKey):
                of_queries.setdefault(reader, []).append(stated._replace(labels=one.labels or {}))
            else:
                of_metrics.setdefault(reader, []).append(stated)
    data = StatedData(start.at, test.interval, of_metrics, of_queries, counts)
    assumptions = Assumptions.model_construct(
        loads=(*test.model.loads, *_as_stated(test, data)),
        workloads=(
            *test.model.workloads,
            WorkloadAssumption.model_construct(
                ready_after=start.ready_after, requests=start.requests
            ),
        ),
    )
    found = [built(target, test.flags, data, assumptions, start.at) for target in test.targets]
    for of_target in found:
        simulated = of_target.target
        simulated.loads = tuple(
            data.load(load, simulated.rules.target, number)
            for number, load in enumerate(simulated.loads)
        )
    return found


def run(test: ReadyTest, generated: Iterable[NamedSeries] = ()) -> PolicyTestRun:
    """Run a test from its begin to its end, with these series for those that are made up.

    Raises TooLargeTestError.
    """
    targets = built_targets(test, (*test.series, *generated))
    begin = test.model.start.at
    world = PolicyTestWorld([one.target for one in targets], begin, test.breaker)
    for one in targets:
        add_faults(test, one.target)
    if any(event.takeover for event in test.model.events):
        world.stand_by()
    left = iter(sorted(happenings(test, world), key=lambda one: one.time))
    following = next(left, None)

    def before(now: float) -> None:
        nonlocal following
        while following is not None and begin + following.time <= now:
            following.happen(now)
            following = next(left, None)

    for _ in world.run(begin, begin + test.duration + _A_MOMENT, before):
        pass
    assumed = [f"{one.target.key}: {sentence}" for one in targets for sentence in one.assumed]
    return PolicyTestRun(test, world.runs, tuple(assumed))


def _replicas(test: PolicyTest, target: Target) -> int:
    stated = (one.replicas for one in test.workloads if is_called(target, one.target))
    found = next((count for count in stated if count is not None), test.start.replicas)
    return max(target.spec.min_replicas, _FIRST_REPLICAS) if found is None else found


def _samples(series: NamedSeries) -> SeriesSamples:
    return samples_of(series.items)


def _as_stated(test: ReadyTest, data: StatedData) -> Iterator[LoadAssumption]:
    """Say that series of single pods are read as they are, where nothing else is said."""
    for target in test.targets:
        for number, metric in enumerate(target.spec.metrics):
            if data.is_by_pod(target, number):
                name = metric_name(metric)
                yield LoadAssumption.model_construct(
                    target=target.key, metric=name, model="recorded"
                )
