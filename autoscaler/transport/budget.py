"""A bound on the memory that answers take together."""

import threading
import weakref
from collections import deque

from autoscaler import clock

_LOOK_SECONDS = 0.02
"""How soon it is noticed that room was given back."""


class Room:
    """So many bytes of a budget, until they are given back."""

    def __init__(self, size: int, returned: "deque[int]") -> None:
        self.size = size
        self._returned = returned

    def close(self) -> None:
        """Give the bytes back; once is enough."""
        size, self.size = self.size, 0
        self._returned.append(size)

    def shrink(self, size: int) -> None:
        """Give back all but so many bytes."""
        self._returned.append(max(0, self.size - size))
        self.size = min(self.size, size)

    def last_as_long_as(self, kept: object) -> None:
        """Give the bytes back when an object is garbage."""
        weakref.finalize(kept, self.close).atexit = False


class Budget:
    """Hands out bytes, for many threads at once.

    Who asks for more than ``small`` leaves ``kept_for_small`` to the others.
    """

    def __init__(self, total: int, *, small: int = 0, kept_for_small: int = 0) -> None:
        self.most = total - kept_for_small
        """What one may ask for."""
        self._total = total
        self._small = small
        self._used = 0
        self._lock = threading.Lock()
        # What is garbage may be collected on any thread and at any point: it takes no lock.
        self._returned: deque[int] = deque()

    def reserve(self, size: int, until: float) -> Room | None:
        """Take bytes, waiting for them until an instant; None where there were none by then."""
        limit = self._total if size <= self._small else self.most
        never = threading.Event()
        while size <= limit:
            with self._lock:
                while self._returned:
                    self._used -= self._returned.popleft()
                if self._used + size <= limit:
                    self._used += size
                    return Room(size, self._returned)
            left = until - clock.monotonic()
            if left <= 0:
                break
            never.wait(min(left, _LOOK_SECONDS))
        return None
