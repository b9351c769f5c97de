"""Manifests that tests apply to the control plane."""

from collections.abc import Iterator

import pytest

from tests.service import kustomize
from tests.worlds.controlplane.api import Api, Json
from tests.worlds.controlplane.fixtures import if_available


@pytest.fixture(scope="session")
def kustomize_program() -> None:
    """Build kustomize once."""
    with if_available():
        kustomize.locate()


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
