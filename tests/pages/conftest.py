"""One browser for these tests, and the fleets that are served to it."""

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from typing import Any

import pytest
from playwright.sync_api import Browser

from autoscaler import clock
from tests.pages import fleets
from tests.pages.browsing import Tab, chromium, tab
from tests.pages.fleets import NOW, Fleet
from tests.pages.serving import Served, serving

Open = Callable[..., Tab]


# The scope is the package and not the session: the event loop of playwright stays in the thread.
@pytest.fixture(scope="package")
def browser() -> Iterator[Browser]:
    """Run one browser for all tests."""
    with chromium() as running:
        yield running


@pytest.fixture(scope="package", autouse=True)
def _fixed_clock() -> Iterator[None]:
    """Let it be the same instant for all pages."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(clock, "wall", lambda: NOW)
        yield


def _served(make: Callable[..., Fleet], factory: pytest.TempPathFactory) -> Iterator[Served]:
    with serving(make(factory.mktemp("fleet"))) as served:
        yield served


@pytest.fixture(scope="package")
def nothing(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    """Serve a daemon without targets."""
    yield from _served(fleets.nothing, tmp_path_factory)


@pytest.fixture(scope="package")
def one(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    """Serve a daemon with one target."""
    yield from _served(fleets.one, tmp_path_factory)


@pytest.fixture(scope="package")
def story(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    """Serve a target in each state."""
    yield from _served(fleets.story, tmp_path_factory)


@pytest.fixture(scope="package")
def many(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    """Serve ten thousand targets."""
    yield from _served(fleets.many, tmp_path_factory)


@pytest.fixture(scope="package")
def hostile(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    """Serve targets whose texts are attacks."""
    yield from _served(fleets.hostile, tmp_path_factory)


@pytest.fixture
def open_tab(browser: Browser) -> Iterator[Open]:
    """Return what opens a tab for a served fleet, with the options of a browser's context."""
    with ExitStack() as stack:

        def opened(served: Served, **options: Any) -> Tab:
            found = stack.enter_context(tab(browser, served.url, **options))
            found.page.clock.set_fixed_time(NOW)
            return found

        yield opened
