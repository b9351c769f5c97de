"""The replica calculator: the proposal of each metric and of all metrics (semantics 2, 3)."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace

from autoscaler.core.decision import (
    Calculation,
    Combination,
    Formula,
    MetricFailure,
    MetricResult,
    MetricValueStatus,
    PodGroups,
    Unready,
    UnreadyRule,
)
from autoscaler.core.extensions import NO_EXTENSIONS, Extensions
from autoscaler.core.numbers import (
    ceil32,
    ceil64,
    divide,
    milli_value,
    ratio_of,
    saturate32,
    saturate64,
    trunc_div,
)
from autoscaler.core.observation import (
    LONGEST_SENTENCE,
    Gap,
    Pod,
    PodRequests,
    PodSamples,
    Reading,
    Sample,
    Scale,
    Values,
)
from autoscaler.core.quick import quick
from autoscaler.core.spec import (
    ConditionStatus,
    ExternalMetric,
    Flags,
    MetricSpec,
    ObjectMetric,
    TargetType,
    Tolerance,
)
from autoscaler.core.status import failure_reason
from autoscaler.core.text import printable


@quick
@dataclass(frozen=True, slots=True)
class MetricContext:
    """The parameters that the proposals of all metrics of a target share."""

    scale: Scale
    pods: Sequence[Pod]
    tolerance: Tolerance
    flags: Flags
    now: float
    extensions: Extensions = NO_EXTENSIONS


def propose(
    metric: MetricSpec, reading: Reading, context: MetricContext
) -> Calculation | MetricFailure:
    """Compute the proposal of one metric; a value that may be too low never scales down."""
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
    if not metric.of_pods:
        return "the reading has samples of pods where values are needed"
    return propose_per_pod(metric, reading.samples, context)


def combine(
    results: Sequence[MetricResult], current: int
) -> Combination | tuple[MetricFailure, int]:
    """Return the largest proposal, the first of equal ones (semantics 1.3.2).

    Also returns the first failure and the number of failures, if all metrics fail or the largest
    proposal is below ``current``.
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


# -- values --------------------------------------------------------------------------------------


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


# -- metrics of each pod -------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class _Measure:
    """How samples become a ratio, and what usage is assumed of a missing pod."""

    ratio: Callable[[Mapping[str, int]], tuple[float, MetricValueStatus] | str]
    missing_usage: Callable[[str], int]


def propose_per_pod(
    metric: MetricSpec, samples: Mapping[str, Sample], context: MetricContext
) -> Calculation | str:
    """Compute the proposal of a per-pod metric; return a sentence if it cannot be computed.

    Samples of pods that are not in the context count in some of the steps.
    """
    if not context.pods:
        return "no pods match the scale's selector"
    resource = metric.name if metric.of_resource else ""
    groups = group_pods(context.pods, samples, resource, context.flags, context.now)
    counted = {name: sample.milli for name, sample in samples.items()}
    for name in (*groups.ignored, *groups.unready):
        counted.pop(name, None)
    if not counted:
        return "no pod that counts has a sample"
    measure = _measure(metric, context.pods)
    if isinstance(measure, str):
        return measure
    replicas, tolerance = context.scale.spec_replicas, context.tolerance
    result = _propose(counted, groups, measure, replicas, tolerance)
    if context.extensions.ignore_surge and isinstance(result, Calculation):
        return without_surge(result, replicas, tolerance)
    return result


def _propose(
    counted: Mapping[str, int],
    groups: PodGroups,
    measure: _Measure,
    replicas: int,
    tolerance: Tolerance,
) -> Calculation | str:
    measured = measure.ratio(counted)
    if isinstance(measured, str):
        return measured
    ratio, current = measured
    fill_unready = bool(groups.unready) and ratio > 1.0
    if not fill_unready and not groups.missing:
        if tolerance.covers(ratio):
            return Calculation(replicas, Formula.WITHIN_TOLERANCE, current, ratio, groups=groups)
        proposal = ceil32(ratio * float(groups.ready))
        return Calculation(proposal, Formula.READY_PODS, current, ratio, groups.ready, groups)
    # The assumed values reduce the change: a high usage if the ratio is below 1, else none.
    filled = dict(counted)
    if ratio < 1.0:
        filled.update((name, measure.missing_usage(name)) for name in groups.missing)
    elif ratio > 1.0:
        filled.update(dict.fromkeys((*groups.missing, *groups.unready), 0))
    remeasured = measure.ratio(filled)
    if isinstance(remeasured, str):
        return remeasured
    rebalanced = remeasured[0]
    confirmed = _rebalanced_proposal(ratio, rebalanced, len(filled), replicas, tolerance)
    rule = Formula.REBALANCED_AWAY if confirmed is None else Formula.REBALANCED
    proposal = replicas if confirmed is None else confirmed
    return Calculation(proposal, rule, current, ratio, len(filled), groups, rebalanced)


def without_surge(result: Calculation, replicas: int, tolerance: Tolerance) -> Calculation:
    """Return the proposal without the pods above ``replicas`` (semantics 8.5).

    During a surge, shared load makes each of the additional pods look idle, and load that each pod
    causes increases the sum. So a change must follow from both the average and the sum.
    """
    pods = result.multiplier
    if pods is None or not 0 < replicas < pods or result.proposal == replicas:
        return result
    if result.ratio > 1.0:
        most = ceil32(result.ratio * float(replicas))
        return result if result.proposal <= most else replace(result, proposal=most)
    average = result.ratio if result.rebalanced_ratio is None else result.rebalanced_ratio
    shared = average * float(pods) / float(replicas)
    if shared < 1.0 and not tolerance.covers(shared):
        return result
    return replace(result, proposal=replicas, rule=Formula.SURGE)


def _rebalanced_proposal(
    ratio: float, rebalanced: float, samples: int, replicas: int, tolerance: Tolerance
) -> int | None:
    """Return the proposal of the rebalanced ratio; None if it does not confirm the direction."""
    reversed_ = (ratio < 1.0 < rebalanced) or (rebalanced < 1.0 < ratio)
    if tolerance.covers(rebalanced) or reversed_:
        return None
    proposal = ceil32(rebalanced * float(samples))
    if (rebalanced < 1.0 and proposal > replicas) or (rebalanced > 1.0 and proposal < replicas):
        return None
    return proposal


# -- groups --------------------------------------------------------------------------------------


def group_pods(
    pods: Sequence[Pod], samples: Mapping[str, Sample], resource: str, flags: Flags, now: float
) -> PodGroups:
    """Group pods by the first rule that matches.  ``resource`` is empty for a Pods metric."""
    ready = 0
    unready: list[Unready] = []
    missing: list[str] = []
    ignored: list[str] = []
    cpu = resource == "cpu"
    for pod in pods:
        if pod.deleted or pod.phase == "Failed":
            ignored.append(pod.name)
        elif pod.phase == "Pending":
            unready.append(Unready(pod.name, UnreadyRule.PENDING))
        elif (sample := samples.get(pod.name)) is None:
            missing.append(pod.name)
        elif cpu and (initializing := _initializing(pod, sample, flags, now)) is not None:
            unready.append(initializing)
        else:
            ready += 1
    names = tuple([each.pod for each in unready])
    return PodGroups(ready, names, tuple(missing), tuple(ignored), tuple(unready))


def _initializing(pod: Pod, sample: Sample, flags: Flags, now: float) -> Unready | None:
    """Return why the CPU usage of a pod may come from its start; None if it counts."""
    if pod.ready is None or pod.start_time is None:
        return Unready(pod.name, UnreadyRule.NO_STATUS)
    # An absent lastTransitionTime is Go's zero time, which is before every other.
    transition = float("-inf") if pod.ready_transition is None else pod.ready_transition
    not_ready = pod.ready is ConditionStatus.FALSE
    period_end = pod.start_time + flags.cpu_initialization_period
    if period_end > now:
        if not_ready:
            return Unready(pod.name, UnreadyRule.NOT_READY, period_end)
        window_end = transition + sample.window
        if sample.timestamp < window_end:
            return Unready(pod.name, UnreadyRule.SAMPLE_WINDOW, min(window_end, period_end))
        return None
    # A transition so soon after the start is the initial one: it has never been ready.
    if not_ready and pod.start_time + flags.initial_readiness_delay > transition:
        return Unready(pod.name, UnreadyRule.NEVER_READY)
    return None


# -- what samples mean ---------------------------------------------------------------------------


def _measure(metric: MetricSpec, pods: Sequence[Pod]) -> _Measure | str:
    target = metric.target
    if target.average_value is not None:
        return _average_measure(target.average_value)
    if not metric.of_resource or target.average_utilization is None:
        return "the target has neither averageValue nor averageUtilization"
    requests = _requests(metric, pods)
    if isinstance(requests, str):
        return requests
    return _utilization_measure(metric.name, target.average_utilization, requests)


def _average_measure(target: int) -> _Measure:
    def ratio(samples: Mapping[str, int]) -> tuple[float, MetricValueStatus]:
        average = trunc_div(saturate64(sum(samples.values())), len(samples))
        return ratio_of(average, target), MetricValueStatus(average_value=average)

    return _Measure(ratio, lambda _pod: target)


def _utilization_measure(resource: str, target: int, requests: Mapping[str, int]) -> _Measure:
    def ratio(samples: Mapping[str, int]) -> tuple[float, MetricValueStatus] | str:
        usage = requested = count = 0
        for name, milli in samples.items():
            request = requests.get(name)
            if request is not None:
                usage += milli
                requested += request
                count += 1
        usage, requested = saturate64(usage), saturate64(requested)
        if requested == 0:
            return f"the pods with samples request no {resource} in sum"
        utilization = saturate32(trunc_div(saturate64(usage * 100), requested))
        current = MetricValueStatus(
            average_value=trunc_div(usage, count),
            average_utilization=utilization,
            average_request=trunc_div(requested, count),
        )
        return float(utilization) / float(target), current

    def missing_usage(pod: str) -> int:
        return trunc_div(saturate64(requests[pod] * max(100, target)), 100)

    return _Measure(ratio, missing_usage)


def _requests(metric: MetricSpec, pods: Sequence[Pod]) -> dict[str, int] | str:
    """Return the requests by pod in milli-units; every pod must have one, whatever its phase."""
    # Pods of one template share their PodRequests, so that most of the work is done once.
    known: dict[int, int] = {}
    by_pod: dict[str, int] = {}
    for pod in pods:
        template = id(pod.requests)
        if template not in known:
            request = request_of(pod.requests, metric.name, metric.container)
            if isinstance(request, str):
                return f"pod {pod.name}: {request}"
            known[template] = request
        by_pod[pod.name] = known[template]
    return by_pod


def request_of(requests: PodRequests, resource: str, container: str | None) -> int | str:
    """Return the milli-units of a pod, or of one container (2.6), or why there is no request."""
    levels = requests.pod_level if container is None else ()
    if levels and any(n in {"cpu", "memory"} or n.startswith("hugepages-") for n in levels):
        return _pod_level_request(requests, resource)
    counted = requests.counted
    if container is not None:
        counted = tuple(each for each in counted if each.name == container)
        if not counted:
            return f"there is no container {container}"
    total = 0
    for each in counted:
        nano = each.requests.get(resource)
        if nano is None:
            return f"container {each.name} has no request for {resource}"
        total += milli_value(nano)
    return total


def _pod_level_request(requests: PodRequests, resource: str) -> int | str:
    """Return the pod-level request, or the sum of the containers, which may lack requests.

    The aggregate is the scheduler's without pod overhead (semantics 6.3): the larger of the sum of
    all containers and sidecars, and of each init container with the sidecars before it.
    """
    if resource in requests.pod_level:
        return milli_value(requests.pod_level[resource])
    every = (*requests.containers, *requests.init_containers)
    if not any(resource in each.requests for each in every):
        return f"no container has a request for {resource}"
    sidecars = largest_step = 0
    for init in requests.init_containers:
        request = init.requests.get(resource, 0)
        largest_step = max(largest_step, sidecars + request)
        if init.restartable:
            sidecars += request
    running = sum(each.requests.get(resource, 0) for each in requests.containers) + sidecars
    return milli_value(max(running, largest_step))
