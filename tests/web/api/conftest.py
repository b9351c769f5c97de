"""A fleet of every kind of target, with its record of three hours."""

from collections.abc import Iterator

import pytest

from autoscaler.web.site import Views
from tests.web.api.serving import Client, asking
from tests.worlds.pages.fleets import story
from tests.worlds.pages.serving import serving


@pytest.fixture(scope="package")
def fleet(tmp_path_factory: pytest.TempPathFactory) -> Views:
    """Return what is shown of the fleet; each test serves it itself."""
    with serving(story(tmp_path_factory.mktemp("fleet"))) as served:
        return served.views


@pytest.fixture
def client(fleet: Views) -> Iterator[Client]:
    with asking(fleet) as client:
        yield client
