"""Whose turn it is where there is no time for all."""

import math
from collections.abc import Iterable, Iterator
from collections.abc import Set as AbstractSet
from contextlib import contextmanager

from autoscaler import clock
from autoscaler.sync.priority_pool import Urgency

_END_SECONDS = 0.1
"""So long before the end of their time those who ask give up, to be back by then."""


class LeastRecentlyServed:
    """Remembers when each of many last had a turn, so that nobody is passed over for ever.

    What began in the second half of its time, and was cut short by the end of it, was no turn:
    else the same ones might come last, and be cut short, each time.  Threads may use it at once.
    """

    def __init__(self) -> None:
        self._last: dict[str, float] = {}

    @contextmanager
    def take(self, who: str, asked: float, deadline: float) -> Iterator[None]:
        """Note that somebody's turn is now, who has waited for it since an instant."""
        begun, before = clock.monotonic(), self._last.get(who, -math.inf)
        self._last[who] = begun
        yield
        if clock.monotonic() >= deadline - _END_SECONDS and begun - asked > deadline - begun:
            self._last[who] = before

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
