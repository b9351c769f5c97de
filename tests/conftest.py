"""Fixtures of all tests come from plugins beside what they start."""

from hypothesis import settings

# How long an example takes is the machine's matter.
settings.register_profile("any machine", settings.default, deadline=None)
settings.load_profile("any machine")

pytest_plugins = [
    "tests.controlplane.fixtures",
    "tests.endtoend.fixtures",
    "tests.prometheus.fixtures",
]
