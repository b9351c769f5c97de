"""What tests of the commands share."""

import time
from collections.abc import Callable, Iterator

import pytest

from autoscaler import clock


@pytest.fixture
def in_berlin(monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[[float], None]]:
    """Let the local zone be Europe/Berlin; gives what sets the Unix time."""
    monkeypatch.setenv("TZ", "Europe/Berlin")
    time.tzset()
    yield lambda now: monkeypatch.setattr(clock, "wall", lambda: now)
    monkeypatch.undo()
    time.tzset()
