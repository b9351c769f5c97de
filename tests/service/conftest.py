"""Programs that check manifests, and manifests that tests apply to the control plane."""

import sys
from collections.abc import Iterator
from contextlib import suppress
from functools import partial

import pytest

from tests.service import kustomize, programs
from tests.worlds.controlplane import workloads
from tests.worlds.controlplane.api import Api, Json
from tests.worlds.controlplane.fixtures import if_available
from tests.worlds.gomodule import ControlPlaneUnavailable


def pytest_collection_finish(session: pytest.Session) -> None:
    """Build the programs before the first test: a build outlasts the timeout of one test."""
    wanted = any("built_programs" in getattr(item, "fixturenames", ()) for item in session.items)
    if wanted and not session.config.getoption("collectonly"):
        # The fixture meets the same obstacle and reports it.
        with suppress(ControlPlaneUnavailable):
            programs.build_all(partial(print, file=sys.stderr, flush=True))


@pytest.fixture(scope="session")
def built_programs() -> None:
    """Skip the test where a program cannot be built; in CI fail it."""
    with if_available():
        programs.build_all(print)


@pytest.fixture(scope="module")
def applied(admin_api: Api) -> Iterator[list[Json]]:
    """Give a list for what the tests apply; it is deleted after them."""
    objects: list[Json] = []
    yield objects
    # A namespace takes along what it holds.
    for path in {
        kustomize.path(manifest) for manifest in objects if "namespace" not in manifest["metadata"]
    }:
        admin_api.delete(path)


@pytest.fixture(scope="session")
def monitoring(admin_api: Api) -> None:
    """Serve the kinds of the Prometheus Operator that we have objects of."""
    for kind in ("PodMonitor", "PrometheusRule"):
        workloads.serve(admin_api, workloads.free_definition("monitoring.coreos.com", kind))
