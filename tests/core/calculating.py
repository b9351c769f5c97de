"""Short ways to compute the proposal of a metric at `BASE`."""

from autoscaler.core.calculator import MetricContext, propose
from autoscaler.core.decision import Calculation, MetricFailure
from autoscaler.core.observation import Pod, Reading, Scale
from autoscaler.core.spec import Flags, MetricSpec
from tests.core.builders import BASE, TENTH, pods


def context(
    spec: int, status: int | None = None, of: tuple[Pod, ...] | None = None
) -> MetricContext:
    """Return a scale of ``spec`` replicas, as many pods Running and Ready unless told."""
    scale = Scale(spec, spec if status is None else status, "app=web")
    return MetricContext(scale, pods(spec) if of is None else of, TENTH, Flags(), BASE)


def proposed(metric: MetricSpec, reading: Reading, against: MetricContext) -> Calculation:
    result = propose(metric, reading, against)
    assert isinstance(result, Calculation), result
    return result


def refused(metric: MetricSpec, reading: Reading, against: MetricContext) -> MetricFailure:
    result = propose(metric, reading, against)
    assert isinstance(result, MetricFailure), result
    return result
