"""Whose turn it is where there is no time for all."""

import math
from collections.abc import Iterable
from collections.abc import Set as AbstractSet

from autoscaler import clock
from autoscaler.app.urgency import Urgency


class Turns:
    """Remembers when each of many last had a turn, so that nobody is passed over for ever.

    Threads may use it at once.
    """

    def __init__(self) -> None:
        self._last: dict[str, float] = {}

    def take(self, who: str) -> None:
        """Note that somebody's turn is now."""
        self._last[who] = clock.monotonic()

    def urgency(self, who: str) -> Urgency:
        """Return how urgent somebody's next turn is: the more so the longer ago the last was."""
        return 0, self._last.get(who, -math.inf)

    def in_order(self, all_of_them: Iterable[str]) -> list[str]:
        """Return them, the most urgent first."""
        return sorted(all_of_them, key=self.urgency)

    def retain(self, those: AbstractSet[str]) -> None:
        """Forget all others."""
        for gone in list(self._last):
            if gone not in those:
                del self._last[gone]
