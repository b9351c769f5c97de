"""A clock that a test sets."""

from dataclasses import dataclass


@dataclass
class VirtualClock:
    """A clock that stands until it is set; it fits `autoscaler.clock.Clock`."""

    now: float = 0.0

    def wall(self) -> float:
        return self.now

    def steady(self) -> float:
        """Return the same: nobody sets the clock of a rehearsal."""
        return self.now
