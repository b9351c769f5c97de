"""One sync of many targets: read, decide, write, report.

The course of one target is `SyncRun._sync`, a coroutine that waits only for its own inputs: a slow
query or a slow object delays only the targets that need it.
"""

from collections import Counter
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from functools import partial
from typing import NamedTuple, TypeVar

from autoscaler import clock
from autoscaler.core.breaker import goes_down, held_back
from autoscaler.core.decide import decide
from autoscaler.core.decision import Decision, Outcome
from autoscaler.core.entry import Inputs
from autoscaler.core.gaps import after_absence
from autoscaler.core.history import History
from autoscaler.core.instants import instants_of
from autoscaler.core.observation import Gap, Observation, Scale, Unavailable, Values
from autoscaler.core.readings import read, read_bound
from autoscaler.core.series import QueryFailure, QueryResult
from autoscaler.core.spec import needs_pods
from autoscaler.core.target import Query, QueryKey, Target
from autoscaler.core.writes import (
    NotWritten,
    NotWrittenReason,
    WriteFailed,
    WriteOutcome,
    intend,
    settle_write,
)
from autoscaler.schedules import open_windows
from autoscaler.sync.breakers import Turn
from autoscaler.sync.driver import Coroutine, Driver, Latch
from autoscaler.sync.fair_calls import NOT_BEGUN
from autoscaler.sync.pod_reads import PodReads, Pods
from autoscaler.sync.ports import SyncResult, SyncSummary
from autoscaler.sync.priority_pool import Urgency
from autoscaler.sync.state import SyncState

R = TypeVar("R")

_SCALE_SHARE, _READ_SHARE = 1 / 3, 2 / 3
"""The parts of a sync's time within which scales, and all that is read, must be there.

Pods wait for scales, and writes for everything.
"""

_STOPPING = "the daemon stops before its turn came"


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
    """One run of `Syncer.sync`.  Its methods run on one thread; calls to servers do not."""

    def __init__(self, state: SyncState, targets: Sequence[Target], times: SyncTimes) -> None:
        self.state = state
        self.ports = state.ports
        self.targets = targets
        self.times = times
        self.as_of = times.as_of
        self.begun = clock.monotonic()
        self.scale_deadline = self.begun + times.budget * _SCALE_SHARE
        self.read_deadline = self.begun + times.budget * _READ_SHARE
        self.write_deadline = self.begun + times.budget
        self.driver = Driver()
        self.answers: dict[QueryKey, QueryResult | QueryFailure] = {}
        self.answered: dict[QueryKey, Latch] = {}
        """Open once the answer is there."""
        self.registered: dict[str, Latch] = {}
        """By namespace, open once each selector is known, or known to be unknowable."""
        self.unregistered: set[str] = set()
        self.pod_reads = PodReads(self.ports, self.read_deadline)
        self.turn: Turn
        self.known_down: dict[Future[None], Latch] = {}
        """Open once it is known whether too many targets of a server would go down."""
        self.decisions: dict[str, Decision] = {}
        self.changed = 0
        self.failed = 0

    def run(self) -> None:
        """Sync every target, hand the histories to the store, and report the sum."""
        state, driver = self.state, self.driver
        state.register_cached(self.targets)
        missing = [target for target in self.targets if target.key not in state.overlaps]
        self.unregistered = {target.key for target in missing}
        for namespace, count in Counter(target.namespace for target in missing).items():
            self.registered[namespace] = driver.latch(count)
        queries = {query.key for target in self.targets for query in target.all_queries}
        for query in state.queries.in_order(queries):
            self.answered[query] = driver.latch(1)
            driver.start(self._ask(query))
        for target in sorted(self.targets, key=state.urgency):
            driver.start(self._sync(target))
        ahead = self.times.now - self.times.steady + state.histories.as_of - self.as_of
        turn = self.turn = state.breakers.begin(self.targets, ahead)
        try:
            driver.run(state.stop, self.write_deadline)
        finally:
            state.histories.keep(self.decisions, self.as_of)
            stopped = state.stop.is_set()
            state.tell(state.breakers.end(turn, self._steady(), stopped=stopped))
        self.ports.reporter.synced(
            SyncSummary(
                targets=len(self.targets),
                queries=len(queries),
                changed=self.changed,
                failed=self.failed,
                seconds=clock.monotonic() - self.begun,
            )
        )

    def _ask(self, query: QueryKey) -> Coroutine[None]:
        """Ask one query for all targets that need its answer."""
        reader = self.ports.metrics[query.server]
        self.answers[query] = yield from self._result(
            self.state.queries.ask(reader, query, self.read_deadline), QueryFailure
        )
        self.answered[query].count_down()

    def _sync(self, target: Target) -> Coroutine[None]:
        """Sync one target, from its scale to its report."""
        scale = yield from self._scale(target)
        pods, ambiguous_with = yield from self._pods(target, scale)
        for query in target.all_queries:
            answered = self.answered[query.key]
            if not answered.is_open:
                yield answered
        if self.state.stop.is_set():
            return
        decision, inputs = self._decide(target, scale, pods, ambiguous_with)
        previous = inputs.history
        if self.state.breakers.enabled:
            decision = yield from self._unless_held(target, decision, previous)
            if self.state.stop.is_set():
                return
        write: WriteOutcome | None = None
        if decision.rescale and isinstance(scale, Scale):
            if self.ports.leads_since() is None:
                write = NotWritten(NotWrittenReason.NOT_LEADING)
            else:
                decision, write = yield from self._write(target, scale, decision, previous)
        self.decisions[target.key] = decision
        self.ports.reporter.report(SyncResult(target, decision, write, inputs=inputs))

    def _scale(self, target: Target) -> Coroutine[Scale | Unavailable]:
        """Read the scale, and register its selector.

        The other targets of the namespace wait for that: their pods may be this one's too.
        """
        namespace, ref = target.namespace, target.spec.scale_target_ref
        try:
            scale = self.ports.cache.cached_scale(namespace, ref)
            if scale is None:
                call = partial(self.ports.scales.read, namespace, ref, self.scale_deadline)
                reading = self.state.read(
                    target, self.state.scale_read_order, self.scale_deadline, call
                )
                scale = yield from self._result(reading, Unavailable)
            if isinstance(scale, Scale):
                self.state.register(target, scale)
        finally:
            if target.key in self.unregistered:
                self.registered[namespace].count_down()
        return scale

    def _pods(
        self, target: Target, scale: Scale | Unavailable
    ) -> Coroutine[tuple[Pods, tuple[str, ...]]]:
        """Read the pods where the decision needs them, and which other targets select them too."""
        namespace = target.namespace
        registered = self.registered.get(namespace)
        if registered is not None and not registered.is_open:
            yield registered
        candidates = self.state.overlaps.candidates(target.key)
        if isinstance(scale, Unavailable) or not (candidates or needs_pods(target.spec)):
            return None, ()
        pods = None if candidates else self.ports.cache.cached_pods(namespace, scale.selector)
        if pods is not None:
            return pods, ()
        call = partial(self.pod_reads.read, namespace, scale.selector, candidates)
        reading = self.state.read(target, self.state.pod_read_order, self.read_deadline, call)
        return (yield from self._result(reading, lambda why: (Unavailable(why), ())))

    def _decide(
        self,
        target: Target,
        scale: Scale | Unavailable,
        pods: Pods,
        ambiguous_with: tuple[str, ...],
    ) -> tuple[Decision, Inputs]:
        """Decide, and return the decision with what it was made from."""
        key, state, steady = target.key, self.state, self.times.steady
        absent = steady - state.last_sync.get(key, steady)
        previous = after_absence(
            target, state.histories.get(key, self.as_of), absent, self.times.now
        )
        state.last_sync[key] = steady
        now = self.times.now + (clock.monotonic() - self.begun)
        stamp, now = instants_of(self.times.due, now, target.sync_period)
        observation = self._observation(target, scale, pods, ambiguous_with, now)
        decision, history = decide(
            target.spec, state.flags, observation, previous, now, stamp, target.extensions
        )
        if isinstance(scale, Scale):
            state.last_read[key] = steady
        state.histories.put(key, history, self.as_of)
        if decision.outcome is not Outcome.OK:
            self.failed += 1
        return decision, Inputs(observation, previous, now, stamp)

    def _observation(
        self,
        target: Target,
        scale: Scale | Unavailable,
        pods: Pods,
        ambiguous_with: tuple[str, ...],
        now: float,
    ) -> Observation:
        known = pods if isinstance(pods, tuple) else ()
        readings = tuple(
            read(metric, query, self.answers[query.key], target.namespace, known, now)
            for metric, query in zip(target.spec.metrics, target.queries, strict=True)
        )
        last_read = self.state.last_read.get(target.key)
        return Observation(
            scale,
            pods,
            readings,
            ambiguous_with,
            self.ports.cache.cached_controller(target.namespace, target.spec.scale_target_ref),
            self.state.is_sole_writer(target.key),
            None if last_read is None else self.times.now - (self.times.steady - last_read),
            tuple(query.range_seconds for query in target.queries),
            windows=open_windows(target.extensions.schedules, now),
            min_replicas_reading=self._bound(target.min_replicas_query, now),
            max_replicas_reading=self._bound(target.max_replicas_query, now),
        )

    def _bound(self, query: Query | None, now: float) -> Values | Gap | None:
        return None if query is None else read_bound(query, self.answers[query.key], now)

    def _unless_held(
        self, target: Target, decision: Decision, previous: History
    ) -> Coroutine[Decision]:
        """Hold a scale-down while too many targets of a server would go down (semantics 8.7).

        It waits until that is known, and no longer than for what is read: then all targets of this
        sync are decided, and there is still time to write.
        """
        breakers, key, down = self.state.breakers, target.key, goes_down(decision)
        now = self._steady()
        breakers.note(key, now, down=down)
        self.state.keep_trips()
        if not down:
            return decision
        # A hold of one server may end while another one is waited for: it is asked anew then.
        while waits := breakers.undecided(self.turn, key, now):
            for server, future in waits.items():
                yield self._known(server, future)
            if self.state.stop.is_set():
                return decision
            now = self._steady()
        self.state.keep_trips()
        held = breakers.hold(key, now)
        if held is None:
            return decision
        server, until = held
        until += self.times.now - self.times.steady
        history = self.state.histories.get(key, self.as_of)
        decision, history = held_back(decision, history, previous, server, until)
        self.state.histories.put(key, history, self.as_of)
        return decision

    def _known(self, server: str, future: Future[None]) -> Latch:
        """Return a latch for all that wait for a server; it opens once the future is done."""
        latch = self.known_down.get(future)
        if latch is None:
            latch = self.known_down[future] = self.driver.latch(1)
            self.driver.at(self.read_deadline, partial(self._give_up, server))
            self.driver.start(self._until_known(future, latch))
        return latch

    def _until_known(self, future: Future[None], latch: Latch) -> Coroutine[None]:
        """Open a latch once it is known whether too many targets of a server would go down."""
        yield future
        latch.count_down()

    def _give_up(self, server: str) -> None:
        self.state.breakers.give_up(self.turn, server, self._steady())

    def _steady(self) -> float:
        return self.times.steady + (clock.monotonic() - self.begun)

    def _write(
        self, target: Target, scale: Scale, decision: Decision, previous: History
    ) -> Coroutine[tuple[Decision, WriteOutcome]]:
        """Write the decided count; return the outcome, and the decision with what follows from it.

        The store has the write before it is sent: a crash between the two must not lose it.
        """
        key, histories, desired = target.key, self.state.histories, decision.desired
        history = histories.get(key, self.as_of)
        earlier = history.pending
        yield histories.intend(key, intend(decision, history), self.as_of)
        ref = target.spec.scale_target_ref
        sending = self.state.writes.submit(
            write_urgency(scale.spec_replicas, desired),
            target.namespace,
            partial(
                self.ports.writer.write, target.namespace, ref, scale, desired, self.write_deadline
            ),
        )
        # What raised may have been sent; what never began was not.
        write = yield from self._result(
            sending, lambda why: WriteFailed(why, unknown=not sending.cancelled())
        )
        history = histories.get(key, self.as_of)
        decision, history = settle_write(target.spec, decision, write, history, previous, earlier)
        histories.put(key, history, self.as_of)
        self.changed += decision.written
        return decision, write

    def _result(self, future: Future[R], failed: Callable[[str], R]) -> Coroutine[R]:
        """Wait for a call and return its result.

        ``failed`` makes one of a sentence where the call raised, which none should, or was
        cancelled before it began.
        """
        yield future
        if future.cancelled():
            return failed(_STOPPING if self.state.stop.is_set() else NOT_BEGUN)
        error = future.exception()
        if error is None:
            return future.result()
        self.ports.reporter.fault(error)
        name = type(error).__name__
        return failed(f"a fault of the autoscaler, {name}; its log has the details")


def write_urgency(current: int, desired: int) -> Urgency:
    """Return how urgent a write is: scale-ups first, then the larger relative change."""
    if desired > current:
        return 0, -(desired / current if current else float("inf"))
    return 1, -(current / desired if desired else float("inf"))
