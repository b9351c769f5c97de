"""Calls that run side by side, and whose results are taken in one at a time."""

import threading
from collections.abc import Callable
from concurrent.futures import Future
from queue import Empty, SimpleQueue
from typing import Any, TypeVar

R = TypeVar("R")

_STOP_CHECK_SECONDS = 0.2


class Completions:
    """Runs calls on executors, and their continuations on the thread that calls `run`.

    Continuations therefore need no locks.
    """

    def __init__(self) -> None:
        self._finished: SimpleQueue[Callable[[], None]] = SimpleQueue()
        self._outstanding: set[Future[Any]] = set()

    def follow(self, future: Future[R], then: Callable[[R], None]) -> None:
        """Hand the future's result to ``then`` once it is there."""
        self._outstanding.add(future)

        def finished(done: Future[R]) -> None:
            self._finished.put(lambda: self._take(done, then))

        future.add_done_callback(finished)

    def run(self, stop: threading.Event) -> None:
        """Take in results until none is outstanding.

        Once ``stop`` is set, calls that have not begun are dropped, and those in hand are
        still taken in.
        """
        while self._outstanding:
            if stop.is_set():
                self._drop_what_has_not_begun()
            try:
                continuation = self._finished.get(timeout=_STOP_CHECK_SECONDS)
            except Empty:
                continue
            continuation()

    def _take(self, done: Future[R], then: Callable[[R], None]) -> None:
        self._outstanding.discard(done)
        if not done.cancelled():
            then(done.result())

    def _drop_what_has_not_begun(self) -> None:
        for future in tuple(self._outstanding):
            future.cancel()
