"""The bound on time that no socket's time-out gives."""

import threading
import time

import pytest

from autoscaler.adapters.prometheus.within import Deadline, Expired


def test_outcome() -> None:
    """What the work returns or raises is the caller's."""
    deadline = Deadline(most_threads=1)
    assert deadline.run(10, lambda: 42) == 42
    for error in (KeyError("mine"), TimeoutError("the work's own")):

        def work(error: Exception = error) -> None:
            raise error

        with pytest.raises(type(error)) as caught:
            deadline.run(10, work)
        assert caught.value is error


def test_work_that_does_not_end() -> None:
    """The caller is back in time, and the threads left behind are limited."""
    deadline = Deadline(most_threads=2)
    release = threading.Event()
    begin = time.monotonic()
    for _ in range(3):
        with pytest.raises(Expired):
            deadline.run(0.1, release.wait)
    assert time.monotonic() - begin < 2.0
    alive = [thread for thread in threading.enumerate() if thread.name == "prometheus-query"]
    assert len(alive) == 2
    release.set()
    for thread in alive:
        thread.join(timeout=10)
    assert deadline.run(10, lambda: "free again") == "free again"
