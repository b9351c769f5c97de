"""Calls that run side by side, and whose results are taken in one at a time."""

import threading
from collections.abc import Callable
from concurrent.futures import Future
from functools import partial
from queue import Empty, SimpleQueue
from typing import Any, TypeVar

from autoscaler import clock

R = TypeVar("R")

_STOP_CHECK_SECONDS = 0.2


class Completions:
    """Runs continuations on the thread that calls `run`; they therefore need no locks."""

    def __init__(self) -> None:
        self._due: SimpleQueue[Callable[[], None]] = SimpleQueue()
        self._futures: set[Future[Any]] = set()
        self._soon = 0
        self._nothing_new = False

    def soon(self, continuation: Callable[[], None]) -> None:
        """Run a continuation after those that are due already."""
        self._soon += 1

        def run() -> None:
            self._soon -= 1
            continuation()

        self._due.put(run)

    def follow(
        self,
        future: Future[R],
        then: Callable[[R], None],
        failed: Callable[[BaseException | None], R],
    ) -> None:
        """Hand the future's result to ``then`` once it is there.

        ``failed`` says what a call that raised, which none should, is taken for; given None,
        what one is taken for that had not begun when its time was over.
        """
        self._futures.add(future)

        def take(done: Future[R]) -> None:
            self._futures.discard(done)
            error = None if done.cancelled() else done.exception()
            bad = done.cancelled() or error is not None
            then(failed(error) if bad else done.result())

        # The callback must not hold its own future: only a rare garbage collection would free
        # what that holds, such as a large answer.
        future.add_done_callback(lambda done: self._due.put(partial(take, done)))
        if self._nothing_new:
            future.cancel()

    def run(self, stop: threading.Event, until: float) -> None:
        """Run continuations until nothing is outstanding.

        Once ``stop`` is set, or the instant ``until`` (of `clock.monotonic`) has come, calls that
        have not begun are dropped, and those in hand are still taken in.  A continuation that
        raises keeps no other from running; what was raised comes together as an ExceptionGroup
        in the end.
        """
        raised: list[Exception] = []
        while self._futures or self._soon:
            if not self._nothing_new and (stop.is_set() or clock.monotonic() >= until):
                self._drop_what_has_not_begun()
            try:
                self._due.get(timeout=_STOP_CHECK_SECONDS)()
            except Empty:
                continue
            except Exception as error:  # noqa: BLE001 - raised below, after everybody's turn
                raised.append(error)
        if raised:
            raise ExceptionGroup("faults in a sync", raised)

    def _drop_what_has_not_begun(self) -> None:
        self._nothing_new = True
        for future in tuple(self._futures):
            future.cancel()
