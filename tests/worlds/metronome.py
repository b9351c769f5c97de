"""Pauses of this machine, which a test may add to a time that it bounds."""

from autoscaler import clock
from tests.worlds.waiting import Background

_BEAT_SECONDS = 0.05


class Metronome(Background):
    """A thread that wants to run every 50 ms, and notes how much later it did."""

    def __init__(self) -> None:
        super().__init__()
        self._late: list[tuple[float, float]] = []

    def latest_since(self, begin: float) -> float:
        """Return the seconds of the longest pause that ended after an instant."""
        return max((late for at, late in list(self._late) if at >= begin), default=0.0)

    def _run(self) -> None:
        before = clock.monotonic()
        while not self._ended.wait(_BEAT_SECONDS):
            now = clock.monotonic()
            late = now - before - _BEAT_SECONDS
            if late > _BEAT_SECONDS:
                self._late.append((now, late))
            before = now
