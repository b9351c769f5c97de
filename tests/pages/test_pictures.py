"""Each page in both themes as a reader sees it; `make pictures` keeps them for the documents."""

import os
from pathlib import Path

import pytest
from playwright.sync_api import Browser, expect

from autoscaler.core.text import rfc3339
from autoscaler.lab.rendering import answer_of
from autoscaler.lab.report_page import report_of
from tests.pages.conftest import Open
from tests.pages.test_reading import brightness
from tests.replay.fleets import replayed
from tests.worlds.browsing import tab
from tests.worlds.pages.fleets import AT_THREE, NOW

PICTURES = Path(__file__).parents[2] / "docs" / "images"
WINDOW = {"width": 1280, "height": 800}
AT = f"?from={rfc3339(NOW - 10_500)}&to={rfc3339(NOW)}&at={rfc3339(AT_THREE + 15)}"
PAGES = {
    "fleet": ("/", "table.fleet tbody tr"),
    "target": (f"/targets/shop/Deployment/order-worker{AT}", "#chart canvas"),
    "clusters": ("/", "table.clusters tbody tr"),
    "agreement": ("/agreement", "table.agreement tbody tr"),
    "health": ("/health", "#health table"),
}

FLEETS = {"clusters": "regions", "agreement": "moving"}


@pytest.mark.parametrize("theme", ["light", "dark"])
@pytest.mark.parametrize("name", PAGES)
def test_a_page_follows_the_systems_theme(
    request: pytest.FixtureRequest, open_tab: Open, name: str, theme: str
) -> None:
    path, shown = PAGES[name]
    fleet = request.getfixturevalue(FLEETS.get(name, "story"))
    page = open_tab(fleet, color_scheme=theme, viewport=WINDOW, reduced_motion="reduce").open(path)
    expect(page.locator(shown).first).to_be_visible()
    page.wait_for_load_state("networkidle")
    assert (brightness(page) > 200) is (theme == "light")
    if os.environ.get("PICTURES"):
        PICTURES.mkdir(exist_ok=True)
        page.screenshot(path=PICTURES / f"{name}-{theme}.png", animations="disabled")


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_a_report_follows_the_systems_theme(browser: Browser, tmp_path: Path, theme: str) -> None:
    file = tmp_path / "report.html"
    file.write_text(report_of({"simulated": answer_of(replayed(6))}, "Replay of autoscaler.yaml"))
    with tab(browser, f"file://{file}", color_scheme=theme, viewport=WINDOW) as shown:
        page = shown.page
        page.goto(f"file://{file}")
        expect(page.locator(".replay-chart canvas").first).to_be_visible()
        assert (brightness(page) > 200) is (theme == "light")
        if os.environ.get("PICTURES"):
            page.screenshot(path=PICTURES / f"report-{theme}.png", animations="disabled")
