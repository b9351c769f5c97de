"""One decision, from what was read to what is to be written (semantics 1).

`decide` is the HorizontalPodAutoscaler's reconcile without its reads and writes; what
follows from the answer to the write is in `autoscaler.core.writes`.
"""

from collections.abc import Sequence
from dataclasses import replace

from autoscaler.core.calculator import MetricContext, combine, propose
from autoscaler.core.contention import HOLD_SECONDS, held_until, observe
from autoscaler.core.decision import (
    Combination,
    Decision,
    ForeignChange,
    Limit,
    MetricFailure,
    MetricResult,
    Outcome,
    Stabilization,
    Zone,
)
from autoscaler.core.gaps import GapRules, follow_pods, follow_readings, refill_of, without
from autoscaler.core.history import UNKNOWN, History, Recommendation
from autoscaler.core.normalize import Normalizer, down_window
from autoscaler.core.observation import (
    Observation,
    Pod,
    Reading,
    Scale,
    Unavailable,
    Unchecked,
)
from autoscaler.core.selectors import selector_problem
from autoscaler.core.spec import (
    Flags,
    HorizontalPodAutoscalerSpec,
    MetricSpec,
    tolerance_of,
)
from autoscaler.core.status import ABLE_TO_SCALE, SCALING_ACTIVE, Notes, winner_name
from autoscaler.core.writes import resolve

ABOVE_MAX = "Current number of replicas above Spec.MaxReplicas"
BELOW_MIN = "Current number of replicas below Spec.MinReplicas"
ALL_BELOW = "All metrics below target"
LONGEST_WINDOW_SECONDS = 3600.0
"""The API permits no longer stabilizationWindowSeconds."""

CONTROLLED_BY_OTHER = "ControlledByOther"
REPLICAS_CONTESTED = "ReplicasContested"


def decide(
    spec: HorizontalPodAutoscalerSpec,
    flags: Flags,
    observation: Observation,
    history: History,
    now: float,
    stamp: float | None = None,
) -> tuple[Decision, History]:
    """Decide what one target's replicas ought to be at the instant ``now`` (Unix seconds).

    What is remembered of this sync is remembered as of ``stamp`` (`instants_of`), by default as
    of ``now``.  Returns the decision and the history to carry on with.  Nothing is written yet:
    where the decision says ``rescale``, the write's outcome goes to `settle` or `settle_failure`.
    """
    return _Reconcile(spec, flags, observation, history, now, stamp).run()


class _Reconcile:
    """One run of `decide`; notes and state gather here while it lasts."""

    def __init__(
        self,
        spec: HorizontalPodAutoscalerSpec,
        flags: Flags,
        observation: Observation,
        history: History,
        now: float,
        stamp: float | None,
    ) -> None:
        self.spec = spec
        self.flags = flags
        self.observation = observation
        self.history = history
        self.now = now
        self.stamp = now if stamp is None else stamp
        self.notes = Notes(history.conditions, now)
        self.tolerance = tolerance_of(spec, flags)
        self.foreign: ForeignChange | None = None
        looked = observation.looked
        self.gap_rules = GapRules(
            self.stamp, UNKNOWN if looked is None else looked, self.tolerance.down
        )

    def run(self) -> tuple[Decision, History]:
        scale = self.observation.scale
        self.history = follow_readings(
            self.history,
            self.spec.metrics,
            self.observation,
            self.gap_rules,
            down_window(self.spec.behavior, self.flags),
        )
        if isinstance(scale, Unavailable):
            self.notes.warn("FailedGetScale", scale.message)
            self.notes.false(ABLE_TO_SCALE, "FailedGetScale", scale.message)
            return self._finish(Zone.UNKNOWN, Outcome.BLOCKED)
        self.notes.true(ABLE_TO_SCALE, "SucceededGetScale", "the current scale was read")
        history = resolve(self.spec, self.history, scale)
        seen = self.observation
        self.history, self.foreign = observe(
            self.spec, history, scale, self.now, alone=seen.alone, looked=seen.looked
        )
        controller, why = self._other_autoscaler()
        if controller:
            return self._controlled(controller, why)
        current = scale.spec_replicas
        if self.history.recommendations is None or self.history.unobserved:
            # A restart alone never scales down (semantics 4.5), nor does one with a memory that
            # ends before what happened last.
            oldest = self.now - max(LONGEST_WINDOW_SECONDS, self.flags.downscale_stabilization)
            known = tuple(one for one in self.history.recommendations or () if one.time > oldest)
            found = Recommendation(current, self.stamp, first=True)
            self.history = replace(self.history, recommendations=(*known, found), unobserved=False)
        if current > 0 and self.history.zeroed_by_us:
            self.history = replace(self.history, zeroed_by_us=False)
        if current == 0 and self.spec.min_replicas != 0:
            return self._at_zero()
        if current > self.spec.max_replicas:
            return self._to_bound(Zone.ABOVE_MAX, self.spec.max_replicas, ABOVE_MAX)
        if current < self.spec.min_replicas:
            return self._to_bound(Zone.BELOW_MIN, self.spec.min_replicas, BELOW_MIN)
        return self._by_metrics(scale)

    def _other_autoscaler(self) -> tuple[str, str]:
        """Return which one controls the target, empty for none, and why that is not certain.

        Where it cannot be checked, what was known last stands: a restart is no reason to write.
        """
        seen, why = self.observation.controller or "", ""
        if isinstance(seen, Unchecked):
            why = seen.message
            seen = self.history.controller if seen.known is None else seen.known
        if seen != self.history.controller:
            self.history = replace(self.history, controller=seen)
        return seen, why

    def _controlled(self, controller: str, why: str) -> tuple[Decision, History]:
        """Leave the target to the other autoscaler.

        What the metrics asked for meanwhile is not known: once the other is gone, the count that
        it leaves is the first recommendation.
        """
        message = f"{controller} controls this target too; nothing is done until that is gone"
        if why:
            message = (
                f"{controller} controlled this target too when that was last known, and it cannot "
                f"be checked now ({why}); nothing is done until it is known to be gone"
            )
        self.notes.false(ABLE_TO_SCALE, CONTROLLED_BY_OTHER, message)
        self.notes.warn(CONTROLLED_BY_OTHER, message)
        self.history = replace(self.history, recommendations=None)
        return self._finish(Zone.CONTROLLED, Outcome.BLOCKED)

    def _at_zero(self) -> tuple[Decision, History]:
        """Leave a target alone that is at zero, unless our own write brought it there.

        Zero with minReplicas above it means that somebody switched the workload off.
        """
        if self.history.zeroed_by_us:
            return self._to_bound(Zone.BELOW_MIN, self.spec.min_replicas, BELOW_MIN)
        self.notes.false(
            SCALING_ACTIVE,
            "ScalingDisabled",
            "scaling is disabled, since the replicas of the target were set to zero",
        )
        return self._finish(Zone.DISABLED, Outcome.OK)

    def _to_bound(self, zone: Zone, desired: int, reason: str) -> tuple[Decision, History]:
        return self._finish(zone, Outcome.OK, desired, reason)

    def _by_metrics(self, scale: Scale) -> tuple[Decision, History]:
        pods = self._pods(scale)
        if pods is None:
            return self._finish(Zone.METRICS, Outcome.BLOCKED)
        context = MetricContext(scale, pods, self.tolerance, self.flags, self.now)
        ranges = self.observation.ranges or (None,) * len(self.spec.metrics)
        results = tuple(
            self._propose(metric, reading, seconds, context)
            for metric, reading, seconds in zip(
                self.spec.metrics, self.observation.readings, ranges, strict=True
            )
        )
        combined = self._combine(results, scale.spec_replicas)
        if combined is None:
            return self._finish(Zone.METRICS, Outcome.BLOCKED, metrics=results)
        self.notes.true(
            SCALING_ACTIVE,
            "ValidMetricFound",
            f"the replica count was computed from {combined.winner or 'the metrics'}",
        )
        return self._normalize(results, combined)

    def _pods(self, scale: Scale) -> Sequence[Pod] | None:
        """Return the pods; None where they forbid any decision (semantics 1.3.1)."""
        problem = selector_problem(scale.selector, self.observation.ambiguous_with)
        pods = self.observation.pods
        if problem is not None:
            event, reason, message = problem
            self.notes.warn(event, message)
        elif isinstance(pods, Unavailable):
            reason, message = "FailedListPods", pods.message
            self.notes.warn(reason, message)
        else:
            return () if pods is None else pods
        self.notes.false(SCALING_ACTIVE, reason, message)
        self.notes.warn("FailedComputeMetricsReplicas", f"no metric was computed: {message}")
        return None

    def _propose(
        self,
        metric: MetricSpec,
        reading: Reading,
        range_seconds: float | None,
        context: MetricContext,
    ) -> MetricResult:
        outcome = propose(metric, reading, context)
        result = MetricResult(metric, winner_name(metric), reading, outcome)
        if range_seconds is not None:
            result = self._after_gaps(result, range_seconds, context)
        if isinstance(result.outcome, MetricFailure):
            self.notes.warn(result.outcome.reason, result.outcome.message)
        return result

    def _after_gaps(
        self, result: MetricResult, range_seconds: float, context: MetricContext
    ) -> MetricResult:
        """Charge pods whose samples have just returned as missing, where all of them say less."""
        self.history, back = follow_pods(
            self.history, result, context.pods, range_seconds, self.gap_rules
        )
        proposal = result.proposal
        if back and proposal is not None and proposal < context.scale.spec_replicas:
            reading = without(result.reading, back)
            outcome = propose(result.metric, reading, context)
            if isinstance(outcome, MetricFailure) or outcome.proposal > proposal:
                result = replace(result, reading=reading, outcome=outcome)
        refill = refill_of(self.history, result.metric, range_seconds, self.now)
        return result if refill is None else replace(result, refill=refill)

    def _combine(self, results: Sequence[MetricResult], current: int) -> Combination | None:
        """Take the largest proposal; None where failures forbid a decision."""
        combined = combine(results, current)
        if isinstance(combined, Combination):
            return combined
        first, failed = combined
        message = f"the replica count could not be computed: {first.message}"
        self.notes.false(SCALING_ACTIVE, first.reason, message)
        self.notes.warn(
            "FailedComputeMetricsReplicas",
            f"{failed} of {len(results)} metrics are not usable; "
            f"the first of them: {first.message}",
        )
        return None

    def _normalize(
        self, results: tuple[MetricResult, ...], combined: Combination
    ) -> tuple[Decision, History]:
        current, desired = combined.before, combined.after
        reason = ""
        if desired > current:
            reason = f"{combined.winner} above target"
        elif desired < current:
            reason = ALL_BELOW
        rules = Normalizer(self.spec, self.flags, self.now, self.stamp)
        refills = [one.refill for one in results if one.refill is not None]
        if desired < current and refills:
            last = max(refills, key=lambda one: one.until)
            stabilized = rules.hold(current, desired, last, self.history, self.notes)
        else:
            stabilized, self.history = rules.stabilize(current, desired, self.history, self.notes)
        limited = rules.limit(current, stabilized.after, self.history, self.notes)
        return self._finish(
            Zone.METRICS,
            Outcome.PARTIAL if combined.failed else Outcome.OK,
            limited.after,
            reason,
            results,
            (combined, stabilized, limited),
        )

    def _finish(
        self,
        zone: Zone,
        outcome: Outcome,
        desired: int | None = None,
        reason: str = "",
        metrics: tuple[MetricResult, ...] = (),
        stages: tuple[Combination, Stabilization, Limit] | tuple[None, None, None] = (None,) * 3,
    ) -> tuple[Decision, History]:
        scale = self.observation.scale
        current = scale.spec_replicas if isinstance(scale, Scale) else 0
        held = None
        if desired is not None and desired != current:
            held = held_until(self.history.contention, self.flags.hold_after_reversals, self.now)
        if held is not None:
            outcome, desired = self._hold(), None
        decision = Decision(
            time=self.now,
            stamp=self.stamp,
            zone=zone,
            outcome=outcome,
            scale=scale,
            min_replicas=self.spec.min_replicas,
            max_replicas=self.spec.max_replicas,
            tolerance=self.tolerance,
            desired=current if desired is None else desired,
            rescale=desired is not None and desired != current,
            reason=reason,
            metrics=metrics,
            combination=stages[0],
            stabilization=stages[1],
            limit=stages[2],
            conditions=self.notes.conditions,
            events=tuple(self.notes.events),
            foreign=self.foreign,
            held_until=held,
        )
        history = replace(self.history, conditions=self.notes.conditions)
        if outcome is not Outcome.BLOCKED:
            history = replace(history, desired_replicas=decision.desired)
        return decision, history

    def _hold(self) -> Outcome:
        """Write nothing while somebody else undoes what we write."""
        message = (
            f"others undid our changes {self.flags.hold_after_reversals} times within "
            f"{HOLD_SECONDS:g} seconds; nothing is written until {HOLD_SECONDS:g} seconds after "
            "the last time"
        )
        self.notes.false(ABLE_TO_SCALE, REPLICAS_CONTESTED, message)
        self.notes.warn(REPLICAS_CONTESTED, message)
        return Outcome.BLOCKED
