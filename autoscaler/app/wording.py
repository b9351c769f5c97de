"""Words for the pieces of a decision: the same in a log line, a table and an explanation."""

from datetime import UTC, datetime

from autoscaler.core.decision import Calculation, ForeignChange, MetricResult, Refill
from autoscaler.core.printable import printable
from autoscaler.core.quantity import format_milli
from autoscaler.core.rivalry import FIELD_MANAGER
from autoscaler.core.selectors import LabelSelector
from autoscaler.core.spec import (
    ContainerResourceMetric,
    ExternalMetric,
    MetricSpec,
    ObjectMetric,
    PodsMetric,
    ResourceMetric,
)
from autoscaler.core.target import Target

_LONGEST_NAME, _LONGEST_KEY = 500, 1000


def target_key(target: Target) -> str:
    """Name a target, whatever characters its file holds."""
    return printable(target.key, _LONGEST_KEY)


def metric_name(metric: MetricSpec) -> str:
    """Name a metric as its author would: its kind of thing, its name, its selector."""
    return printable(_metric_name(metric), _LONGEST_NAME)


def _metric_name(metric: MetricSpec) -> str:
    if isinstance(metric, ResourceMetric):
        return metric.name
    if isinstance(metric, ContainerResourceMetric):
        return f"{metric.name} of container {metric.container}"
    name = metric.metric.name + selector(metric.metric.selector)
    if isinstance(metric, ObjectMetric):
        return f"{name} of {metric.described_object.kind} {metric.described_object.name}"
    return name


def selector(chosen: LabelSelector | None) -> str:
    """Write a selector as PromQL would."""
    if chosen is None or chosen.empty:
        return ""
    labels = [f'{key}="{value}"' for key, value in chosen.match_labels]
    expressions = [
        f"{one.key} {one.operator}" + (f" ({', '.join(one.values)})" if one.values else "")
        for one in chosen.match_expressions
    ]
    return "{" + ", ".join(labels + expressions) + "}"


def quantity(metric: MetricSpec, milli: int) -> str:
    """Write a value of a metric; memory in powers of 1024."""
    if isinstance(metric, ResourceMetric | ContainerResourceMetric):
        return format_milli(milli, binary=metric.name == "memory")
    return format_milli(milli)


def target(metric: MetricSpec) -> str:
    """Write what a metric is held to."""
    held = metric.target
    if isinstance(metric, ExternalMetric | ObjectMetric):
        averaged = held.average_value is not None and held.value is None
        if isinstance(metric, ObjectMetric):
            averaged = held.type == "AverageValue"
        if averaged and held.average_value is not None:
            return f"{quantity(metric, held.average_value)} per replica"
        return quantity(metric, held.value or 0)
    if held.average_value is not None:
        return f"{quantity(metric, held.average_value)} per pod"
    return f"{held.average_utilization}%"


def usage(result: MetricResult) -> str:
    """Write what was measured, in the unit of the target; a dash where nothing was."""
    if not isinstance(result.outcome, Calculation):
        return "-"
    current = result.outcome.current
    if current.average_utilization is not None:
        return f"{current.average_utilization}%"
    if current.value is not None:
        return quantity(result.metric, current.value)
    return quantity(result.metric, current.average_value or 0)


def foreign(change: ForeignChange) -> str:
    """Say who else set the replicas."""
    who = f'"{change.manager}"' if change.manager else "somebody else"
    if change.manager == FIELD_MANAGER:
        who = "another autoscaler, with another Lease than ours or with none,"
    undoing = ", against our last write" if change.reversal else ""
    return f"{who} set the replicas from {change.before} to {change.after}{undoing}"


def refill(back: Refill, now: float) -> str:
    """Say that a reading has just returned, and until when it takes nothing down."""
    ago = f"{max(0, round(now - back.returned))} s ago"
    what = f"the first reading was {ago}" if back.first else f"the reading returned {ago}"
    return f"{what} and may be too low; nothing goes down before {instant(back.until)}"


def instant(time: float) -> str:
    """Write a Unix time as RFC 3339 in UTC, to the second."""
    return datetime.fromtimestamp(time, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def per_pod(metric: MetricSpec) -> bool:
    """Tell whether a metric is one of pods."""
    return isinstance(metric, ResourceMetric | ContainerResourceMetric | PodsMetric)
