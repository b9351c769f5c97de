"""Fixtures of all tests come from plugins next to the servers that they start."""

import signal
from pathlib import Path

import pytest
from hypothesis import settings

_TESTS = Path(__file__).parent

# A shell lets programs in the background ignore SIGINT, and tests send it to programs of theirs.
signal.signal(signal.SIGINT, signal.default_int_handler)
# How long an example takes is the machine's matter.
settings.register_profile("any machine", settings.default, deadline=None)
settings.load_profile("any machine")

pytest_plugins = [
    "tests.worlds.controlplane.fixtures",
    "tests.worlds.fixtures",
    "tests.worlds.prometheus.fixtures",
]

_PURE = frozenset({"config", "core", "policy_tests", "replay", "rendering", "sync"})
"""Directories whose tests start no server and no other process, but for those that ask for one."""
_SERVERS = frozenset({"control_plane", "prometheus_server", "start_prometheus"})
"""The fixtures that start real servers."""
_WAITING = frozenset(
    {"benchmarks", "demo", "endtoend", "faults", "leadership", "outages", "service"}
)
"""Directories whose tests wait for most of their time: for syncs, leases, windows, a story."""


def pytest_itemcollected(item: pytest.Item) -> None:
    """Mark what `make quick` leaves out, before pytest chooses by marks."""
    directory = item.path.relative_to(_TESTS).parts[0]
    fixtures = set(getattr(item, "fixturenames", ()))
    if directory not in _PURE or fixtures & _SERVERS:
        item.add_marker(pytest.mark.slow)


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Mix the files where several workers share the cores."""
    if hasattr(config, "workerinput"):
        items[:] = _mixed(items)


def _mixed(items: list[pytest.Item]) -> list[pytest.Item]:
    """Put the files that wait evenly between those that compute.

    Workers take file after file: else all of them would wait at a time, and compute at another.
    """
    files: dict[Path, list[pytest.Item]] = {}
    for item in items:
        files.setdefault(item.path, []).append(item)
    kinds: dict[bool, list[Path]] = {True: [], False: []}
    for file in files:
        kinds[file.parent.name in _WAITING].append(file)
    places = [(at / len(kind), file) for kind in kinds.values() for at, file in enumerate(kind)]
    return [item for _, file in sorted(places) for item in files[file]]
