"""The replica calculator for per-pod metrics: utilization and averages (semantics 2.2, 2.3)."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace

from autoscaler.core.decision import Calculation, MetricValueStatus, Rule
from autoscaler.core.grouping import PodGroups, group_pods
from autoscaler.core.numbers import Tolerance, ceil32, ratio_of, saturate32, saturate64, trunc_div
from autoscaler.core.observation import ContainerRequests, Pod, PodRequests, Sample
from autoscaler.core.quantity import milli_value
from autoscaler.core.spec import ContainerResourceMetric, Flags, PodsMetric, ResourceMetric

PerPodMetric = ResourceMetric | ContainerResourceMetric | PodsMetric


@dataclass(frozen=True, slots=True)
class _Measure:
    """How samples become a ratio, and what usage is assumed of a missing pod."""

    ratio: Callable[[Mapping[str, int]], tuple[float, MetricValueStatus] | str]
    missing_usage: Callable[[str], int]


def propose_per_pod(
    metric: PerPodMetric,
    samples: Mapping[str, Sample],
    pods: Sequence[Pod],
    replicas: int,
    tolerance: Tolerance,
    flags: Flags,
    now: float,
) -> Calculation | str:
    """Compute the proposal of a per-pod metric, or return a sentence that says why there is none.

    ``replicas`` is the current count.  Samples of pods other than ``pods`` count in some of the
    steps.
    """
    if not pods:
        return "no pods match the scale's selector"
    resource = "" if isinstance(metric, PodsMetric) else metric.name
    groups = group_pods(pods, samples, resource, flags, now)
    counted = {name: sample.milli for name, sample in samples.items()}
    for name in (*groups.ignored, *groups.unready):
        counted.pop(name, None)
    if not counted:
        return "no pod that counts has a sample"
    measure = _measure(metric, pods)
    if isinstance(measure, str):
        return measure
    return _propose(counted, groups, measure, replicas, tolerance)


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
            return Calculation(replicas, Rule.WITHIN_TOLERANCE, current, ratio, groups=groups)
        proposal = ceil32(ratio * float(groups.ready))
        return Calculation(proposal, Rule.READY_PODS, current, ratio, groups.ready, groups)
    filled = _filled(counted, groups, measure, ratio)
    remeasured = measure.ratio(filled)
    if isinstance(remeasured, str):
        return remeasured
    rebalanced = remeasured[0]
    confirmed = _rebalanced_proposal(ratio, rebalanced, len(filled), replicas, tolerance)
    rule = Rule.REBALANCED_AWAY if confirmed is None else Rule.REBALANCED
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
    return replace(result, proposal=replicas, rule=Rule.SURGE)


def _filled(
    counted: Mapping[str, int], groups: PodGroups, measure: _Measure, ratio: float
) -> Mapping[str, int]:
    """Fill in samples that damp the change: a high usage if the ratio is below 1, else none."""
    filled = dict(counted)
    if ratio < 1.0:
        for name in groups.missing:
            filled[name] = measure.missing_usage(name)
    elif ratio > 1.0:
        for name in (*groups.missing, *groups.unready):
            filled[name] = 0
    return filled


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


def _measure(metric: PerPodMetric, pods: Sequence[Pod]) -> _Measure | str:
    target = metric.target
    if target.average_value is not None:
        return _average_measure(target.average_value)
    if isinstance(metric, PodsMetric) or target.average_utilization is None:
        return "the target has neither averageValue nor averageUtilization"
    return _utilization_measure(metric, target.average_utilization, pods)


def _average_measure(target: int) -> _Measure:
    def ratio(samples: Mapping[str, int]) -> tuple[float, MetricValueStatus]:
        average = trunc_div(saturate64(sum(samples.values())), len(samples))
        return ratio_of(average, target), MetricValueStatus(average_value=average)

    return _Measure(ratio, lambda _pod: target)


def _utilization_measure(
    metric: ResourceMetric | ContainerResourceMetric, target: int, pods: Sequence[Pod]
) -> _Measure | str:
    requests = _requests(metric, pods)
    if isinstance(requests, str):
        return requests

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
            return f"the pods with samples request no {metric.name} in sum"
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


_POD_LEVEL = ("cpu", "memory")
_POD_LEVEL_PREFIX = "hugepages-"


def request_of(requests: PodRequests, resource: str, container: str | None) -> int | str:
    """Return a pod's request in milli-units, or a sentence that says why it has none.

    ``container`` names the container that counts; None means the whole pod (semantics 2.6).
    """
    if container is None and any(
        name in _POD_LEVEL or name.startswith(_POD_LEVEL_PREFIX) for name in requests.pod_level
    ):
        return _pod_level_request(requests, resource)
    sidecars = (one for one in requests.init_containers if one.restartable)
    counted = (*requests.containers, *sidecars)
    if container is not None:
        counted = tuple(one for one in counted if one.name == container)
        if not counted:
            return f"there is no container {container}"
    total = 0
    for one in counted:
        nano = one.requests.get(resource)
        if nano is None:
            return f"container {one.name} has no request for {resource}"
        total += milli_value(nano)
    return total


def _pod_level_request(requests: PodRequests, resource: str) -> int | str:
    """Return the pod-level request, else the aggregate, in which a container may have none.

    Pod overhead is not part of it (semantics 6.3).
    """
    if resource in requests.pod_level:
        return milli_value(requests.pod_level[resource])
    every = (*requests.containers, *requests.init_containers)
    if not any(resource in one.requests for one in every):
        return f"no container has a request for {resource}"
    return milli_value(_aggregate(requests.containers, requests.init_containers, resource))


def _aggregate(
    containers: Sequence[ContainerRequests], init: Sequence[ContainerRequests], resource: str
) -> int:
    """Aggregate as the scheduler does, in nano-units.

    It is the larger of all containers and sidecars, and each init container with the sidecars
    before it.
    """
    sidecars = 0
    largest_step = 0
    for one in init:
        request = one.requests.get(resource, 0)
        if one.restartable:
            sidecars += request
            largest_step = max(largest_step, sidecars)
        else:
            largest_step = max(largest_step, sidecars + request)
    running = sum(one.requests.get(resource, 0) for one in containers) + sidecars
    return max(running, largest_step)
