"""The rules that were in force over time."""

import math
from bisect import bisect_right
from collections.abc import Sequence

from autoscaler.core.entry import Rules

MILLISECOND = 0.001
"""Samples are kept to a millisecond, changes are not: one this much later is of the same sync."""


class RulesOverTime:
    """Which rules came into force when; None for those that are not known."""

    def __init__(self, rules: Sequence[tuple[float, Rules | None]]) -> None:
        self.times = [time - MILLISECOND for time, _ in rules]
        self._rules = [one for _, one in rules]

    def at(self, time: float) -> Rules | None:
        """Return the rules in force at an instant; None where they are not known."""
        index = bisect_right(self.times, time)
        return self._rules[index - 1] if index else None

    def until(self, time: float) -> float:
        """Return when the rules at an instant are replaced; infinity if they are not."""
        index = bisect_right(self.times, time)
        return self.times[index] if index < len(self.times) else math.inf

    def all(self) -> Sequence[Rules]:
        """Return all that are known."""
        return [one for one in self._rules if one is not None]
