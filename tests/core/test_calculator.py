"""Value and AverageValue targets of Object and External metrics (semantics 2.4, 2.5, 2.7)."""

import math
from dataclasses import replace

import pytest

from autoscaler.core.calculator import MetricContext, propose
from autoscaler.core.decision import Calculation, Formula, MetricFailure, MetricValueStatus
from autoscaler.core.extensions import Extensions
from autoscaler.core.numbers import INT32_MAX, INT32_MIN, INT64_MAX
from autoscaler.core.observation import (
    Gap,
    GapKind,
    Pod,
    PodSamples,
    Reading,
    Sample,
    Scale,
    Values,
)
from autoscaler.core.spec import Flags, MetricSpec, MetricTarget, TargetType
from tests.core.builders import (
    BASE,
    FALSE,
    TENTH,
    TRUE,
    average,
    cpu,
    external,
    of_object,
    per_pod,
    pod,
    pods,
    samples,
    utilization,
    value,
    values,
)
from tests.narrowing import assert_parts, instance


def context(
    spec: int, status: int | None = None, of: tuple[Pod, ...] | None = None
) -> MetricContext:
    """Return a scale of ``spec`` replicas, by default with as many pods Running and Ready."""
    scale = Scale(spec, spec if status is None else status, "app=web")
    return MetricContext(scale, pods(spec) if of is None else of, TENTH, Flags(), BASE)


def proposed(metric: MetricSpec, reading: Reading, against: MetricContext) -> Calculation:
    return instance(Calculation, propose(metric, reading, against))


def refused(metric: MetricSpec, reading: Reading, against: MetricContext) -> MetricFailure:
    return instance(MetricFailure, propose(metric, reading, against))


@pytest.mark.parametrize("metric", [external(value("10")), of_object(value("10"))])
@pytest.mark.parametrize(
    ("usage", "ready", "proposal", "rule"),
    [
        (50, 0, 5, Formula.ABOVE_TARGET),
        (19.5, 2, 5, Formula.ABOVE_TARGET),
        (11.001, 4, 5, Formula.READY_PODS),
        (11.001, 3, 5, Formula.ABOVE_TARGET),
        (50, 1, 5, Formula.READY_PODS),
        (50, 2, 10, Formula.READY_PODS),
        (20, 9, 18, Formula.READY_PODS),
        (11, 0, 5, Formula.WITHIN_TOLERANCE),
        (9, 0, 5, Formula.WITHIN_TOLERANCE),
        (8.9, 0, 0, Formula.READY_PODS),
        (5, 2, 1, Formula.READY_PODS),
        (0, 5, 0, Formula.READY_PODS),
        (-50, 5, -25, Formula.READY_PODS),
    ],
)
@pytest.mark.parametrize("keep", [True, False])
def test_value_targets_above_the_target_keep_the_current_count(
    metric: MetricSpec, usage: float, ready: int, proposal: int, rule: Formula, *, keep: bool
) -> None:
    of = tuple(pod(f"p{n}", ready=TRUE if n < ready else FALSE) for n in range(9))
    at_flag = replace(context(5, 5, of), flags=Flags(keep_above_target=keep))
    result = proposed(metric, values(usage), at_flag)
    if not keep and rule is Formula.ABOVE_TARGET:
        proposal, rule = math.ceil(usage / 10 * ready), Formula.READY_PODS
    assert (result.proposal, result.rule) == (proposal, rule)
    if rule is Formula.READY_PODS:
        assert result.multiplier == ready


def test_value_targets_need_pods_only_outside_tolerance() -> None:
    assert proposed(external(value("1")), values(1), context(3, of=())).proposal == 3
    failed = refused(external(value("1")), values(2), context(3, of=()))
    assert failed.reason == "FailedGetExternalMetric"
    assert_parts(failed, "no pods")


@pytest.mark.parametrize(
    ("usage", "spec", "status", "proposal", "reported", "rule"),
    [
        (100, 10, 10, 10, 10_000, Formula.WITHIN_TOLERANCE),
        (101, 5, 5, 11, 20_200, Formula.USAGE_OVER_TARGET),
        # During a surge the status count divides, and is what "no change" proposes.
        (121, 10, 12, 12, 10_084, Formula.WITHIN_TOLERANCE),
        (10, 5, 1, 1, 10_000, Formula.WITHIN_TOLERANCE),
        # At status 0 nothing divides: the total is reported, not the smallest int64.
        (40, 0, 0, 4, 40_000, Formula.USAGE_OVER_TARGET),
        (0, 0, 0, 0, 0, Formula.USAGE_OVER_TARGET),
        # The average is rounded up.
        (10, 3, 3, 1, 3_334, Formula.USAGE_OVER_TARGET),
    ],
)
@pytest.mark.parametrize("metric", [external(average("10")), of_object(average("10"))])
def test_average_targets(
    metric: MetricSpec,
    usage: int,
    spec: int,
    status: int,
    proposal: int,
    reported: int,
    rule: Formula,
) -> None:
    result = proposed(metric, values(usage), context(spec, status, of=()))
    assert (result.proposal, result.rule) == (proposal, rule)
    assert result.current == MetricValueStatus(average_value=reported)


def test_the_total_at_zero_status_replicas_is_exact() -> None:
    result = proposed(external(average("1")), Values((2**53 + 1,)), context(0))
    assert result.current.average_value == 2**53 + 1


def test_pods_do_not_multiply_at_zero() -> None:
    result = proposed(external(value("10")), values(20), context(0, of=pods(3)))
    assert (result.proposal, result.rule) == (2, Formula.FROM_ZERO)


EACH = average("1")


@pytest.mark.parametrize(
    ("metric", "of", "proposal", "negative", "reported"),
    [
        (external(value("1")), (5, -6), -3, False, None),
        (external(EACH), (2, 3, 4), 9, False, 3000),
        (external(EACH), (5, -6), 0, True, 0),
        (external(EACH), (5, -5), 0, False, 0),
        # The order of the values does not matter; their sum does.
        (external(EACH), (-6, 10), 4, False, 1334),
        (external(EACH), (10, -6), 4, False, 1334),
        # Only External's rule takes negative sums for zero.
        (of_object(EACH), (-6,), -6, False, -2000),
    ],
)
def test_values_are_summed(
    metric: MetricSpec, of: tuple[int, ...], proposal: int, negative: bool, reported: int | None
) -> None:
    """A negative sum of averages is 0, and says so; Kubernetes takes it for infinite load (6.4)."""
    result = proposed(metric, values(*of), context(3))
    assert (result.proposal, result.negative_sum) == (proposal, negative)
    assert result.current.average_value == reported


@pytest.mark.parametrize(
    ("metric", "milli", "proposal"),
    [
        (external(value("1m")), (INT64_MAX,), INT32_MAX),
        (external(value("1m")), (-INT64_MAX,), INT32_MIN),
        (of_object(value("1m")), (INT64_MAX,), INT32_MAX),
        (external(average("1m")), (INT64_MAX, INT64_MAX), INT32_MAX),
        (of_object(average("1m")), (INT64_MAX,), INT32_MAX),
        (of_object(average("1m")), (-INT64_MAX,), INT32_MIN),
    ],
)
def test_overflow_saturates(metric: MetricSpec, milli: tuple[int, ...], proposal: int) -> None:
    """Kubernetes 1.37 wraps to the smallest count at some of these sites (semantics 6.1)."""
    assert proposed(metric, Values(milli), context(2)).proposal == proposal
    reported = proposed(external(average("1")), Values((INT64_MAX, 5)), context(1)).current
    assert reported.average_value == INT64_MAX, "with one status replica it is the sum"


BOTH = MetricTarget(TargetType.VALUE, value=1000, average_value=500)


def test_an_object_target_goes_by_its_type() -> None:
    averages = replace(BOTH, type=TargetType.AVERAGE_VALUE)
    found = [proposed(of_object(both), values(4), context(2)).current for both in (BOTH, averages)]
    assert found == [MetricValueStatus(value=4000), MetricValueStatus(average_value=2000)]


def test_an_external_target_goes_by_its_fields() -> None:
    """The controller looks at averageValue first, whatever the type says."""
    assert proposed(external(BOTH), values(4), context(2)).current.average_value == 2000


# -- A rolling update with more pods than `spec.replicas` moves nothing ----------------------------


TWENTY, SURGE = 20, 25


def proposal(
    metric: MetricSpec,
    reading: Reading,
    of: tuple[Pod, ...],
    replicas: int = TWENTY,
    *,
    ignore: bool,
) -> Calculation:
    surging = context(replicas, len(of), of)
    return proposed(metric, reading, replace(surging, extensions=Extensions(ignore_surge=ignore)))


def each(milli: int, count: int) -> PodSamples:
    """Return a reading with the same value for each pod."""
    return PodSamples({f"p{index}": Sample(milli, BASE, 60.0) for index in range(count)})


BY_POD = per_pod("100")
CPU = cpu(utilization(50))
SHARED = external(average("100"))
RATIO = external(value("100"))


@pytest.mark.parametrize(
    ("metric", "reading", "of_the_hpa", "without"),
    [
        # Constant load that more pods share: 5 % above the target without the surge.
        (BY_POD, each(84_000, SURGE), 21, 20),
        (CPU, each(420, SURGE), 21, 20),
        (SHARED, Values((2_100_000,)), 21, 20),
        # An eighth above it: not all of the pods agree, and the average is below the target.
        (BY_POD, each(89_000, SURGE), 23, 20),
        # Each pod brings its load.
        (BY_POD, each(105_000, SURGE), 20, 20),
        # 20 % above the target in each pod: the pods that come and go multiply it.
        (BY_POD, each(120_000, SURGE), 30, 24),
        (CPU, each(600, SURGE), 30, 24),
        (RATIO, Values((120_000,)), 30, 24),
        (RATIO, Values((80_000,)), 20, 16),
        # A third less load, shared by more pods, is a third less.
        (BY_POD, each(53_600, SURGE), 14, 14),
        (SHARED, Values((1_340_000,)), 14, 14),
    ],
)
def test_pods_above_the_replicas_do_not_count(
    metric: MetricSpec, reading: Reading, of_the_hpa: int, without: int
) -> None:
    of = pods(SURGE)
    assert proposal(metric, reading, of, ignore=False).proposal == of_the_hpa
    found = proposal(metric, reading, of, ignore=True)
    assert found.proposal == without
    if reading == each(84_000, SURGE):
        assert (found.rule, found.multiplier) == (Formula.SURGE, SURGE), "it says so"


@pytest.mark.parametrize(
    ("metric", "reading"),
    [
        (BY_POD, each(84_000, TWENTY)),
        (BY_POD, each(130_000, TWENTY)),
        (CPU, each(300, TWENTY)),
        (SHARED, Values((2_500_000,))),
        (RATIO, Values((70_000,))),
    ],
)
def test_without_a_surge_the_flag_changes_nothing(metric: MetricSpec, reading: Reading) -> None:
    ignored = proposal(metric, reading, pods(TWENTY), ignore=True)
    assert ignored == proposal(metric, reading, pods(TWENTY), ignore=False)


def test_repeated_rollouts_do_not_run_away() -> None:
    """kubernetes/kubernetes#72775: each rollout multiplied the count by its surge."""
    replicas, grown = 383, 383
    for _ in range(3):
        surge, surged = pods(grown * 5 // 4), pods(replicas * 5 // 4)
        # Within tolerance nothing moves either way.
        assert proposal(RATIO, Values((100_000,)), surge, grown, ignore=False).proposal == grown
        grown = proposal(RATIO, Values((111_000,)), surge, grown, ignore=False).proposal
        replicas = proposal(RATIO, Values((111_000,)), surged, replicas, ignore=True).proposal
    assert grown > 383 * 2.5
    assert replicas < 383 * 1.4


# -- A reading that fails or may understate: never zero, never a scale-down ------------------------


ONE = value("1")
UTILIZED = MetricTarget(TargetType.UTILIZATION, value=1000)
MISTYPED = MetricTarget(TargetType.VALUE, average_value=1000)
NOTHING = MetricTarget(TargetType.VALUE)


@pytest.mark.parametrize(
    ("metric", "reading", "parts"),
    [
        (of_object(UTILIZED), values(1), ("target.type", "Utilization")),
        (of_object(MISTYPED), values(1), ("target.type", "Value")),
        (of_object(ONE), values(1, 2), ("2",)),
        (external(NOTHING), values(1), ("averageValue",)),
        (external(ONE), Values(()), ("no values",)),
        (external(ONE), PodSamples(samples(1)), ("samples of pods",)),
        (per_pod("1"), values(1), ("samples of pods",)),
        *((external(ONE), Gap(kind, "not there"), ("not there",)) for kind in GapKind),
    ],
)
def test_a_metric_that_cannot_be_computed_fails_with_the_reason_of_the_hpa(
    metric: MetricSpec, reading: Reading, parts: tuple[str, ...]
) -> None:
    failed = refused(metric, reading, context(2))
    assert failed.reason == f"FailedGet{metric.type}Metric"
    assert_parts(failed, *parts)


PARTIAL = (Gap(GapKind.PARTIAL, "store eu"),)


@pytest.mark.parametrize(
    ("metric", "down", "stay", "up"),
    [
        (external(average("1")), (2,), (3,), (5,)),
        (external(value("1")), (0.5,), (1,), (2,)),
        (of_object(average("1")), (2,), (3,), (5,)),
        (of_object(value("1")), (-5,), (1,), (2,)),
    ],
)
def test_an_incomplete_reading_never_scales_down(
    metric: MetricSpec, down: tuple[float, ...], stay: tuple[float, ...], up: tuple[float, ...]
) -> None:
    """It may say stay or more; a proposal of fewer is a failure of the metric."""

    def incomplete(units: tuple[float, ...]) -> Values:
        return Values(values(*units).values, PARTIAL)

    assert_parts(refused(metric, incomplete(down), context(3)), "scale down", "store eu")
    assert proposed(metric, incomplete(stay), context(3)).proposal == 3
    assert proposed(metric, incomplete(up), context(3)).proposal > 3
    low = PodSamples(samples(1000, 1000), gaps=PARTIAL)
    assert_parts(refused(per_pod("10"), low, context(2)), "scale down", "store eu")
    high = PodSamples(samples(30_000, 30_000), gaps=PARTIAL)
    assert proposed(per_pod("10"), high, context(2)).proposal == 6
