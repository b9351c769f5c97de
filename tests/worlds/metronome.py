"""How long this machine lets nobody run: what a test may add to a time that it bounds."""

import threading
from typing import Self

from autoscaler import clock

_BEAT_SECONDS = 0.05


class Metronome:
    """A thread that wants to run every 50 ms, and notes how much later it did."""

    def __init__(self) -> None:
        self._late: list[tuple[float, float]] = []
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, name="metronome")

    def latest_since(self, begin: float) -> float:
        """Return the seconds of the longest pause that ended after an instant."""
        return max((late for at, late in list(self._late) if at >= begin), default=0.0)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        self._thread.join()

    def _run(self) -> None:
        before = clock.monotonic()
        while not self._stop.wait(_BEAT_SECONDS):
            now = clock.monotonic()
            late = now - before - _BEAT_SECONDS
            if late > _BEAT_SECONDS:
                self._late.append((now, late))
            before = now
