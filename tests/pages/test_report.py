"""A report of replays in the browser: from a file, without any server."""

from pathlib import Path

import pytest
from playwright.sync_api import Browser, Page, expect

from autoscaler.lab.rendering import answer_of
from autoscaler.lab.report_page import report_of
from tests.core.builders import BASE
from tests.replay.fleets import replayed, with_lines
from tests.worlds.browsing import assert_accessible, tab


@pytest.fixture(params=[1, 2], ids=["of one replay", "of two"])
def file(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    """Return a report of three targets."""
    names = ["as it is", "other"][: request.param]
    text = report_of({name: answer_of(replayed(3)) for name in names}, "Replay of autoscaler.yaml")
    path = tmp_path / "report.html"
    path.write_text(text)
    return path


def test_a_report_opens_from_a_file_without_a_network(browser: Browser, file: Path) -> None:
    with tab(browser, f"file://{file}", color_scheme="light", bypass_csp=True) as opened:
        page: Page = opened.page
        page.goto(f"file://{file}")
        expect(page.locator(".replay-chart canvas").first).to_be_visible()
        assert opened.complaints == []
        assert opened.requested == [f"file://{file}"]
        assert_accessible(page)
        page.locator("table.index tbody a").nth(2).click()
        expect(page.locator("#target-3")).to_be_in_viewport()
        expect(page.locator("section.replay").nth(2).locator("canvas")).to_be_visible()


def test_times_in_a_report_have_dates(browser: Browser, tmp_path: Path) -> None:
    path = tmp_path / "report.html"
    path.write_text(report_of({"simulated": answer_of(replayed(1))}, "t"))
    with tab(browser, f"file://{path}", timezone_id="UTC") as opened:
        opened.page.clock.set_fixed_time(BASE * 1000 + 1)
        opened.page.goto(f"file://{path}")
        header = opened.page.locator("main > p").first
        expect(header).to_contain_text("2026-01-01 00:00:00 to 2026-01-01 01:00:00")
        expect(opened.page.locator(".said").first).to_contain_text("2026-01-01 00:00:00: demand")


_SHADED = """() => {
  const canvas = document.querySelector(".replay-chart canvas");
  const { data } = canvas.getContext("2d").getImageData(0, 0, canvas.width, canvas.height);
  let found = 0;
  for (let at = 0; at < data.length; at += 4) {
    const share = data[at + 3] / 255;
    const [red, green, blue] = data.slice(at, at + 3);
    const isRed = (red - Math.max(green, blue)) * share > 35;
    if (isRed && Math.abs(green - blue) * share < 15) found += 1;
  }
  return found;
}"""
"""Returns how many dots of a chart have the shade of a shortage, over white."""


@pytest.mark.parametrize("short", [0, 4])
def test_only_missing_pods_are_shaded_in_a_report(
    browser: Browser, tmp_path: Path, short: int
) -> None:
    """Demand and ready pods that vary between 2 and 9 in each part are not a shortage."""
    path = tmp_path / "report.html"
    path.write_text(report_of({"simulated": with_lines((0, short, 0, None))}, "t"))
    with tab(browser, f"file://{path}", color_scheme="light", bypass_csp=True) as opened:
        opened.page.goto(f"file://{path}")
        expect(opened.page.locator(".replay-chart canvas").first).to_be_visible()
        expect(opened.page.locator(".said")).to_contain_text("demand 2 to 9, simulated 2 to 9")
        assert (opened.page.evaluate(_SHADED) > 1000) == (short > 0)
        assert opened.complaints == []
