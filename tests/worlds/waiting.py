"""Wait for a condition instead of for a time."""

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Self, TypeVar

T = TypeVar("T")


class NotInTimeError(AssertionError):
    """A condition did not come true before its deadline."""


class SetByTheFirstWait(threading.Event):
    """A stop that comes just when somebody begins to wait for one."""

    def wait(self, timeout: float | None = None) -> bool:
        self.set()
        return super().wait(timeout)


def wait_until(
    what: str, probe: Callable[[], T], *, timeout: float = 60.0, interval: float = 0.05
) -> T:
    """Call `probe` until it returns something true, and return that.

    `what` names the awaited fact in the NotInTimeError of a deadline that passes.
    """
    deadline = time.monotonic() + timeout
    while not (outcome := probe()):
        if time.monotonic() > deadline:
            raise NotInTimeError(f"not within {timeout:g} s: {what}; last seen: {outcome!r}")
        time.sleep(interval)
    return outcome


class Background:
    """Runs `_run` on a thread while its block lasts; `_ended` is set at the end."""

    def __init__(self) -> None:
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._ended.set()
        self._thread.join()

    def _run(self) -> None:
        raise NotImplementedError


def soon(is_so: Callable[[], bool]) -> None:
    """Wait until something is so that tells by itself what it is; fails after 30 s."""
    wait_until("it is so", is_so, timeout=30.0, interval=0.005)


def let_pass(seconds: float) -> None:
    """Wait for a time, without any condition."""
    threading.Event().wait(seconds)


@contextmanager
def beside(work: Callable[[], None], stop: threading.Event) -> Iterator[None]:
    """Run something on a thread; the end of the block sets ``stop`` and waits for it."""
    thread = threading.Thread(target=work)
    thread.start()
    try:
        yield
    finally:
        stop.set()
        thread.join()
