"""The page of all targets: what it shows first, and how one finds a target on it."""

import pytest
from playwright.sync_api import Page, expect

from autoscaler import clock
from tests.pages.conftest import Open
from tests.worlds.browsing import findings
from tests.worlds.pages.fleets import NOW
from tests.worlds.pages.serving import Served


def names(page: Page) -> list[str]:
    links = page.locator("table.fleet tbody th a").all_text_contents()
    return [text.rpartition("/")[2].strip() for text in links]


def test_search_filter_and_order_keep_each_other(story: Served, open_tab: Open) -> None:
    page = open_tab(story).open("/")
    page.get_by_role("searchbox").fill("e")
    page.keyboard.press("Enter")
    page.wait_for_url("**/?q=e")
    page.locator("#sort-replicas").click()
    page.wait_for_url("**sort=replicas")
    counts = page.locator("table.fleet td[data-label=Replicas]").all_text_contents()
    assert [int(count.split()[0]) for count in counts] == sorted(
        int(count.split()[0]) for count in counts
    )
    page.locator("#sort-replicas").click()
    page.locator("#filter-failing").click()
    page.wait_for_url("**state=failing**")
    assert "q=e" in page.url
    assert "sort=-replicas" in page.url
    assert names(page) == ["invoices", "mailer"]
    page.go_back()
    assert len(names(page)) > 2


def test_rows_search_and_filters_work_without_scripts(story: Served, open_tab: Open) -> None:
    page = open_tab(story, java_script_enabled=False).open("/?state=failing")
    assert set(names(page)) == {"mailer", "invoices"}
    page.get_by_role("searchbox").fill("mail")
    page.get_by_role("button", name="Find").click()
    assert names(page) == ["mailer"]
    expect(page.locator("#zone")).to_have_text("UTC")


def test_the_fleet_is_not_refreshed_while_text_is_selected(
    story: Served, open_tab: Open, monkeypatch: pytest.MonkeyPatch
) -> None:
    page = open_tab(story).open("/")
    shown, since = page.locator("#shown").inner_text(), page.locator("td.since").first.inner_text()
    page.locator("td.state .sentence").first.select_text()
    monkeypatch.setattr(clock, "wall", lambda: NOW + 60)
    page.evaluate("document.dispatchEvent(new Event('visibilitychange'))")
    button = page.locator("#refresh")
    expect(button).to_contain_text("selected text")
    expect(page.locator("#shown")).to_have_text(shown)
    expect(page.locator("td.since").first).to_have_text(since)
    page.evaluate("getSelection().removeAllRanges()")
    expect(page.locator("#shown")).not_to_have_text(shown)
    expect(page.locator("td.since").first).not_to_have_text(since)
    expect(button).to_have_text("Live")
    link = page.locator("table.fleet tbody th a").first
    link.hover()
    page.mouse.down()
    monkeypatch.setattr(clock, "wall", lambda: NOW + 120)
    with page.expect_response(story.url + "/"):
        page.evaluate("document.dispatchEvent(new Event('visibilitychange'))")
    page.wait_for_timeout(100)
    page.mouse.up()
    page.wait_for_url("**/targets/**")


def test_axe_finds_nothing_on_a_page_of_many(many: Served, open_tab: Open) -> None:
    tab = open_tab(many, color_scheme="light", bypass_csp=True)
    assert findings(tab.open("/?q=team-07&page=2")) == []
