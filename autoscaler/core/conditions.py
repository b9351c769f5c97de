"""The HPA's conditions and events: their names, and how they are set (semantics 1.6)."""

from autoscaler.core.decision import Event
from autoscaler.core.history import Condition
from autoscaler.core.observation import LONGEST_SENTENCE, ConditionStatus
from autoscaler.core.printable import printable

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


class Notes:
    """Conditions as they stand and events in their order, as of the instant ``now``."""

    def __init__(self, conditions: Conditions, now: float) -> None:
        self.conditions = conditions
        self.events: list[Event] = []
        self._now = now

    def true(self, type_: str, reason: str, message: str) -> None:
        """Set a condition to True."""
        self._set(type_, ConditionStatus.TRUE, reason, message)

    def false(self, type_: str, reason: str, message: str) -> None:
        """Set a condition to False."""
        self._set(type_, ConditionStatus.FALSE, reason, message)

    def warn(self, reason: str, message: str) -> None:
        """Add a Warning event."""
        self.events.append(Event("Warning", reason, printable(message, LONGEST_SENTENCE)))

    def _set(self, type_: str, status: ConditionStatus, reason: str, message: str) -> None:
        message = printable(message, LONGEST_SENTENCE)
        self.conditions = with_condition(self.conditions, type_, status, reason, message, self._now)
