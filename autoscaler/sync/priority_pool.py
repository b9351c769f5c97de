"""A thread pool that runs calls in order of urgency, and leaves room for each group of them."""

import heapq
import itertools
import threading
from collections import Counter
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import Any, TypeVar

from autoscaler.sync.rate_limiter import RateLimiter

R = TypeVar("R")

Urgency = tuple[int, float]
"""Sorts: what is smaller comes first."""


@dataclass(order=True, slots=True)
class _Waiting:
    urgency: Urgency
    number: int
    group: str = field(compare=False)
    future: Future[Any] = field(compare=False)
    call: Callable[[], Any] = field(compare=False)


class PriorityPool:
    """Runs calls on ``at_once`` threads in order of urgency, at most ``per_second``.

    Which call runs is chosen when a thread is free and the rate permits one, not when it was
    submitted.  One ``group`` (such as a namespace) has at most two thirds of the threads, so that
    a slow one leaves room for the others.  Once ``stop`` is set no other call begins.  Threads
    have the ``name``.
    """

    def __init__(
        self, name: str, at_once: int, stop: threading.Event, per_second: float | None = None
    ) -> None:
        self._threads = ThreadPoolExecutor(at_once, name)
        self._most_of_a_group = max(1, at_once * 2 // 3)
        self._limiter = None if per_second is None else RateLimiter(per_second)
        self._stop = stop
        self._lock = threading.Lock()
        self._numbers = itertools.count()
        self._waiting: list[_Waiting] = []
        self._held: dict[str, list[_Waiting]] = {}
        """By group, what waits until a call of the same group has ended."""
        self._running: Counter[str] = Counter()

    def set_rate(self, per_second: float) -> None:
        """Run at most so many calls a second from now on."""
        if self._limiter is None or self._limiter.per_second != per_second:
            self._limiter = RateLimiter(per_second)

    def submit(self, how_urgent: Urgency, group: str, call: Callable[[], R]) -> Future[R]:
        """Run a call; its future may be cancelled until that begins."""
        waiting = _Waiting(how_urgent, next(self._numbers), group, Future(), call)
        with self._lock:
            heapq.heappush(self._waiting, waiting)
        self._threads.submit(self._work)
        return waiting.future

    def shutdown(self) -> None:
        """Wait for the calls that run; those that have not begun are cancelled."""
        self._threads.shutdown(cancel_futures=True)
        for waiting in (*self._waiting, *itertools.chain(*self._held.values())):
            waiting.future.cancel()

    def _work(self) -> None:
        while self._run_most_urgent():
            """Run also what waited for a place of its group."""

    def _run_most_urgent(self) -> bool:
        """Run the most urgent call, if any; return whether that has freed another one."""
        with self._lock:
            if not self._any_left():
                return False
        limiter = self._limiter
        if limiter is not None:
            wait = limiter.take()
            if wait > 0:
                self._stop.wait(wait)
        chosen = self._choose()
        if chosen is None:
            if limiter is not None:
                limiter.give_back()
            return False
        _carry_out(chosen)
        return self._release(chosen.group)

    def _any_left(self) -> bool:
        """Drop what was cancelled from the top, and return whether anything waits."""
        while self._waiting and self._waiting[0].future.cancelled():
            heapq.heappop(self._waiting)
        return bool(self._waiting)

    def _choose(self) -> _Waiting | None:
        """Take the most urgent call whose group has room; the others of a full group are held."""
        with self._lock:
            while self._any_left():
                waiting = heapq.heappop(self._waiting)
                if self._running[waiting.group] >= self._most_of_a_group:
                    heapq.heappush(self._held.setdefault(waiting.group, []), waiting)
                elif self._stop.is_set():
                    waiting.future.cancel()
                elif waiting.future.set_running_or_notify_cancel():
                    self._running[waiting.group] += 1
                    return waiting
        return None

    def _release(self, group: str) -> bool:
        """Let the most urgent call of a group that is held back wait with the others again.

        Return whether any call waits.
        """
        with self._lock:
            self._running[group] -= 1
            if not self._running[group]:
                del self._running[group]
            held = self._held.get(group, [])
            while held and held[0].future.cancelled():
                heapq.heappop(held)
            if held:
                heapq.heappush(self._waiting, heapq.heappop(held))
            freed = bool(self._waiting)
            if not held:
                self._held.pop(group, None)
            return freed


def _carry_out(waiting: _Waiting) -> None:
    try:
        result = waiting.call()
    except BaseException as error:  # noqa: BLE001 - the future has it
        waiting.future.set_exception(error)
    else:
        waiting.future.set_result(result)
