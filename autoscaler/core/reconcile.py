"""The HPA's reconcile, stage by stage: zone, pods, metrics, combination, count (semantics 1).

Nothing here depends on the extensions of a target.
"""

from collections.abc import Sequence
from itertools import zip_longest

from autoscaler.core.calculator import MetricContext, combine, propose
from autoscaler.core.decision import (
    READY,
    Combination,
    Limit,
    MetricFailure,
    MetricResult,
    Outcome,
    RulesOutcome,
    Stabilization,
    Zone,
)
from autoscaler.core.history import History, Recommendation
from autoscaler.core.normalize import Recommendations, limit, stabilize
from autoscaler.core.observation import Pod, ReadFailure, Scale, Values
from autoscaler.core.selectors import selector_problem
from autoscaler.core.spec import HorizontalPodAutoscalerSpec
from autoscaler.core.status import (
    ABLE_TO_SCALE,
    SCALING_ACTIVE,
    SCALING_LIMITED,
    WITHIN_RANGE_MESSAGE,
    DecisionContext,
    StatusRecorder,
    winner_name,
)

ABOVE_MAX = "Current number of replicas above Spec.MaxReplicas"
BELOW_MIN = "Current number of replicas below Spec.MinReplicas"
ALL_BELOW = "All metrics below target"
VALID_METRIC_FOUND = "ValidMetricFound"
LONGEST_WINDOW_SECONDS = 3600.0
"""The longest stabilizationWindowSeconds that the API permits."""


# -- the scale -----------------------------------------------------------------------------------


def unreadable(scale: ReadFailure, status: StatusRecorder) -> RulesOutcome:
    """Decide nothing, since the scale could not be read."""
    status.warn("FailedGetScale", scale.message)
    status.set_false(ABLE_TO_SCALE, "FailedGetScale", scale.message)
    return RulesOutcome(Zone.UNKNOWN, Outcome.BLOCKED, 0)


def with_current(
    context: DecisionContext, recommendations: Recommendations | None, current: int
) -> Recommendations:
    """Add the current count to the recommendations, as the first or to fill a hole (4.5).

    One that fills a hole must not prevent a scale-up, since the HPA has no such entry.
    """
    oldest = context.now - max(LONGEST_WINDOW_SECONDS, context.flags.downscale_stabilization)
    kept = [entry for entry in recommendations or () if entry.time >= oldest]
    only_down = recommendations is not None
    return (*kept, Recommendation(current, context.stamp, first=True, only_down=only_down))


def zone_of(spec: HorizontalPodAutoscalerSpec, current: int, *, is_off: bool) -> Zone:
    """Return the first zone that matches (semantics 1.2); a target at zero may be disabled."""
    if is_off:
        return Zone.DISABLED
    if current > spec.max_replicas:
        return Zone.ABOVE_MAX
    return Zone.BELOW_MIN if current < spec.min_replicas else Zone.METRICS


def without_metrics(context: DecisionContext, zone: Zone, current: int) -> RulesOutcome:
    """Return the result in a zone where no metric counts."""
    spec = context.spec
    if zone is Zone.ABOVE_MAX:
        return RulesOutcome(zone, Outcome.OK, spec.max_replicas, ABOVE_MAX)
    if zone is Zone.BELOW_MIN:
        return RulesOutcome(zone, Outcome.OK, spec.min_replicas, BELOW_MIN)
    if zone is Zone.DISABLED:
        message = "scaling is disabled, since the replicas of the target were set to zero"
        context.status.set_false(SCALING_ACTIVE, "ScalingDisabled", message)
        wanted_by = (
            metric
            for metric, reading in zip(spec.metrics, context.observation.readings, strict=True)
            if isinstance(reading, Values) and sum(reading.values) > 0
        )
        return RulesOutcome(zone, Outcome.OK, current, wanted_by=next(wanted_by, None))
    return RulesOutcome(zone, Outcome.OK, current)


# -- the metrics ---------------------------------------------------------------------------------


def usable_pods(context: DecisionContext, scale: Scale) -> Sequence[Pod] | None:
    """Return the pods; None if selector or pods block the decision (semantics 1.3.1)."""
    status, pods = context.status, context.observation.pods
    problem = selector_problem(scale.selector, context.observation.ambiguous_with)
    if problem is not None:
        event, reason, message = problem
        status.warn(event, message)
    elif isinstance(pods, ReadFailure):
        reason, message = "FailedListPods", pods.message
        status.warn(reason, message)
    else:
        return () if pods is None else pods
    status.set_false(SCALING_ACTIVE, reason, message)
    status.warn("FailedComputeMetricsReplicas", f"no metric was computed: {message}")
    return None


def measured(context: DecisionContext, metric_context: MetricContext) -> tuple[MetricResult, ...]:
    """Return the proposal or the failure of each metric."""
    pairs = zip(context.spec.metrics, context.observation.readings, strict=True)
    return tuple(
        [
            MetricResult(metric, winner_name(metric), read, propose(metric, read, metric_context))
            for metric, read in pairs
        ]
    )


def report_failures(results: Sequence[MetricResult], status: StatusRecorder) -> None:
    """Add the event of each metric that failed."""
    for result in results:
        if isinstance(result.outcome, MetricFailure):
            status.warn(result.outcome.reason, result.outcome.message)


def combined(
    results: Sequence[MetricResult], current: int, status: StatusRecorder
) -> Combination | None:
    """Combine the proposals; None if failed metrics block the decision (semantics 1.3.2)."""
    combination = combine(results, current)
    if isinstance(combination, Combination):
        source = combination.winner or "the metrics"
        message = f"the replica count was computed from {source}"
        status.set_true(SCALING_ACTIVE, VALID_METRIC_FOUND, message)
        return combination
    first, failed = combination
    message = f"the replica count could not be computed: {first.message}"
    status.set_false(SCALING_ACTIVE, first.reason, message)
    status.warn(
        "FailedComputeMetricsReplicas",
        f"{failed} of {len(results)} metrics are not usable; the first of them: {first.message}",
    )
    return None


def reason_of(combination: Combination) -> str:
    """Return the reason for the combined count (semantics 1.4); empty if it is the current one."""
    if combination.after > combination.before:
        return f"{combination.winner} above target"
    return ALL_BELOW if combination.after < combination.before else ""


# -- normalization -------------------------------------------------------------------------------


def stabilized(
    context: DecisionContext, current: int, desired: int, recommendations: Recommendations
) -> tuple[Stabilization, Recommendations]:
    """Stabilize the desired count; it is recorded in the recommendations that are returned."""
    result, recorded = _stabilized(context, current, desired, recommendations)
    message = (
        "the recommended size matches the current size"
        if result.reason == READY
        else f"recent recommendations hold the size at {result.after} instead of {desired}"
    )
    context.status.set_true(ABLE_TO_SCALE, result.reason, message)
    return result, recorded


def recorded(
    context: DecisionContext,
    desired: int,
    recommendations: Recommendations,
    *,
    only_down: bool = False,
) -> Recommendations:
    """Return the recommendations with ``desired`` added, as it is before stabilization."""
    after = _stabilized(context, desired, desired, recommendations)[1]
    if not only_down:
        return after
    return tuple(
        new if new is old else Recommendation(new.replicas, new.time, only_down=True)
        for old, new in zip_longest(recommendations, after)
    )


def _stabilized(
    context: DecisionContext, current: int, desired: int, recommendations: Recommendations
) -> tuple[Stabilization, Recommendations]:
    behavior, flags, now, stamp = context.spec.behavior, context.flags, context.now, context.stamp
    return stabilize(current, desired, recommendations, behavior, flags, now, stamp)


def limited(context: DecisionContext, current: int, stabilized: int, history: History) -> Limit:
    """Apply rate limits and bounds."""
    spec = context.spec
    bounds = (spec.min_replicas, spec.max_replicas)
    result = limit(current, stabilized, bounds, spec.behavior, history, context.now)
    if result.after != stabilized:
        message = f"{stabilized} replicas are wanted, and {result.after} are permitted now"
        context.status.set_true(SCALING_LIMITED, result.reason, message)
    else:
        context.status.set_false(SCALING_LIMITED, result.reason, WITHIN_RANGE_MESSAGE)
    return result
