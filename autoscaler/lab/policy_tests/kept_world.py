"""The simulated world of a policy test, which keeps all that becomes of its targets.

Times are in seconds from the begin of the test, unless they are called instants.
"""

from bisect import bisect_right
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from typing_extensions import override

from autoscaler.core.breaker import Breaker
from autoscaler.core.observation import PodSamples
from autoscaler.core.step import Step
from autoscaler.core.target import Target
from autoscaler.lab.engine.world import SimulatedTarget, Watcher, World

_DIGITS = 6
"""Of times: what an instant loses as Unix seconds is no time."""
MOST_SAMPLES_OF_PODS = 1_000_000
"""That all syncs of a test read: they are kept for what is told of a failure, in 200 MB at most."""


class TooLargeTestError(Exception):
    """A test reads more than is kept; the text is a sentence."""


class ReadyPods(NamedTuple):
    """How many pods are ready from a time on."""

    time: float
    ready: int


class CountAt(NamedTuple):
    """The count after the sync of a time; ``step`` is the last one, None before the first."""

    time: float
    replicas: int
    step: Step | None


@dataclass
class TargetRun:
    """What became of one target."""

    target: Target
    begin: float
    counts: list[CountAt] = field(default_factory=list)
    """One for each instant at which it was due, also where the daemon did not run."""
    ready: list[ReadyPods] = field(default_factory=list)

    def at(self, time: float) -> int:
        """Return the index of the count that is in force at a time; 0 before the first."""
        return max(0, bisect_right(self.counts, time, key=lambda one: one.time) - 1)

    def within(self, begin: float, end: float) -> Iterator[int]:
        """Yield the indices of the counts of a time, the one in force at its begin among them."""
        yield from range(self.at(begin), self.at(end) + 1)

    def ready_at(self, time: float) -> int:
        """Return how many pods are ready at a time."""
        index = bisect_right(self.ready, time, key=lambda one: one.time) - 1
        return self.ready[max(index, 0)].ready


class PolicyTestWorld(World, Watcher):
    """A world that keeps all that becomes of its targets; it watches itself.

    Targets that are ``away`` are not synced, since their daemon does not run.
    """

    def __init__(
        self, targets: Sequence[SimulatedTarget], begin: float, breaker: Breaker | None
    ) -> None:
        super().__init__(targets, self, breaker)
        self._begin = begin
        self.runs = {one.key: TargetRun(one.rules.target, begin) for one in targets}
        self.away: set[str] = set()
        self._samples = 0
        self._others: dict[str, SimulatedTarget] = {}
        """What the instance that stands by knows of each target."""

    def stand_by(self) -> None:
        """Let another instance stand by: it decides the same, and writes nothing."""
        for one in self.targets:
            self._others[one.key] = SimulatedTarget(
                one.rules, one.workload, one.loads, one.others, sole_writer=False, leads=False
            )

    def take_over(self, target: SimulatedTarget) -> None:
        """Let the instance that stands by lead; another one stands by, and begins anew."""
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
        """Sync those targets whose daemon runs, and keep their counts."""
        runs = [one.key not in self.away for one in targets]
        here = [one for one, is_here in zip(targets, runs, strict=True) if is_here]
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
        """Keep the step and the count of a sync."""
        self._count(target, self.now, step)
        target.sole_writer = True
        self._follow(target, self.now)

    @override
    def passed(self, target: SimulatedTarget, begin: float, end: float, ready: int) -> None:
        """Keep the number of ready pods where it changes."""
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
        counts.append(CountAt(self._time(now), target.workload.replicas, step))

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
        """Sync the instance that stands by, after the one that leads."""
        other = self._others.get(target.key)
        if other is not None:
            other.controller, other.hpa = target.controller, target.hpa
            other.act(other.decide(now, now))


def restart(target: SimulatedTarget, _now: float) -> None:
    """Let the process of a target begin anew: it keeps all but what it knows of its own reads."""
    target.last_read = None
