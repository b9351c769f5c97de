"""The only module that reads clocks: the same code runs live, in tests and in replays."""

import threading
import time
from typing import Protocol

_SMALLEST_STEP_SECONDS = 1.0


def wall() -> float:
    """Return the Unix time in seconds."""
    return time.time()


def monotonic() -> float:
    """Return seconds from an arbitrary origin that never decrease: for deadlines and durations."""
    return time.monotonic()


def steady() -> float:
    """Return seconds of a clock that cannot be set and continues while the machine sleeps."""
    return time.clock_gettime(getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC))


class Clock(Protocol):
    """The clock of decisions: this module, or a replay's; deadlines are always in real time."""

    def wall(self) -> float:
        """Return the Unix time in seconds."""
        ...

    def steady(self) -> float:
        """Return seconds of a clock that cannot be set."""
        ...


class Steps:
    """Detects that the Unix time was set, once for all users: instants keep their distances."""

    def __init__(self, wall_now: float, steady_now: float) -> None:
        self._offset = wall_now - steady_now
        self._total = 0.0
        self._lock = threading.Lock()

    def total(self, wall_now: float, steady_now: float) -> float:
        """Return by how many seconds the clock was set so far; a step below 1 s is drift."""
        with self._lock:
            step = wall_now - steady_now - self._offset
            if abs(step) >= _SMALLEST_STEP_SECONDS:
                self._offset += step
                self._total += step
            return self._total
