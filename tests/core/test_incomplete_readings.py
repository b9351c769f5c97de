"""A reading that fails or may understate: never zero, never a scale-down (semantics 2.1)."""

import pytest

from autoscaler.core.decision import MetricFailure
from autoscaler.core.observation import Gap, GapKind, PodSamples, Reading, Values
from autoscaler.core.spec import MetricSpec, MetricTarget, TargetType
from tests.core.builders import (
    average,
    cpu,
    external,
    of_object,
    per_pod,
    samples,
    utilization,
    value,
    values,
)
from tests.core.calculating import context, proposed, refused


@pytest.mark.parametrize(
    ("metric", "reading", "failure"),
    [
        (
            of_object(MetricTarget(TargetType.UTILIZATION, value=1000)),
            values(1),
            MetricFailure(
                "FailedGetObjectMetric",
                "target.type is Utilization, and the target has no field of that type",
            ),
        ),
        (
            of_object(MetricTarget(TargetType.VALUE, average_value=1000)),
            values(1),
            MetricFailure(
                "FailedGetObjectMetric",
                "target.type is Value, and the target has no field of that type",
            ),
        ),
        (
            of_object(value("1")),
            values(1, 2),
            MetricFailure("FailedGetObjectMetric", "exactly one value is needed, and there are 2"),
        ),
        (
            external(MetricTarget(TargetType.VALUE)),
            values(1),
            MetricFailure(
                "FailedGetExternalMetric", "the target has neither value nor averageValue"
            ),
        ),
        (
            external(value("1")),
            Values(()),
            MetricFailure("FailedGetExternalMetric", "the metric has no values"),
        ),
        (
            external(value("1")),
            PodSamples(samples(1)),
            MetricFailure(
                "FailedGetExternalMetric", "the reading has samples of pods where values are needed"
            ),
        ),
        (
            per_pod("1"),
            values(1),
            MetricFailure(
                "FailedGetPodsMetric", "the reading has values where samples of pods are needed"
            ),
        ),
        (
            cpu(utilization(50)),
            Gap(GapKind.STALE, "too old"),
            MetricFailure("FailedGetResourceMetric", "too old"),
        ),
    ],
)
def test_failures(metric: MetricSpec, reading: Reading, failure: MetricFailure) -> None:
    """What cannot be computed is a failure with the HPA's reason and a sentence."""
    assert refused(metric, reading, context(2)) == failure


@pytest.mark.parametrize("kind", list(GapKind))
def test_every_kind_of_gap_fails_the_metric(kind: GapKind) -> None:
    """No gap is ever read as a number."""
    failed = refused(external(average("1")), Gap(kind, "not there"), context(2))
    assert failed == MetricFailure("FailedGetExternalMetric", "not there")


PARTIAL = (Gap(GapKind.PARTIAL, "one store did not answer"),)


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

    failed = refused(metric, incomplete(down), context(3))
    assert failed.message.endswith("must not scale down: one store did not answer")
    assert proposed(metric, incomplete(stay), context(3)).proposal == 3
    assert proposed(metric, incomplete(up), context(3)).proposal > 3


def test_incomplete_samples_of_pods_never_scale_down() -> None:
    """The same for per-pod metrics."""
    low = PodSamples(samples(1000, 1000), gaps=PARTIAL)
    assert "must not scale down" in refused(per_pod("10"), low, context(2)).message
    high = PodSamples(samples(30_000, 30_000), gaps=PARTIAL)
    assert proposed(per_pod("10"), high, context(2)).proposal == 6


def test_at_zero_an_incomplete_reading_may_stay_at_zero() -> None:
    """Nothing is below zero, so nothing is withheld."""
    reading = Values((0,), PARTIAL)
    assert proposed(external(average("1")), reading, context(0)).proposal == 0
