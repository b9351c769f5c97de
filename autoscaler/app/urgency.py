"""Writes, the most urgent first, a few at a time, no faster than agreed.

Scale-ups come before scale-downs, and among them the larger relative change.
"""

import heapq
import itertools
import threading
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from typing import TypeVar

from autoscaler import clock

R = TypeVar("R")

Urgency = tuple[int, float]
"""Sorts: what is smaller comes first."""

_BURST_SECONDS = 1.0


def urgency(current: int, desired: int) -> Urgency:
    """Return how urgent a change of scale is."""
    if desired > current:
        return 0, -(desired / current if current else float("inf"))
    return 1, -(current / desired if desired else float("inf"))


class Pace:
    """Lets through at most so many a second, after a burst of one second's worth."""

    def __init__(self, per_second: float) -> None:
        self._per_second = per_second
        self._burst = max(1.0, per_second * _BURST_SECONDS)
        self._left = self._burst
        self._since = clock.monotonic()
        self._lock = threading.Lock()

    def take(self) -> float:
        """Take one turn, and return the seconds to wait for it."""
        with self._lock:
            now = clock.monotonic()
            self._left = min(self._burst, self._left + (now - self._since) * self._per_second)
            self._since = now
            self._left -= 1.0
            return max(0.0, -self._left / self._per_second)


class UrgentFirst:
    """Runs calls on a few threads in order of urgency, at a pace.

    Which call runs is chosen when its turn has come, not when it was handed in.  Once ``stop``
    is set no other call begins.
    """

    def __init__(self, at_once: int, per_second: float, stop: threading.Event) -> None:
        self._threads = ThreadPoolExecutor(at_once, "write")
        self._pace = Pace(per_second)
        self._stop = stop
        self._lock = threading.Lock()
        self._numbers = itertools.count()
        self._waiting: list[tuple[Urgency, int, Callable[[], None]]] = []

    def submit(self, how_urgent: Urgency, call: Callable[[], R]) -> Future[R]:
        """Run a call when its turn comes; its future is cancelled if it never does."""
        future: Future[R] = Future()

        def run() -> None:
            if self._stop.is_set():
                future.cancel()
            if not future.set_running_or_notify_cancel():
                return
            try:
                result = call()
            except BaseException as error:  # noqa: BLE001 - it belongs to whoever asks the future
                future.set_exception(error)
            else:
                future.set_result(result)

        with self._lock:
            heapq.heappush(self._waiting, (how_urgent, next(self._numbers), run))
        self._threads.submit(self._run_most_urgent)
        return future

    def shutdown(self) -> None:
        """Wait for the calls in hand."""
        self._threads.shutdown(cancel_futures=True)

    def _run_most_urgent(self) -> None:
        wait = self._pace.take()
        if wait > 0:
            self._stop.wait(wait)
        with self._lock:
            _, _, run = heapq.heappop(self._waiting)
        run()
