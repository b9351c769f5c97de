"""The writes that have been sent and not ended: a Lease is handed over only when there are none."""

import itertools
import threading

from autoscaler import clock


class WritesUnderWay:
    """The requests of one cluster that write, from before each is sent to its known outcome."""

    def __init__(self) -> None:
        self._changed = threading.Condition()
        self._numbers = itertools.count(1)
        self._sent: dict[int, float] = {}
        """By number, the instant of `clock.monotonic` at which each is given up."""
        self._uncertain_until = float("-inf")

    def begin(self, until: float) -> int:
        """Note one that ends before ``until``, and return its number."""
        with self._changed:
            number = next(self._numbers)
            self._sent[number] = until
            return number

    def end(self, number: int, *, certain: bool) -> None:
        """Note the end of one, and whether it is known what became of it."""
        with self._changed:
            until = self._sent.pop(number, None)
            if until is not None and not certain:
                self._uncertain_until = max(self._uncertain_until, until)
            self._changed.notify_all()

    def certain(self, margin: float) -> bool:
        """Return whether nothing that has ended without an answer may still take effect.

        It may until ``margin`` seconds after it was given up: it may be on its way.
        """
        return clock.monotonic() >= self._uncertain_until + margin

    def wait(self) -> bool:
        """Wait for the end of all that were sent; return False if one takes longer than it may."""
        with self._changed:
            while self._sent:
                left = max(self._sent.values()) - clock.monotonic()
                if not self._changed.wait(max(0.0, left)):
                    return False
            return True
