"""The time of a rehearsal, and the grid of its syncs."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class TimeGrid:
    """From ``begin`` up to ``end``, Unix seconds, in which a query is evaluated every ``step``.

    The evaluations are at ``begin`` and then after each step: where targets are synced.
    """

    begin: float
    end: float
    step: float

    @property
    def points(self) -> int:
        """How many evaluations there are."""
        return max(0, -int(-(self.end - self.begin) // self.step))

    def at(self, number: int) -> float:
        """Return the instant of an evaluation."""
        return self.begin + number * self.step
