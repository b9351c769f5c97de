"""The conditions and events that gather while one decision is made."""

from autoscaler.core.conditions import Conditions, with_condition
from autoscaler.core.decision import Event
from autoscaler.core.observation import LONGEST_SENTENCE, ConditionStatus
from autoscaler.core.printable import printable


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
