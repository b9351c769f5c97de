"""What a replay assumes: how readings follow the count, and how pods start.

It is the same in the file of `replay --assume` and in a file of `test`.
"""

from typing import Annotated, Literal

from autoscaler.config.fields import Count, Duration, Form, PromQL, TargetQuantity
from autoscaler.config.models import Items, Model
from autoscaler.core.numbers import NANO
from autoscaler.quantities import parse_quantity

Pattern = Annotated[
    str, Form(r"\S+", "must be a name or a pattern such as shop/*, without blanks", whole=True)
]
LoadModelName = Literal["recorded", "shared", "queue"]


class LoadAssumption(Model):
    """How the reading of a metric follows the count."""

    target: Pattern = "*"
    """NAMESPACE/NAME or NAMESPACE/KIND/NAME, or a shell pattern of them."""
    metric: Pattern = "*"
    """The name of the metric, or a shell pattern."""
    model: LoadModelName | None = None
    """recorded, shared or queue; the default is shared for metrics of pods, else recorded."""
    capacity: TargetQuantity | None = None
    """What one ready pod takes at most: its reading saturates there, and the demand is counted in
    pods of it. The default is the metric's target."""
    arrivals: PromQL | None = None
    """The query of what comes into a queue, per second."""
    served_per_pod: TargetQuantity | None = None
    """What one ready pod takes out of a queue, per second."""


class WorkloadAssumption(Model):
    """How the pods of a target are, where no history says it."""

    target: Pattern = "*"
    """NAMESPACE/NAME or NAMESPACE/KIND/NAME, or a shell pattern of them."""
    replicas: Count | None = None
    """The count at the begin."""
    ready_after: Duration | None = None
    """From a pod's creation until it is ready."""
    requests: dict[str, TargetQuantity] | None = None
    """What each pod requests of each resource."""


class Assumptions(Model):
    """All that is assumed; of several that match the first counts for each key."""

    loads: Items[LoadAssumption] = ()
    """Of the metrics."""
    workloads: Items[WorkloadAssumption] = ()
    """Of the pods."""


def units(text: str) -> float:
    """Return a quantity in units."""
    return parse_quantity(text) / NANO
