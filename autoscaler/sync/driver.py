"""Coroutines that wait for futures, all run by one thread."""

import threading
from collections import deque
from collections.abc import Callable, Generator
from concurrent.futures import Future
from queue import Empty, SimpleQueue
from typing import Any, TypeVar

from autoscaler import clock

R = TypeVar("R")

_STOP_CHECK_SECONDS = 0.2


Coroutine = Generator[Future[Any], None, R]
"""Yields a future that it waits for, and is resumed when that is done."""


def promise() -> Future[None]:
    """Return a future that a coroutine will set, and that no deadline or stop cancels."""
    future: Future[None] = Future()
    future.set_running_or_notify_cancel()
    return future


class Driver:
    """Runs coroutines on the thread that calls `run`, so they need no locks."""

    def __init__(self) -> None:
        self._ready: deque[Coroutine[None]] = deque()
        self._waiting: dict[Future[Any], list[Coroutine[None]]] = {}
        self._done: SimpleQueue[Future[Any]] = SimpleQueue()
        self._nothing_new = False
        self._timed: list[tuple[float, Callable[[], None]]] = []

    def call_at(self, instant: float, call: Callable[[], None]) -> None:
        """Call a function at an instant of `clock.monotonic`, unless `run` ends before."""
        self._timed.append((instant, call))

    def start(self, coroutine: Coroutine[None]) -> None:
        """Run a coroutine after those that are ready."""
        self._ready.append(coroutine)

    def run(self, stop: threading.Event, until: float) -> None:
        """Run all coroutines to their ends; their exceptions are raised as one ExceptionGroup.

        After ``stop`` is set, or the instant ``until`` (of `clock.monotonic`), calls that have not
        begun are cancelled; running calls are still awaited.
        """
        raised: list[Exception] = []
        while self._ready or self._waiting:
            self._call_what_is_due()
            if not self._nothing_new and (stop.is_set() or clock.monotonic() >= until):
                self._cancel_what_has_not_begun()
            try:
                self._resume(self._next())
            except Empty:
                continue
            except Exception as error:  # noqa: BLE001 - raised below, after all others have run
                raised.append(error)
        if raised:
            raise ExceptionGroup("faults in a sync", raised)

    def _call_what_is_due(self) -> None:
        for timed in [timed for timed in self._timed if timed[0] <= clock.monotonic()]:
            self._timed.remove(timed)
            timed[1]()

    def _next(self) -> Coroutine[None]:
        """Return a coroutine that is ready. Raises Empty if no coroutine becomes ready soon."""
        if not self._ready:
            self._ready.extend(self._waiting.pop(self._done.get(timeout=_STOP_CHECK_SECONDS)))
        return self._ready.popleft()

    def _resume(self, coroutine: Coroutine[None]) -> None:
        """Run a coroutine until it waits again."""
        for awaited in coroutine:
            if awaited in self._waiting:
                self._waiting[awaited].append(coroutine)
            else:
                self._waiting[awaited] = [coroutine]
                # The callback refers to neither the future nor the coroutine: such a cycle would
                # keep a large answer in memory until a garbage collection, which is rare.
                awaited.add_done_callback(self._done.put)
                if self._nothing_new:
                    awaited.cancel()
            return

    def _cancel_what_has_not_begun(self) -> None:
        self._nothing_new = True
        for future in tuple(self._waiting):
            future.cancel()
