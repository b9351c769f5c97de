"""One decision: the HPA's reconcile without its reads and writes (semantics 1).

What follows from the outcome of the write is in `autoscaler.core.writes`.
"""

from collections.abc import Sequence
from dataclasses import replace

from autoscaler.core.calculator import MetricContext, combine, propose
from autoscaler.core.contention import HOLD_SECONDS, held_until, note_changes
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
from autoscaler.core.gaps import (
    GapTracker,
    current_refill,
    track_pods,
    track_readings,
    without_samples,
)
from autoscaler.core.history import UNKNOWN, History, Recommendation
from autoscaler.core.normalize import Normalizer, down_window
from autoscaler.core.observation import Observation, Pod, Reading, Scale, Unavailable, Unchecked
from autoscaler.core.selectors import selector_problem
from autoscaler.core.spec import Flags, HorizontalPodAutoscalerSpec, MetricSpec, tolerance_of
from autoscaler.core.status import ABLE_TO_SCALE, SCALING_ACTIVE, StatusRecorder, winner_name
from autoscaler.core.writes import resolve

ABOVE_MAX = "Current number of replicas above Spec.MaxReplicas"
BELOW_MIN = "Current number of replicas below Spec.MinReplicas"
ALL_BELOW = "All metrics below target"
LONGEST_WINDOW_SECONDS = 3600.0
"""The longest stabilizationWindowSeconds that the API permits."""

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
    """Decide on the replicas of one target at the instant ``now`` (Unix seconds).

    The history records the sync as of ``stamp`` (`instants_of`), by default as of ``now``.
    Returns the decision and the new history.  If the decision says ``rescale``, the caller writes
    the scale and passes the outcome to `settle` or `settle_failure`.
    """
    return _Reconcile(spec, flags, observation, history, now, stamp).run()


class _Reconcile:
    """One run of `decide`: its arguments, and the history and status as they change."""

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
        self.status = StatusRecorder(history.conditions, now)
        self.tolerance = tolerance_of(spec, flags)
        self.foreign: ForeignChange | None = None
        last = observation.last_read
        self.gap_tracker = GapTracker(
            self.stamp, UNKNOWN if last is None else last, self.tolerance.down
        )

    def run(self) -> tuple[Decision, History]:
        """Take the steps of semantics 1.1."""
        scale = self.observation.scale
        window = down_window(self.spec.behavior, self.flags)
        self.history = track_readings(
            self.history, self.spec.metrics, self.observation, self.gap_tracker, window
        )
        if isinstance(scale, Unavailable):
            self.status.warn("FailedGetScale", scale.message)
            self.status.set_false(ABLE_TO_SCALE, "FailedGetScale", scale.message)
            return self._finish(Zone.UNKNOWN, Outcome.BLOCKED)
        self.status.set_true(ABLE_TO_SCALE, "SucceededGetScale", "the current scale was read")
        history = resolve(self.spec, self.history, scale)
        self.history, self.foreign = note_changes(
            self.spec,
            history,
            scale,
            self.now,
            sole_writer=self.observation.sole_writer,
            last_read=self.observation.last_read,
        )
        controller, why = self._other_autoscaler()
        if controller:
            return self._controlled(controller, why)
        self._record_initial_recommendation(scale.spec_replicas)
        return self._in_zone(scale)

    def _other_autoscaler(self) -> tuple[str, str]:
        """Return the autoscaler that controls the target, and why that is uncertain; or "".

        If it cannot be checked, the last known one stands, also after a restart.
        """
        found, why = self.observation.controller or "", ""
        if isinstance(found, Unchecked):
            why = found.message
            found = self.history.controller if found.known is None else found.known
        if found != self.history.controller:
            self.history = replace(self.history, controller=found)
        return found, why

    def _controlled(self, controller: str, why: str) -> tuple[Decision, History]:
        """Leave the target to the other autoscaler (semantics 7.6).

        Recommendations are dropped, since none are recorded meanwhile: the count that the other
        one leaves becomes the first.
        """
        message = f"{controller} controls this target too; nothing is done until that is gone"
        if why:
            message = (
                f"{controller} controlled this target too when that was last known, and it cannot "
                f"be checked now ({why}); nothing is done until it is known to be gone"
            )
        self.status.set_false(ABLE_TO_SCALE, CONTROLLED_BY_OTHER, message)
        self.status.warn(CONTROLLED_BY_OTHER, message)
        self.history = replace(self.history, recommendations=None)
        return self._finish(Zone.CONTROLLED, Outcome.BLOCKED)

    def _record_initial_recommendation(self, current: int) -> None:
        """Record the current count if there is no recommendation, or a hole (semantics 4.5)."""
        if self.history.recommendations is not None and not self.history.unobserved:
            return
        oldest = self.now - max(LONGEST_WINDOW_SECONDS, self.flags.downscale_stabilization)
        kept = tuple(one for one in self.history.recommendations or () if one.time > oldest)
        initial = Recommendation(current, self.stamp, first=True)
        self.history = replace(self.history, recommendations=(*kept, initial), unobserved=False)

    def _in_zone(self, scale: Scale) -> tuple[Decision, History]:
        """Decide by the first zone that matches (semantics 1.2, 6.7)."""
        current, spec = scale.spec_replicas, self.spec
        if current > 0 and self.history.zeroed_by_us:
            self.history = replace(self.history, zeroed_by_us=False)
        if current == 0 and spec.min_replicas != 0 and not self.history.zeroed_by_us:
            self.status.set_false(
                SCALING_ACTIVE,
                "ScalingDisabled",
                "scaling is disabled, since the replicas of the target were set to zero",
            )
            return self._finish(Zone.DISABLED, Outcome.OK)
        if current > spec.max_replicas:
            return self._finish(Zone.ABOVE_MAX, Outcome.OK, spec.max_replicas, ABOVE_MAX)
        if current < spec.min_replicas:
            return self._finish(Zone.BELOW_MIN, Outcome.OK, spec.min_replicas, BELOW_MIN)
        return self._by_metrics(scale)

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
        self.status.set_true(
            SCALING_ACTIVE,
            "ValidMetricFound",
            f"the replica count was computed from {combined.winner or 'the metrics'}",
        )
        return self._normalize(results, combined)

    def _pods(self, scale: Scale) -> Sequence[Pod] | None:
        """Return the pods; None if selector or pods block the decision (semantics 1.3.1)."""
        problem = selector_problem(scale.selector, self.observation.ambiguous_with)
        pods = self.observation.pods
        if problem is not None:
            event, reason, message = problem
            self.status.warn(event, message)
        elif isinstance(pods, Unavailable):
            reason, message = "FailedListPods", pods.message
            self.status.warn(reason, message)
        else:
            return () if pods is None else pods
        self.status.set_false(SCALING_ACTIVE, reason, message)
        self.status.warn("FailedComputeMetricsReplicas", f"no metric was computed: {message}")
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
            self.status.warn(result.outcome.reason, result.outcome.message)
        return result

    def _after_gaps(
        self, result: MetricResult, range_seconds: float, context: MetricContext
    ) -> MetricResult:
        """Apply the rules of gaps (semantics 7.2).

        A pod that refills counts as missing if the metric would otherwise propose less than the
        current count, and more (or nothing) without its sample.
        """
        self.history, refilling = track_pods(
            self.history, result, context.pods, range_seconds, self.gap_tracker
        )
        proposal = result.proposal
        if refilling and proposal is not None and proposal < context.scale.spec_replicas:
            reading = without_samples(result.reading, refilling)
            outcome = propose(result.metric, reading, context)
            if isinstance(outcome, MetricFailure) or outcome.proposal > proposal:
                result = replace(result, reading=reading, outcome=outcome)
        refill = current_refill(self.history, result.metric, range_seconds, self.now)
        return result if refill is None else replace(result, refill=refill)

    def _combine(self, results: Sequence[MetricResult], current: int) -> Combination | None:
        """Combine the proposals; None if failed metrics block the decision."""
        combined = combine(results, current)
        if isinstance(combined, Combination):
            return combined
        first, failed = combined
        message = f"the replica count could not be computed: {first.message}"
        self.status.set_false(SCALING_ACTIVE, first.reason, message)
        self.status.warn(
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
        normalizer = Normalizer(self.spec, self.flags, self.now, self.stamp, self.status)
        refills = [one.refill for one in results if one.refill is not None]
        if desired < current and refills:
            last = max(refills, key=lambda one: one.until)
            stabilized = normalizer.hold(current, desired, last, self.history)
        else:
            stabilized, self.history = normalizer.stabilize(current, desired, self.history)
        limited = normalizer.limit(current, stabilized.after, self.history)
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
        rescale = desired is not None and desired != current
        held = self._held_until() if rescale else None
        if held is not None:
            outcome, rescale = Outcome.BLOCKED, False
        decision = Decision(
            time=self.now,
            stamp=self.stamp,
            zone=zone,
            outcome=outcome,
            scale=scale,
            min_replicas=self.spec.min_replicas,
            max_replicas=self.spec.max_replicas,
            tolerance=self.tolerance,
            desired=desired if rescale and desired is not None else current,
            rescale=rescale,
            reason=reason,
            metrics=metrics,
            combination=stages[0],
            stabilization=stages[1],
            limit=stages[2],
            conditions=self.status.conditions,
            events=tuple(self.status.events),
            foreign=self.foreign,
            held_until=held,
        )
        history = replace(self.history, conditions=self.status.conditions)
        if outcome is not Outcome.BLOCKED:
            history = replace(history, desired_replicas=decision.desired)
        return decision, history

    def _held_until(self) -> float | None:
        """Return until when a contested target is held; None if it is not (semantics 7.5)."""
        held = held_until(self.history.contention, self.flags.hold_after_reversals, self.now)
        if held is None:
            return None
        message = (
            f"others undid our changes {self.flags.hold_after_reversals} times within "
            f"{HOLD_SECONDS:g} seconds; nothing is written until {HOLD_SECONDS:g} seconds after "
            "the last time"
        )
        self.status.set_false(ABLE_TO_SCALE, REPLICAS_CONTESTED, message)
        self.status.warn(REPLICAS_CONTESTED, message)
        return held
