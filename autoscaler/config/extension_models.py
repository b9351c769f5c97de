"""What a target may have beside the HPA's spec, as a user writes it (semantics 8)."""

from collections.abc import Mapping
from typing import Annotated, Literal, TypeAlias

from pydantic import Field, ValidatorFunctionWrapHandler, WrapValidator

from autoscaler.config.fields import (
    Count,
    CronExpression,
    Duration,
    PositiveCount,
    Text,
    TimeZone,
)
from autoscaler.config.model_base import Model, OrDefault, seconds
from autoscaler.core.extensions import Fallback, Idle

_IDLE = Idle()
_FALLBACK = Fallback(replicas=0)


class IdleModel(Model):
    """When a target goes to few or no replicas, and how few."""

    replicas: OrDefault[Count] = Field(
        default=_IDLE.replicas, description="The count while idle, less than minReplicas."
    )
    after: OrDefault[Duration] = seconds(
        _IDLE.after, "The time without an active metric after which the target goes idle."
    )
    initially: OrDefault[Duration] = seconds(
        _IDLE.initially, "The time in which a new target does not go idle."
    )


class FallbackModel(Model):
    """What a metric proposes that failed in many syncs in a row."""

    replicas: Count | None = Field(
        default=None, description="The count; required unless behavior is currentReplicas."
    )
    failure_threshold: OrDefault[PositiveCount] = Field(
        default=_FALLBACK.failure_threshold,
        description="The failed syncs in a row from which the fallback counts.",
    )
    behavior: OrDefault[
        Literal["static", "currentReplicas", "currentReplicasIfHigher", "currentReplicasIfLower"]
    ] = Field(
        default=_FALLBACK.behavior.value,
        description="static: replicas; currentReplicas: the current count; the others: the larger "
        "or the smaller of both.",
    )


class PausedReplicas(Model):
    """A count to go to, and to stay at."""

    replicas: Count = Field(description="The count.")


def _paused(value: object, handler: ValidatorFunctionWrapHandler) -> object:
    """Choose the form by hand, so that a mistake is told of one form only."""
    if isinstance(value, Mapping):
        return PausedReplicas.model_validate(value)
    if isinstance(value, bool) or value in ("scaleDown", "scaleUp"):
        return handler(value)
    forms = {form.lower(): form for form in ("true", "false", "scaleDown", "scaleUp")}
    meant = forms.get(str(value).replace("-", "").lower())
    advice = "" if meant is None else f"; did you mean {meant}?"
    raise ValueError(f"must be true, false, scaleDown, scaleUp or {{replicas: N}}{advice}")


Paused: TypeAlias = Annotated[
    bool | Literal["scaleDown", "scaleUp"] | PausedReplicas, WrapValidator(_paused)
]
"""Everything, nothing or one direction; or everything at a count."""


class ScheduleModel(Model):
    """A window of time, and the bounds that replace the target's while it is open."""

    name: Text = Field(description="What the window is called in explanations, such as office.")
    start: CronExpression = Field(
        description="When it opens: minute, hour, day, month, day of the week, as 0 8 * * 1-5."
    )
    end: CronExpression = Field(description="When it closes: a cron expression as well.")
    timezone: OrDefault[TimeZone] = Field(
        default="UTC", description="The IANA name of the zone of both, such as Europe/Berlin."
    )
    min_replicas: Count | None = Field(
        default=None, description="The fewest replicas while it is open. Default: the target's."
    )
    max_replicas: PositiveCount | None = Field(
        default=None, description="The most replicas while it is open. Default: the target's."
    )
    gradual: OrDefault[bool] = Field(
        default=False,
        description="Whether a count outside of the bounds goes there by the policies of "
        "`behavior`, and not at once.",
    )
