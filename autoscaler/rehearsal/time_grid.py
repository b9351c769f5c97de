"""The time of a rehearsal, and the grid of its syncs."""

from dataclasses import dataclass

from autoscaler.core.text import rfc3339

_SHORTEST_STEP = 0.001
"""Prometheus counts milliseconds."""


class TimeGridError(Exception):
    """A rehearsal of this time cannot be; the text has a sentence for each mistake."""


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


def time_grid(begin: float, end: float, step: float, now: float) -> TimeGrid:
    """Return the grid of what a user asks for at ``now``.

    What has not come yet is left out.  Raises TimeGridError.
    """
    wrong = []
    if begin >= end:
        wrong.append(
            f"it begins at {rfc3339(begin)} and ends at {rfc3339(end)}, which is not later"
        )
    if begin >= now:
        wrong.append(f"it begins at {rfc3339(begin)}, which has not come yet")
    if step < _SHORTEST_STEP:
        wrong.append(f"the step is {step:g} s, and must be 1 ms or longer")
    elif begin < end < begin + step:
        wrong.append(
            f"the step of {step:g} s is longer than the whole time from {rfc3339(begin)} to"
            f" {rfc3339(end)}, {end - begin:g} s"
        )
    if wrong:
        raise TimeGridError("the time of a replay cannot be used: " + "; ".join(wrong))
    return TimeGrid(begin, min(end, now), step)
