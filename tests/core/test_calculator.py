"""Value and AverageValue targets of Object and External metrics (semantics 2.4, 2.5, 2.7)."""

import pytest

from autoscaler.core.decision import Formula, MetricFailure, MetricValueStatus
from autoscaler.core.numbers import INT32_MAX, INT32_MIN, INT64_MAX
from autoscaler.core.observation import Pod, Values
from autoscaler.core.spec import MetricSpec, MetricTarget, TargetType
from tests.core.builders import (
    FALSE,
    UNKNOWN,
    average,
    external,
    of_object,
    pod,
    pods,
    value,
    values,
)
from tests.core.calculating import context, proposed, refused


@pytest.mark.parametrize(
    ("usage", "replicas", "proposal", "rule"),
    [
        (10, 3, 3, Formula.WITHIN_TOLERANCE),
        (11, 3, 3, Formula.WITHIN_TOLERANCE),
        (9, 3, 3, Formula.WITHIN_TOLERANCE),
        (11.001, 3, 4, Formula.READY_PODS),
        (5, 3, 2, Formula.READY_PODS),
        (0, 3, 0, Formula.READY_PODS),
        (-10, 3, -3, Formula.READY_PODS),
        (0.001, 0, 1, Formula.FROM_ZERO),
        # At zero there is no tolerance and nothing to multiply by.
        (10, 0, 1, Formula.FROM_ZERO),
        (10.001, 0, 2, Formula.FROM_ZERO),
        (0, 0, 0, Formula.FROM_ZERO),
    ],
)
@pytest.mark.parametrize("metric", [external(value("10")), of_object(value("10"))])
def test_value_targets(
    metric: MetricSpec, usage: float, replicas: int, proposal: int, rule: Formula
) -> None:
    """The ratio of usage to target times the ready pods; the usage is reported."""
    result = proposed(metric, values(usage), context(replicas))
    assert (result.proposal, result.rule) == (proposal, rule)
    assert result.current == MetricValueStatus(value=round(usage * 1000))


@pytest.mark.parametrize(
    ("of", "ready"),
    [
        ((pod("a"), pod("b", ready=FALSE)), 1),
        ((pod("a"), pod("b", ready=UNKNOWN)), 1),
        ((pod("a"), pod("b", ready=None)), 1),
        ((pod("a"), pod("b", phase="Succeeded")), 1),
        # A pod that is being deleted still serves.
        ((pod("a"), pod("b", deleted=True)), 2),
        # A young pod that is Ready counts: no rule of CPU's start applies.
        ((pod("a"), pod("b", start=-1.0, transition=-1.0)), 2),
        ((pod("a", ready=FALSE),), 0),
    ],
)
def test_value_targets_multiply_by_running_and_ready_pods(of: tuple[Pod, ...], ready: int) -> None:
    """Neither the spec's nor the status' count multiplies."""
    result = proposed(external(value("1")), values(2), context(5, 7, of))
    assert (result.proposal, result.multiplier) == (2 * ready, ready)


def test_value_targets_need_pods_only_outside_tolerance() -> None:
    """Without any pod a ratio on target still proposes to stay."""
    assert proposed(external(value("1")), values(1), context(3, of=())).proposal == 3
    failed = refused(external(value("1")), values(2), context(3, of=()))
    assert failed == MetricFailure("FailedGetExternalMetric", "no pods match the scale's selector")


@pytest.mark.parametrize(
    ("usage", "spec", "status", "proposal", "reported", "rule"),
    [
        (100, 10, 10, 10, 10_000, Formula.WITHIN_TOLERANCE),
        (200, 10, 10, 20, 20_000, Formula.USAGE_OVER_TARGET),
        (101, 5, 5, 11, 20_200, Formula.USAGE_OVER_TARGET),
        (0, 5, 5, 0, 0, Formula.USAGE_OVER_TARGET),
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
    """Usage over target, whatever the pods do; the status count only divides."""
    result = proposed(metric, values(usage), context(spec, status, of=()))
    assert (result.proposal, result.rule) == (proposal, rule)
    assert result.current == MetricValueStatus(average_value=reported)


def test_the_total_at_zero_status_replicas_is_exact() -> None:
    """No double comes near it."""
    result = proposed(external(average("1")), Values((2**53 + 1,)), context(0))
    assert result.current.average_value == 2**53 + 1


def test_pods_do_not_multiply_at_zero() -> None:
    """Those that are left from before are on their way out."""
    result = proposed(external(value("10")), values(20), context(0, of=pods(3)))
    assert (result.proposal, result.rule) == (2, Formula.FROM_ZERO)


def test_external_values_are_summed() -> None:
    """All values count, negative ones too where the target is a Value."""
    result = proposed(external(value("1")), values(5, -6), context(3))
    assert (result.ratio, result.proposal) == (-1.0, -3)
    assert proposed(external(average("1")), values(2, 3, 4), context(3)).proposal == 9


def test_a_negative_external_sum_counts_as_zero_and_says_so() -> None:
    """Kubernetes takes a negative sum for infinite load (semantics 6.4)."""
    result = proposed(external(average("1")), values(5, -6), context(3))
    assert (result.proposal, result.negative_sum) == (0, True)
    assert result.current == MetricValueStatus(average_value=0)
    zero = proposed(external(average("1")), values(5, -5), context(3))
    assert (zero.proposal, zero.negative_sum) == (0, False)


def test_an_external_sum_that_passes_through_negative_is_just_a_sum() -> None:
    """The order of the values does not matter; their sum does (semantics 6.4)."""
    for order in (values(-6, 10), values(10, -6)):
        result = proposed(external(average("1")), order, context(3))
        assert (result.proposal, result.negative_sum) == (4, False)


def test_a_negative_object_average_is_reported_as_it_is() -> None:
    """Only External's rule takes negative sums for zero."""
    result = proposed(of_object(average("1")), values(-6), context(3))
    assert (result.proposal, result.negative_sum) == (-6, False)
    assert result.current == MetricValueStatus(average_value=-2000)


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
    """Kubernetes 1.36 wraps to the smallest count at some of these sites (semantics 6.1)."""
    assert proposed(metric, Values(milli), context(2)).proposal == proposal


def test_the_reported_average_saturates() -> None:
    """With one status replica the average is the sum, which is at most the largest int64."""
    result = proposed(external(average("1")), Values((INT64_MAX, 5)), context(1))
    assert result.current.average_value == INT64_MAX


BOTH = MetricTarget(TargetType.VALUE, value=1000, average_value=500)


@pytest.mark.parametrize(
    ("target", "current"),
    [
        (BOTH, MetricValueStatus(value=4000)),
        (
            MetricTarget(TargetType.AVERAGE_VALUE, value=1000, average_value=500),
            MetricValueStatus(average_value=2000),
        ),
    ],
)
def test_an_object_target_goes_by_its_type(target: MetricTarget, current: object) -> None:
    """Both fields may be there for an Object; the type says which counts."""
    assert proposed(of_object(target), values(4), context(2)).current == current


def test_an_external_target_goes_by_its_fields() -> None:
    """The controller looks at averageValue first, whatever the type says."""
    assert proposed(external(BOTH), values(4), context(2)).current.average_value == 2000
