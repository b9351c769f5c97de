"""The pytest plugin of the test bed: `pytest_plugins = ["tests.worlds.controlplane.fixtures"]`.

The first test that asks for `control_plane` starts it, and every later one shares it. Where it is
not available those tests skip with the reason; under CI they fail.
"""

import os
import secrets
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from functools import partial

import pytest

from tests.worlds.controlplane import binaries
from tests.worlds.controlplane.api import Api
from tests.worlds.controlplane.kubelet import FakeKubelet
from tests.worlds.controlplane.server import ControlPlane
from tests.worlds.gomodule import ControlPlaneUnavailable


def pytest_collection_finish(session: pytest.Session) -> None:
    """Build the binaries before the first test: a build outlasts the timeout of one test."""
    wanted = any("control_plane" in getattr(item, "fixturenames", ()) for item in session.items)
    if wanted and not session.config.getoption("collectonly"):
        # The fixture meets the same obstacle and reports it.
        with suppress(ControlPlaneUnavailable):
            binaries.locate(report=_reporter(session.config))


@contextmanager
def if_available() -> Iterator[None]:
    """Skip the test where a program is not there and cannot be built, in CI fail it."""
    try:
        yield
    except ControlPlaneUnavailable as reason:
        if os.environ.get("CI", "").lower() in {"1", "true"}:
            pytest.fail(f"no control plane: {reason}", pytrace=False)
        pytest.skip(f"no control plane: {reason}")


@pytest.fixture(scope="session")
def control_plane() -> Iterator[ControlPlane]:
    """Start the control plane, with its controllers, that all tests of the session share."""
    with if_available():
        plane = ControlPlane()
    with plane:
        yield plane


@pytest.fixture(scope="session")
def admin_api(control_plane: ControlPlane) -> Iterator[Api]:
    """Open the administrator's session with the shared apiserver."""
    with control_plane.api() as api:
        yield api


@pytest.fixture(scope="session")
def kubelet(control_plane: ControlPlane) -> Iterator[FakeKubelet]:
    """Start the fake kubelet of the shared control plane: pods are ready at once."""
    plane = control_plane
    with FakeKubelet(plane.url, plane.admin_token, plane.ca_file) as running:
        yield running


@pytest.fixture
def namespace(admin_api: Api) -> Iterator[str]:
    """Create a namespace, return its name, and delete it with all it holds after the test."""
    name = f"test-{secrets.token_hex(5)}"
    admin_api.create("/api/v1/namespaces", {"metadata": {"name": name}})
    yield name
    # The namespace controller empties it while the next test runs.
    admin_api.delete(f"/api/v1/namespaces/{name}")


def _reporter(config: pytest.Config) -> Callable[[str], None]:
    """Return a function that writes a line to the terminal, if this process has one."""
    if hasattr(config, "workerinput"):
        # What a worker of pytest-xdist writes to its own standard output is lost.
        return partial(print, file=sys.stderr, flush=True)
    terminal = config.pluginmanager.get_plugin("terminalreporter")
    return terminal.write_line if terminal else lambda text: None  # noqa: ARG005
