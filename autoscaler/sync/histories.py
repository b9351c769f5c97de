"""The histories of all targets, by one clock."""

import threading
from collections.abc import Mapping
from collections.abc import Set as AbstractSet
from concurrent.futures import Future

from autoscaler import clock
from autoscaler.core.decision import Decision
from autoscaler.core.history import History, shifted
from autoscaler.sync.ports import HistoryStore


class Histories:
    """The history of each target from one sync to the next; a store keeps it beyond the process.

    When the system's clock is set, all histories move with it, so that windows and periods last
    as long as they would have.  A sync that runs meanwhile goes on by the time that it began
    with: it reads and writes histories by the clock ``as_of`` its beginning.
    """

    def __init__(
        self, store: HistoryStore, known: Mapping[str, History], steps: clock.Steps
    ) -> None:
        """Go on with ``known``, which are by the clock at the beginning of ``steps``."""
        self._store = store
        self._by_target = dict(known)
        self._lock = threading.Lock()
        self._steps = steps
        self._moved = 0.0

    @property
    def as_of(self) -> float:
        """A name for the clock as it is set now: the seconds by which it was set so far."""
        return self._moved

    def follow_clock(self, wall: float, steady: float) -> tuple[float, float]:
        """Move with the clock if it was set; return by how many seconds it was, and `as_of`."""
        with self._lock:
            total = self._steps.total(wall, steady)
            step = total - self._moved
            if step:
                self._moved = total
                for key, history in self._by_target.items():
                    self._by_target[key] = shifted(history, step)
                self._store.shift(step)
            return step, self._moved

    def get(self, target: str, as_of: float) -> History:
        """Return a target's history; an empty one for a target that is new."""
        with self._lock:
            history = self._by_target.get(target, History())
            return history if as_of == self._moved else shifted(history, as_of - self._moved)

    def snapshot(self, wall: float, steady: float) -> Mapping[str, History]:
        """Return all histories as they are now, by the clock as it is set now."""
        with self._lock:
            by_target = dict(self._by_target)
            ahead = self._steps.total(wall, steady) - self._moved
        if not ahead:
            return by_target
        return {key: shifted(history, ahead) for key, history in by_target.items()}

    def put(self, target: str, history: History, as_of: float) -> None:
        """Remember a target's history until the next sync."""
        with self._lock:
            self._put(target, history, as_of)

    def intend(self, target: str, history: History, as_of: float) -> Future[None]:
        """Remember a history whose write is about to be sent; done once the store has it."""
        with self._lock:
            return self._store.intend(target, self._put(target, history, as_of))

    def keep(self, decisions: Mapping[str, Decision], as_of: float) -> None:
        """Give the store the histories of a sync."""
        with self._lock:
            step = self._moved - as_of
            self._store.keep(
                [
                    (target, self._by_target[target], one.time + step)
                    for target, one in decisions.items()
                ]
            )

    def retain(self, targets: AbstractSet[str]) -> None:
        """Forget all targets but these."""
        with self._lock:
            gone = self._by_target.keys() - targets
            for target in gone:
                del self._by_target[target]
            if gone:
                self._store.drop(gone)

    def _put(self, target: str, history: History, as_of: float) -> History:
        if as_of != self._moved:
            history = shifted(history, self._moved - as_of)
        self._by_target[target] = history
        return history
