"""The page explains an instant in the words of `autoscaler explain --at`."""

import time
from collections.abc import Callable, Iterator

import pytest
from playwright.sync_api import Page

from autoscaler.app import app
from autoscaler.core.text import rfc3339
from tests.pages.conftest import Open
from tests.worlds.browsing import ZONE
from tests.worlds.pages.fleets import AT_THREE, NOW
from tests.worlds.pages.serving import Served


@pytest.fixture
def printed(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> Iterator[Callable[..., str]]:
    """Return what prints an instant of the queue's workers, in the browser's zone."""

    def explained(*options: str) -> str:
        with pytest.raises(SystemExit) as ended:
            app(["explain", "shop/order-worker", *options])
        out, err = capsys.readouterr()
        assert not ended.value.code, err
        return out

    with monkeypatch.context() as patch:
        patch.setenv("TZ", ZONE)
        time.tzset()
        yield explained
    time.tzset()


def words(text: str) -> str:
    return " ".join(text.split())


def texts(page: Page, selector: str) -> list[str]:
    return [words(text) for text in page.locator(selector).all_inner_texts()]


@pytest.mark.parametrize(
    "at", [AT_THREE + 15, AT_THREE + 100, NOW - 2900, NOW - 9000, NOW - 1600], ids=rfc3339
)
def test_an_instant_is_explained_as_by_the_command(
    story: Served, open_tab: Open, printed: Callable[..., str], at: float
) -> None:
    page = open_tab(story).open(f"/targets/shop/Deployment/order-worker?at={rfc3339(at)}")
    lines = texts(page, "#explanation pre.lines > *")
    command = printed("--at", rfc3339(at), "--state-directory", str(story.fleet.state))
    told = [words(line) for line in command.splitlines()]
    assert told.pop(1) == "Decision"
    assert lines == told[: len(lines)]
    assert len(lines) > 5
    rest = " ".join(told[len(lines) :])
    for text in texts(page, "#explanation li"):
        assert text in rest
    assert printed("--at", rfc3339(at), "--url", story.url) == command
