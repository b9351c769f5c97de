"""The one place that reads clocks.

Everything else is given the time, so that the same code runs live, in tests and over history.
"""

import time


def wall() -> float:
    """Return the Unix time in seconds."""
    return time.time()


def monotonic() -> float:
    """Return seconds from an arbitrary origin that never go back: for deadlines and durations."""
    return time.monotonic()
