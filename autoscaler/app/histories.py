"""The histories of all targets, by one clock."""

import threading

from autoscaler import clock
from autoscaler.core.history import History, shifted


class Histories:
    """What each target remembers between two syncs.

    When the system's clock is set, all histories move with it, so that windows and periods last
    as long as they would have.  A sync that runs meanwhile goes on by the time that it began
    with: it reads and writes histories by the clock ``as_of`` its beginning.
    """

    def __init__(self) -> None:
        self._by_target: dict[str, History] = {}
        self._lock = threading.Lock()
        self._steps = clock.Steps(clock.wall(), clock.steady())
        self._moved = 0.0

    @property
    def as_of(self) -> float:
        """A name for the clock as it is set now: the seconds by which it was set so far."""
        return self._moved

    def follow_clock(self, wall: float, steady: float) -> tuple[float, float]:
        """Move with the clock if it was set; return by how many seconds it was, and `as_of`."""
        with self._lock:
            step = self._steps.take(wall, steady)
            if step:
                self._moved += step
                for key, history in self._by_target.items():
                    self._by_target[key] = shifted(history, step)
            return step, self._moved

    def get(self, target: str, as_of: float) -> History:
        """Return a target's history; an empty one for a target that is new."""
        with self._lock:
            history = self._by_target.get(target, History())
            return history if as_of == self._moved else shifted(history, as_of - self._moved)

    def put(self, target: str, history: History, as_of: float) -> None:
        """Keep a target's history."""
        with self._lock:
            if as_of != self._moved:
                history = shifted(history, self._moved - as_of)
            self._by_target[target] = history
