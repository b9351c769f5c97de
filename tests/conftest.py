"""Fixtures of all tests come from plugins beside what they start."""

from pathlib import Path

import pytest
from hypothesis import settings

_TESTS = Path(__file__).parent

# How long an example takes is the machine's matter.
settings.register_profile("any machine", settings.default, deadline=None)
settings.load_profile("any machine")

pytest_plugins = [
    "tests.controlplane.fixtures",
    "tests.endtoend.fixtures",
    "tests.adapters.prometheus.fixtures",
]

_PURE = frozenset({"config", "core", "rendering", "sync"})
"""Directories whose tests start no server and no other process, but for those that ask for one."""
_SERVERS = frozenset({"control_plane", "prometheus_server", "start_prometheus"})
"""The fixtures that start real servers."""


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark what `make quick` leaves out."""
    for item in items:
        directory = item.path.relative_to(_TESTS).parts[0]
        fixtures = set(getattr(item, "fixturenames", ()))
        if directory not in _PURE or fixtures & _SERVERS:
            item.add_marker(pytest.mark.slow)
