"""Fixtures of all tests come from plugins beside what they start."""

pytest_plugins = [
    "tests.controlplane.fixtures",
    "tests.endtoend.fixtures",
    "tests.prometheus.fixtures",
]
