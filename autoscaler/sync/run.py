"""One sync of many targets: read, decide, write, report.

A target's coroutine waits only for its own inputs: a slow query or object delays only the targets
that need it.
"""

import math
from collections import ChainMap
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future
from dataclasses import dataclass, field, replace
from functools import partial
from typing import TypeVar

from autoscaler import clock
from autoscaler.core.breaker import goes_down
from autoscaler.core.decision import Decision, Outcome
from autoscaler.core.observation import Observation, ReadFailure, Scale
from autoscaler.core.removals import cost_changes, is_over
from autoscaler.core.series import QueryFailure, QueryResult
from autoscaler.core.spec import needs_pods
from autoscaler.core.step import Step, SyncTimes, inputs_of, step_of
from autoscaler.core.sync_result import Rules
from autoscaler.core.target import QueryKey, Target
from autoscaler.core.writes import (
    AcceptedWrite,
    SkippedWrite,
    SkippedWriteReason,
    UnsetCosts,
    WriteFailure,
    WriteOutcome,
)
from autoscaler.schedules import open_windows
from autoscaler.sync.calls import NOT_BEGUN, Urgency
from autoscaler.sync.driver import Coroutine, Driver, promise
from autoscaler.sync.overlaps import Place, PodReads, Pods
from autoscaler.sync.ports import SyncSummary
from autoscaler.sync.state import SyncState

R = TypeVar("R")

_LIST_SHARE, _SCALE_SHARE, _READ_SHARE = 1 / 4, 1 / 3, 2 / 3
"""The parts of a sync's time for new lists after a suspension, for scales, and for all reads;
writes may use the rest."""

_WATCHED_WITHIN_SECONDS = 5.0
"""The maximum delay until a watch shows a write of another process."""

_COSTS_SECONDS, _COSTS_SHARE = 2.0, 1 / 2
"""The most time for deletion costs before a scale-down, in seconds and as a part of what is left
for the write."""

_COSTS_SEEN_SECONDS = 0.25
"""The pause after deletion costs were set. The controller's watch of pods may be a little later
than its watch of the count: without it, under load, 1 or 2 of 1,000 scale-downs removed another."""

_COST_ANSWER_SECONDS = 1.0
"""The most time that a sync waits for deletion costs after all other answers."""

_LATE = QueryFailure(f"no answer came within {_COST_ANSWER_SECONDS:g} s of the other answers")

_FIRST: Urgency = (0, -math.inf)
_LAST: Urgency = (2, 0.0)

_STOPPING = "the daemon is stopping, and this call was not sent"


@dataclass(eq=False)
class SyncRun:
    """One run of `Syncer.sync`. Its methods run on one thread; calls to servers do not."""

    state: SyncState
    targets: Sequence[Target]
    now: float
    budget: float
    steady: float
    """The instant of ``now`` by `clock.steady`."""
    due: float
    driver: Driver = field(default_factory=Driver)
    answers: dict[QueryKey, QueryResult | QueryFailure] = field(default_factory=dict)
    answered: dict[QueryKey, Future[None]] = field(default_factory=dict)
    """Done when the answer is there."""
    listed: dict[str, Future[None]] = field(default_factory=dict)
    """By cluster that is listed again: done when the list is complete or the wait ends."""
    registered: dict[Place, Future[None]] = field(default_factory=dict)
    """By cluster and namespace: done when each selector is known, or known to be unreadable."""
    unregistered: dict[Place, set[str]] = field(default_factory=dict)
    """The targets whose selectors ``registered`` waits for."""
    number: int = 0
    """The number of this sync, for the breakers."""
    awaited_servers: set[str] = field(default_factory=set)
    """The servers for which the sync waits until the breaker's count is complete."""
    decisions: dict[str, Decision] = field(default_factory=dict)
    changed: int = 0
    failed: int = 0

    def __post_init__(self) -> None:
        state = self.state
        self.flags, self.ports = state.flags, state.ports
        step, self.as_of = state.histories.follow_clock(self.now, self.steady)
        if step:
            self.ports.reporter.clock_set(step)
        self.begun, self.begun_steady = clock.monotonic(), self.ports.clock.steady()
        self.scale_deadline = self.begun + self.budget * _SCALE_SHARE
        self.read_deadline = self.begun + self.budget * _READ_SHARE
        self.write_deadline = self.begun + self.budget
        self.pod_reads = {
            name: PodReads(cluster, self.read_deadline)
            for name, cluster in self.ports.clusters.items()
        }

    def run(self) -> None:
        """Sync every target, pass the histories to the store, and report the sum."""
        state, driver = self.state, self.driver
        for name in {target.cluster for target in self.targets}:
            wait = self.ports.clusters[name].listing_anew()
            if wait is not None:
                call = partial(wait, self.begun + self.budget * _LIST_SHARE)
                self.listed[name] = state.cluster_calls.reads[name].submit(_FIRST, "", call)
        state.register_cached(self.targets)
        for target in self.targets:
            if target.key not in state.overlaps:
                self.unregistered.setdefault(target.place, set()).add(target.key)
        self.registered = {place: promise() for place in self.unregistered}
        queries = {query.key for target in self.targets for query in target.all_queries}
        for query in state.queries.in_order(queries):
            self.answered[query] = promise()
            driver.start(self._ask(query))
        # In case their scales or pods must be read individually.
        orders = (state.scale_read_order, state.pod_read_order)
        for target in sorted(
            self.targets, key=lambda target: [by.urgency(target.key) for by in orders]
        ):
            driver.start(self._sync(target))
        ahead = self.now - self.steady + state.histories.as_of - self.as_of
        self.number = state.breakers.begin(self.targets, ahead)
        try:
            driver.run(state.stop, self.write_deadline)
        finally:
            state.histories.keep(self.decisions, self.as_of)
            stopped = state.stop.is_set()
            state.report_breakers(state.breakers.end(self.number, self._steady(), stopped=stopped))
        seconds = clock.monotonic() - self.begun
        self.ports.reporter.synced(
            SyncSummary(len(self.targets), len(queries), self.changed, self.failed, seconds)
        )

    def _ask(self, query: QueryKey) -> Coroutine[None]:
        """Ask one query for all targets that need its answer."""
        reader = self.ports.metrics[query.server]
        self.answers[query] = yield from self._result(
            self.state.queries.ask(reader, query, self.read_deadline), QueryFailure
        )
        self.answered[query].set_result(None)

    def _sync(self, target: Target) -> Coroutine[None]:
        """Sync one target, from its scale to its report."""
        scale = yield from self._scale(target)
        pods, ambiguous_with = yield from self._pods(target, scale)
        for query in target.deciding_queries:
            answered = self.answered[query.key]
            if not answered.done():
                yield answered
        if target.deletion_cost is not None:
            yield from self._wait_briefly(target.deletion_cost.key)
        if self.state.stop.is_set():
            return
        step = self._decided(target, scale, pods, ambiguous_with)
        if self.state.breakers.enabled:
            step = yield from self._unless_held(step)
            if self.state.stop.is_set():
                return
        if step.decision.rescale and isinstance(scale, Scale):
            step = yield from self._written(step, scale)
        self.decisions[target.key] = step.decision
        self.ports.reporter.report(step.result)
        if target.deletion_cost is not None:
            yield from self._remove_costs(step)

    def _wait_briefly(self, query: QueryKey) -> Coroutine[None]:
        """Wait a short time for an answer on which no count depends."""
        answered, either = self.answered[query], promise()

        def finish(_: object = None) -> None:
            if not either.done():
                either.set_result(None)

        if not answered.done():
            answered.add_done_callback(finish)
            self.driver.call_at(clock.monotonic() + _COST_ANSWER_SECONDS, finish)
            yield either

    def _scale(self, target: Target) -> Coroutine[Scale | ReadFailure]:
        """Read the scale, and register its selector for the namespace's other targets."""
        namespace, ref = target.namespace, target.spec.scale_target_ref
        cluster = self.ports.clusters[target.cluster]
        try:
            listed = self.listed.get(target.cluster)
            if listed is not None:
                yield from self._result(listed, lambda _: None)
            scale = cluster.cached_scale(namespace, ref)
            if scale is None:
                call = partial(cluster.read_scale, namespace, ref, self.scale_deadline)
                reading = self.state.read(
                    target, self.state.scale_read_order, self.scale_deadline, call
                )
                scale = yield from self._result(reading, ReadFailure)
            if isinstance(scale, Scale):
                self.state.overlaps.register(target.key, target.place, scale.selector)
        finally:
            left = self.unregistered.get(target.place, set())
            if target.key in left:
                left.remove(target.key)
                if not left:
                    self.registered[target.place].set_result(None)
        return scale

    def _pods(
        self, target: Target, scale: Scale | ReadFailure
    ) -> Coroutine[tuple[Pods, tuple[str, ...]]]:
        """Read the pods if the decision needs them, and the other targets that select them."""
        namespace = target.namespace
        registered = self.registered.get(target.place)
        if registered is not None and not registered.done():
            yield registered
        candidates = self.state.overlaps.candidates(target.key)
        if isinstance(scale, ReadFailure) or not (candidates or target.needs_pods):
            return None, ()
        cluster = self.ports.clusters[target.cluster]
        pods = None if candidates else cluster.cached_pods(namespace, scale.selector)
        if pods is not None:
            return pods, ()
        reads = self.pod_reads[target.cluster]
        call = partial(reads.read, namespace, scale.selector, candidates)
        reading = self.state.read(target, self.state.pod_read_order, self.read_deadline, call)
        found = yield from self._result(reading, lambda why: (ReadFailure(why), ()))
        if isinstance(found[0], ReadFailure) and not (candidates or needs_pods(target.spec)):
            # Only the deletion costs need the pods, and they must not prevent a decision.
            return None, ()
        return found

    def _decided(
        self,
        target: Target,
        scale: Scale | ReadFailure,
        pods: Pods,
        ambiguous_with: tuple[str, ...],
    ) -> Step:
        """Decide, and remember the new history."""
        key, state, cluster = target.key, self.state, self.ports.clusters[target.cluster]
        ref = target.spec.scale_target_ref
        controller = None
        if isinstance(scale, Scale):
            controller = cluster.cached_controller(target.namespace, ref)
        last_read, hpa = self._unix(state.last_read.get(key)), None
        if controller is not None:
            since = self.now if last_read is None else last_read
            hpa = cluster.cached_hpa(target.namespace, ref, since)
        seen = Observation(
            scale,
            pods,
            readings=(),
            ambiguous_with=ambiguous_with,
            controller=controller,
            sole_writer=self._is_sole_writer(target),
            last_read=last_read,
            last_sync=self._unix(state.last_sync.get(key)),
            hpa=hpa,
        )
        times = SyncTimes(self.due, self.now, self.now + self._elapsed())
        history = state.histories.get(key, self.as_of)
        answers: Mapping[QueryKey, QueryResult | QueryFailure] = self.answers
        if target.deletion_cost is not None and target.deletion_cost.key not in answers:
            answers = ChainMap({target.deletion_cost.key: _LATE}, self.answers)
        inputs = inputs_of(target, history, seen, answers, times, open_windows)
        step = step_of(Rules(target, self.flags), inputs)
        state.last_sync[key] = self.steady
        if isinstance(scale, Scale):
            state.last_read[key] = self.steady
        state.histories.put(key, step.history, self.as_of)
        self.failed += step.decision.outcome is not Outcome.OK
        return step

    def _is_sole_writer(self, target: Target) -> bool:
        """Return whether no other process with our Lease wrote since the scale was last read.

        A read just after this process became the leader may lack writes of the previous leader.
        """
        since = self.ports.clusters[target.cluster].leads_since(target.namespace)
        read = self.state.last_read.get(target.key, -math.inf)
        return since is not None and since + _WATCHED_WITHIN_SECONDS <= read

    def _unix(self, steady: float | None) -> float | None:
        """Return the Unix time of an instant of `clock.steady`."""
        return None if steady is None else self.now - (self.steady - steady)

    def _unless_held(self, step: Step) -> Coroutine[Step]:
        """Hold a scale-down while too many targets of a server would scale down (semantics 8.7).

        It waits until the count is complete, at most until the read deadline: then there is still
        time to write.
        """
        breakers, key, now = self.state.breakers, step.rules.target.key, self._steady()
        down = goes_down(step.decision)
        breakers.note(key, now, down=down, in_shadow=step.decision.in_shadow)
        if not down:
            return step
        # A hold of one server may end while the sync waits for another: check it again.
        while waits := breakers.undecided(self.number, key, now):
            for server, future in waits.items():
                if server not in self.awaited_servers:
                    self.awaited_servers.add(server)
                    self.driver.call_at(self.read_deadline, partial(self._give_up, server))
                yield future
            if self.state.stop.is_set():
                return step
            now = self._steady()
        ahead = self.now - self.steady
        holds = {server: until + ahead for server, until in breakers.holds(key, now).items()}
        after = step.held_back(holds)
        if after is not step:
            self.state.histories.put(key, after.history, self.as_of)
        return after

    def _give_up(self, server: str) -> None:
        self.state.breakers.give_up(self.number, server, self._steady())

    def _steady(self) -> float:
        return self.steady + self._elapsed()

    def _elapsed(self) -> float:
        """Return how long the sync has run, by the clock of decisions."""
        return self.ports.clock.steady() - self.begun_steady

    def _written(self, step: Step, scale: Scale) -> Coroutine[Step]:
        """Write the count, if this process may; the store has it first, so no crash loses it."""
        if step.decision.in_shadow:
            return step.settled(SkippedWrite(SkippedWriteReason.SHADOW))
        target, desired = step.rules.target, step.decision.desired
        cluster = self.ports.clusters[target.cluster]
        if cluster.leads_since(target.namespace) is None:
            return step.settled(SkippedWrite(SkippedWriteReason.NOT_LEADING))
        yield self.state.histories.intend(target.key, step.intended(), self.as_of)
        sending = self.state.cluster_calls.writes[target.cluster].submit(
            write_urgency(scale.spec_replicas, desired),
            target.namespace,
            partial(self._write, step, scale),
        )
        # A call that raised may have been sent; one that never began was not.
        write = yield from self._result(
            sending, lambda why: WriteFailure(why, unknown=not sending.cancelled())
        )
        step = step.settled(write)
        self.state.histories.put(target.key, step.history, self.as_of)
        self.changed += step.decision.written
        return step

    def _write(self, step: Step, scale: Scale) -> WriteOutcome:
        """Write the count, and before it the deletion costs of pods; called on a thread."""
        target, decision, unset = step.rules.target, step.decision, None
        if decision.removals is not None:
            unset = self._set_costs(step, decision.removals.costs)
        cluster, ref = self.ports.clusters[target.cluster], target.spec.scale_target_ref
        write = cluster.write_scale(
            target.namespace, ref, scale, decision.desired, self.write_deadline
        )
        if unset is not None and unset.pods and isinstance(write, AcceptedWrite):
            return replace(write, unset_costs=unset)
        return write

    def _set_costs(self, step: Step, costs: Mapping[str, int]) -> UnsetCosts | None:
        """Set deletion costs, and pause so that the controller sees them before the count."""
        target, pods, begun = step.rules.target, step.inputs.observation.pods, clock.monotonic()
        changes = cost_changes(pods, costs) if isinstance(pods, tuple) else {}
        if not changes:
            return None
        last = begun + min(_COSTS_SECONDS, (self.write_deadline - begun) * _COSTS_SHARE)
        wanted = tuple(pod for pod, cost in changes.items() if cost is not None)
        try:
            cluster = self.ports.clusters[target.cluster]
            unset = cluster.set_deletion_costs(target.namespace, changes, last)
        except Exception as error:  # noqa: BLE001 - a defect must not prevent the write
            self.ports.reporter.fault(error)
            return UnsetCosts(wanted, _fault(error))
        if len(unset.pods) < len(wanted):
            left = last - clock.monotonic()
            self.state.stop.wait(max(0.0, min(_COSTS_SEEN_SECONDS, left)))
        return unset

    def _remove_costs(self, step: Step) -> Coroutine[None]:
        """Remove our deletion costs once a scale-down is over (semantics 8.14)."""
        target, seen, decision = step.rules.target, step.inputs.observation, step.decision
        cluster = self.ports.clusters[target.cluster]
        if decision.in_shadow or cluster.leads_since(target.namespace) is None:
            return
        if decision.rescale and decision.desired < (decision.current or 0):
            return
        changes = cost_changes(seen.pods, {}) if isinstance(seen.pods, tuple) else {}
        if changes and is_over(seen):
            call = partial(
                cluster.set_deletion_costs, target.namespace, changes, self.write_deadline
            )
            pool = self.state.cluster_calls.writes[target.cluster]
            yield from self._result(
                pool.submit(_LAST, target.namespace, call), lambda _: UnsetCosts()
            )

    def _result(self, future: Future[R], failed: Callable[[str], R]) -> Coroutine[R]:
        """Wait for a call and return its result, or the result of ``failed`` for its error."""
        yield future
        if future.cancelled():
            return failed(_STOPPING if self.state.stop.is_set() else NOT_BEGUN)
        error = future.exception()
        if error is None:
            return future.result()
        self.ports.reporter.fault(error)
        return failed(_fault(error))


def _fault(error: BaseException) -> str:
    name = type(error).__name__
    return f"a fault of the autoscaler, {name}; its log has the details"


def write_urgency(current: int, desired: int) -> Urgency:
    """Return the urgency of a write: scale-ups first, then larger relative changes."""
    if desired > current:
        return 0, -(desired / current if current else float("inf"))
    return 1, -(current / desired if desired else float("inf"))


class Syncer(SyncState):
    """Syncs targets, also several syncs at the same time, and keeps their histories."""

    def sync(
        self,
        targets: Sequence[Target],
        now: float,
        budget: float,
        *,
        steady: float | None = None,
        due: float | None = None,
    ) -> None:
        """Sync every target once, at the Unix time ``now``, within ``budget`` seconds.

        It was due at ``due``, or ``now``. If the clock was set since the last sync, which
        ``steady`` (of `clock.steady`, at ``now``) shows, windows and periods move with it.
        """
        steady = self.ports.clock.steady() if steady is None else steady
        SyncRun(self, targets, now, budget, steady, now if due is None else due).run()
