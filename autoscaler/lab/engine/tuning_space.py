"""The space that `autoscaler tune` searches: of each setting the values that may be tried."""

from typing import Annotated

from pydantic import BeforeValidator, Field

from autoscaler.config.fields import (
    DURATION_SCHEMA,
    CronExpression,
    PositiveCount,
    Text,
    TimeWithin,
    TimeZone,
    Tolerance,
)
from autoscaler.config.models import Items, Model, OrDefault

_FACTORS = (0.6, 0.7, 0.8, 0.9, 1.0, 1.1, 1.2, 1.3)
_WINDOWS = (0.0, 60.0, 120.0, 300.0, 600.0)
_UP_WINDOWS = (0.0, 30.0, 60.0)
_TOLERANCES = (0.02, 0.05, 0.1)
_PERCENTS = (50, 100, 200)
_DOWN_PERCENTS = (10, 25, 100)

Factor = Annotated[float, Field(gt=0.0, le=10.0, strict=False)]
Percent = Annotated[int, Field(ge=1, le=10_000)]
Window = Annotated[float, BeforeValidator(TimeWithin(0.0, 3600.0)), DURATION_SCHEMA]
"""As long as the API lets a stabilization window be."""


class MinReplicasSchedule(Model):
    """A time of the week with a minimum of its own, as `schedules` have it."""

    name: Text
    """What it is called in explanations."""
    start: CronExpression
    """When it opens."""
    end: CronExpression
    """When it closes."""
    timezone: OrDefault[TimeZone] = "UTC"
    """The IANA name of the zone of both."""
    min_replicas: PositiveCount
    """The fewest replicas while it is open."""


class TuningSpace(Model):
    """The values that may be tried of each setting; one without values stays as the target has it.

    Every candidate has one value of each.  The target as it is, is a candidate besides.
    """

    target_factors: Items[Factor] = _FACTORS
    """By how much the target of each metric is multiplied."""
    tolerances: Items[Tolerance] = _TOLERANCES
    """The tolerance of both directions."""
    scale_up_windows: Items[Window] = _UP_WINDOWS
    """`stabilizationWindowSeconds` of scaleUp."""
    scale_down_windows: Items[Window] = _WINDOWS
    """`stabilizationWindowSeconds` of scaleDown."""
    scale_up_percents: Items[Percent] = _PERCENTS
    """The policy of scaleUp: percent of the replicas in 60 s, or 4 pods if that is more."""
    scale_down_percents: Items[Percent] = _DOWN_PERCENTS
    """The policy of scaleDown: percent of the replicas in 60 s."""
    min_replicas: Items[PositiveCount] = ()
    """The minimum; empty leaves the target's."""
    schedules: Items[Items[MinReplicasSchedule]] = ()
    """Sets of schedules, each in place of the target's; empty leaves the target's."""
