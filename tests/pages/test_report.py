"""A report of rehearsals in the browser: from a file, without any server."""

from pathlib import Path

import pytest
from playwright.sync_api import Browser, Page, expect

from autoscaler.rendering.rehearsal import answer_of
from autoscaler.web.pages.report import report_of
from tests.rehearsal.fleets import rehearsed
from tests.worlds.browsing import PHONE, findings, tab


@pytest.fixture(params=[1, 2], ids=["of one rehearsal", "of two"])
def file(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    """Return a report of three targets."""
    names = ["as it is", "other"][: request.param]
    text = report_of({name: answer_of(rehearsed(3)) for name in names}, "Replay of autoscaler.yaml")
    path = tmp_path / "report.html"
    path.write_text(text)
    return path


def test_it_opens_from_a_file_without_a_network(browser: Browser, file: Path) -> None:
    """All charts are drawn, nothing is asked of anybody, axe finds nothing in either theme."""
    with tab(browser, f"file://{file}", color_scheme="light", bypass_csp=True) as opened:
        page: Page = opened.page
        page.goto(f"file://{file}")
        expect(page.locator(".rehearsed-chart canvas").first).to_be_visible()
        assert opened.complaints == []
        assert opened.requested == [f"file://{file}"]
        assert findings(page) == []
        page.emulate_media(color_scheme="dark")
        assert findings(page) == []
        page.set_viewport_size({"width": PHONE["width"], "height": PHONE["height"]})
        assert findings(page) == []
        assert page.evaluate("document.scrollingElement.scrollWidth - innerWidth") <= 0
        page.locator("table.index tbody a").nth(2).click()
        expect(page.locator("#target-3")).to_be_in_viewport()
        expect(page.locator("section.rehearsed").nth(2).locator("canvas")).to_be_visible()
