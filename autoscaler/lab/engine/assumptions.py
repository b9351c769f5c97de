"""The assumptions of a replay: how readings follow the count, and how pods start.

`replay --assume` and the files of `test` have the same form.
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
    """The capacity of one ready pod: its reading does not exceed it, and the demand is counted in
    such pods. The default is the metric's target."""
    arrivals: PromQL | None = None
    """The query of a queue's arrivals, per second."""
    served_per_pod: TargetQuantity | None = None
    """The items that one ready pod removes from a queue, per second."""


class WorkloadAssumption(Model):
    """Properties of a target's pods that no history shows."""

    target: Pattern = "*"
    """NAMESPACE/NAME or NAMESPACE/KIND/NAME, or a shell pattern of them."""
    replicas: Count | None = None
    """The count at the begin."""
    ready_after: Duration | None = None
    """The time from a pod's creation until it is ready."""
    requests: dict[str, TargetQuantity] | None = None
    """The requests of each pod, by resource."""


class Assumptions(Model):
    """All assumptions; of several that match, the first counts for each key."""

    loads: Items[LoadAssumption] = ()
    """Assumptions about metrics."""
    workloads: Items[WorkloadAssumption] = ()
    """Assumptions about pods."""


def units(text: str) -> float:
    """Return a quantity in units."""
    return parse_quantity(text) / NANO
