"""One browser for these tests, and the fleets that are served to it."""

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Browser

from autoscaler import clock
from tests.worlds.browsing import Tab, chromium, tab
from tests.worlds.pages import fleets
from tests.worlds.pages.fleets import NOW, Fleet
from tests.worlds.pages.serving import Served, serving

Open = Callable[..., Tab]


# The scope is the package and not the session: the event loop of playwright stays in the thread.
@pytest.fixture(scope="package")
def browser() -> Iterator[Browser]:
    with chromium() as running:
        yield running


@pytest.fixture(scope="package", autouse=True)
def _fixed_clock() -> Iterator[None]:
    """Let it be the same instant for all pages."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(clock, "wall", lambda: NOW)
        yield


def _fleet(make: Callable[[Path], Fleet]) -> Callable[..., Iterator[Served]]:
    @pytest.fixture(scope="package", name=make.__name__)
    def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
        with serving(make(tmp_path_factory.mktemp("fleet"))) as served_fleet:
            yield served_fleet

    return served


nothing = _fleet(fleets.nothing)
single = _fleet(fleets.single)
story = _fleet(fleets.story)
regions = _fleet(fleets.regions)
moving = _fleet(fleets.moving)
many = _fleet(fleets.many)
hostile = _fleet(fleets.hostile)


@pytest.fixture
def open_tab(browser: Browser) -> Iterator[Open]:
    """Return what opens a tab for a served fleet, with the options of a browser's context.

    At the end each has to be clean.
    """
    with ExitStack() as stack:
        tabs: list[Tab] = []

        def opened(served: Served, **options: Any) -> Tab:
            tabs.append(stack.enter_context(tab(browser, served.url, **options)))
            tabs[-1].page.clock.set_fixed_time(NOW)
            return tabs[-1]

        yield opened
        for item in tabs:
            item.assert_clean()
