"""The simulated world: targets are synced on a virtual clock, by the steps of live syncs.

Each sync reads the state of the world, decides (`core.step`) and writes; then time passes until the
next one: pods become ready, queues grow or drain. Instants are Unix seconds.
"""

import heapq
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from copy import deepcopy
from dataclasses import dataclass, field
from typing import Protocol

from autoscaler.core.breaker import Breaker, goes_down
from autoscaler.core.gaps import after_absence
from autoscaler.core.history import History
from autoscaler.core.observation import Hpa, Observation, Scale, UncheckedControl
from autoscaler.core.series import QueryFailure, QueryResult
from autoscaler.core.spec import needs_pods
from autoscaler.core.step import Step, SyncTimes, inputs_of, step_of
from autoscaler.core.sync_result import Inputs, Rules
from autoscaler.core.target import QueryKey
from autoscaler.core.writes import (
    AFTER_DUE_SECONDS,
    FIELD_MANAGER,
    AcceptedWrite,
    SkippedWrite,
    SkippedWriteReason,
    WriteFailure,
    WriteOutcome,
    applied,
)
from autoscaler.lab.engine.answers import Answer, Answers, Fault, with_faults
from autoscaler.lab.engine.loads import MetricLoad, QueueLoad, pods_in
from autoscaler.lab.engine.workloads import MOST_PODS, ReadyTime, SimulatedWorkload
from autoscaler.schedules import open_windows
from autoscaler.sync.down_counts import ServerCount, holds


class Watcher(Protocol):
    """Observes the events of the world, in the order of time for each target."""

    def synced(self, target: "SimulatedTarget", step: Step) -> None:
        """Receive a sync, after its write."""

    def passed(self, target: "SimulatedTarget", begin: float, end: float, ready: int) -> None:
        """Receive a time after a sync with a constant number of ready pods."""


@dataclass(slots=True)
class SimulatedTarget:
    """One target in the world: its rules, its workload, and the answers to its queries.

    ``loads`` are in the order of its metrics; ``others`` answer the queries of bounds and of a
    hold. Other inputs of a live sync may be set between two syncs.
    """

    rules: Rules
    workload: SimulatedWorkload
    loads: Sequence[MetricLoad]
    others: Mapping[QueryKey, Answers] = field(default_factory=dict)
    ran: Answers | None = None
    """The actual count that a sync saw, if known."""
    ran_after: Answers | None = None
    """The actual count after it; None if it equals ``ran``."""
    ran_pods: SimulatedWorkload | None = None
    """The pods of the actual count, which become ready like the pods of the replay."""
    instants: Callable[[], Iterable[float]] | None = None
    """Returns the instants of its syncs; None for one per period."""
    history: History = field(default_factory=History)
    controller: str | UncheckedControl | None = None
    sole_writer: bool = True
    leads: bool = True
    """Whether it writes; else another process does."""
    hpa: Hpa | None = None
    write_fails: str = ""
    """Why writes fail; empty if they succeed."""
    faults: Mapping[int | QueryKey, Sequence[Fault]] = field(default_factory=dict)
    """The faults of the answers of a metric, by its number, or of another query."""
    last_read: float | None = None
    last_sync: float | None = None
    key: str = ""
    """The selector of the target."""
    _needs_pods: bool = False
    _keys: tuple[QueryKey, ...] = ()
    _queues: tuple[QueueLoad, ...] = ()
    _alone: MetricLoad | None = None
    """Its load, if it has one metric and no other query."""

    def __post_init__(self) -> None:
        self.key = self.rules.target.key
        self._needs_pods = needs_pods(self.rules.target.spec)
        self._keys = tuple(query.key for query in self.rules.target.queries)
        self._queues = tuple(load for load in self.loads if isinstance(load, QueueLoad))
        is_alone = len(self.loads) == 1 and not self.others and not self.faults
        self._alone = self.loads[0] if is_alone else None

    @property
    def period(self) -> float:
        """The seconds from one sync to the next."""
        return self.rules.target.sync_period

    def follow(self, rules: Rules) -> None:
        """Continue with these rules, as after a reload, with the current loads and faults."""
        self.rules = rules
        self.__post_init__()

    def follow_count(self, count: int | None, now: float) -> None:
        """Treat an actual count as our write; None if it is unknown."""
        before = self.workload.replicas
        if count is None or count == before:
            return
        self.workload.set(count, now)
        if self.history.recommendations is not None:
            decided = now + AFTER_DUE_SECONDS
            spec = self.rules.target.spec
            self.history = applied(spec, self.history, before, count, now, now=decided)

    def due(self, begin: float, end: float) -> Iterator[float]:
        """Yield the instants of its syncs from ``begin`` to before ``end``."""
        if self.instants is None:
            number = 0
            while (at := begin + number * self.period) < end:
                yield at
                number += 1
            return
        for at in self.instants():
            if at >= end:
                return
            if at >= begin:
                yield at

    def forget(self) -> None:
        """Lose all memory, as a process without its state."""
        self.history, self.last_read, self.last_sync = History(), None, None

    def away(self, seconds: float, now: float) -> None:
        """Pretend that there was no sync for some time."""
        self.history = after_absence(self.rules.target, self.history, seconds, now)

    def decide(self, due: float, now: float) -> Step:
        """Read and decide, for a sync that was ``due``."""
        if self.ran is not None:
            self._ran(pods_in(self.ran(now)), now)
        step = step_of(self.rules, self.inputs(due, now))
        self.last_sync = now
        if isinstance(step.inputs.observation.scale, Scale):
            self.last_read = now
        return step

    def _ran(self, count: int | None, now: float) -> int | None:
        """Update the pods of the actual count, if it is known; return the count."""
        pods = self.ran_pods
        if count is None:
            return None
        if pods is None and count == self.workload.replicas:
            self.ran_pods = deepcopy(self.workload)
        elif pods is None:
            name, ready_seconds = self.workload.name, self.workload.ready_seconds
            self.ran_pods = SimulatedWorkload(name, now, count, ready_seconds)
        elif count != pods.replicas:
            pods.set(count, now)
        return count

    def what_ran(self, begin: float, end: float) -> tuple[int | None, Sequence[ReadyTime]]:
        """Return the actual count after the sync at ``begin``, and its ready pods.

        The count is None if it is unknown.
        """
        answers = self.ran_after or self.ran
        count = None if answers is None else self._ran(pods_in(answers(begin)), begin)
        if count is None or self.ran_pods is None:
            return None, (ReadyTime(begin, end, 0),)
        return count, self.ran_pods.ready_times(begin, end)

    def inputs(self, due: float, now: float) -> Inputs:
        """Return the inputs of a sync's decision."""
        if self._alone is not None:
            answers = {self._keys[0]: self._alone.answer(now, self.workload)}
        else:
            answers = self._answers(now)
        times, seen = SyncTimes(due, now, now), self.seen(now)
        return inputs_of(self.rules.target, self.history, seen, answers, times, open_windows)

    def seen(self, now: float) -> Observation:
        """Return the observation of a sync without the answers to its queries."""
        workload, scale = self.workload, self.workload.scale
        pods = workload.pods(now) if self._needs_pods and isinstance(scale, Scale) else None
        others = self.controller, self.sole_writer, self.last_read
        return Observation(scale, pods, (), (), *others, last_sync=self.last_sync, hpa=self.hpa)

    def act(self, step: Step) -> Step:
        """Write the count that a step asks for, and remember the result."""
        scale = step.decision.scale
        if step.decision.rescale and isinstance(scale, Scale):
            step = step.settled(self._write(step, scale))
        self.history = step.history
        return step

    def pass_time(self, begin: float, end: float) -> Sequence[ReadyTime]:
        """Let time pass; return its parts, and the number of ready pods in each."""
        parts = self.workload.ready_times(begin, end)
        for queue in self._queues:
            for at, then, ready in parts:
                queue.advance(at, then, ready)
        return parts

    def _write(self, step: Step, scale: Scale) -> WriteOutcome:
        if step.decision.in_shadow:
            return SkippedWrite(SkippedWriteReason.SHADOW)
        if not self.leads:
            return SkippedWrite(SkippedWriteReason.NOT_LEADING)
        if self.write_fails:
            return WriteFailure(self.write_fails)
        if step.decision.desired > MOST_PODS:
            return WriteFailure(f"more than {MOST_PODS:,} pods are not simulated")
        self.workload.set(step.decision.desired, step.decision.stamp, FIELD_MANAGER)
        return AcceptedWrite(scale)

    def _answers(self, now: float) -> dict[QueryKey, Answer]:
        answers: dict[QueryKey, Answer] = {}
        for number, (key, load) in enumerate(zip(self._keys, self.loads, strict=True)):
            answer = load.answer(now, self.workload)
            answer = with_faults(answer, self.faults.get(number, ()), now)
            # Metrics with one query each take their own series of one answer.
            answers[key] = joined(answers[key], answer) if key in answers else answer
        for key, other in self.others.items():
            if key not in answers:
                answers[key] = with_faults(other(now), self.faults.get(key, ()), now)
        return answers


def joined(answer: Answer, other: Answer) -> Answer:
    """Return one answer of two; each series once."""
    if isinstance(answer, QueryFailure):
        return answer
    if isinstance(other, QueryFailure):
        return other
    more = [series for series in other.series if series not in answer.series]
    return QueryResult([*answer.series, *more], answer.warnings or other.warnings)


class World:
    """Targets on one virtual clock, and the scale-down breakers of their servers."""

    def __init__(
        self, targets: Sequence[SimulatedTarget], watcher: Watcher, breaker: Breaker | None = None
    ) -> None:
        self.targets = targets
        self._watcher = watcher
        self._servers = _servers_of(targets, breaker)
        self._syncs = 0
        self.now = 0.0

    def run(
        self, begin: float, end: float, before: Callable[[float], object] = lambda _: None
    ) -> Iterator[float]:
        """Sync all targets from ``begin`` to ``end``; yield each instant after its syncs.

        ``before`` is called at each instant before its syncs.
        """
        groups = list(self._together())
        queue: list[tuple[float, int, Iterator[float]]] = []
        for number, targets in enumerate(groups):
            instants = targets[0].due(begin, end)
            if (first := next(instants, None)) is not None:
                queue.append((first, number, instants))
        heapq.heapify(queue)
        while queue:
            now = queue[0][0]
            before(now)
            due: list[SimulatedTarget] = []
            until: list[float] = []
            while queue and queue[0][0] == now:
                _, number, instants = queue[0]
                following = next(instants, end)
                due += groups[number]
                until += [following] * len(groups[number])
                if following < end:
                    heapq.heapreplace(queue, (following, number, instants))
                else:
                    heapq.heappop(queue)
            self.sync(due, now, until)
            yield now

    def _together(self) -> Iterator[list[SimulatedTarget]]:
        """Yield targets that are due at the same instants: all with one period, or a single one."""
        of_period: dict[float, list[SimulatedTarget]] = {}
        for target in self.targets:
            if target.instants is None:
                of_period.setdefault(target.period, []).append(target)
            else:
                yield [target]
        yield from of_period.values()

    def warm_up(self, begin: float, end: float) -> None:
        """Let targets with a known count follow it from ``begin`` to ``end``.

        At ``end`` they have the history of an autoscaler that made the same changes.
        """
        for target in self.targets:
            if target.ran is None:
                continue
            instants = target.due(begin, end + 2 * target.period)
            now = next(instants, end)
            target.follow_count(pods_in(target.ran(now)), now)
            while now < end:
                step, following = target.decide(now, now), next(instants, end)
                target.history = step.history
                target.follow_count(pods_in(target.ran(following)), step.decision.stamp)
                now = following
            target.ran_pods = None

    def sync(self, targets: Sequence[SimulatedTarget], now: float, until: Sequence[float]) -> None:
        """Sync some targets, and let the time of each pass until its next sync."""
        self.now = now
        steps = [target.decide(now, now) for target in targets]
        if self._servers:
            steps = self._unless_held(targets, steps, now)
        for target, step, end in zip(targets, steps, until, strict=True):
            self._watcher.synced(target, target.act(step))
            for begin, then, ready in target.pass_time(now, end):
                self._watcher.passed(target, begin, then, ready)

    def _unless_held(
        self, targets: Collection[SimulatedTarget], steps: Sequence[Step], now: float
    ) -> list[Step]:
        """Apply the breakers, after all targets of this instant are decided (8.7)."""
        self._syncs += 1
        for server in self._servers.values():
            server.begin(self._syncs)
            for target, step in zip(targets, steps, strict=True):
                if server.counts(target.key, in_shadow=step.decision.in_shadow):
                    server.note(self._syncs, target.key, down=goes_down(step.decision))
            server.review(self._syncs, now)
            server.end(self._syncs)
        until = {
            name: server.state.trip.until
            for name, server in self._servers.items()
            if server.state.trip is not None and holds(server.state, now)
        }
        return [step.held_back(until) for step in steps] if until else list(steps)


def _servers_of(
    targets: Sequence[SimulatedTarget], breaker: Breaker | None
) -> dict[str, ServerCount]:
    """Return the targets of each server that its breaker counts."""
    servers: dict[str, ServerCount] = {}
    if breaker is None:
        return servers
    for target in (
        simulated.rules.target for simulated in targets if not simulated.rules.target.in_shadow
    ):
        for name in {query.server for query in target.count_queries}:
            server = servers.setdefault(name, ServerCount(name, breaker))
            server.targets[target.key] = target
    return servers
