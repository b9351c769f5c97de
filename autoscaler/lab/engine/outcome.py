"""The outcome of one target in a replay: its counts over time, its demand, and its measures.

Its size does not depend on the length of the time: lines have a limited number of parts, each with
its extremes, and sentences of some instants in each part.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import NamedTuple

from autoscaler.core.decision import Outcome
from autoscaler.core.step import Step
from autoscaler.lab.engine.loads import LoadModel, MetricLoad, QueueLoad, SharedLoad
from autoscaler.lab.engine.measures import A_DAY, Measures, Score
from autoscaler.lab.engine.world import SimulatedTarget

MOST_PARTS = 1_000
"""The parts of a chart's time."""
MOST_CHANGES = 2_000
"""The most changes with their reasons; later ones are only counted."""
_KNOWN_PERIODS = 2
"""The periods after a sync for which its demand is known; a longer time is a gap."""
_DIGITS = 9


class ReplayedChange(NamedTuple):
    """A write of the count, and its reason as a sentence."""

    time: float
    before: int
    after: int
    text: str


class Reason(NamedTuple):
    """The reason for the count from an instant on."""

    time: float
    text: str


@dataclass(slots=True)
class Part:
    """One part of the time: the extremes of the demand and of the ready pods.

    ``short`` is the number of missing pods at the worst instant of the part, since the extremes may
    be of different instants. Both are None if the demand was unknown. ``demand``, ``ready``,
    ``replicas`` and ``ran`` are the last of the part; the last two are the simulated and the actual
    count.
    """

    begin: float
    demand: int | None
    demand_low: int | None
    demand_high: int | None
    ready: int
    ready_low: int
    ready_high: int
    short: int | None
    replicas: int
    ran: int | None = None


@dataclass(frozen=True, slots=True)
class TargetOutcome:
    """One target's replay; ``ran`` are the measures of the actual count, None if unknown."""

    key: str
    begin: float
    end: float
    measures: Measures
    days: tuple[Measures, ...]
    """The measures of each day since the begin; the last day may be incomplete."""
    changes: tuple[ReplayedChange, ...]
    reasons: tuple[Reason, ...]
    parts: tuple[Part, ...]
    first_replicas: int
    last_replicas: int
    ran: Measures | None
    failed_seconds: float
    """The time in which a metric had no proposal."""
    censored_seconds: float
    """The time in which the recorded pods were at capacity: demand may have been higher."""


Explain = Callable[[Step], str]


class OutcomeWatcher:
    """Collects the outcome of each target; a `Watcher`.

    ``explain`` returns the reason for a count. At most ``most_reasons`` reasons between changes are
    kept per target.
    """

    def __init__(
        self, begin: float, end: float, explain: Explain, most_reasons: int = MOST_PARTS
    ) -> None:
        self._span = begin, end
        self._explain = explain
        self._most_reasons = most_reasons
        self._taken: dict[str, _TargetTally] = {}

    def synced(self, target: SimulatedTarget, step: Step) -> None:
        """Add a sync to the outcome of its target."""
        taken = self._taken.get(target.key)
        if taken is None:
            first = step.decision.current or 0
            taken = _TargetTally(*self._span, first, self._explain, self._most_reasons)
            self._taken[target.key] = taken
            taken.begun(target, step.decision.stamp)
        taken.synced(target, step)

    def passed(self, target: SimulatedTarget, begin: float, end: float, ready: int) -> None:
        """Add the time after a sync to the outcome of its target."""
        self._taken[target.key].passed(target, begin, end, ready)

    def outcomes(self) -> list[TargetOutcome]:
        """Return the outcomes so far, in the order in which targets were first synced."""
        return [taken.outcome(key) for key, taken in self._taken.items()]


@dataclass(slots=True)
class _TargetTally:
    """The sums and lines of one target."""

    begin: float
    end: float
    first_replicas: int
    explain: Explain
    most_reasons: int
    score: Score = field(default_factory=Score)
    days: list[Measures] = field(default_factory=list)
    day_ends: float = 0.0
    ran: Score | None = None
    last_ran: int | None = None
    changes: list[ReplayedChange] = field(default_factory=list)
    reasons: list[Reason] = field(default_factory=list)
    reason_key: object = None
    next_reason: float = -math.inf
    parts: list[Part] = field(default_factory=list)
    part_ends: float = -math.inf
    demand: int | None = None
    known_until: float = math.inf
    maximum: int = 0
    failed: bool = False
    until: float = 0.0
    replicas: int = 0
    failed_seconds: float = 0.0
    censored_seconds: float = 0.0

    def __post_init__(self) -> None:
        self.day_ends = self.begin + A_DAY
        self.until = self.begin

    def begun(self, target: SimulatedTarget, first: float) -> None:
        """Add the time before the first sync, in which nothing is known of the target."""
        if first - self.begin > _KNOWN_PERIODS * target.period:
            self.known_until = self.begin
            self.passed(target, self.begin, first, 0)
        if target.ran_pods is not None:
            self.last_ran = target.ran_pods.replicas

    def synced(self, target: SimulatedTarget, step: Step) -> None:
        decision = step.decision
        if decision.written:
            self._changed(step)
        elif decision.stamp >= self.next_reason:
            self._explain_if_new(step)
        self.maximum = decision.max_replicas
        self.failed = decision.outcome is not Outcome.OK
        self.replicas = target.workload.replicas
        self.demand = demand_of(target, step)
        self.known_until = decision.stamp + _KNOWN_PERIODS * target.period

    def _changed(self, step: Step) -> None:
        decision = step.decision
        self.score.changed()
        if len(self.changes) < MOST_CHANGES:
            before = decision.current or 0
            text = self.explain(step)
            self.changes.append(ReplayedChange(decision.stamp, before, decision.desired, text))
            self.reason_key = None

    def _explain_if_new(self, step: Step) -> None:
        """Keep a reason that differs from the last one, once in each part of the time."""
        decision = step.decision
        held, limit = decision.stabilization, decision.limit
        key = (
            decision.zone,
            decision.outcome,
            decision.desired,
            None if held is None else (held.reason, held.before > held.after),
            None if limit is None else limit.reason,
        )
        if key == self.reason_key or not self.most_reasons:
            return
        self.reason_key = key
        self.next_reason = decision.stamp + (self.end - self.begin) / self.most_reasons
        self.reasons.append(Reason(decision.stamp, self.explain(step)))

    def passed(self, target: SimulatedTarget, begin: float, end: float, ready: int) -> None:
        if end <= self.day_ends and end <= self.known_until:
            self._passed(target, begin, end, ready)
            return
        while begin < end:
            while begin >= self.day_ends:
                self.days.append(self.score.cut())
                self.day_ends += A_DAY
            then = min(end, self.day_ends)
            if begin < self.known_until:
                then = min(then, self.known_until)
            else:
                self.demand = None
            self._passed(target, begin, then, ready)
            begin = then

    def _passed(self, target: SimulatedTarget, begin: float, end: float, ready: int) -> None:
        """Add a time within one day, with a known or unknown demand."""
        seconds, demand, replicas = end - begin, self.demand, self.replicas
        at_max = replicas >= self.maximum > 0
        self.score.interval(seconds, demand, ready, replicas, at_max=at_max)
        if target.ran is not None:
            self._score_what_ran(target, begin, end)
        self.until = end
        if self.failed:
            self.failed_seconds += seconds
        for load in target.loads:
            if load.model is not LoadModel.RECORDED:
                self._take_from(load, seconds)
        self._draw(begin, ready)

    def _score_what_ran(self, target: SimulatedTarget, begin: float, end: float) -> None:
        """Score the actual count in the same way; before the first sync it is unknown."""
        if self.ran is None:
            self.ran = Score()
        if not self.maximum:
            self.ran.interval(end - begin, None, 0, 0, at_max=False)
            return
        before = self.last_ran
        self.last_ran, parts = target.what_ran(begin, end)
        count = self.last_ran or 0
        demand = None if self.last_ran is None else self.demand
        for at, then, ready in parts:
            at_max = count >= self.maximum
            self.ran.interval(then - at, demand, ready, count, at_max=at_max)
        if None not in {self.last_ran, before} and self.last_ran != before:
            self.ran.changed()

    def _take_from(self, load: MetricLoad, seconds: float) -> None:
        """Add the other measures of a load."""
        if isinstance(load, QueueLoad):
            for each, length, served, wait in load.passed:
                self.score.queue(each, length, served, wait)
            load.passed.clear()
        elif isinstance(load, SharedLoad) and load.censored:
            self.censored_seconds += seconds

    def _draw(self, begin: float, ready: int) -> None:
        demand = self.demand
        short = None if demand is None else max(0, demand - ready)
        if begin >= self.part_ends:
            span = (self.end - self.begin) / MOST_PARTS
            passed = round((begin - self.begin) / span, _DIGITS) if span > 0 else 0.0
            self.part_ends = self.begin + (math.floor(passed) + 1) * span
            of_demand, of_ready = (demand, demand, demand), (ready, ready, ready)
            part = Part(begin, *of_demand, *of_ready, short, self.replicas, self.last_ran)
            self.parts.append(part)
            return
        part = self.parts[-1]
        part.demand, part.ready = demand, ready
        part.replicas, part.ran = self.replicas, self.last_ran
        if ready < part.ready_low:
            part.ready_low = ready
        elif ready > part.ready_high:
            part.ready_high = ready
        if demand is None or short is None:
            return
        if part.short is None or short > part.short:
            part.short = short
        if part.demand_low is None or demand < part.demand_low:
            part.demand_low = demand
        if part.demand_high is None or demand > part.demand_high:
            part.demand_high = demand

    def outcome(self, key: str) -> TargetOutcome:
        return TargetOutcome(
            key=key,
            begin=self.begin,
            end=self.until,
            measures=self.score.measures(),
            days=(*self.days, self.score.part()),
            changes=tuple(self.changes),
            reasons=tuple(self.reasons),
            parts=tuple(self.parts),
            first_replicas=self.first_replicas,
            last_replicas=self.replicas,
            ran=None if self.ran is None else self.ran.measures(),
            failed_seconds=self.failed_seconds,
            censored_seconds=self.censored_seconds,
        )


def demand_of(target: SimulatedTarget, step: Step) -> int | None:
    """Return the demand in pods: the most of all metrics; None if one is unknown."""
    loads, readings = target.loads, step.inputs.observation.readings
    if len(loads) == 1:
        demand = loads[0].demand(readings[0])
        return None if demand is None else math.ceil(round(demand, _DIGITS))
    most = None
    for load, reading in zip(loads, readings, strict=True):
        demand = load.demand(reading)
        if demand is None:
            return None
        # The rounding error of a sum of fractions is not a pod.
        pods = math.ceil(round(demand, _DIGITS))
        most = pods if most is None or pods > most else most
    return most
