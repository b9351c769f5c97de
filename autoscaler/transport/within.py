"""A bound on time for work that cannot be interrupted."""

import threading
from collections.abc import Callable
from concurrent.futures import Future, wait
from typing import TypeVar

from autoscaler import clock
from autoscaler.transport.sockets import InHand

T = TypeVar("T")

GRACE_SECONDS = 0.05
"""Between the time-out of a socket, which knows better what was slow, and the end of the work."""
_SLICE_SECONDS = 0.2
"""How soon a stop is noticed."""


class Expired(Exception):  # noqa: N818 - an outcome, as queue.Empty
    """The work is not done in time; its thread is left to end by itself."""


class Stopped(Exception):  # noqa: N818 - as above
    """The work is not waited for any more; its thread is left to end by itself."""


class Deadline:
    """Runs work in a thread of its own each, and waits no longer than told.

    No time-out of a socket covers the resolver (whose own patience is 5 s per server, try and
    search domain), a header that comes byte by byte, or a `100 Continue` without end.  The socket
    of a request that is not waited for any more is cut, so that its thread ends.  At most
    ``most_threads`` exist at once, those counted that were left behind.  Once ``stop`` is set
    nothing is waited for; without one all is.
    """

    def __init__(
        self, most_threads: int, stop: threading.Event | None = None, *, name: str = "request"
    ) -> None:
        self._free = threading.BoundedSemaphore(most_threads)
        self._stop = stop
        self._name = name

    def run(self, seconds: float, work: Callable[[], T]) -> T:
        """Return what the work returns, or raise what it raises.

        Raises Expired after ``seconds``, Stopped soon after the stop.
        """
        until = clock.monotonic() + seconds
        while not self._free.acquire(timeout=self._slice(until)):
            """Every thread is at work."""
        outcome: Future[T] = Future()
        in_hand = InHand()
        try:
            threading.Thread(
                target=self._carry_out, args=(work, outcome, in_hand), name=self._name, daemon=True
            ).start()
        except BaseException:  # such as a shortage of threads
            self._free.release()
            raise
        try:
            while not outcome.done():
                wait([outcome], timeout=self._slice(until))
            return outcome.result()
        except (Expired, Stopped):
            in_hand.cut()
            raise
        finally:
            # What was raised holds this frame, and must not be held by it: see `Tries.run`.
            del outcome

    def _carry_out(self, work: Callable[[], T], outcome: Future[T], in_hand: InHand) -> None:
        in_hand.begin()
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
        if self._stop is None:
            return left
        if self._stop.is_set():
            raise Stopped
        return min(left, _SLICE_SECONDS)
