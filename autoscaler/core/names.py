"""The HPA's names and reasons for metrics (semantics 1.3.2, 1.7)."""

from functools import lru_cache

from autoscaler.core.printable import printable
from autoscaler.core.selectors import dump
from autoscaler.core.spec import (
    ContainerResourceMetric,
    ExternalMetric,
    MetricSpec,
    ObjectMetric,
    ResourceMetric,
    TargetType,
)

_LONGEST_NAME = 1000


@lru_cache(maxsize=65536)
def winner_name(metric: MetricSpec) -> str:
    """Return the name under which a metric appears in a rescale's reason."""
    return printable(_winner_name(metric), _LONGEST_NAME)


def _winner_name(metric: MetricSpec) -> str:
    if isinstance(metric, ResourceMetric | ContainerResourceMetric):
        if metric.target.average_value is not None:
            return f"{metric.name} resource"
        scope = "resource" if isinstance(metric, ResourceMetric) else "container resource"
        return f"{metric.name} {scope} utilization (percentage of request)"
    identifier = metric.metric
    external = f"external metric {identifier.name}({dump(identifier.selector)})"
    if isinstance(metric, ExternalMetric):
        return external
    if isinstance(metric, ObjectMetric):
        if metric.target.type is TargetType.VALUE:
            return f"{metric.described_object.kind} metric {identifier.name}"
        # The controller, too, calls an averaged Object metric external.
        return external
    return f"pods metric {identifier.name}"


def failure_reason(metric: MetricSpec) -> str:
    """Return the reason of a metric's Warning event and of ScalingActive=False."""
    return f"FailedGet{metric.type}Metric"
