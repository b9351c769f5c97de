"""One run of a sync: observe, decide, act, report, for many targets side by side.

A target is decided as soon as its own inputs are there, so that a slow query or a slow
object delays only the targets that need it.
"""

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import NamedTuple

from autoscaler import clock
from autoscaler.core.decide import decide
from autoscaler.core.decision import Decision, Outcome
from autoscaler.core.gaps import after_absence
from autoscaler.core.history import History
from autoscaler.core.instants import instants_of
from autoscaler.core.observation import Observation, Scale, Unavailable
from autoscaler.core.readings import read
from autoscaler.core.series import QueryFailure, QueryResult
from autoscaler.core.spec import needs_pods
from autoscaler.core.target import Target
from autoscaler.core.writes import NOT_LEADING, NotWritten, WriteFailed, WriteOutcome, intend
from autoscaler.sync.driver import Completions
from autoscaler.sync.pod_views import Pods, PodView, PodViews
from autoscaler.sync.ports import SyncResult, SyncSummary
from autoscaler.sync.priority_pool import urgency
from autoscaler.sync.query_lanes import NO_TURN
from autoscaler.sync.sending import Sending
from autoscaler.sync.state import Shared

_SCALE_SHARE, _READ_SHARE = 1 / 3, 2 / 3
"""The parts of a sync's time within which scales, and all that is read, must be there.

Pods wait for scales, and writes for everything.
"""

_STOPPING = "the daemon stops before its turn came"


@dataclass(slots=True)
class _Job:
    """One target during one sync: what was read so far, and how much is still awaited."""

    target: Target
    awaited: int
    scale: Scale | Unavailable = field(default_factory=lambda: Unavailable("not read yet"))
    pods: Pods = None
    ambiguous_with: tuple[str, ...] = ()


class SyncTimes(NamedTuple):
    """When a sync begins and was due (Unix seconds), and how many seconds it may take.

    ``steady`` is when it begins by `clock.steady`, ``as_of`` names the clock as it is set then
    (`Histories.as_of`): one that is set later concerns only the syncs after this.
    """

    now: float
    due: float
    as_of: float
    steady: float
    budget: float


class SyncRun:
    """One run of `Syncer.sync`.  Its methods run on one thread; calls that wait do not."""

    def __init__(self, shared: Shared, targets: Sequence[Target], times: SyncTimes) -> None:
        self.shared = shared
        self.ports = shared.ports
        self.times = times
        self.as_of = times.as_of
        self.begun = clock.monotonic()
        self.scale_deadline = self.begun + times.budget * _SCALE_SHARE
        self.read_deadline = self.begun + times.budget * _READ_SHARE
        self.write_deadline = self.begun + times.budget
        self.completions = Completions()
        self.jobs = [
            _Job(target, len({query.promql for query in target.queries}) + 1) for target in targets
        ]
        self.answers: dict[str, QueryResult | QueryFailure] = {}
        self.asking: dict[str, list[_Job]] = defaultdict(list)
        self.unregistered: dict[str, int] = defaultdict(int)
        self.held: dict[str, list[_Job]] = defaultdict(list)
        self.pod_views = PodViews(self.ports, self.read_deadline)
        self.decisions: dict[str, Decision] = {}
        self.changed = 0
        self.failed = 0

    def run(self) -> None:
        """Ask all queries, read all scales, and see every target through."""
        shared = self.shared
        shared.register_cached(job.target for job in self.jobs)
        for job in self.jobs:
            target = job.target
            for promql in {query.promql for query in target.queries}:
                self.asking[promql].append(job)
            if target.key not in shared.registered:
                self.unregistered[target.namespace] += 1
        for promql in shared.queries.by_turn(self.asking):
            self._ask(promql)
        for job in sorted(self.jobs, key=lambda job: shared.turn(job.target)):
            self.completions.soon(partial(self._look_at_scale, job))
        try:
            self.completions.run(self.shared.stop, self.write_deadline)
        finally:
            self.shared.histories.keep(self.decisions, self.as_of)
        self.ports.reporter.synced(
            SyncSummary(
                targets=len(self.jobs),
                queries=len(self.asking),
                changed=self.changed,
                failed=self.failed,
                seconds=clock.monotonic() - self.begun,
            )
        )

    def _ask(self, promql: str) -> None:
        self.completions.follow(
            self.shared.queries.ask(self.ports.metrics, promql, self.read_deadline),
            partial(self._take_answer, promql),
            lambda error: QueryFailure(self._fault(error)),
        )

    def _fault(self, error: BaseException | None) -> str:
        """Say what a call is taken for that raised, which none should, or that never began."""
        if error is None:
            return _STOPPING if self.shared.stop.is_set() else NO_TURN
        self.ports.reporter.fault(error)
        return f"a fault of the autoscaler, {type(error).__name__}; its log has the details"

    def _take_answer(self, promql: str, answer: QueryResult | QueryFailure) -> None:
        self.answers[promql] = answer
        for job in self.asking[promql]:
            self._arrived(job)

    def _look_at_scale(self, job: _Job) -> None:
        namespace, ref = job.target.namespace, job.target.spec.scale_target_ref
        scale = self.ports.cache.cached_scale(namespace, ref)
        if scale is not None:
            self._take_scale(job, scale)
            return
        self.completions.follow(
            self.shared.read(
                job.target,
                self.shared.scale_turns,
                self.scale_deadline,
                partial(self.ports.scales.read, namespace, ref, self.scale_deadline),
            ),
            partial(self._take_scale, job),
            lambda error: Unavailable(self._fault(error)),
        )

    def _take_scale(self, job: _Job, scale: Scale | Unavailable) -> None:
        """Register the selector.

        A namespace's pods wait until its selectors are known, or it is known that they cannot be.
        """
        job.scale = scale
        target = job.target
        if target.key not in self.shared.registered:
            self.unregistered[target.namespace] -= 1
        if isinstance(scale, Scale):
            self.shared.register(target, scale)
        if self.unregistered[target.namespace]:
            self.held[target.namespace].append(job)
            return
        for held in (*self.held.pop(target.namespace, ()), job):
            self._look_at_pods(held)

    def _look_at_pods(self, job: _Job) -> None:
        target, scale = job.target, job.scale
        partners = self.shared.overlaps.partners(target.key)
        if isinstance(scale, Unavailable) or not (partners or needs_pods(target.spec)):
            self._arrived(job)
            return
        pods = None if partners else self.ports.cache.cached_pods(target.namespace, scale.selector)
        if pods is not None:
            self._take_pods(job, (pods, ()))
            return
        self.completions.follow(
            self.shared.read(
                target,
                self.shared.pod_turns,
                self.read_deadline,
                partial(self.pod_views.read, target.namespace, scale.selector, partners),
            ),
            partial(self._take_pods, job),
            lambda error: (Unavailable(self._fault(error)), ()),
        )

    def _take_pods(self, job: _Job, view: PodView) -> None:
        job.pods, job.ambiguous_with = view
        self._arrived(job)

    def _arrived(self, job: _Job) -> None:
        job.awaited -= 1
        if not job.awaited:
            self.completions.soon(partial(self._decide, job))

    def _decide(self, job: _Job) -> None:
        target, shared = job.target, self.shared
        if shared.stop.is_set():
            return
        steady = self.times.steady
        absent = steady - shared.looked.get(target.key, steady)
        previous = after_absence(
            target, shared.histories.get(target.key, self.as_of), absent, self.times.now
        )
        shared.looked[target.key] = steady
        now = self.times.now + (clock.monotonic() - self.begun)
        stamp, now = instants_of(self.times.due, now, target.sync_period)
        seen = self._observation(job, now)
        decision, history = decide(target.spec, shared.flags, seen, previous, now, stamp)
        if isinstance(job.scale, Scale):
            shared.seen[target.key] = steady
        shared.histories.put(target.key, history, self.as_of)
        if decision.outcome is not Outcome.OK:
            self.failed += 1
        if not decision.rescale or not isinstance(job.scale, Scale):
            self._report(SyncResult(target, decision))
        elif self.ports.leads_since() is None:
            self._report(SyncResult(target, decision, NotWritten(NOT_LEADING)))
        else:
            self._intend(target, job.scale, decision, previous)

    def _intend(self, target: Target, scale: Scale, decision: Decision, previous: History) -> None:
        """Note the write before it is sent: a crash between the two must not lose it."""
        histories = self.shared.histories
        history = histories.get(target.key, self.as_of)
        sending = Sending(target, scale, decision, previous, history.pending)
        self.completions.follow(
            histories.intend(target.key, intend(decision, history), self.as_of),
            lambda _: self._write(sending),
            lambda _: None,
        )

    def _write(self, sending: Sending) -> None:
        target, scale, decision = sending.target, sending.scale, sending.decision
        write = partial(
            self.ports.writer.write,
            target.namespace,
            target.spec.scale_target_ref,
            scale,
            decision.desired,
            self.write_deadline,
        )
        self.completions.follow(
            self.shared.writes.submit(
                urgency(scale.spec_replicas, decision.desired), target.namespace, write
            ),
            partial(self._take_write, sending),
            # What raised may have been sent; what never began was not.
            lambda error: WriteFailed(self._fault(error), unknown=error is not None),
        )

    def _observation(self, job: _Job, now: float) -> Observation:
        pods = job.pods if isinstance(job.pods, tuple) else ()
        target, ref = job.target, job.target.spec.scale_target_ref
        readings = tuple(
            read(metric, query, self.answers[query.promql], target.namespace, pods, now)
            for metric, query in zip(target.spec.metrics, target.queries, strict=True)
        )
        controller = self.ports.cache.cached_controller(target.namespace, ref)
        return Observation(
            job.scale,
            job.pods,
            readings,
            job.ambiguous_with,
            controller,
            self.shared.alone(target.key),
            self._looked(target),
            tuple(query.range_seconds for query in target.queries),
        )

    def _looked(self, target: Target) -> float | None:
        """Return when the scale was read before, by the clock of this sync."""
        seen = self.shared.seen.get(target.key)
        return None if seen is None else self.times.now - (self.times.steady - seen)

    def _take_write(self, sending: Sending, write: WriteOutcome) -> None:
        target = sending.target
        history = self.shared.histories.get(target.key, self.as_of)
        decision, history = sending.settle(history, write)
        self.changed += decision.written
        self.shared.histories.put(target.key, history, self.as_of)
        self._report(SyncResult(target, decision, write))

    def _report(self, result: SyncResult) -> None:
        self.decisions[result.target.key] = result.decision
        self.ports.reporter.report(result)
