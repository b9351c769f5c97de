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

from autoscaler.app.completions import Completions
from autoscaler.app.overlaps import Overlaps
from autoscaler.app.ports import (
    MetricsReader,
    PodLister,
    Reporter,
    ScaleReader,
    ScaleWriter,
    SyncResult,
)
from autoscaler.core.decide import decide
from autoscaler.core.decision import Decision
from autoscaler.core.history import History
from autoscaler.core.observation import Observation, Pod, Scale, Unavailable
from autoscaler.core.readings import read
from autoscaler.core.series import Answer, QueryFailure
from autoscaler.core.settle import settle, settle_failure
from autoscaler.core.spec import Flags, needs_pods
from autoscaler.core.target import Target
from autoscaler.core.writes import Superseded, WriteFailed, WriteOutcome, Written

QUERIES_AT_ONCE = 16
CLUSTER_CALLS_AT_ONCE = 16

_READ_SHARE = 2 / 3
"""The part of a sync's time that reads may take, so that a write still fits in."""


@dataclass(frozen=True, slots=True)
class World:
    """The outside of a sync."""

    metrics: MetricsReader
    scales: ScaleReader
    writer: ScaleWriter
    pods: PodLister
    reporter: Reporter


class Syncer:
    """Syncs a set of targets, and carries each one's history from one sync to the next.

    ``stop`` ends a sync early: writes in hand are finished, nothing new is begun.
    """

    def __init__(
        self, targets: Sequence[Target], flags: Flags, world: World, stop: threading.Event
    ) -> None:
        self.targets = targets
        self.flags = flags
        self.world = world
        self.stop = stop
        self.histories: dict[str, History] = {}
        self.overlaps = Overlaps()
        self.registered: set[str] = set()
        """Targets whose selector was read, or could not be, at least once."""
        self.queries = ThreadPoolExecutor(QUERIES_AT_ONCE, "query")
        self.cluster = ThreadPoolExecutor(CLUSTER_CALLS_AT_ONCE, "cluster")

    def __enter__(self) -> Self:
        """Return the syncer itself."""
        return self

    def __exit__(self, *_: object) -> None:
        """Wait for the calls in hand; those that have not begun are dropped."""
        self.queries.shutdown(cancel_futures=True)
        self.cluster.shutdown(cancel_futures=True)

    def sync(self, now: float, begun: float, budget: float) -> None:
        """Sync every target once, as of the Unix time ``now``.

        ``begun`` is the same instant on the monotonic clock; the sync ends within ``budget``
        seconds of it.
        """
        _Sync(self, now, begun + budget * _READ_SHARE, begun + budget).run()


@dataclass(slots=True)
class _Job:
    """One target during one sync: what was read so far, and how much is still awaited."""

    target: Target
    awaited: int
    scale: Scale | Unavailable = field(default_factory=lambda: Unavailable("not read yet"))
    pods: tuple[Pod, ...] | Unavailable | None = None
    ambiguous_with: tuple[str, ...] = ()


_Pods = tuple[Pod, ...] | Unavailable | None


class _Sync:
    """One run of `Syncer.sync`.  Its methods run on one thread; calls to the world do not."""

    def __init__(
        self, syncer: Syncer, now: float, read_deadline: float, write_deadline: float
    ) -> None:
        self.syncer = syncer
        self.now = now
        self.read_deadline = read_deadline
        self.write_deadline = write_deadline
        self.completions = Completions()
        self.answers: dict[str, Answer | QueryFailure] = {}
        self.asking: dict[str, list[_Job]] = defaultdict(list)
        self.unregistered: dict[str, int] = defaultdict(int)
        self.held: dict[str, list[_Job]] = defaultdict(list)

    def run(self) -> None:
        world, syncer = self.syncer.world, self.syncer
        for target in syncer.targets:
            queries = {query.promql for query in target.queries}
            job = _Job(target, awaited=len(queries) + 1)
            for promql in queries:
                self.asking[promql].append(job)
            if target.key not in syncer.registered:
                self.unregistered[target.namespace] += 1
            self.completions.submit(
                syncer.cluster,
                partial(self._take_scale, job),
                world.scales.read,
                target.namespace,
                target.spec.scale_target_ref,
                self.read_deadline,
            )
        for promql in self.asking:
            take = partial(self._take_answer, promql)
            self.completions.submit(
                syncer.queries, take, world.metrics.query, promql, self.read_deadline
            )
        self.completions.run(syncer.stop)

    def _take_answer(self, promql: str, answer: Answer | QueryFailure) -> None:
        self.answers[promql] = answer
        for job in self.asking[promql]:
            self._arrived(job)

    def _take_scale(self, job: _Job, scale: Scale | Unavailable) -> None:
        """Register the selector; a namespace's pods wait until all its selectors are known."""
        job.scale = scale
        target, syncer = job.target, self.syncer
        if isinstance(scale, Scale):
            syncer.overlaps.register(target.key, target.namespace, scale.selector)
        self.held[target.namespace].append(job)
        if target.key not in syncer.registered:
            syncer.registered.add(target.key)
            self.unregistered[target.namespace] -= 1
        if not self.unregistered[target.namespace]:
            for held in self.held.pop(target.namespace):
                self._look_at_pods(held)

    def _look_at_pods(self, job: _Job) -> None:
        partners = self.syncer.overlaps.partners(job.target.key)
        if isinstance(job.scale, Unavailable) or not (partners or needs_pods(job.target.spec)):
            self._arrived(job)
            return
        self.completions.submit(
            self.syncer.cluster,
            partial(self._take_pods, job),
            self._read_pods,
            job.target,
            job.scale.selector,
            partners,
        )

    def _read_pods(
        self, target: Target, selector: str, partners: dict[str, str]
    ) -> tuple[_Pods, tuple[str, ...]]:
        """List the target's pods, and the partners that select one of them too."""
        lister = self.syncer.world.pods
        pods: _Pods = None
        if needs_pods(target.spec):
            pods = lister.pods(target.namespace, selector, self.read_deadline)
        shared: list[str] = []
        for partner, other in partners.items():
            both = lister.pods(target.namespace, f"{selector},{other}", self.read_deadline)
            if isinstance(both, Unavailable):
                return both, ()
            if both:
                shared.append(partner)
        return pods, tuple(shared)

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
        if not decision.rescale or not isinstance(job.scale, Scale):
            syncer.world.reporter.report(SyncResult(target, decision))
            return
        self.completions.submit(
            syncer.cluster,
            partial(self._take_write, target, decision, previous),
            syncer.world.writer.write,
            target.namespace,
            target.spec.scale_target_ref,
            job.scale,
            decision.desired,
            self.write_deadline,
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
            decision, history = settle(target.spec, decision, history)
        elif isinstance(write, Superseded):
            error = f"somebody else set the replicas to {write.scale.spec_replicas} meanwhile"
            decision, history = settle_failure(decision, history, previous, error)
        elif isinstance(write, WriteFailed):
            decision, history = settle_failure(decision, history, previous, write.message)
        self.syncer.histories[target.key] = history
        self.syncer.world.reporter.report(SyncResult(target, decision, write))
