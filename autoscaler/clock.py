"""The one place that reads clocks.

Everything else is given the time, so that the same code runs live, in tests and over history.
"""

import threading
import time

_SMALLEST_STEP_SECONDS = 1.0


def wall() -> float:
    """Return the Unix time in seconds."""
    return time.time()


def monotonic() -> float:
    """Return seconds from an arbitrary origin that never go back: for deadlines and durations."""
    return time.monotonic()


def steady() -> float:
    """Return seconds that only pass, also while the machine sleeps: nobody can set them."""
    return time.clock_gettime(getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC))


class Steps:
    """Notices that the Unix time was set: it moved otherwise than the steady seconds did."""

    def __init__(self, wall_now: float, steady_now: float) -> None:
        self._offset = wall_now - steady_now
        self._lock = threading.Lock()

    def take(self, wall_now: float, steady_now: float) -> float:
        """Return by how many seconds the clock was set since the last call; 0 for less than 1."""
        with self._lock:
            step = wall_now - steady_now - self._offset
            if abs(step) < _SMALLEST_STEP_SECONDS:
                return 0.0
            self._offset += step
            return step
