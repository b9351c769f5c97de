"""A bound on time for work that cannot be interrupted."""

import threading
from collections.abc import Callable
from concurrent.futures import Future, wait
from typing import TypeVar

from autoscaler import clock

T = TypeVar("T")

_SLICE_SECONDS = 0.2
"""How soon a stop is noticed."""


class Expired(Exception):  # noqa: N818 - an outcome, as queue.Empty
    """The work is not done in time; its thread is left to end by itself."""


class Stopped(Exception):  # noqa: N818 - as above
    """The work is not waited for any more; its thread is left to end by itself."""


class Deadline:
    """Runs work in a thread of its own each, and waits no longer than told.

    No time-out of a socket covers the resolver (whose own patience is 5 s per server, try and
    search domain) or a header that comes byte by byte.  At most ``most_threads`` exist at once,
    those counted that were left behind.  Once ``stop`` is set nothing is waited for.
    """

    def __init__(self, most_threads: int, stop: threading.Event) -> None:
        self._free = threading.BoundedSemaphore(most_threads)
        self._stop = stop

    def run(self, seconds: float, work: Callable[[], T]) -> T:
        """Return what the work returns, or raise what it raises.

        Raises Expired after ``seconds``, Stopped soon after the stop.
        """
        until = clock.monotonic() + seconds
        while not self._free.acquire(timeout=self._slice(until)):
            """Every thread is at work."""
        outcome: Future[T] = Future()

        try:
            threading.Thread(
                target=self._carry_out, args=(work, outcome), name="prometheus-query", daemon=True
            ).start()
        except BaseException:  # such as a shortage of threads
            self._free.release()
            raise
        try:
            while not outcome.done():
                wait([outcome], timeout=self._slice(until))
            return outcome.result()
        finally:
            # What was raised holds this frame, and must not be held by it: see `Tries.run`.
            del outcome

    def _carry_out(self, work: Callable[[], T], outcome: Future[T]) -> None:
        try:
            outcome.set_result(work())
        except BaseException as error:  # noqa: BLE001 - raised again in the waiting thread
            outcome.set_exception(error)
        finally:
            self._free.release()

    def _slice(self, until: float) -> float:
        left = until - clock.monotonic()
        if left <= 0:
            raise Expired
        if self._stop.is_set():
            raise Stopped
        return min(left, _SLICE_SECONDS)
