"""A token bucket whose callers may be told to wait."""

import threading

from autoscaler import clock

_BURST_SECONDS = 10.0


class RateLimiter:
    """Permits at most so many calls a second, after a burst of ten seconds' worth."""

    def __init__(self, per_second: float) -> None:
        self.per_second = per_second
        self._burst = max(1.0, per_second * _BURST_SECONDS)
        self._left = self._burst
        self._since = clock.monotonic()
        self._lock = threading.Lock()

    def take(self) -> float:
        """Take one permit, and return the seconds to wait before it may be used."""
        with self._lock:
            now = clock.monotonic()
            self._left = min(self._burst, self._left + (now - self._since) * self.per_second)
            self._since = now
            self._left -= 1.0
            return max(0.0, -self._left / self.per_second)

    def give_back(self) -> None:
        """Return a permit that was not used."""
        with self._lock:
            self._left += 1.0
