"""A token bucket: a rate limit with bursts."""

from dataclasses import dataclass, field


@dataclass(slots=True)
class TokenBucket:
    """Holds at most ``most`` tokens, and gets one per ``refill_seconds``; full at first."""

    most: float
    refill_seconds: float
    refilled: float = 0.0
    """The instant of the last refill, by the caller's clock."""
    left: float = field(init=False)
    """Negative while tokens are reserved that have not arrived yet."""

    def __post_init__(self) -> None:
        self.left = self.most

    def take(self, now: float) -> bool:
        """Take a token; return False if the bucket is empty."""
        self._refill(now)
        if self.left < 1.0:
            return False
        self.left -= 1.0
        return True

    def reserve(self, now: float) -> float:
        """Take a present or future token, and return the seconds until it arrives."""
        self._refill(now)
        self.left -= 1.0
        return max(0.0, -self.left * self.refill_seconds)

    def give_back(self) -> None:
        """Return a token that was not used."""
        self.left += 1.0

    def empty_until(self) -> float | None:
        """Return the instant of the next token; None if there is one now."""
        missing = 1.0 - self.left
        return self.refilled + missing * self.refill_seconds if missing > 0.0 else None

    def _refill(self, now: float) -> None:
        earned = max(0.0, now - self.refilled) / self.refill_seconds
        self.left, self.refilled = min(self.most, self.left + earned), now
