"""Tokens of these tests are fetched again soon."""

import pytest

from autoscaler.transport import credentials


@pytest.fixture(autouse=True)
def _short_pauses(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("_SHORTEST_PAUSE", "_REFUSED_PAUSE"):
        monkeypatch.setattr(credentials, name, 0.05)
    monkeypatch.setattr(credentials, "_LONGEST_PAUSE", 0.1)
    monkeypatch.setattr(credentials, "FIRST_SECONDS", 20.0)
