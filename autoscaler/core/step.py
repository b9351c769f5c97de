"""One sync of one target without its reads and writes: the order of its pure steps.

    absence -> instants -> readings -> windows         `inputs_of`
    decision                                           `step_of`
    breaker                                            `Step.held_back`
    intent                                             `Step.intended`
    settlement                                         `Step.settled`

A sync, a plan, a scenario and a recomputed decision all take these steps, with reads and writes of
their own between them.  Every instant is an argument, in Unix seconds.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from autoscaler.core.breaker import goes_down, held_back
from autoscaler.core.decide import decide
from autoscaler.core.decision import Decision
from autoscaler.core.extensions import Schedule
from autoscaler.core.gaps import after_absence
from autoscaler.core.history import History
from autoscaler.core.observation import Gap, Observation, OpenWindow, Pod, PodSamples
from autoscaler.core.quick import changed, quick
from autoscaler.core.readings import read, read_bound, read_deletion_costs, read_hold
from autoscaler.core.series import QueryFailure, QueryResult
from autoscaler.core.sync_result import Inputs, Rules, SyncResult
from autoscaler.core.target import QueryKey, Target
from autoscaler.core.writes import AFTER_DUE_SECONDS, WriteOutcome, intend, settle_write

OpenWindows = Callable[[Sequence[Schedule], float], tuple[OpenWindow, ...]]
"""Returns which schedules are open at an instant; it needs a calendar, which is not in the core."""

_ON_TIME_SECONDS, _ON_TIME_PART = 0.25, 0.1
_EARLIEST_SECONDS = 1.0


class SyncTimes(NamedTuple):
    """When a target's sync was ``due``, when it began, and when it decides, by one clock."""

    due: float
    begun: float
    now: float


def instants_of(due: float, now: float, period: float) -> tuple[float, float]:
    """Return the stamp of a sync, and the instant at which ages are measured (7.1).

    The HPA waits one period after each reconcile, so every age is a little more than a whole number
    of periods. Syncs here are due on a grid and start with some jitter: by the clock, every second
    policy or window of whole periods would last one sync too long. So a sync that is late by at
    most a tenth of the ``period``, or 0.25 s, is recorded with ``due``, and never decided before
    that. A later one is recorded with ``now`` minus that allowance.
    """
    if due > now + _EARLIEST_SECONDS:
        due = now  # not jitter: the clock was set
    allowance = max(_ON_TIME_SECONDS, _ON_TIME_PART * period)
    return max(due, now - allowance), max(now, due + AFTER_DUE_SECONDS)


def inputs_of(
    target: Target,
    history: History,
    seen: Observation,
    answers: Mapping[QueryKey, QueryResult | QueryFailure],
    times: SyncTimes,
    open_windows: OpenWindows,
) -> Inputs:
    """Return the inputs of a decision: the observation, and the history after an absence.

    ``seen`` is the observation without the answers to the target's queries, which are added here.
    """
    absent = 0.0 if seen.last_sync is None else times.begun - seen.last_sync
    previous = after_absence(target, history, absent, times.begun)
    stamp, now = instants_of(times.due, times.now, target.sync_period)
    pods = seen.pods if isinstance(seen.pods, tuple) else ()
    low, high, hold = target.min_replicas_query, target.max_replicas_query, target.hold
    readings = [
        read(metric, query, answers[query.key], target.namespace, pods, now)
        for metric, query in zip(target.spec.metrics, target.queries, strict=True)
    ]
    # Naming each field takes a quarter of the time of `changed`.
    observation = Observation(
        scale=seen.scale,
        pods=seen.pods,
        readings=tuple(readings),
        ambiguous_with=seen.ambiguous_with,
        controller=seen.controller,
        sole_writer=seen.sole_writer,
        last_read=seen.last_read,
        ranges=target.ranges,
        windows=open_windows(target.extensions.schedules, now),
        min_replicas_reading=None if low is None else read_bound(low, answers[low.key], now),
        max_replicas_reading=None if high is None else read_bound(high, answers[high.key], now),
        last_sync=seen.last_sync,
        metric_keys=target.metric_keys,
        hold=None if hold is None else read_hold(hold, answers[hold.query.key], now),
        hpa=seen.hpa,
        deletion_costs=_deletion_costs(target, answers, pods, now),
    )
    return Inputs(observation, previous, now, stamp)


def _deletion_costs(
    target: Target,
    answers: Mapping[QueryKey, QueryResult | QueryFailure],
    pods: Sequence[Pod],
    now: float,
) -> PodSamples | Gap | None:
    query = target.deletion_cost
    answer = None if query is None else answers.get(query.key)
    if query is None or answer is None:  # A replay does not ask the query.
        return None
    return read_deletion_costs(query, answer, target.namespace, pods, now)


@quick
@dataclass(frozen=True, slots=True)
class Step:
    """The state of a target's sync: the ``history`` for the next sync, and the write, if any."""

    rules: Rules
    inputs: Inputs
    decision: Decision
    history: History
    write: WriteOutcome | None = None

    @property
    def result(self) -> SyncResult:
        """The result to report."""
        target, flags = self.rules.target, self.rules.flags
        return SyncResult(target, self.decision, self.write, given=self.inputs, flags=flags)

    def held_back(self, holds: Mapping[str, float]) -> "Step":
        """Return the step after breakers; of several ``holds`` the longest counts (8.7)."""
        servers = {query.server for query in self.rules.target.count_queries} & holds.keys()
        if not servers or not goes_down(self.decision):
            return self
        server = max(sorted(servers), key=holds.__getitem__)
        decision, history = held_back(
            self.decision, self.history, self.inputs.history, server, holds[server]
        )
        return changed(self, decision=decision, history=history)

    def held_as(self, decision: Decision) -> "Step":
        """Return the step with the breaker that held another decision, if one did."""
        hold = decision.breaker
        return self if hold is None else self.held_back({hold.server: hold.until})

    def intended(self) -> History:
        """Return the history to store before the write is sent: the write is pending in it."""
        return intend(self.decision, self.history)

    def settled(self, write: WriteOutcome) -> "Step":
        """Return the step after the outcome of the write, which may have been omitted."""
        spec, previous, earlier = self.rules.target.spec, self.inputs.history, self.history.pending
        decision, history = settle_write(
            spec, self.decision, write, self.intended(), previous, earlier
        )
        return changed(self, decision=decision, history=history, write=write)


def step_of(rules: Rules, inputs: Inputs) -> Step:
    """Decide; the breakers and the write follow."""
    spec, extensions = rules.target.spec, rules.target.extensions
    seen, before, now, stamp = inputs.observation, inputs.history, inputs.now, inputs.stamp
    decision, history = decide(spec, rules.flags, seen, before, now, stamp, extensions)
    return Step(rules, inputs, decision, history)


def recompute(result: SyncResult) -> Decision:
    """Decide again from the inputs of a result, and apply its hold and the outcome of its write."""
    step = step_of(result.rules, result.inputs).held_as(result.decision)
    return step.decision if result.write is None else step.settled(result.write).decision
