"""Short ways to compute a proposal from samples of pods at `BASE`."""

from collections.abc import Mapping, Sequence

from autoscaler.core.calculator import MetricContext, PerPodMetric, propose_per_pod
from autoscaler.core.decision import Calculation
from autoscaler.core.observation import Pod, PodRequests, Sample, Scale
from autoscaler.core.spec import Flags, Tolerance
from tests.core.builders import BASE, FALSE, TENTH, container, pod


def attempt(
    metric: PerPodMetric,
    readings: Mapping[str, Sample],
    of: Sequence[Pod],
    replicas: int,
    tolerance: Tolerance = TENTH,
) -> Calculation | str:
    """Compute a proposal, or the sentence that says why there is none."""
    context = MetricContext(Scale(replicas, replicas, "app=web"), of, tolerance, Flags(), BASE)
    return propose_per_pod(metric, readings, context)


def proposed(
    metric: PerPodMetric,
    readings: Mapping[str, Sample],
    of: Sequence[Pod],
    replicas: int,
    tolerance: Tolerance = TENTH,
) -> Calculation:
    result = attempt(metric, readings, of, replicas, tolerance)
    assert isinstance(result, Calculation), result
    return result


def starting(name: str, requests: str = "1") -> Pod:
    """Return a Running pod that is not ready yet."""
    one = PodRequests((container(cpu=requests),))
    return pod(name, ready=FALSE, start=-20.0, transition=-20.0, requests=one)
