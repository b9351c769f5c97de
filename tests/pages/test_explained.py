"""The page explains an instant in the words of `autoscaler explain --at`."""

import os
import subprocess
import sys

import pytest
from playwright.sync_api import Page

from autoscaler.core.text import rfc3339
from tests.pages.browsing import ZONE
from tests.pages.conftest import Open
from tests.pages.fleets import AT_THREE, NOW
from tests.pages.serving import Served


def printed(*options: str) -> str:
    """Return what the command prints of the queue's workers, in the browser's zone."""
    argv = [sys.executable, "-m", "autoscaler", "explain", "shop/order-worker", *options]
    environment = {**os.environ, "TZ": ZONE, "NO_PROXY": "127.0.0.1"}
    done = subprocess.run(argv, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout


def words(text: str) -> str:
    """Return a text with one space between its words."""
    return " ".join(text.split())


def texts(page: Page, selector: str) -> list[str]:
    """Return the texts of elements, as they are shown."""
    return [words(one) for one in page.locator(selector).all_inner_texts()]


@pytest.mark.parametrize(
    "at", [AT_THREE + 15, AT_THREE + 100, NOW - 2900, NOW - 9000, NOW - 1600], ids=rfc3339
)
def test_an_instant_is_explained_as_by_the_command(
    story: Served, open_tab: Open, at: float
) -> None:
    """Line for line, from the file and from the daemon: so do its differences and all else."""
    page = open_tab(story).open(f"/targets/shop/Deployment/order-worker?at={rfc3339(at)}")
    lines = texts(page, "#explanation pre.lines > *")
    command = printed("--at", rfc3339(at), "--state-directory", str(story.fleet.state))
    told = [words(line) for line in command.splitlines()]
    assert lines == told[: len(lines)]
    assert len(lines) > 5
    rest = " ".join(told[len(lines) :])
    for text in texts(page, "#explanation li"):
        assert text in rest
    assert printed("--at", rfc3339(at), "--url", story.url) == command
