"""One policy test in the simulated world, from its begin to its end."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import NamedTuple

from autoscaler.core.target import QueryKey, Target
from autoscaler.lab.engine.answers import Fault
from autoscaler.lab.engine.assumptions import Assumptions, LoadAssumption, WorkloadAssumption
from autoscaler.lab.engine.building import Built, built, is_called
from autoscaler.lab.engine.stated import StatedData, StatedSeries
from autoscaler.lab.engine.world import SimulatedTarget
from autoscaler.lab.policy_tests.kept_world import PolicyTestWorld, TargetRun, restart
from autoscaler.lab.policy_tests.series_names import Reader, ReadyTest
from autoscaler.lab.policy_tests.settings import PolicyTest, WorldEvent
from autoscaler.lab.series_notation import samples_of


class Happening(NamedTuple):
    """Something that happens at a time, in seconds from the begin; it takes the instant."""

    time: float
    happen: Callable[[float], object]


def happenings(test: ReadyTest, world: PolicyTestWorld) -> Iterator[Happening]:
    """Yield what an event does, and what takes it back when its time is over."""
    for event in test.model.events:
        for target in world.targets:
            if not is_called(target.rules.target, event.target):
                continue
            end = None if event.for_ is None else event.at + event.for_
            for change, back in _changes(event, target, world):
                yield Happening(event.at, change)
                if end is not None and back is not None:
                    yield Happening(end, back)


_Change = tuple[Callable[[float], object], Callable[[float], object] | None]


def _changes(
    event: WorldEvent, target: SimulatedTarget, world: PolicyTestWorld
) -> Iterator[_Change]:
    workload = target.workload
    if event.set_replicas is not None:
        count = event.set_replicas
        yield lambda now: workload.set(count, now, event.by), None
    if event.annotations is not None:
        given = event.annotations
        removed: dict[str, str | None] = dict.fromkeys(given)
        yield (lambda _: _annotate(target, given)), (lambda _: _annotate(target, removed))
    for holder, name, value, usual in (
        (workload, "ready_seconds", event.ready_after, workload.ready_seconds),
        (workload, "unreadable", event.unreadable, ""),
        (target, "write_fails", event.write_fails, ""),
        (target, "controller", event.controlled_by, None),
    ):
        if value is not None:
            yield partial(_set, holder, name, value), partial(_set, holder, name, usual)
    if event.restart:
        yield partial(restart, target), None
    if event.lose_state:
        yield (lambda _: target.forget()), None
    if event.takeover:
        yield (lambda _: world.take_over(target)), None
    if event.down:
        yield (lambda _: world.away.add(target.key)), partial(world.start_again, target)


def _set(holder: object, name: str, value: object, _now: float) -> None:
    setattr(holder, name, value)


def _annotate(target: SimulatedTarget, changes: Mapping[str, str | None]) -> None:
    merged = {**dict(target.workload.annotations), **changes}
    target.workload.annotate({name: text for name, text in merged.items() if text is not None})


def add_faults(test: ReadyTest, target: SimulatedTarget) -> None:
    """Let the queries of a target fail, or warn, when the test's events say so."""
    own = [event for event in test.model.events if is_called(target.rules.target, event.target)]
    of_query = [event for event in own if event.query_fails or event.partial]
    if not of_query:
        return

    def faults(reader: Reader) -> list[Fault]:
        return [
            _fault(event, test)
            for event in of_query
            if event.query is None or reader in test.faulty[event.query]
        ]

    found: dict[int | QueryKey, Sequence[Fault]] = {key: faults(key) for key in target.others}
    for number in range(len(target.loads)):
        found[number] = faults((target.key, number))
    target.faults = found
    target.follow(target.rules)


def _fault(event: WorldEvent, test: ReadyTest) -> Fault:
    seconds = test.duration + 1.0 if event.for_ is None else event.for_
    begin = test.model.start.at + event.at
    return Fault(begin, begin + seconds, event.query_fails or "", event.partial or "")


_FIRST_REPLICAS = 1
_A_MOMENT = 0.001
"""The last sync is at the end itself."""


@dataclass
class PolicyTestRun:
    """What became of all targets of a test, and what was assumed, in sentences."""

    test: ReadyTest
    targets: dict[str, TargetRun]
    assumed: tuple[str, ...]


def built_targets(test: ReadyTest) -> list[Built]:
    """Build the simulated targets of a test.  Raises BuildError."""
    start = test.model.start
    counts = {target.key: _replicas(test.model, target) for target in test.targets}
    of_metrics: dict[tuple[str, int], list[StatedSeries]] = {}
    of_queries: dict[QueryKey, list[StatedSeries]] = {}
    for one in test.series:
        samples = samples_of(one.items)
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
        loads = enumerate(simulated.loads)
        target = simulated.rules.target
        simulated.loads = tuple(data.load(load, target, number) for number, load in loads)
        simulated.follow(simulated.rules)
    return found


def run(test: ReadyTest) -> PolicyTestRun:
    """Run a test from its begin to its end.  Raises TooLargeTestError."""
    targets = built_targets(test)
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


def _as_stated(test: ReadyTest, data: StatedData) -> Iterator[LoadAssumption]:
    """Say that series of single pods are read as they are, where nothing else is said."""
    for target in test.targets:
        for number, metric in enumerate(target.spec.metrics):
            if data.is_by_pod(target, number):
                name = metric.name
                yield LoadAssumption.model_construct(
                    target=target.key, metric=name, model="recorded"
                )
