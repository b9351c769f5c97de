"""One policy test in the simulated world, from its begin to its end."""

from bisect import bisect_right
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import NamedTuple

from typing_extensions import override

from autoscaler.core.breaker import Breaker
from autoscaler.core.observation import PodSamples
from autoscaler.core.step import Step
from autoscaler.core.target import QueryKey, Target
from autoscaler.lab.engine.answers import Fault
from autoscaler.lab.engine.assumptions import Assumptions, LoadAssumption, WorkloadAssumption
from autoscaler.lab.engine.building import BuiltTarget, built, is_called
from autoscaler.lab.engine.stated import StatedData, StatedSeries
from autoscaler.lab.engine.world import SimulatedTarget, Watcher, World
from autoscaler.lab.policy_tests.settings import PolicyTest, Reader, ReadyTest, WorldEvent
from autoscaler.lab.series_notation import samples_of

_DIGITS = 6
"""The decimals to which times are rounded, since Unix seconds are inexact."""
MOST_SAMPLES_OF_PODS = 1_000_000
"""The most samples that all syncs of a test read: they are kept for failures, in 200 MB."""


class TooLargeTestError(Exception):
    """A test reads more samples than are kept; the text is a sentence."""


class ReadyPods(NamedTuple):
    """The number of ready pods from a time on."""

    time: float
    ready: int


class ReplicasAfterSync(NamedTuple):
    """The count after the sync of a time; ``step`` is the last one, None before the first."""

    time: float
    replicas: int
    step: Step | None


@dataclass
class TargetRun:
    """The outcome of one target."""

    target: Target
    begin: float
    counts: list[ReplicasAfterSync] = field(default_factory=list)
    """One for each instant at which it was due, even if the daemon did not run."""
    ready: list[ReadyPods] = field(default_factory=list)

    def index_at(self, time: float) -> int:
        """Return the index of the count in force at a time; 0 before the first."""
        return max(0, bisect_right(self.counts, time, key=lambda count: count.time) - 1)

    def within(self, begin: float, end: float) -> Iterator[int]:
        """Yield the indices of the counts of a time, including the one in force at its begin."""
        yield from range(self.index_at(begin), self.index_at(end) + 1)

    def ready_at(self, time: float) -> int:
        """Return the number of ready pods at a time."""
        index = bisect_right(self.ready, time, key=lambda number: number.time) - 1
        return self.ready[max(index, 0)].ready


class PolicyTestWorld(World, Watcher):
    """A world that records the outcome of its targets; it is its own watcher.

    Targets that are ``away`` are not synced, since their daemon does not run.
    """

    def __init__(
        self, targets: Sequence[SimulatedTarget], begin: float, breaker: Breaker | None
    ) -> None:
        super().__init__(targets, self, breaker)
        self._begin = begin
        self.runs = {target.key: TargetRun(target.rules.target, begin) for target in targets}
        self.away: set[str] = set()
        self._samples = 0
        self._others: dict[str, SimulatedTarget] = {}
        """The histories of the standby."""

    def stand_by(self) -> None:
        """Start a standby instance: it makes the same decisions, and writes nothing."""
        for target in self.targets:
            self._others[target.key] = SimulatedTarget(
                target.rules,
                target.workload,
                target.loads,
                target.others,
                sole_writer=False,
                leads=False,
            )

    def take_over(self, target: SimulatedTarget) -> None:
        """Let the standby lead; another instance becomes the standby, without history."""
        other = self._others[target.key]
        target.history, target.last_read = other.history, other.last_read
        target.last_sync, target.sole_writer = other.last_sync, False
        other.forget()
        self.away.discard(target.key)

    def start_again(self, target: SimulatedTarget, now: float) -> None:
        """Let the daemon of a target run again, unless another instance has taken over."""
        if target.key in self.away:
            self.away.discard(target.key)
            restart(target, now)

    def sync(self, targets: Sequence[SimulatedTarget], now: float, until: Sequence[float]) -> None:
        """Sync the targets whose daemon runs, and record their counts."""
        runs = [target.key not in self.away for target in targets]
        here = [target for target, is_here in zip(targets, runs, strict=True) if is_here]
        ends = [end for end, is_here in zip(until, runs, strict=True) if is_here]
        super().sync(here, now, ends)
        for target, end, is_here in zip(targets, until, runs, strict=True):
            if not is_here:
                self._count(target, now, None)
                self._follow(target, now)
                for begin, then, ready in target.pass_time(now, end):
                    self.passed(target, begin, then, ready)

    @override
    def synced(self, target: SimulatedTarget, step: Step) -> None:
        """Record the step and the count of a sync."""
        self._count(target, self.now, step)
        target.sole_writer = True
        self._follow(target, self.now)

    @override
    def passed(self, target: SimulatedTarget, begin: float, end: float, ready: int) -> None:
        """Record the number of ready pods when it changes."""
        known = self.runs[target.key].ready
        if not known or known[-1].ready != ready:
            known.append(ReadyPods(self._time(begin), ready))

    def _time(self, instant: float) -> float:
        return round(instant - self._begin, _DIGITS)

    def _count(self, target: SimulatedTarget, now: float, step: Step | None) -> None:
        counts = self.runs[target.key].counts
        if step is None and counts:
            step = counts[-1].step
        else:
            self._add_samples(step)
        counts.append(ReplicasAfterSync(self._time(now), target.workload.replicas, step))

    def _add_samples(self, step: Step | None) -> None:
        readings = () if step is None else step.inputs.observation.readings
        for reading in readings:
            self._samples += len(reading.samples) if isinstance(reading, PodSamples) else 0
        if self._samples > MOST_SAMPLES_OF_PODS:
            raise TooLargeTestError(
                f"reads more than {MOST_SAMPLES_OF_PODS:,} samples of pods: let it be shorter, or "
                "have fewer replicas"
            )

    def _follow(self, target: SimulatedTarget, now: float) -> None:
        """Sync the standby, after the leader."""
        other = self._others.get(target.key)
        if other is not None:
            other.controller, other.hpa = target.controller, target.hpa
            other.act(other.decide(now, now))


def restart(target: SimulatedTarget, _now: float) -> None:
    """Restart the process of a target: it loses only the state of its own reads."""
    target.last_read = None


# -- a test in its world ---------------------------------------------------------------------------


class TimedEvent(NamedTuple):
    """An event at a time, in seconds from the begin; its function receives the instant."""

    time: float
    happen: Callable[[float], object]


def happenings(test: ReadyTest, world: PolicyTestWorld) -> Iterator[TimedEvent]:
    """Yield the effect of an event, and its reversal at the end of its time."""
    for event in test.model.events:
        for target in world.targets:
            if not is_called(target.rules.target, event.target):
                continue
            end = None if event.for_ is None else event.at + event.for_
            for change, back in _changes(event, target, world):
                yield TimedEvent(event.at, change)
                if end is not None and back is not None:
                    yield TimedEvent(end, back)


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
"""Added to the end in seconds, so that a sync that is due exactly then takes place."""


@dataclass
class PolicyTestRun:
    """The outcome of all targets of a test, and its assumptions as sentences."""

    test: ReadyTest
    targets: dict[str, TargetRun]
    assumed: tuple[str, ...]


def built_targets(test: ReadyTest) -> list[BuiltTarget]:
    """Build the simulated targets of a test.  Raises BuildError."""
    start = test.model.start
    counts = {target.key: _replicas(test.model, target) for target in test.targets}
    of_metrics: dict[tuple[str, int], list[StatedSeries]] = {}
    of_queries: dict[QueryKey, list[StatedSeries]] = {}
    for series in test.series:
        samples = samples_of(series.items)
        for reader in series.readers:
            stated = StatedSeries(samples, series.labels)
            if isinstance(reader, QueryKey):
                of_queries.setdefault(reader, []).append(
                    stated._replace(labels=series.labels or {})
                )
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
    world = PolicyTestWorld([target.target for target in targets], begin, test.breaker)
    for target in targets:
        add_faults(test, target.target)
    if any(event.takeover for event in test.model.events):
        world.stand_by()
    left = iter(sorted(happenings(test, world), key=lambda happening: happening.time))
    following = next(left, None)

    def before(now: float) -> None:
        nonlocal following
        while following is not None and begin + following.time <= now:
            following.happen(now)
            following = next(left, None)

    for _ in world.run(begin, begin + test.duration + _A_MOMENT, before):
        pass
    assumed = [
        f"{target.target.key}: {sentence}" for target in targets for sentence in target.assumed
    ]
    return PolicyTestRun(test, world.runs, tuple(assumed))


def _replicas(test: PolicyTest, target: Target) -> int:
    stated = (
        workload.replicas for workload in test.workloads if is_called(target, workload.target)
    )
    found = next((count for count in stated if count is not None), test.start.replicas)
    return max(target.spec.min_replicas, _FIRST_REPLICAS) if found is None else found


def _as_stated(test: ReadyTest, data: StatedData) -> Iterator[LoadAssumption]:
    """Report that series of single pods do not change with the count, unless stated otherwise."""
    for target in test.targets:
        for number, metric in enumerate(target.spec.metrics):
            if data.is_by_pod(target, number):
                name = metric.name
                yield LoadAssumption.model_construct(
                    target=target.key, metric=name, model="recorded"
                )
