"""A bound on time for work that cannot be interrupted."""

import threading
from collections.abc import Callable
from concurrent.futures import Future
from typing import TypeVar

T = TypeVar("T")


class Expired(Exception):  # noqa: N818 - an outcome, as queue.Empty
    """The work is not done in time; its thread is left to end by itself."""


class Deadline:
    """Runs work in a thread of its own each, and waits no longer than told.

    No time-out of a socket covers the resolver (whose own patience is 5 s per server, try and
    search domain) or a header that comes byte by byte.  At most ``most_threads`` exist at once,
    those counted that were left behind.
    """

    def __init__(self, most_threads: int) -> None:
        self._free = threading.BoundedSemaphore(most_threads)

    def run(self, seconds: float, work: Callable[[], T]) -> T:
        """Return what the work returns, or raise what it raises; Expired after ``seconds``."""
        if not self._free.acquire(timeout=seconds):
            raise Expired
        outcome: Future[T] = Future()

        def body() -> None:
            try:
                outcome.set_result(work())
            except BaseException as error:  # noqa: BLE001 - raised again in the waiting thread
                outcome.set_exception(error)
            finally:
                self._free.release()

        threading.Thread(target=body, name="prometheus-query", daemon=True).start()
        try:
            return outcome.result(timeout=seconds)
        except TimeoutError:
            if outcome.done():
                raise
            raise Expired from None
