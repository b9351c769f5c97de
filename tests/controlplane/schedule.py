"""Calls that fall due at a time, for worker threads to make."""

import heapq
import itertools
import threading
import time
from collections.abc import Callable


class Schedule:
    """A queue ordered by due time. Threads may share it."""

    def __init__(self) -> None:
        self._due: list[tuple[float, int, Callable[[], None]]] = []
        # Calls that are due at the same instant leave in the order they came.
        self._order = itertools.count()
        self._changed = threading.Condition()
        self._closed = False

    def put(self, delay: float, call: Callable[[], None]) -> None:
        """Add a call that is due in `delay` seconds."""
        with self._changed:
            due = time.monotonic() + delay
            heapq.heappush(self._due, (due, next(self._order), call))
            self._changed.notify()

    def take(self) -> Callable[[], None] | None:
        """Wait for the next due call and remove it; None once the schedule is closed."""
        with self._changed:
            while not self._closed:
                wait = self._due[0][0] - time.monotonic() if self._due else None
                if wait is not None and wait <= 0:
                    return heapq.heappop(self._due)[2]
                self._changed.wait(wait)
            return None

    def close(self) -> None:
        """Let every `take` return None; calls that are not due yet are never made."""
        with self._changed:
            self._closed = True
            self._changed.notify_all()
