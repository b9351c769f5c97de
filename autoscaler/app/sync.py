"""One sync: observe, decide, act, report, for many targets side by side.

A target is decided as soon as its own inputs are there, so that a slow query or a slow
object delays only the targets that need it.
"""

import threading
from collections import defaultdict
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from functools import partial
from typing import Self

from autoscaler import clock
from autoscaler.app.completions import Completions
from autoscaler.app.overlaps import Overlaps
from autoscaler.app.ports import (
    AtHand,
    MetricsReader,
    PodLister,
    Reporter,
    ScaleReader,
    ScaleWriter,
    SyncResult,
    SyncSummary,
)
from autoscaler.app.urgency import UrgentFirst, urgency
from autoscaler.core.decide import decide
from autoscaler.core.decision import Decision, Outcome
from autoscaler.core.history import History
from autoscaler.core.observation import Observation, Pod, Scale, Unavailable
from autoscaler.core.readings import read
from autoscaler.core.series import Answer, QueryFailure
from autoscaler.core.settle import settle, settle_failure
from autoscaler.core.spec import Flags, needs_pods
from autoscaler.core.target import Target
from autoscaler.core.writes import Superseded, WriteFailed, WriteOutcome, Written

QUERIES_AT_ONCE = 16
READS_AT_ONCE = 16
WRITES_AT_ONCE = 16
WRITES_PER_SECOND = 100.0

_READ_SHARE = 2 / 3
"""The part of a sync's time that reads may take, so that a write still fits in."""


@dataclass(frozen=True, slots=True)
class World:
    """The outside of a sync."""

    metrics: MetricsReader
    at_hand: AtHand
    scales: ScaleReader
    writer: ScaleWriter
    pods: PodLister
    reporter: Reporter


class Syncer:
    """Syncs targets, and carries each one's history from one sync to the next.

    ``stop`` ends syncs early: writes in hand are finished, nothing new is begun.  Syncs of
    different targets may run at the same time.
    """

    def __init__(
        self,
        flags: Flags,
        world: World,
        stop: threading.Event,
        writes_per_second: float = WRITES_PER_SECOND,
    ) -> None:
        self.flags = flags
        self.world = world
        self.stop = stop
        self.histories: dict[str, History] = {}
        self.overlaps = Overlaps()
        self.registered: set[str] = set()
        """Targets whose selector was read, or could not be, at least once."""
        self.queries = ThreadPoolExecutor(QUERIES_AT_ONCE, "query")
        self.reads = ThreadPoolExecutor(READS_AT_ONCE, "read")
        self.writes = UrgentFirst(WRITES_AT_ONCE, writes_per_second, stop)

    def __enter__(self) -> Self:
        """Return the syncer itself."""
        return self

    def __exit__(self, *_: object) -> None:
        """Wait for the calls in hand; those that have not begun are dropped."""
        self.queries.shutdown(cancel_futures=True)
        self.reads.shutdown(cancel_futures=True)
        self.writes.shutdown()

    def register_at_hand(self, targets: Sequence[Target]) -> None:
        """Take in the selectors that are at hand, before any of the targets is synced."""
        for target in targets:
            scale = self.world.at_hand.scale_at_hand(target.namespace, target.spec.scale_target_ref)
            if isinstance(scale, Scale):
                self.overlaps.register(target.key, target.namespace, scale.selector)
                self.registered.add(target.key)

    def sync(self, targets: Sequence[Target], now: float, budget: float) -> None:
        """Sync every target once, as of the Unix time ``now``, within ``budget`` seconds."""
        _Sync(self, targets, now, budget).run()


_Pods = tuple[Pod, ...] | Unavailable | None


@dataclass(slots=True)
class _Job:
    """One target during one sync: what was read so far, and how much is still awaited."""

    target: Target
    awaited: int
    scale: Scale | Unavailable = field(default_factory=lambda: Unavailable("not read yet"))
    pods: _Pods = None
    ambiguous_with: tuple[str, ...] = ()


class _Sync:
    """One run of `Syncer.sync`.  Its methods run on one thread; calls that wait do not."""

    def __init__(
        self, syncer: Syncer, targets: Sequence[Target], now: float, budget: float
    ) -> None:
        self.syncer = syncer
        self.world = syncer.world
        self.now = now
        self.begun = clock.monotonic()
        self.read_deadline = self.begun + budget * _READ_SHARE
        self.write_deadline = self.begun + budget
        self.completions = Completions()
        self.jobs = [
            _Job(target, len({query.promql for query in target.queries}) + 1) for target in targets
        ]
        self.answers: dict[str, Answer | QueryFailure] = {}
        self.asking: dict[str, list[_Job]] = defaultdict(list)
        self.unregistered: dict[str, int] = defaultdict(int)
        self.held: dict[str, list[_Job]] = defaultdict(list)
        self.changed = 0
        self.failed = 0

    def run(self) -> None:
        """Ask all queries, read all scales, and see every target through."""
        for job in self.jobs:
            target = job.target
            for promql in {query.promql for query in target.queries}:
                self.asking[promql].append(job)
            if target.key not in self.syncer.registered:
                self.unregistered[target.namespace] += 1
        for promql in self.asking:
            self.completions.follow(
                self.syncer.queries.submit(self.world.metrics.query, promql, self.read_deadline),
                partial(self._take_answer, promql),
            )
        for job in self.jobs:
            self._look_at_scale(job)
        self.completions.run(self.syncer.stop)
        self.world.reporter.synced(
            SyncSummary(
                targets=len(self.jobs),
                queries=len(self.asking),
                changed=self.changed,
                failed=self.failed,
                seconds=clock.monotonic() - self.begun,
            )
        )

    def _take_answer(self, promql: str, answer: Answer | QueryFailure) -> None:
        self.answers[promql] = answer
        for job in self.asking[promql]:
            self._arrived(job)

    def _look_at_scale(self, job: _Job) -> None:
        namespace, ref = job.target.namespace, job.target.spec.scale_target_ref
        scale = self.world.at_hand.scale_at_hand(namespace, ref)
        if scale is not None:
            self._take_scale(job, scale)
            return
        self.completions.follow(
            self.syncer.reads.submit(self.world.scales.read, namespace, ref, self.read_deadline),
            partial(self._take_scale, job),
        )

    def _take_scale(self, job: _Job, scale: Scale | Unavailable) -> None:
        """Register the selector; a namespace's pods wait until all its selectors are known."""
        job.scale = scale
        target, syncer = job.target, self.syncer
        if isinstance(scale, Scale):
            syncer.overlaps.register(target.key, target.namespace, scale.selector)
        if target.key not in syncer.registered:
            syncer.registered.add(target.key)
            self.unregistered[target.namespace] -= 1
        if self.unregistered[target.namespace]:
            self.held[target.namespace].append(job)
            return
        for held in (*self.held.pop(target.namespace, ()), job):
            self._look_at_pods(held)

    def _look_at_pods(self, job: _Job) -> None:
        target, scale = job.target, job.scale
        partners = self.syncer.overlaps.partners(target.key)
        if isinstance(scale, Unavailable) or not (partners or needs_pods(target.spec)):
            self._arrived(job)
            return
        pods = (
            None if partners else self.world.at_hand.pods_at_hand(target.namespace, scale.selector)
        )
        if pods is not None:
            self._take_pods(job, (pods, ()))
            return
        self.completions.follow(
            self.syncer.reads.submit(self._read_pods, target.namespace, scale.selector, partners),
            partial(self._take_pods, job),
        )

    def _read_pods(
        self, namespace: str, selector: str, partners: dict[str, str]
    ) -> tuple[_Pods, tuple[str, ...]]:
        """Read the target's pods, and find the partners that select one of them too."""
        pods = self._pods(namespace, selector)
        if isinstance(pods, Unavailable):
            return pods, ()
        names = {pod.name for pod in pods}
        shared: list[str] = []
        for partner, other in partners.items():
            others = self._pods(namespace, other)
            if isinstance(others, Unavailable):
                return others, ()
            if any(pod.name in names for pod in others):
                shared.append(partner)
        return pods, tuple(shared)

    def _pods(self, namespace: str, selector: str) -> tuple[Pod, ...] | Unavailable:
        pods = self.world.at_hand.pods_at_hand(namespace, selector)
        if pods is None:
            pods = self.world.pods.pods(namespace, selector, self.read_deadline)
        return pods

    def _take_pods(self, job: _Job, view: tuple[_Pods, tuple[str, ...]]) -> None:
        job.pods, job.ambiguous_with = view
        self._arrived(job)

    def _arrived(self, job: _Job) -> None:
        job.awaited -= 1
        if not job.awaited and not self.syncer.stop.is_set():
            self._decide(job)

    def _decide(self, job: _Job) -> None:
        target, syncer = job.target, self.syncer
        previous = syncer.histories.get(target.key, History())
        decision, history = decide(
            target.spec, syncer.flags, self._observation(job), previous, self.now
        )
        syncer.histories[target.key] = history
        if decision.outcome is not Outcome.OK:
            self.failed += 1
        if not decision.rescale or not isinstance(job.scale, Scale):
            self.world.reporter.report(SyncResult(target, decision))
            return
        write = partial(
            self.world.writer.write,
            target.namespace,
            target.spec.scale_target_ref,
            job.scale,
            decision.desired,
            self.write_deadline,
        )
        self.completions.follow(
            syncer.writes.submit(urgency(job.scale.spec_replicas, decision.desired), write),
            partial(self._take_write, target, decision, previous),
        )

    def _observation(self, job: _Job) -> Observation:
        pods = job.pods if isinstance(job.pods, tuple) else ()
        target = job.target
        readings = tuple(
            read(metric, query, self.answers[query.promql], target.namespace, pods, self.now)
            for metric, query in zip(target.spec.metrics, target.queries, strict=True)
        )
        return Observation(job.scale, job.pods, readings, job.ambiguous_with)

    def _take_write(
        self, target: Target, decision: Decision, previous: History, write: WriteOutcome
    ) -> None:
        history = self.syncer.histories[target.key]
        if isinstance(write, Written):
            self.changed += 1
            decision, history = settle(target.spec, decision, history)
        elif isinstance(write, Superseded):
            error = f"somebody else set the replicas to {write.scale.spec_replicas} meanwhile"
            decision, history = settle_failure(decision, history, previous, error)
        elif isinstance(write, WriteFailed):
            decision, history = settle_failure(decision, history, previous, write.message)
        self.syncer.histories[target.key] = history
        self.world.reporter.report(SyncResult(target, decision, write))
