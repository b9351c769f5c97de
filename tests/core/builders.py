"""Builders of metrics, rules, pods and series for the tests of the core.

Quantities are written as in YAML; times of pods and samples are seconds from `BASE`.
"""

from collections.abc import Mapping

from autoscaler.core.observation import ContainerRequests, Pod, PodRequests, Sample, Values
from autoscaler.core.series import Series
from autoscaler.core.spec import (
    Behavior,
    ConditionStatus,
    ContainerResourceMetric,
    ExternalMetric,
    HorizontalPodAutoscalerSpec,
    LabelSelector,
    MetricIdentifier,
    MetricSpec,
    MetricTarget,
    ObjectMetric,
    PodsMetric,
    PolicyType,
    ResourceMetric,
    ScaleTargetRef,
    ScalingPolicy,
    ScalingRules,
    SelectPolicy,
    TargetType,
    Tolerance,
)
from autoscaler.quantities import parse_milli, parse_quantity

BASE = 1_767_225_600.0
"""2026-01-01T00:00:00Z."""
TRUE, FALSE, UNKNOWN = ConditionStatus.TRUE, ConditionStatus.FALSE, ConditionStatus.UNKNOWN
TENTH = Tolerance(0.1, 0.1)
DEPLOYMENT = ScaleTargetRef("apps/v1", "Deployment", "web")
INGRESS = ScaleTargetRef("networking.k8s.io/v1", "Ingress", "front")
LONG_AGO = -3600.0


def value(quantity: str) -> MetricTarget:
    return MetricTarget(TargetType.VALUE, value=parse_milli(quantity))


def average(quantity: str) -> MetricTarget:
    return MetricTarget(TargetType.AVERAGE_VALUE, average_value=parse_milli(quantity))


def utilization(percent: int) -> MetricTarget:
    return MetricTarget(TargetType.UTILIZATION, average_utilization=percent)


def external(
    target: MetricTarget, name: str = "queue", selector: LabelSelector | None = None
) -> ExternalMetric:
    return ExternalMetric(MetricIdentifier(name, selector), target)


def of_object(
    target: MetricTarget, described: ScaleTargetRef = INGRESS, selector: LabelSelector | None = None
) -> ObjectMetric:
    """Return an Object metric, by default of the Ingress `front`."""
    return ObjectMetric(described, MetricIdentifier("hits", selector), target)


def per_pod(quantity: str, selector: LabelSelector | None = None) -> PodsMetric:
    return PodsMetric(MetricIdentifier("rps", selector), average(quantity))


def cpu(target: MetricTarget) -> ResourceMetric:
    return ResourceMetric("cpu", target)


def container_cpu(target: MetricTarget, container: str = "app") -> ContainerResourceMetric:
    return ContainerResourceMetric("cpu", container, target)


def pods_policy(replicas: int, period: int = 15) -> ScalingPolicy:
    return ScalingPolicy(PolicyType.PODS, replicas, period)


def percent_policy(percent: int, period: int = 15) -> ScalingPolicy:
    return ScalingPolicy(PolicyType.PERCENT, percent, period)


def rules(
    *policies: ScalingPolicy,
    window: int | None = None,
    select: SelectPolicy = SelectPolicy.MAX,
    tolerance: float | None = None,
) -> ScalingRules:
    """Return the rules of one direction."""
    return ScalingRules(window, select, policies, tolerance)


def behavior(up: ScalingRules | None = None, down: ScalingRules | None = None) -> Behavior:
    """Return a behavior; a direction that is left out has the API's defaults."""
    return Behavior(
        up or rules(pods_policy(4), percent_policy(100), window=0),
        down or rules(percent_policy(100)),
    )


def both_ways(*policies: ScalingPolicy, window: int = 0) -> Behavior:
    """Return a behavior with the same rules up and down."""
    return behavior(rules(*policies, window=window), rules(*policies, window=window))


def spec(
    *metrics: MetricSpec, minimum: int = 1, maximum: int = 100, behavior: Behavior | None = None
) -> HorizontalPodAutoscalerSpec:
    return HorizontalPodAutoscalerSpec(DEPLOYMENT, minimum, maximum, metrics, behavior)


QUEUE = external(average("10"))
"""Ten messages for each replica."""
MAILS = external(average("10"), "mails")
FREE = behavior(down=rules(percent_policy(100), window=0))
"""Nothing holds a scale-down."""


def container(
    name: str = "app", *, restartable: bool = False, **requests: str
) -> ContainerRequests:
    """Return a container with requests: `container("app", cpu="500m")`."""
    nano = {resource: parse_quantity(quantity) for resource, quantity in requests.items()}
    return ContainerRequests(name, nano, restartable)


def pod(
    name: str = "p0",
    *,
    phase: str = "Running",
    ready: ConditionStatus | None = TRUE,
    transition: float | None = LONG_AGO,
    start: float | None = LONG_AGO,
    deleted: bool = False,
    requests: PodRequests | None = None,
) -> Pod:
    """Return a pod, by default long Running and Ready, with one container that requests one cpu."""
    return Pod(
        name,
        phase,
        ready,
        None if transition is None else BASE + transition,
        None if start is None else BASE + start,
        deleted,
        PodRequests((container(cpu="1"),)) if requests is None else requests,
    )


def pods(count: int, cpu: str = "1") -> tuple[Pod, ...]:
    """Return `p0`, `p1`, ... with equal requests."""
    return tuple(
        pod(f"p{index}", requests=PodRequests((container(cpu=cpu),))) for index in range(count)
    )


def samples(
    *milli: int, at: float = 0.0, window: float = 60.0, first: int = 0
) -> Mapping[str, Sample]:
    """Return samples of `p0`, `p1`, ... (or from ``first`` on)."""
    return {
        f"p{index}": Sample(item, BASE + at, window)
        for index, item in enumerate(milli, start=first)
    }


def values(*units: float) -> Values:
    """Return values in whole units."""
    return Values(tuple(round(unit * 1000) for unit in units))


def series(sample: float, *, age: float = 0.0, **labels: str) -> Series:
    """Return a series sampled ``age`` seconds before `BASE`."""
    return Series(labels, sample, BASE - age)
