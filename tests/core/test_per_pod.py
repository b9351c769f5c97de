"""Utilization (semantics 2.2)."""

from collections.abc import Mapping, Sequence
from dataclasses import replace

import pytest

from autoscaler.core.calculator import (
    MetricContext,
    group_pods,
    propose_per_pod,
    request_of,
)
from autoscaler.core.decision import (
    Calculation,
    Formula,
    MetricValueStatus,
    PodGroups,
    Unready,
    UnreadyRule,
)
from autoscaler.core.numbers import INT32_MAX, INT64_MAX
from autoscaler.core.observation import Pod, PodRequests, Sample, Scale
from autoscaler.core.spec import Flags, MetricSpec, ResourceMetric
from autoscaler.quantities import parse_quantity
from tests.core.builders import (
    BASE,
    FALSE,
    TENTH,
    UNKNOWN,
    container,
    container_cpu,
    cpu,
    per_pod,
    pod,
    pods,
    samples,
    utilization,
    value,
)
from tests.narrowing import assert_parts, instance


def attempt(
    metric: MetricSpec, readings: Mapping[str, Sample], of: Sequence[Pod], replicas: int
) -> Calculation | str:
    """Compute a proposal, or the sentence that says why there is none."""
    context = MetricContext(Scale(replicas, replicas, "app=web"), of, TENTH, Flags(), BASE)
    return propose_per_pod(metric, readings, context)


def proposed(
    metric: MetricSpec, readings: Mapping[str, Sample], of: Sequence[Pod], replicas: int
) -> Calculation:
    return instance(Calculation, attempt(metric, readings, of, replicas))


def starting(name: str, requests: str = "1") -> Pod:
    """Return a Running pod that is not ready yet."""
    pod_requests = PodRequests((container(cpu=requests),))
    return pod(name, ready=FALSE, start=-20.0, transition=-20.0, requests=pod_requests)


def test_missing_pods_are_charged_the_target_above_100_percent() -> None:
    """The HPA's own example: target 300%, so that the missing pod is charged 12000m of 4000m."""
    of = (starting("p0", "2"), pods(2, "2")[1], *pods(4, "4")[2:])
    result = proposed(cpu(utilization(300)), samples(400, 200, 200), of, 4)
    assert (result.proposal, result.multiplier) == (2, 3)
    assert result.rebalanced_ratio == 124.0 / 300.0
    assert result.current.average_utilization == 6


@pytest.mark.parametrize(
    ("usage", "pod_count", "target", "replicas", "rule", "proposal"),
    [
        # Whole percent: 55.9% counts as 55%, just on the border.
        ((559, 559, 559), 3, 50, 3, Formula.WITHIN_TOLERANCE, 3),
        # The quota example: three of ten pods exist, and the ready ones multiply.
        ((600, 600, 600), 3, 50, 10, Formula.READY_PODS, 4),
        # Doubles: 7% / 3% over 27 pods is 63.00000000000001.
        ((70,) * 27, 27, 3, 27, Formula.READY_PODS, 64),
        # r = 0.5: three missing pods in full bring it to 80% of 100%.
        ((500, 500), 5, 100, 5, Formula.REBALANCED, 4),
        # 24% on two of four pods, and 62% when the two count in full.
        ((400, 95), 4, 100, 4, Formula.REBALANCED, 3),
        # Only the ratio after filling in is compared with the tolerance.
        ((950, 950), 3, 100, 3, Formula.REBALANCED_AWAY, 3),
        ((1050, 1050), 3, 100, 3, Formula.REBALANCED_AWAY, 3),
        # r = 1.5 turns to 0.75 when the missing pods count as idle: nothing happens.
        ((1500, 1500), 4, 100, 4, Formula.REBALANCED_AWAY, 4),
        # r = 0.8 turns to 1.5 when the missing one is charged 100% of its request at a 50% target.
        ((400,), 2, 50, 2, Formula.REBALANCED_AWAY, 2),
        # The same charge, whole, where it only dampens: 25% of 50%, and not 12%.
        ((0, 0, 0), 4, 50, 4, Formula.REBALANCED, 2),
        # Exactly on target: no sample is filled in, so the sample count stays one.
        ((1000,), 2, 100, 2, Formula.REBALANCED_AWAY, 2),
        # r = 3 over 2 of 3 pods: 2 * 3 = 6, not 3 * 3.
        ((3000, 3000), 3, 100, 3, Formula.REBALANCED, 6),
        # Still above target, but fewer than there are: no scale-down from a ratio above one.
        ((3000, 3000), 3, 100, 9, Formula.REBALANCED_AWAY, 9),
        # Still below target, but more than there are: no scale-up from a ratio below one.
        ((100, 100), 5, 100, 1, Formula.REBALANCED_AWAY, 1),
    ],
)
def test_missing_pods_count_against_the_direction(
    usage: tuple[int, ...], pod_count: int, target: int, replicas: int, rule: Formula, proposal: int
) -> None:
    """Missing pods: full request (or the target, if larger) going down, nothing going up."""
    result = proposed(cpu(utilization(target)), samples(*usage), pods(pod_count), replicas)
    assert (result.rule, result.proposal) == (rule, proposal)


def test_unready_pods_are_left_out_on_target() -> None:
    of = (pod("p0"), starting("p1"))
    result = proposed(cpu(utilization(100)), samples(1000, 1), of, 2)
    assert (result.proposal, result.rule, result.ratio) == (2, Formula.WITHIN_TOLERANCE, 1.0)


def test_samples_of_unlisted_pods_do_not_count_for_utilization() -> None:
    plain = proposed(cpu(utilization(100)), samples(2000, 9000), pods(1), 1)
    assert (plain.proposal, plain.current.average_value) == (2, 2000)
    of = (pod("p0"), pod("missing"))
    rebalanced = proposed(cpu(utilization(100)), samples(4000, 9000), of, 2)
    assert (rebalanced.proposal, rebalanced.multiplier, rebalanced.rebalanced_ratio) == (6, 3, 2.0)


HALF, NONE = utilization(50), PodRequests((container(),))
CPU = cpu(HALF)
NO_PODS, NO_SAMPLE, NO_REQUEST = ("no pods",), ("sample",), ("pod gone", "container app", "cpu")


@pytest.mark.parametrize(
    ("metric", "readings", "of", "parts"),
    [
        (CPU, samples(1), (), NO_PODS),
        (per_pod("1"), samples(1), (), NO_PODS),
        (CPU, {}, pods(2), NO_SAMPLE),
        (CPU, samples(1, 1), (pod("p0", phase="Pending"), pod("p1", deleted=True)), NO_SAMPLE),
        (CPU, samples(1), (pod("p0"), pod("gone", phase="Failed", requests=NONE)), NO_REQUEST),
        (CPU, samples(1), (pod("p0"), pod("gone", deleted=True, requests=NONE)), NO_REQUEST),
        (container_cpu(HALF, "web"), samples(1), pods(1), ("pod p0", "container web")),
        (CPU, samples(1, first=7), pods(1), ("request no cpu",)),
        (CPU, samples(1), pods(1, "0"), ("request no cpu",)),
        (cpu(value("1")), samples(1), pods(1), ("averageValue", "averageUtilization")),
    ],
)
def test_a_metric_of_pods_that_cannot_be_computed_fails(
    metric: MetricSpec, readings: Mapping[str, Sample], of: Sequence[Pod], parts: tuple[str, ...]
) -> None:
    assert_parts(instance(str, attempt(metric, readings, of, 1)), *parts)


def test_overflow_saturates_where_kubernetes_wraps() -> None:
    """Extreme usage asks for the most replicas, not for the fewest (semantics 6.1)."""
    huge = proposed(cpu(utilization(1)), samples(INT64_MAX, INT64_MAX), pods(2, "1m"), 2)
    assert huge.current.average_utilization == INT32_MAX
    assert huge.proposal == INT32_MAX
    mean = proposed(per_pod("1m"), samples(INT64_MAX, INT64_MAX), pods(2), 2)
    assert mean.current.average_value == INT64_MAX // 2
    assert mean.proposal == INT32_MAX


def test_whole_percent_of_memory_beyond_92_terabytes() -> None:
    """Usage times 100 saturates, so that utilization never turns negative (semantics 6.1)."""
    usage = 10**17
    requests = PodRequests((container(memory="100T"),))
    metric = ResourceMetric("memory", utilization(100))
    result = proposed(metric, samples(usage), (pod("p0", requests=requests),), 1)
    assert result.current.average_utilization == INT64_MAX // usage


# -- averages of pods: AverageValue of Resource, ContainerResource and Pods ------------------------


@pytest.mark.parametrize(
    ("usage", "pod_count", "replicas", "proposal", "reported"),
    [
        ((11_001, 11_001), 2, 2, 3, 11_001),
        # Truncated toward zero, negative as well.
        ((10, 11), 2, 2, 1, 10),
        ((-2, -3), 2, 2, 0, -2),
        # Missing pods: the target itself going down, nothing going up.
        ((5_000, 5_000), 3, 3, 2, 5_000),
        ((30_000,), 2, 2, 3, 30_000),
        # Samples of unlisted pods count in sum and number, and the ready pods multiply.
        ((10_000, 50_000), 1, 1, 3, 30_000),
    ],
)
def test_an_average_per_pod_is_the_truncated_mean_over_the_target(
    usage: tuple[int, ...], pod_count: int, replicas: int, proposal: int, reported: int
) -> None:
    result = proposed(per_pod("10"), samples(*usage), pods(pod_count), replicas)
    assert result.proposal == proposal
    assert result.current == MetricValueStatus(average_value=reported)


def test_an_average_value_goes_before_a_utilization() -> None:
    metric = ResourceMetric("cpu", replace(utilization(50), average_value=100))
    result = proposed(metric, samples(200), pods(1), 1)
    assert result.current == MetricValueStatus(average_value=200)


# -- pods in groups: every rule, and both sides of every border ------------------------------------


READY, UNREADY = PodGroups(1, (), (), ()), PodGroups(0, ("p0",), (), ())
MISSING, IGNORED = PodGroups(0, (), ("p0",), ()), PodGroups(0, (), (), ("p0",))
FLAGS = Flags(cpu_initialization_period=300.0, initial_readiness_delay=30.0)


def grouped(pod: Pod, at: float | None, flags: Flags = FLAGS) -> PodGroups:
    """Group one pod with a sample at ``at`` with a window of 60 s, or without a sample."""
    samples = {} if at is None else {"p0": Sample(500, BASE + at, 60.0)}
    return group_pods([pod], samples, "cpu", flags, BASE)


INITIALIZING = -299.0
BORDER = -300.0
"""Start + 300 s == now: the initialization period is over."""


RULE = UnreadyRule


@pytest.mark.parametrize(
    ("pod", "at", "groups"),
    [
        (pod(phase="Unknown"), 0.0, READY),
        (pod(deleted=True, phase="Pending"), 0.0, IGNORED),
        (pod(phase="Pending"), 0.0, (RULE.PENDING, None)),
        (pod(ready=None), None, MISSING),
        (pod(ready=None), 0.0, (RULE.NO_STATUS, None)),
        (pod(start=None), 0.0, (RULE.NO_STATUS, None)),
        # Within the initialization period.
        (pod(start=INITIALIZING, ready=FALSE), 0.0, (RULE.NOT_READY, 1.0)),
        (pod(start=-100.0, ready=FALSE, transition=-90.0), 0.0, (RULE.NOT_READY, 200.0)),
        (pod(start=INITIALIZING, transition=-100.0), 0.0, READY),
        # A sample counts once a whole window lies after the transition: -60 + 60 is not > 0.
        (pod(start=INITIALIZING, transition=-60.0), 0.0, READY),
        (pod(start=INITIALIZING, transition=-59.75), 0.0, (RULE.SAMPLE_WINDOW, 0.25)),
        (pod(start=-100.0, transition=-20.0), 0.0, (RULE.SAMPLE_WINDOW, 40.0)),
        (pod(start=-290.0, transition=-20.0), 0.0, (RULE.SAMPLE_WINDOW, 10.0)),
        (pod(start=INITIALIZING, transition=-100.0), -40.0, READY),
        (pod(start=INITIALIZING, transition=-100.0), -40.25, (RULE.SAMPLE_WINDOW, -40.0)),
        (pod(start=INITIALIZING, transition=None), 0.0, READY),
        (pod(start=INITIALIZING, ready=UNKNOWN, transition=-100.0), 0.0, READY),
        (pod(start=INITIALIZING, ready=UNKNOWN, transition=-10.0), 0.0, (RULE.SAMPLE_WINDOW, 1.0)),
        # On the border of the period the sample's window no longer matters.
        (pod(start=BORDER, transition=-10.0), 0.0, READY),
        (pod(start=BORDER + 0.25, transition=-10.0), 0.0, (RULE.SAMPLE_WINDOW, 0.25)),
        # After it: unready only if it never became ready, i.e. went unready near its start.
        (pod(start=-1000.0, ready=FALSE, transition=-970.25), 0.0, (RULE.NEVER_READY, None)),
        (pod(start=-1000.0, ready=FALSE, transition=-970.0), 0.0, READY),
        (pod(start=-1000.0, ready=FALSE, transition=None), 0.0, (RULE.NEVER_READY, None)),
        (pod(start=-1000.0, ready=UNKNOWN, transition=-999.0), 0.0, READY),
    ],
)
def test_cpu_of_a_starting_pod_does_not_count(
    pod: Pod, at: float | None, groups: PodGroups | tuple[UnreadyRule, float | None]
) -> None:
    found = grouped(pod, at)
    if isinstance(groups, PodGroups):
        assert found == groups
    else:
        rule, until = groups
        assert found == UNREADY
        assert found.unready_by == (Unready("p0", rule, None if until is None else BASE + until),)


def test_groups_keep_the_order_of_pods() -> None:
    pods = [pod("z", phase="Pending"), pod("a"), pod("b", phase="Pending")]
    pods += [pod("m"), pod("c", deleted=True), pod("d")]
    samples = {name: Sample(1, BASE, 60.0) for name in ("a", "d", "stranger")}
    assert group_pods(pods, samples, "cpu", FLAGS, BASE) == PodGroups(2, ("z", "b"), ("m",), ("c",))


def test_the_flags_have_the_period_and_the_delay() -> None:
    off = Flags(cpu_initialization_period=0.0, initial_readiness_delay=0.0)
    never_ready = pod(start=-400.0, ready=FALSE, transition=-400.0)
    for unready in (pod(start=-10.0, transition=-5.0), never_ready):
        assert grouped(unready, 0.0, Flags()) == UNREADY
        assert grouped(unready, 0.0, off) == READY


# -- what a pod requests ---------------------------------------------------------------------------


SIDECAR = container("proxy", restartable=True, cpu="100m")
INIT = container("migrate", cpu="3")


def pod_level(**requests: str) -> dict[str, int]:
    return {name.replace("_", "-"): parse_quantity(quantity) for name, quantity in requests.items()}


A, B = container("a", cpu="1"), container("b", cpu="1")
BARE = PodRequests((container("app", cpu="2"), container("bare")), (SIDECAR, INIT))
MEMORY = PodRequests((A, container("b", memory="1Gi")))
IN_PROXY = PodRequests((A,), (container("proxy", restartable=True, memory="1"),))
WHOLE = PodRequests((container("app", cpu="250m"),), (SIDECAR,), pod_level(cpu="4"))
EPHEMERAL = PodRequests((A, container("b")), (), pod_level(ephemeral_storage="1Gi"))
NO_CPU = PodRequests((container("a"),), (), pod_level(memory="1Gi"))
QUARTER = container(cpu="250m")
TINY = PodRequests((container(cpu="489151208n"), container("b", cpu="1n")))
OF_CONTAINERS: dict[str, tuple[PodRequests, str | None, int | str]] = {
    "one-container": (PodRequests((QUARTER,)), None, 250),
    "all-containers": (PodRequests((QUARTER, B)), None, 1250),
    "each-rounded-up": (TINY, None, 491),
    "with-sidecar": (PodRequests((QUARTER,), (SIDECAR,)), None, 350),
    "with-init-container": (PodRequests((QUARTER,), (INIT,)), None, 250),
    "with-both": (PodRequests((QUARTER,), (INIT, SIDECAR)), None, 350),
    "zero": (PodRequests((container(cpu="0"),)), None, 0),
    "no-container": (PodRequests(()), None, 0),
    "container-without-request": (MEMORY, None, "container b"),
    "sidecar-without-request": (IN_PROXY, None, "container proxy"),
    "of-container": (BARE, "app", 2000),
    "of-sidecar": (BARE, "proxy", 100),
    "of-container-without-request": (BARE, "bare", "container bare"),
    "of-init-container": (BARE, "migrate", "no container migrate"),
    "of-unknown-container": (BARE, "web", "no container web"),
    "pod-level": (WHOLE, None, 4000),
    "pod-level-of-container": (WHOLE, "app", 250),
    "pod-level-ephemeral-storage": (EPHEMERAL, None, "container b"),
    "pod-level-memory": (NO_CPU, None, "no container has"),
}


@pytest.mark.parametrize(("requests", "of", "expected"), OF_CONTAINERS.values(), ids=OF_CONTAINERS)
def test_a_pod_requests_the_sum_of_its_containers(
    requests: PodRequests, of: str | None, expected: int | str
) -> None:
    found = request_of(requests, "cpu", of)
    if isinstance(expected, int):
        assert found == expected
    else:
        assert expected in instance(str, found)


@pytest.mark.parametrize("other", [{"memory": "1Gi"}, {"hugepages_2Mi": "4Mi"}])
@pytest.mark.parametrize(
    ("containers", "init", "milli"),
    [
        ((QUARTER, container("b")), (), 250),
        ((QUARTER,), (SIDECAR,), 350),
        # The largest init step: a sidecar before it is running, one after it is not yet.
        ((QUARTER,), (SIDECAR, INIT), 3100),
        ((QUARTER,), (INIT, SIDECAR), 3000),
        ((container("a", cpu="5"),), (INIT, SIDECAR), 5100),
        ((container("a"),), (container("only", cpu="2"),), 2000),
        # Two sidecars in a row, both running when the last init step runs.
        ((A,), (SIDECAR, container("log", restartable=True, cpu="200m"), INIT), 3300),
        # One rounding, of the total.
        (TINY.containers, (), 490),
    ],
)
def test_another_pod_level_request_switches_to_the_aggregate(
    other: dict[str, str], containers: tuple[object, ...], init: tuple[object, ...], milli: int
) -> None:
    requests = PodRequests(containers, init, pod_level(**other))  # type: ignore[arg-type]  # columns of a table
    assert request_of(requests, "cpu", None) == milli


def test_pod_overhead_is_not_part_of_the_request() -> None:
    """Kubernetes 1.37 adds `spec.overhead` to pod-level requests; later versions and we do not.

    There is no place for an overhead in `PodRequests`, so the pod-level figure stands alone.
    """
    assert set(PodRequests.__slots__) == {"containers", "init_containers", "pod_level"}
    assert request_of(PodRequests((), (), pod_level(cpu="1")), "cpu", None) == 1000
