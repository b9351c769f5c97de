"""The HPA's conditions: their types, reasons, and how they are set (semantics 1.6)."""

from autoscaler.core.history import Condition
from autoscaler.core.observation import ConditionStatus

ABLE_TO_SCALE = "AbleToScale"
SCALING_ACTIVE = "ScalingActive"
SCALING_LIMITED = "ScalingLimited"

Conditions = tuple[Condition, ...]


def with_condition(
    conditions: Conditions,
    type_: str,
    status: ConditionStatus,
    reason: str,
    message: str,
    now: float,
) -> Conditions:
    """Set a condition in its place, or append it; the transition moves when the status flips."""
    for index, old in enumerate(conditions):
        if old.type == type_:
            since = old.last_transition if old.status is status else now
            new = Condition(type_, status, reason, message, since)
            return (*conditions[:index], new, *conditions[index + 1 :])
    return (*conditions, Condition(type_, status, reason, message, now))
