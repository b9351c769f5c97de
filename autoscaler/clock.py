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
    """Notices that the Unix time was set: it moved otherwise than the steady seconds did.

    Whoever moves with the clock moves by the same seconds, so that instants of different parts of
    the program keep their distance.
    """

    def __init__(self, wall_now: float, steady_now: float) -> None:
        self._offset = wall_now - steady_now
        self._total = 0.0
        self._lock = threading.Lock()

    def total(self, wall_now: float, steady_now: float) -> float:
        """Return by how many seconds the clock was set so far; less than 1 is drift."""
        with self._lock:
            step = wall_now - steady_now - self._offset
            if abs(step) >= _SMALLEST_STEP_SECONDS:
                self._offset += step
                self._total += step
            return self._total
