"""A fleet of every kind of target, with its record of three hours."""

from collections.abc import Iterator

import pytest

from autoscaler.daemon.exposition.views import Views
from tests.daemon.api.serving import Client, asking
from tests.pages.fleets import story
from tests.pages.serving import serving


@pytest.fixture(scope="package")
def fleet(tmp_path_factory: pytest.TempPathFactory) -> Views:
    """Return what is shown of the fleet; each test serves it itself."""
    with serving(story(tmp_path_factory.mktemp("fleet"))) as served:
        return served.views


@pytest.fixture
def client(fleet: Views) -> Iterator[Client]:
    """Give a client of its API."""
    with asking(fleet) as one:
        yield one
