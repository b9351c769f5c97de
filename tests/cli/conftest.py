"""What tests of the commands share."""

import time
from collections.abc import Callable, Iterator

import pytest

from autoscaler import clock

Zone = Callable[[str], None]


@pytest.fixture
def zone(monkeypatch: pytest.MonkeyPatch) -> Iterator[Zone]:
    """Give a function that sets the local zone."""

    def set_to(name: str) -> None:
        monkeypatch.setenv("TZ", name)
        time.tzset()

    yield set_to
    monkeypatch.undo()
    time.tzset()


@pytest.fixture
def in_berlin(zone: Zone, monkeypatch: pytest.MonkeyPatch) -> Callable[[float], None]:
    """Let the local zone be Europe/Berlin; gives a function that sets the Unix time."""
    zone("Europe/Berlin")
    return lambda now: monkeypatch.setattr(clock, "wall", lambda: now)
