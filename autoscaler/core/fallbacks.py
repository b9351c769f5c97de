"""What a metric proposes that keeps failing (semantics 8.4)."""

from collections.abc import Sequence
from dataclasses import replace

from autoscaler.core.calculator import MetricContext
from autoscaler.core.decision import FallbackUse, MetricFailure, MetricResult
from autoscaler.core.extensions import Fallback, FallbackBehavior
from autoscaler.core.gaps import metric_key
from autoscaler.core.history import FailureStreak
from autoscaler.core.spec import measures_pods
from autoscaler.core.status import FALLBACK, StatusRecorder

Streaks = tuple[FailureStreak, ...]


def with_fallback(
    results: Sequence[MetricResult], fallback: Fallback, before: Streaks, context: MetricContext
) -> tuple[tuple[MetricResult, ...], Streaks]:
    """Return the results with the fallback's proposals, and the streaks with this sync in them."""
    known = {streak.metric: streak.syncs for streak in before}
    current = context.scale.spec_replicas
    streaks: list[FailureStreak] = []
    proposed: list[MetricResult] = []
    for result in results:
        use = None
        if isinstance(result.outcome, MetricFailure) and not _lacks_pods(result, context):
            key = metric_key(result.metric)
            streak = FailureStreak(key, known.get(key, 0) + 1)
            streaks.append(streak)
            if streak.syncs >= fallback.failure_threshold:
                use = FallbackUse(fallback, streak.syncs, _proposal(fallback, current))
        proposed.append(result if use is None else replace(result, fallback=use))
    return tuple(proposed), tuple(streaks)


def tell_fallback(results: Sequence[MetricResult], status: StatusRecorder) -> None:
    """Set the condition of the fallback, with an event when it begins and when it ends."""
    lasted = status.is_true(FALLBACK)
    in_use = [one for one in results if one.fallback is not None]
    if in_use:
        first = in_use[0]
        message = f"{first.name} keeps failing, and the fallback proposes {first.proposal}"
        if isinstance(first.outcome, MetricFailure):
            message = f"{message}: {first.outcome.message}"
        status.set_true(FALLBACK, "FallbackActive", message)
        if not lasted:
            status.warn("FallbackActive", message)
    elif lasted:
        message = "no metric keeps failing any more"
        status.set_false(FALLBACK, "FallbackEnded", message)
        status.note("FallbackEnded", message)


def _lacks_pods(result: MetricResult, context: MetricContext) -> bool:
    """Return whether a metric fails only because the target has no pods to measure."""
    return not context.pods and measures_pods(result.metric)


def _proposal(fallback: Fallback, current: int) -> int:
    if fallback.behavior is FallbackBehavior.CURRENT_REPLICAS:
        return current
    if fallback.behavior is FallbackBehavior.CURRENT_REPLICAS_IF_HIGHER:
        return max(current, fallback.replicas)
    if fallback.behavior is FallbackBehavior.CURRENT_REPLICAS_IF_LOWER:
        return min(current, fallback.replicas)
    return fallback.replicas
