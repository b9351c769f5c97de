"""The page of the daemon's health."""

from playwright.sync_api import expect

from autoscaler.daemon.health import Component
from tests.pages.conftest import Open
from tests.pages.serving import Served


def test_it_shows_each_component(story: Served, open_tab: Open) -> None:
    """With its state in words, and when the record begins and ends."""
    tab = open_tab(story)
    page = tab.open("/health")
    for component in story.views.health.components():
        row = page.locator("#health tr", has=page.get_by_role("rowheader", name=component.name))
        expect(row.first).to_contain_text("ok")
        expect(row.first).to_contain_text(component.message)
    expect(page.locator("section[aria-labelledby=record]")).to_contain_text("It goes from")
    tab.assert_clean()


def test_what_is_not_well_is_on_every_page(story: Served, open_tab: Open) -> None:
    """A component that fails is a notice above the fleet too, until it is well again."""
    health = story.views.health
    health.report(Component.RELOAD, ok=False, message="autoscaler.yaml:3: <b>wrong</b>")
    try:
        page = open_tab(story).open("/")
        notice = page.get_by_role("complementary", name="Notices")
        expect(notice).to_contain_text("autoscaler.yaml:3: <b>wrong</b>")
        notice.get_by_role("link").click()
        expect(page.locator("#health")).to_contain_text("not ok")
    finally:
        health.report(Component.RELOAD, ok=True, message="works")
