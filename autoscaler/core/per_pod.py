"""The replica calculator for per-pod metrics: groups, utilization and averages (semantics 2, 3)."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from autoscaler.core.decision import (
    Calculation,
    Formula,
    MetricValueStatus,
    PodGroups,
    Unready,
    UnreadyRule,
)
from autoscaler.core.extensions import NO_EXTENSIONS, Extensions
from autoscaler.core.numbers import ceil32, milli_value, ratio_of, saturate32, saturate64, trunc_div
from autoscaler.core.observation import Pod, PodRequests, Sample, Scale
from autoscaler.core.quick import quick
from autoscaler.core.spec import (
    ConditionStatus,
    ContainerResourceMetric,
    Flags,
    PodsMetric,
    ResourceMetric,
    Tolerance,
)

PerPodMetric = ResourceMetric | ContainerResourceMetric | PodsMetric


@dataclass(frozen=True, slots=True)
class _Measure:
    """How samples become a ratio, and what usage is assumed of a missing pod."""

    ratio: Callable[[Mapping[str, int]], tuple[float, MetricValueStatus] | str]
    missing_usage: Callable[[str], int]


@quick
@dataclass(frozen=True, slots=True)
class MetricContext:
    """What the proposals of a target's metrics have in common."""

    scale: Scale
    pods: Sequence[Pod]
    tolerance: Tolerance
    flags: Flags
    now: float
    extensions: Extensions = NO_EXTENSIONS


def propose_per_pod(
    metric: PerPodMetric, samples: Mapping[str, Sample], context: MetricContext
) -> Calculation | str:
    """Compute the proposal of a per-pod metric, or return a sentence that says why there is none.

    Samples of other pods than those of the context count in some of the steps.
    """
    if not context.pods:
        return "no pods match the scale's selector"
    resource = "" if isinstance(metric, PodsMetric) else metric.name
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
    # What is filled in damps the change: a high usage if the ratio is below 1, else none.
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

    Load that is shared makes each of more pods look idle, and load that each pod brings makes them
    all look busy in the sum: a change must follow from both the average and the sum.
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
    """Return why the cpu usage of a pod may be that of its start; None if it counts."""
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


def _measure(metric: PerPodMetric, pods: Sequence[Pod]) -> _Measure | str:
    target = metric.target
    if target.average_value is not None:
        return _average_measure(target.average_value)
    if isinstance(metric, PodsMetric) or target.average_utilization is None:
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


def _requests(
    metric: ResourceMetric | ContainerResourceMetric, pods: Sequence[Pod]
) -> dict[str, int] | str:
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
    if container is None and requests.pod_level and _has_pod_level(requests.pod_level):
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


def _has_pod_level(pod_level: Iterable[str]) -> bool:
    return any(name in {"cpu", "memory"} or name.startswith("hugepages-") for name in pod_level)


def _pod_level_request(requests: PodRequests, resource: str) -> int | str:
    """Return the pod-level request, else the aggregate, in which a container may have none.

    The aggregate is the scheduler's, without pod overhead (semantics 6.3): the larger of all
    containers and sidecars, and of each init container with the sidecars before it.
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
