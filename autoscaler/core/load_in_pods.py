"""A load as the number of pods that it asks for: External metrics with a target of one pod.

So a decision can be taken again of another count, or of another reading, of which only the value is
known: every stage after the metrics is that of any target.
"""

import math
from collections.abc import Sequence
from dataclasses import replace

from autoscaler.core.decision import Activity, Calculation, Decision, Formula, MetricResult
from autoscaler.core.extensions import Extensions, Mode
from autoscaler.core.numbers import INT32_MAX, ratio_of
from autoscaler.core.observation import Gap, GapKind, Observation, Reading, Scale, Values
from autoscaler.core.spec import (
    ExternalMetric,
    HorizontalPodAutoscalerSpec,
    MetricIdentifier,
    MetricSpec,
    MetricTarget,
    TargetType,
    Tolerance,
    measures_pods,
)

_ONE_POD = MetricTarget(TargetType.AVERAGE_VALUE, average_value=1000)
_DIGITS = 9
_UNREAD = Gap(GapKind.ERROR, "the metric has no value")


def is_divided(metric: MetricSpec) -> bool:
    """Return whether a value is divided by the replicas, which is what an HPA reports of it."""
    return metric.target.average_value is not None and not measures_pods(metric)


def pods_of(result: MetricResult, scale: Scale) -> float | None:
    """Return how many pods the load of a metric asks for; None if the metric has no proposal."""
    outcome = result.outcome
    if result.fallback is not None:
        return float(result.fallback.proposal)
    if not isinstance(outcome, Calculation):
        return None
    ratio, rule = outcome.ratio, outcome.rule
    if rule in {Formula.SURGE, Formula.REBALANCED_AWAY, Formula.ABOVE_TARGET}:
        return float(scale.spec_replicas)
    if rule is Formula.FROM_ZERO or not math.isfinite(ratio):
        return float(outcome.proposal)
    if rule is Formula.USAGE_OVER_TARGET:
        # What the division by the replicas has rounded is not to be rounded up.
        return round(ratio * float(scale.status_replicas), _DIGITS)
    if rule is Formula.REBALANCED and outcome.rebalanced_ratio is not None:
        ratio = outcome.rebalanced_ratio
    pods = outcome.multiplier
    return ratio * float(scale.spec_replicas if pods is None else pods)


def pods_for(
    metric: MetricSpec,
    value: int,
    result: MetricResult,
    scale: Scale,
    replicas: int,
    tolerance: Tolerance,
) -> float:
    """Return how many pods another ``value`` of a metric asks for, in percent or milli-units.

    It was read at so many ``replicas``; one that is divided by them is given as before that.  At
    our own count it multiplies by as many pods as the metric's own ``result`` does.
    """
    target, outcome = metric.target, result.outcome
    wanted = target.average_utilization or target.average_value or target.value or 0
    ratio = ratio_of(value, wanted * (replicas or 1) if is_divided(metric) else wanted)
    if not math.isfinite(ratio) or (replicas and tolerance.covers(ratio)):
        return float(replicas)
    if is_divided(metric):
        most = value / wanted
        # The average was rounded up to a milli-unit: what lies between may be whole.
        return max(float(math.floor(most)), round(most - (replicas or 1) / wanted, _DIGITS))
    if not isinstance(outcome, Calculation) or replicas != scale.spec_replicas:
        return ratio * float(replicas or 1)
    if outcome.rule is Formula.REBALANCED_AWAY:
        return float(replicas)
    if outcome.rebalanced_ratio is not None and outcome.ratio:
        # What is filled in for pods without a sample is filled in there, too.
        ratio *= outcome.rebalanced_ratio / outcome.ratio
    return ratio * float(outcome.multiplier or replicas or 1)


def in_pods(
    decision: Decision,
    spec: HorizontalPodAutoscalerSpec,
    observation: Observation,
    loads: Sequence[float | None],
    scale: Scale,
) -> tuple[HorizontalPodAutoscalerSpec, Observation]:
    """Return the spec and the observation of a ``scale`` with each load in pods."""
    metrics = tuple(
        ExternalMetric(MetricIdentifier(result.name), _ONE_POD) for result in decision.metrics
    )
    readings = tuple(
        _reading(result, load) for result, load in zip(decision.metrics, loads, strict=True)
    )
    # An External metric divides by the status; the count is as if it had been reached.
    reached = replace(scale, status_replicas=scale.spec_replicas)
    seen = replace(observation, scale=reached, pods=None, readings=readings, controller=None)
    return replace(spec, metrics=metrics), seen


def _reading(result: MetricResult, load: float | None) -> Reading:
    if load is None:
        return _UNREAD
    milli = math.ceil(min(load, float(INT32_MAX)) * 1000.0)
    if result.activity is not None:
        # A load that is below its activation counts for nothing beside one that is above it.
        milli = max(milli, 1) if result.activity is Activity.ACTIVE else 0
    return Values((milli,))


def live(extensions: Extensions) -> Extensions:
    """Return the extensions as those of a target that scales, whose metrics are loads in pods."""
    return replace(extensions, mode=Mode.LIVE, activations=())
