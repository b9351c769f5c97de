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
    "tests.prometheus.fixtures",
]

_SERVERS = frozenset({"control_plane", "prometheus_server", "start_prometheus"})
"""The fixtures that start real servers."""
_SLOW = frozenset(
    {
        "benchmarks",
        "conformance",
        "controlplane",
        "demo",
        "endtoend",
        "faults",
        "outages",
        "service",
    }
)
"""Directories whose tests start whole programs or take long by what they are."""


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark what `make quick` leaves out: real servers, whole programs, long recordings."""
    for item in items:
        fixtures = set(getattr(item, "fixturenames", ()))
        directory = item.path.relative_to(_TESTS).parts[0]
        if fixtures & _SERVERS or directory in _SLOW:
            item.add_marker(pytest.mark.slow)
