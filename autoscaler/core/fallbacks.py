"""What a metric proposes that keeps failing (semantics 8.4)."""

from collections.abc import Sequence
from dataclasses import replace

from autoscaler.core.decision import FallbackUse, MetricFailure, MetricResult, Outcome, Reconciled
from autoscaler.core.extensions import Fallback, FallbackBehavior
from autoscaler.core.history import FailureStreak, History, with_extended
from autoscaler.core.per_pod import MetricContext
from autoscaler.core.reconcile import VALID_METRIC_FOUND, DecisionContext, reason_of
from autoscaler.core.spec import measures_pods
from autoscaler.core.status import FALLBACK, SCALING_ACTIVE, StatusRecorder, keys_in


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
        # A target without pods to measure does not fail for that.
        lacks_pods = not metric_context.pods and measures_pods(result.metric)
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
    """Return what is proposed for a failure in so many syncs; None if these are too few yet."""
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
                message = f"{first.name} keeps failing, and asks for {first.proposal} at least"
            message = f"{message}: {first.outcome.message}"
        status.set_true(FALLBACK, "FallbackActive", message)
        if not lasted:
            status.warn("FallbackActive", message)
    elif lasted:
        message = "no metric keeps failing any more"
        status.set_false(FALLBACK, "FallbackEnded", message)
        status.note("FallbackEnded", message)


def decided_by_fallback(result: Reconciled, status: StatusRecorder) -> Reconciled:
    """Say of a result that a fallback is part of it, and whether it gave the count."""
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
