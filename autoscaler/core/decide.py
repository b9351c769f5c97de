"""One decision: the HPA's reconcile without its reads and writes (semantics 1).

What follows from the outcome of the write is in `autoscaler.core.writes`.
"""

from collections.abc import Sequence
from dataclasses import replace

from autoscaler.core.bounds import bounds_in_force, gives_least
from autoscaler.core.calculator import MetricContext, combine, propose
from autoscaler.core.contention import HOLD_SECONDS, held_until, note_changes
from autoscaler.core.decision import (
    Activity,
    Bounds,
    Combination,
    Decision,
    ForeignChange,
    IdleStatus,
    Limit,
    MetricFailure,
    MetricResult,
    Outcome,
    Stabilization,
    Zone,
)
from autoscaler.core.extensions import NO_EXTENSIONS, Extensions, Pause, PauseMode
from autoscaler.core.fallbacks import tell_fallback, with_fallback
from autoscaler.core.gaps import (
    GapTracker,
    current_refill,
    track_pods,
    track_readings,
    without_samples,
)
from autoscaler.core.history import (
    UNKNOWN,
    FailureStreak,
    History,
    Recommendation,
)
from autoscaler.core.idling import Activities, activities_of, idle_status, is_active, note_activity
from autoscaler.core.limits import TOO_FEW, WITHIN_RANGE
from autoscaler.core.normalize import READY, Normalizer, down_window
from autoscaler.core.observation import (
    Observation,
    Pod,
    Reading,
    Scale,
    Unavailable,
    Unchecked,
)
from autoscaler.core.pauses import INVALID_ANNOTATION, pause_in_force, permitted
from autoscaler.core.saturation import note_saturation
from autoscaler.core.selectors import selector_problem
from autoscaler.core.spec import (
    Flags,
    HorizontalPodAutoscalerSpec,
    MetricSpec,
    measures_pods,
    tolerance_of,
)
from autoscaler.core.status import (
    ABLE_TO_SCALE,
    SCALING_ACTIVE,
    SCALING_LIMITED,
    WITHIN_RANGE_MESSAGE,
    StatusRecorder,
    winner_name,
)
from autoscaler.core.writes import resolve

ABOVE_MAX = "Current number of replicas above Spec.MaxReplicas"
BELOW_MIN = "Current number of replicas below Spec.MinReplicas"
ALL_BELOW = "All metrics below target"
LONGEST_WINDOW_SECONDS = 3600.0
"""The longest stabilizationWindowSeconds that the API permits."""

CONTROLLED_BY_OTHER = "ControlledByOther"
REPLICAS_CONTESTED = "ReplicasContested"
NONE_ACTIVE = "no metric is active"

_Stages = tuple[Combination, Stabilization, Limit] | tuple[None, None, Limit | None]


def decide(
    spec: HorizontalPodAutoscalerSpec,
    flags: Flags,
    observation: Observation,
    history: History,
    now: float,
    stamp: float | None = None,
    extensions: Extensions = NO_EXTENSIONS,
) -> tuple[Decision, History]:
    """Decide on the replicas of one target at the instant ``now`` (Unix seconds).

    The history records the sync as of ``stamp`` (`instants_of`), by default as of ``now``.
    Returns the decision and the new history.  If the decision says ``rescale``, the caller writes
    the scale and passes the outcome to `settle` or `settle_failure`.
    """
    return _Reconcile(spec, flags, observation, history, now, stamp, extensions).run()


class _Reconcile:
    """One run of `decide`: its arguments, and the history and status as they change.

    ``spec`` has the bounds in force.
    """

    def __init__(
        self,
        spec: HorizontalPodAutoscalerSpec,
        flags: Flags,
        observation: Observation,
        history: History,
        now: float,
        stamp: float | None,
        extensions: Extensions,
    ) -> None:
        self.spec = spec
        self.own_minimum = spec.min_replicas
        self.flags = flags
        self.observation = observation
        self.history = history
        self.now = now
        self.stamp = now if stamp is None else stamp
        self.extensions = extensions
        self.status = StatusRecorder(history.conditions, now)
        self.tolerance = tolerance_of(spec, flags)
        self.foreign: ForeignChange | None = None
        self.pause: Pause | None = None
        self.bounds: Bounds | None = None
        self.activities: Activities = (None,) * len(spec.metrics)
        self.idle: IdleStatus | None = None
        self.recommendations = history.recommendations
        self.extended = history.extended
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
        self._take_extensions(scale)
        self._record_initial_recommendation(scale.spec_replicas)
        return self._in_zone(scale)

    def _take_extensions(self, scale: Scale) -> None:
        """Find the pause, the bounds in force and the activity (semantics 8.1 to 8.3)."""
        extensions, observation = self.extensions, self.observation
        if scale.annotations or extensions.pause is not None:
            self.pause, problems = pause_in_force(extensions.pause, scale.annotations, self.now)
            for problem in problems:
                self.status.warn(INVALID_ANNOTATION, problem)
        kept_awake = False
        if extensions.schedules or observation.asks_for_bounds:
            own = self.spec
            self.bounds, self.extended = bounds_in_force(own, observation, self.extended, self.now)
            low, high = self.bounds.minimum.replicas, self.bounds.maximum.replicas
            if low != own.min_replicas or high != own.max_replicas:
                self.spec = replace(own, min_replicas=low, max_replicas=high)
            kept_awake = low > own.min_replicas or gives_least(
                observation.windows, own.min_replicas
            )
        if extensions.idle is not None:
            self.activities = activities_of(
                self.spec.metrics, extensions, observation, self.history, self.now
            )
            is_new = self.recommendations is None
            active = kept_awake or is_active(self.activities)
            self.extended = note_activity(self.extended, self.stamp, active=active, is_new=is_new)
            self.idle = idle_status(
                extensions.idle, self.activities, self.extended, scale.spec_replicas, kept_awake
            )
            if self.idle.asleep and self.recommendations:
                self.recommendations = ()

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
        self.recommendations = None
        return self._finish(Zone.CONTROLLED, Outcome.BLOCKED)

    def _record_initial_recommendation(self, current: int) -> None:
        """Record the current count if there is no recommendation, or a hole (semantics 4.5)."""
        if self.recommendations is not None and not self.history.unobserved:
            return
        oldest = self.now - max(LONGEST_WINDOW_SECONDS, self.flags.downscale_stabilization)
        kept = tuple(one for one in self.recommendations or () if one.time > oldest)
        initial = Recommendation(current, self.stamp, first=True)
        self.recommendations = (*kept, initial)
        self.history = replace(self.history, unobserved=False)

    def _in_zone(self, scale: Scale) -> tuple[Decision, History]:
        """Decide by the first zone that matches (semantics 1.2, 6.7, 8.1 to 8.3)."""
        current, spec, idle = scale.spec_replicas, self.spec, self.idle
        if current > 0 and self.history.zeroed_by_us:
            self.history = replace(self.history, zeroed_by_us=False)
        switched_off = current == 0 and self.own_minimum != 0 and idle is None
        if self.pause is not None and self.pause.mode is PauseMode.ALL:
            if switched_off:  # nothing can be measured
                return self._finish(Zone.PAUSED, Outcome.OK)
            return self._by_metrics(scale)
        if switched_off and not self.history.zeroed_by_us:
            self.status.set_false(
                SCALING_ACTIVE,
                "ScalingDisabled",
                "scaling is disabled, since the replicas of the target were set to zero",
            )
            return self._finish(Zone.DISABLED, Outcome.OK)
        if current > spec.max_replicas:
            return self._to_bound(Zone.ABOVE_MAX, current, spec.max_replicas)
        if current < spec.min_replicas and (idle is None or idle.kept_awake or not idle.asleep):
            return self._to_bound(Zone.BELOW_MIN, current, spec.min_replicas)
        return self._by_metrics(scale)

    def _to_bound(self, zone: Zone, current: int, replicas: int) -> tuple[Decision, History]:
        """Go to a bound: at once, or as the policies permit if the bound is gradual (8.2)."""
        reason, limited = ABOVE_MAX if zone is Zone.ABOVE_MAX else BELOW_MIN, None
        if self.bounds is not None:
            bounds = self.bounds
            bound = bounds.maximum if zone is Zone.ABOVE_MAX else bounds.minimum
            if bound.by:
                reason = f"{reason} ({bound.by})"
            if bound.gradual:
                limited = self._normalizer().limit(current, replicas, self.history)
                replicas = limited.after
        return self._finish(zone, Outcome.OK, replicas, reason, stages=(None, None, limited))

    def _by_metrics(self, scale: Scale) -> tuple[Decision, History]:
        pods = self._pods(scale)
        if pods is None:
            return self._finish(Zone.METRICS, Outcome.BLOCKED)
        results = self._results(scale, pods)
        if self.idle is not None and not self.idle.kept_awake:
            decided = self._idle(self.idle, results)
            if decided is not None:
                return decided
        measured = [one for one in results if not self._has_no_pods(one.metric, pods)]
        combined = self._combine(measured, scale.spec_replicas)
        if combined is None:
            return self._finish(Zone.METRICS, Outcome.BLOCKED, metrics=results)
        source = combined.winner or "the metrics"
        if any(one.fallback and one.name == combined.winner for one in results):
            source = f"the fallback for {source}"
        message = f"the replica count was computed from {source}"
        self.status.set_true(SCALING_ACTIVE, "ValidMetricFound", message)
        return self._normalize(results, combined)

    def _results(self, scale: Scale, pods: Sequence[Pod]) -> tuple[MetricResult, ...]:
        """Return the result of each metric, with the fallback's proposals (semantics 8.4)."""
        context = MetricContext(
            scale, pods, self.tolerance, self.flags, self.now, self.extensions.ignore_surge
        )
        ranges = self.observation.ranges or (None,) * len(self.spec.metrics)
        results = tuple(
            self._propose(metric, reading, seconds, activity, context)
            for metric, reading, seconds, activity in zip(
                self.spec.metrics, self.observation.readings, ranges, self.activities, strict=True
            )
        )
        fallback, before = self.extensions.fallback, self.extended.failures
        failures: tuple[FailureStreak, ...] = ()
        if fallback is not None:
            results, failures = with_fallback(results, fallback, before, context)
        if failures or before:
            self.extended = replace(self.extended, failures=failures)
            tell_fallback(results, self.status)
        return results

    def _idle(
        self, idle: IdleStatus, results: tuple[MetricResult, ...]
    ) -> tuple[Decision, History] | None:
        """Go to sleep or stay asleep; None if the metrics decide (semantics 8.3)."""
        if Activity.ACTIVE in self.activities or any(one.fallback for one in results):
            return None
        if not idle.asleep and (idle.active or self.now < idle.until):
            return None
        if not idle.asleep:
            before = self.recommendations or ()
            self.recommendations = self._normalizer().record(idle.idle.replicas, before)
        self.status.set_false(SCALING_LIMITED, WITHIN_RANGE, WITHIN_RANGE_MESSAGE)
        if idle.active:
            message = "no metric is known to be active, and some are unknown: the count stays"
            self.status.set_true(SCALING_ACTIVE, "Idle", message)
            return self._finish(Zone.IDLE, Outcome.PARTIAL, metrics=results)
        self.status.set_true(SCALING_ACTIVE, "Idle", NONE_ACTIVE)
        replicas = idle.idle.replicas
        return self._finish(Zone.IDLE, Outcome.OK, replicas, NONE_ACTIVE, results)

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
        activity: Activity | None,
        context: MetricContext,
    ) -> MetricResult:
        outcome = propose(metric, reading, context)
        name = winner_name(metric)
        result = MetricResult(metric, name, reading, outcome, activity=activity)
        if range_seconds is not None:
            result = self._after_gaps(result, range_seconds, context)
        if isinstance(result.outcome, MetricFailure) and not self._has_no_pods(
            metric, context.pods
        ):
            self.status.warn(result.outcome.reason, result.outcome.message)
        return result

    def _has_no_pods(self, metric: MetricSpec, pods: Sequence[Pod]) -> bool:
        """Return whether the target is asleep, so that the metric has no pods to measure."""
        idle = self.idle
        return idle is not None and idle.asleep and not pods and measures_pods(metric)

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
        fallbacks = {one.name for one in results if one.fallback is not None}
        reason = ""
        if desired > current and combined.winner in fallbacks:
            reason = f"fallback for {combined.winner}"
        elif desired > current:
            reason = f"{combined.winner} above target"
        elif desired < current:
            reason = ALL_BELOW
        if self.idle is not None and self.idle.asleep and not self.idle.kept_awake:
            stabilized, limited = self._wake(current, desired)
            if combined.winner not in fallbacks:
                active = [one.name for one in results if one.activity is Activity.ACTIVE]
                reason = f"{next(iter(active), combined.winner)} is active"
        else:
            stabilized, limited = self._stabilize_and_limit(current, desired, results)
        return self._finish(
            Zone.METRICS,
            Outcome.PARTIAL if combined.failed or fallbacks else Outcome.OK,
            limited.after,
            reason,
            results,
            (combined, stabilized, limited),
        )

    def _normalizer(self) -> Normalizer:
        return Normalizer(self.spec, self.flags, self.now, self.stamp, self.status)

    def _stabilize_and_limit(
        self, current: int, desired: int, results: Sequence[MetricResult]
    ) -> tuple[Stabilization, Limit]:
        normalizer, before = self._normalizer(), self.recommendations or ()
        refills = [one.refill for one in results if one.refill is not None]
        if desired < current and refills:
            last = max(refills, key=lambda one: one.until)
            stabilized = normalizer.hold(current, desired, last, before)
        else:
            stabilized, self.recommendations = normalizer.stabilize(current, desired, before)
        return stabilized, normalizer.limit(current, stabilized.after, self.history)

    def _wake(self, current: int, desired: int) -> tuple[Stabilization, Limit]:
        """Wake up: no stabilization, and at least the minimum (semantics 8.3)."""
        self.recommendations = (Recommendation(desired, self.stamp),)
        least = self.spec.min_replicas
        wanted = max(desired, least)
        limited = self._normalizer().limit(current, wanted, self.history)
        if limited.after < least:
            limited = Limit(wanted, least, TOO_FEW, least)
            self.status.set_true(SCALING_LIMITED, TOO_FEW, f"{least} is the least when awake")
        return Stabilization(desired, wanted, READY), limited

    def _finish(
        self,
        zone: Zone,
        outcome: Outcome,
        desired: int | None = None,
        reason: str = "",
        metrics: tuple[MetricResult, ...] = (),
        stages: _Stages = (None, None, None),
    ) -> tuple[Decision, History]:
        scale, pause = self.observation.scale, self.pause
        current = scale.spec_replicas if isinstance(scale, Scale) else 0
        wanted = current if desired is None else desired
        replicas, prevented = permitted(current, wanted, pause, self.bounds, self.status)
        if zone is not Zone.UNKNOWN and zone is not Zone.CONTROLLED:
            self.status.end_own_reasons()
        is_paused = pause is not None and pause.mode is PauseMode.ALL
        if pause is not None and is_paused:
            zone, reason = Zone.PAUSED, f"paused by {pause.by}"
            outcome = Outcome.OK if outcome is Outcome.OK else Outcome.PARTIAL
        if outcome is Outcome.OK and self.bounds is not None and self.bounds.missing:
            outcome = Outcome.PARTIAL
        rescale = replicas != current
        held = self._held_until() if rescale else None
        saturation = None
        if outcome is not Outcome.BLOCKED:
            # What a pause or others prevent is not for want of room.
            limit = stages[2] if held is None and replicas == wanted and not is_paused else None
            saturation, self.extended = note_saturation(limit, self.extended, self.now)
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
            desired=replicas if rescale else current,
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
            bounds=self.bounds,
            pause=pause,
            paused_from=wanted if prevented else None,
            idle=self.idle,
            saturation=saturation,
        )
        return decision, self._history(decision)

    def _history(self, decision: Decision) -> History:
        """Return the history after the decision."""
        blocked = decision.outcome is Outcome.BLOCKED
        return replace(
            self.history,
            recommendations=self.recommendations,
            conditions=decision.conditions,
            desired_replicas=self.history.desired_replicas if blocked else decision.desired,
            extended=self.extended,
        )

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
