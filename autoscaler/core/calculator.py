"""The replica calculator: the proposal of each metric, and that of them all (semantics 2)."""

from collections.abc import Sequence

from autoscaler.core.decision import (
    Calculation,
    Combination,
    Formula,
    MetricFailure,
    MetricResult,
    MetricValueStatus,
)
from autoscaler.core.numbers import ceil32, ceil64, divide, ratio_of, saturate64
from autoscaler.core.observation import LONGEST_SENTENCE, Gap, PodSamples, Reading, Values
from autoscaler.core.per_pod import MetricContext, propose_per_pod
from autoscaler.core.spec import (
    ConditionStatus,
    ExternalMetric,
    MetricSpec,
    ObjectMetric,
    TargetType,
)
from autoscaler.core.status import failure_reason
from autoscaler.core.text import printable


def propose(
    metric: MetricSpec, reading: Reading, context: MetricContext
) -> Calculation | MetricFailure:
    """Compute the proposal of one metric; what may understate the load never scales down."""
    if isinstance(reading, Gap):
        return MetricFailure(failure_reason(metric), reading.detail)
    result = _compute(metric, reading, context)
    if isinstance(result, str):
        # The sentence may contain names of pods and containers.
        return MetricFailure(failure_reason(metric), printable(result, LONGEST_SENTENCE))
    if reading.gaps and result.proposal < context.scale.spec_replicas:
        return MetricFailure(
            failure_reason(metric),
            f"the reading is incomplete and must not scale down: {reading.gaps[0].detail}",
            at_least=max(result.proposal, 0),
        )
    return result


def _compute(
    metric: MetricSpec, reading: PodSamples | Values, context: MetricContext
) -> Calculation | str:
    if isinstance(reading, Values):
        if isinstance(metric, ExternalMetric):
            return _external(metric, reading.values, context)
        if isinstance(metric, ObjectMetric):
            return _object(metric, reading.values, context)
        return "the reading has values where samples of pods are needed"
    if isinstance(metric, ObjectMetric | ExternalMetric):
        return "the reading has samples of pods where values are needed"
    return propose_per_pod(metric, reading.samples, context)


def _external(
    metric: ExternalMetric, values: Sequence[int], context: MetricContext
) -> Calculation | str:
    if not values:
        return "the metric has no values"
    total = saturate64(sum(values))
    if metric.target.average_value is not None:
        # Upstream takes a negative sum for an overflow, that is for infinite load (semantics 6.4).
        return _average(max(total, 0), metric.target.average_value, context, total < 0)
    if metric.target.value is not None:
        return _value(total, metric.target.value, context)
    return "the target has neither value nor averageValue"


def _object(
    metric: ObjectMetric, values: Sequence[int], context: MetricContext
) -> Calculation | str:
    if len(values) != 1:
        return f"exactly one value is needed, and there are {len(values)}"
    target = metric.target
    if target.type is TargetType.VALUE and target.value is not None:
        return _value(values[0], target.value, context)
    if target.type is TargetType.AVERAGE_VALUE and target.average_value is not None:
        return _average(values[0], target.average_value, context, negative_sum=False)
    return f"target.type is {target.type}, and the target has no field of that type"


def _value(usage: int, target: int, context: MetricContext) -> Calculation | str:
    """Multiply the ratio by the number of Running and Ready pods (semantics 2.4)."""
    current = MetricValueStatus(value=usage)
    ratio = ratio_of(usage, target)
    replicas = context.scale.spec_replicas
    if replicas == 0:
        return Calculation(ceil32(ratio), Formula.FROM_ZERO, current, ratio)
    if context.tolerance.covers(ratio):
        return Calculation(replicas, Formula.WITHIN_TOLERANCE, current, ratio)
    if not context.pods:
        return "no pods match the scale's selector"
    ready = sum(
        pod.phase == "Running" and pod.ready is ConditionStatus.TRUE for pod in context.pods
    )
    if context.extensions.ignore_surge:
        ready = min(ready, replicas)
    proposal, rule = ceil32(ratio * float(ready)), Formula.READY_PODS
    if context.flags.keep_above_target and ratio > 1.0 and proposal < replicas:
        proposal, rule = replicas, Formula.ABOVE_TARGET
    return Calculation(proposal, rule, current, ratio, ready)


def _average(
    usage: int,
    target: int,
    context: MetricContext,
    negative_sum: bool,  # noqa: FBT001 - a fact of the usage
) -> Calculation:
    """Divide the usage by the target; status replicas decide on the tolerance (semantics 2.5)."""
    replicas = context.scale.status_replicas
    if context.extensions.ignore_surge:
        replicas = min(replicas, context.scale.spec_replicas)
    ratio = divide(float(usage), float(target) * float(replicas))
    # Without status replicas the total is reported (semantics 6.2).
    average = ceil64(ratio_of(usage, replicas)) if replicas else usage
    current = MetricValueStatus(average_value=average)
    if context.tolerance.covers(ratio):
        proposal, rule = replicas, Formula.WITHIN_TOLERANCE
    else:
        proposal, rule = ceil32(ratio_of(usage, target)), Formula.USAGE_OVER_TARGET
    return Calculation(proposal, rule, current, ratio, negative_sum=negative_sum)


def combine(
    results: Sequence[MetricResult], current: int
) -> Combination | tuple[MetricFailure, int]:
    """Return the largest proposal, the first of equal ones (semantics 1.3.2).

    The first failure and how many there are, if all fail or the largest is below ``current``.
    """
    best, winner = 0, ""
    failures: list[MetricFailure] = []
    for result in results:
        outcome, use = result.outcome, result.fallback
        if isinstance(outcome, MetricFailure) and use is None:
            failures.append(outcome)
            continue
        proposal = result.proposal or 0
        if best == 0 or proposal > best:
            best, winner = proposal, result.name
    if len(failures) == len(results) or (failures and best < current):
        return failures[0], len(failures)
    # A negative proposal becomes 0 (semantics 1.4).
    return Combination(current, max(best, 0), winner, len(failures))
