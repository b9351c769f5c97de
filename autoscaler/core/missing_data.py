"""The consequences of readings that are missing or may be too low (semantics 7.2, 8.4).

During a refill (after a gap, until the range of the query is full again) nothing scales down. A
metric that keeps failing has a fallback. Known values count even where failed metrics block the
decision.
"""

from collections.abc import Sequence
from dataclasses import replace

from autoscaler.core.calculator import MetricContext, propose
from autoscaler.core.decision import (
    SCALE_DOWN_STABILIZED,
    FallbackUse,
    MetricFailure,
    MetricResult,
    Outcome,
    Refill,
    RulesOutcome,
    Stabilization,
)
from autoscaler.core.extensions import Fallback, FallbackBehavior
from autoscaler.core.gaps import current_refill, refill_until, track_pods, tracker_of
from autoscaler.core.history import FailureStreak, History, with_extended
from autoscaler.core.normalize import Recommendations
from autoscaler.core.observation import Gap, GapKind, PodSamples, Reading
from autoscaler.core.reconcile import (
    VALID_METRIC_FOUND,
    reason_of,
    recorded,
    stabilized,
    with_current,
)
from autoscaler.core.spec import down_window
from autoscaler.core.status import (
    ABLE_TO_SCALE,
    FALLBACK,
    SCALING_ACTIVE,
    DecisionContext,
    StatusRecorder,
    keys_in,
)

# -- refills -------------------------------------------------------------------------------------


def after_gaps(
    results: Sequence[MetricResult],
    context: DecisionContext,
    metric_context: MetricContext,
    history: History,
) -> tuple[tuple[MetricResult, ...], History]:
    """Return the results of metrics after gaps apply, and the history with the gaps of pods.

    A pod in a refill counts as missing if the metric proposes less than the current count, and
    proposes more when such pods have no sample. If no sample is left, the whole metric refills.
    """
    tracker = tracker_of(context)
    keys, ranges = keys_in(context.observation, context.spec.metrics), context.observation.ranges
    after: list[MetricResult] = []
    for result, key, range_seconds in zip(results, keys, ranges or (), strict=True):
        history, refilling = track_pods(
            history, key, result, metric_context.pods, range_seconds, tracker
        )
        proposal, of_pods = result.proposal, None
        changed = result
        if refilling and proposal is not None and proposal < metric_context.scale.spec_replicas:
            reading = _without_samples(result.reading, {gap.pod for gap in refilling})
            outcome = propose(result.metric, reading, metric_context)
            if isinstance(outcome, MetricFailure):
                # Until the range of the first pod is full.
                of_pods = refill_until(min(gap.until for gap in refilling), range_seconds)
            elif outcome.proposal > proposal:
                changed = replace(result, reading=reading, outcome=outcome)
        refill = current_refill(history, key, range_seconds, context.now)
        if of_pods is not None and (refill is None or refill.until < of_pods.until):
            refill = of_pods
        after.append(changed if refill is None else replace(changed, refill=refill))
    return tuple(after), history


def _without_samples(reading: Reading, pods: set[str]) -> Reading:
    """Return a reading without the samples of pods that refill, which then count as missing."""
    if not isinstance(reading, PodSamples):
        return reading
    samples = {name: sample for name, sample in reading.samples.items() if name not in pods}
    removed = {
        name: Gap(GapKind.PARTIAL, f"pod {name} had no sample until recently: its range has a gap")
        for name in reading.samples
        if name in pods
    }
    return replace(reading, samples=samples, dropped={**reading.dropped, **removed})


def rests_on_refill(
    desired: int, results: Sequence[MetricResult], context: DecisionContext
) -> bool:
    """Return whether ``desired`` is so high only because pods in a refill count as missing."""
    pairs = zip(results, context.observation.readings, strict=True)
    as_read = [result.proposal for result, reading in pairs if result.reading is reading]
    return len(as_read) < len(results) and desired not in as_read


def stabilized_in_refill(
    context: DecisionContext,
    current: int,
    desired: int,
    refill: Refill,
    recommendations: Recommendations,
) -> tuple[Stabilization, Recommendations]:
    """Keep the current count during a refill; the desired one is recorded as a recommendation."""
    after = recorded(context, desired, recommendations, only_down=True)
    result, _ = stabilized(context, current, current, recommendations)
    if result.after != current:
        return result, after
    what = "a metric returned after a gap"
    if refill.after_hold:
        what = "holdScaleDownQuery held"
    elif refill.first:
        what = "a metric was read for the first time"
    message = f"{what}; no scale-down until its range is full"
    context.status.set_true(ABLE_TO_SCALE, SCALE_DOWN_STABILIZED, message)
    stays = Stabilization(
        desired, current, SCALE_DOWN_STABILIZED, until=refill.until, refill=refill
    )
    return stays, after


# -- failed metrics that block the decision ------------------------------------------------------


def record_blocked(
    results: Sequence[MetricResult], context: DecisionContext, history: History
) -> History:
    """Record the replicas that incomplete readings prove necessary while they block (7.2)."""
    if history.extended.blocked_since is None and context.observation.ranges is not None:
        since = tracker_of(context).last_reading
        history = with_extended(history, blocked_since=since)
    failures = [each.outcome for each in results if isinstance(each.outcome, MetricFailure)]
    proven = [failure.at_least for failure in failures if failure.at_least is not None]
    if not proven:
        return history
    least = max(*proven, *(result.proposal or 0 for result in results))
    recommendations = history.recommendations or ()
    return replace(
        history, recommendations=recorded(context, least, recommendations, only_down=True)
    )


def end_blocked(context: DecisionContext, since: float, current: int, history: History) -> History:
    """Fill the hole after a block that was longer than the scale-down window (4.5, 7.2)."""
    before = history.recommendations or ()
    is_filled = any(entry.first and entry.time == context.stamp for entry in before)
    window = down_window(context.spec.behavior, context.flags)
    if context.stamp - since > window and not is_filled:
        before = with_current(context, before, current)
    return replace(with_extended(history, blocked_since=None), recommendations=before)


# -- fallbacks -----------------------------------------------------------------------------------


def with_fallback(
    results: tuple[MetricResult, ...],
    context: DecisionContext,
    metric_context: MetricContext,
    history: History,
) -> tuple[tuple[MetricResult, ...], History]:
    """Return the results with the fallback's proposals, and the history with the failures."""
    fallback = context.extensions.fallback
    before = {streak.metric: streak.syncs for streak in history.extended.failures}
    streaks: list[FailureStreak] = []
    proposed: list[MetricResult] = []
    keys = keys_in(context.observation, context.spec.metrics)
    for key, result in zip(keys, results, strict=True):
        # A target without pods does not fail for lack of pod metrics.
        lacks_pods = not metric_context.pods and result.metric.of_pods
        failure, use = result.outcome, None
        if fallback is not None and isinstance(failure, MetricFailure) and not lacks_pods:
            streak = FailureStreak(key, before.get(key, 0) + 1)
            streaks.append(streak)
            use = _use(fallback, streak.syncs, failure, metric_context.scale.spec_replicas)
        proposed.append(result if use is None else replace(result, fallback=use))
    if streaks or before:
        history = with_extended(history, failures=tuple(streaks))
        _report(proposed, context.status)
    return tuple(proposed), history


def _use(
    fallback: Fallback, syncs: int, failure: MetricFailure, current: int
) -> FallbackUse | None:
    """Return the proposal of a fallback after ``syncs`` failures; None below the threshold."""
    if syncs < fallback.failure_threshold:
        return None
    own = fallback.replicas
    proposal = {
        FallbackBehavior.STATIC: own,
        FallbackBehavior.CURRENT_REPLICAS: current,
        FallbackBehavior.CURRENT_REPLICAS_IF_HIGHER: max(current, own),
        FallbackBehavior.CURRENT_REPLICAS_IF_LOWER: min(current, own),
    }[fallback.behavior]
    return FallbackUse(fallback, syncs, max(proposal, failure.at_least or 0))


def _report(results: Sequence[MetricResult], status: StatusRecorder) -> None:
    """Set the condition of the fallback, with an event when it begins and when it ends."""
    lasted = status.is_true(FALLBACK)
    in_use = [result for result in results if result.fallback is not None]
    if in_use:
        first = in_use[0]
        message = f"{first.name} keeps failing, and the fallback proposes {first.proposal}"
        if isinstance(first.outcome, MetricFailure):
            if first.proposal == first.outcome.at_least:
                message = f"{first.name} keeps failing, and asks for at least {first.proposal}"
            message = f"{message}: {first.outcome.message}"
        status.set_true(FALLBACK, "FallbackActive", message)
        if not lasted:
            status.warn("FallbackActive", message)
    elif lasted:
        message = "no metric keeps failing any more"
        status.set_false(FALLBACK, "FallbackEnded", message)
        status.note("FallbackEnded", message)


def decided_by_fallback(result: RulesOutcome, status: StatusRecorder) -> RulesOutcome:
    """Return a result that says whether a fallback is part of it, and whether it gave the count."""
    fallbacks = {metric.name for metric in result.metrics if metric.fallback is not None}
    combination = result.combination
    if not fallbacks or combination is None:
        return result
    reason, winner = result.reason, combination.winner
    if winner in fallbacks:
        message = f"the replica count was computed from the fallback for {winner}"
        status.set_true(SCALING_ACTIVE, VALID_METRIC_FOUND, message)
        is_up = combination.after > combination.before
        reason = f"fallback for {winner}" if is_up else reason_of(combination)
    return replace(result, outcome=Outcome.PARTIAL, reason=reason)
