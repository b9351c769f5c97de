"""What a metric is held to and what it measures, as numbers in base units.

Cores, bytes, or whatever a query counts; a utilization in percent.
"""

from autoscaler.core.decision import MetricValueStatus
from autoscaler.core.spec import ExternalMetric, MetricSpec, ObjectMetric
from autoscaler.rendering import wording


def held_to(metric: MetricSpec) -> tuple[str, float]:
    """Return the kind of a metric's target, and its value.

    The kinds are kube-state-metrics' values of `metric_target_type`.
    """
    held = metric.target
    if held.average_utilization is not None:
        return "utilization", held.average_utilization
    if isinstance(metric, ExternalMetric | ObjectMetric) and not wording.averaged(metric):
        return "value", (held.value or 0) / 1000
    return "average", (held.average_value or 0) / 1000


def measured(current: MetricValueStatus) -> float:
    """Return what was measured, in the unit of the target."""
    if current.average_utilization is not None:
        return current.average_utilization
    milli = current.average_value if current.value is None else current.value
    return (milli or 0) / 1000
