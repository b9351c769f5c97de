"""A token bucket, as of a rate limit with bursts."""

from dataclasses import dataclass, field


@dataclass(slots=True)
class TokenBucket:
    """Holds at most ``most`` tokens, and gets one every ``refill_seconds``; full at first."""

    most: int
    refill_seconds: float
    refilled: float = 0.0
    """The instant of the last refill, by the clock of the caller."""
    left: float = field(init=False)

    def __post_init__(self) -> None:
        self.left = self.most

    def take(self, now: float) -> bool:
        """Take a token; return False if there is none."""
        earned = max(0.0, now - self.refilled) / self.refill_seconds
        self.left, self.refilled = min(self.most, self.left + earned), now
        if self.left < 1.0:
            return False
        self.left -= 1.0
        return True

    def empty_until(self) -> float | None:
        """Return the instant of the next token; None if there is one now."""
        missing = 1.0 - self.left
        return self.refilled + missing * self.refill_seconds if missing > 0.0 else None
