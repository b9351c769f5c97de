"""The page of one target: its chart, any instant of it explained, by pointer, keyboard and link."""

import re
from urllib.parse import parse_qs, urlsplit

from playwright.sync_api import Page, expect

from autoscaler.core.text import rfc3339
from tests.pages.browsing import Tab
from tests.pages.conftest import Open
from tests.pages.fleets import AT_THREE, NOW
from tests.pages.serving import Served

PATH = "/targets/shop/Deployment/order-worker"

_HAS_INK = """() => {
  const canvas = document.querySelector("#chart canvas");
  const { data } = canvas.getContext("2d").getImageData(0, 0, canvas.width, canvas.height);
  return new Set(new Uint32Array(data.buffer)).size > 3;
}"""
"""Whether something is drawn on the chart."""


def opened(open_tab: Open, served: Served, query: str = "?last=6h", **options: object) -> Tab:
    """Open the page of the queue's workers and wait for its chart."""
    tab = open_tab(served, **options)
    page = tab.open(PATH + query)
    page.locator("#chart canvas").wait_for()
    return tab


def chosen(page: Page) -> list[str]:
    """Return the instant in the address, if there is one."""
    return parse_qs(urlsplit(page.url).query).get("at", [])


def heading(page: Page) -> str:
    """Return which instant is explained."""
    return page.locator("#explained").inner_text()


def test_it_shows_chart_changes_and_configuration(story: Served, open_tab: Open) -> None:
    """And the present state in words, and the query that is asked."""
    tab = opened(open_tab, story)
    page = tab.page
    expect(page.get_by_role("heading", level=1)).to_have_text("order-worker")
    expect(page.get_by_test_id("verdict")).to_contain_text("held")
    expect(page.locator("#changes")).to_contain_text("Set by kubectl-scale")
    expect(page.locator("#configuration")).to_contain_text("rabbitmq_queue_messages_ready")
    expect(page.locator("#chart-problem")).to_be_hidden()
    page.wait_for_function(_HAS_INK)
    tab.assert_clean()


def test_the_arrow_keys_go_from_change_to_change(story: Served, open_tab: Open) -> None:
    """Each is explained; Enter keeps it in the address, Escape lets it go."""
    tab = opened(open_tab, story)
    page = tab.page
    expect(page.locator("#explained")).to_have_text("Now")
    page.get_by_role("slider").focus()
    page.keyboard.press("ArrowLeft")
    expect(page.locator("#explained")).to_contain_text("At ")
    last = heading(page)
    page.keyboard.press("ArrowLeft")
    expect(page.locator("#explained")).not_to_have_text(last)
    assert chosen(page) == []
    page.keyboard.press("Enter")
    (at,) = chosen(page)
    assert f"At {page.locator('#explained time').inner_text()}" == heading(page)
    value = page.get_by_role("slider").get_attribute("aria-valuetext")
    assert value is not None
    assert page.locator("#explained time").inner_text() in value
    pinned = heading(page)
    page.reload()
    page.locator("#chart canvas").wait_for()
    assert (heading(page), chosen(page)) == (pinned, [at])
    page.get_by_role("slider").focus()
    page.keyboard.press("Escape")
    expect(page).not_to_have_url(re.compile("at="))
    tab.assert_clean()


def test_pointing_explains_and_a_click_keeps_it(story: Served, open_tab: Open) -> None:
    """What the pointer left is forgotten, unless it was clicked."""
    tab = opened(open_tab, story)
    page = tab.page
    box = page.locator("#chart .u-over").bounding_box()
    assert box is not None
    x, y = box["x"] + box["width"] * 0.8, box["y"] + box["height"] / 2
    page.mouse.move(x, y)
    expect(page.locator("#explained")).to_contain_text("At ")
    page.mouse.move(5, 5)
    expect(page.locator("#explained")).to_have_text("Now")
    page.mouse.move(x, y)
    page.mouse.down()
    page.mouse.up()
    expect(page).to_have_url(re.compile("at="))
    page.mouse.move(5, 5)
    expect(page.locator("#explained")).to_contain_text("At ")
    tab.assert_clean()


def test_the_links_of_a_view_keep_it(story: Served, open_tab: Open) -> None:
    """Of the changes and of the times before and after; all that is chosen is in the address."""
    tab = opened(open_tab, story, f"?from={rfc3339(NOW - 7200)}&to={rfc3339(NOW - 3600)}")
    page = tab.page
    viewed = page.locator("#viewed").inner_text()
    page.locator("#changes tbody th a").first.click()
    page.wait_for_url("**at=**")
    assert page.locator("#viewed").inner_text() == viewed
    expect(page.locator("#explained")).to_contain_text("At ")
    expect(page.locator("#changes tr.chosen")).to_have_count(1)
    page.locator("#earlier").click()
    expect(page.locator("#viewed")).not_to_have_text(viewed)
    page.locator("#last-1h").click()
    page.wait_for_url("**last=1h")
    tab.assert_clean()


def test_without_scripts_an_instant_is_explained(story: Served, open_tab: Open) -> None:
    """By a link of the list of changes, which stands for the chart."""
    tab = open_tab(story, java_script_enabled=False)
    page = tab.open(f"{PATH}?last=6h")
    by_others = page.locator("#changes tbody tr", has_text="Set by kubectl-scale").first
    by_others.get_by_role("link").click()
    expect(page.locator("#explanation")).to_contain_text("kubectl-scale")
    expect(page.locator("#no-chart")).to_be_visible()


def test_three_in_the_night_in_local_time(story: Served, open_tab: Open) -> None:
    """The instant of an address in UTC is shown in the reader's zone, which is named."""
    tab = opened(open_tab, story, f"?last=6h&at={rfc3339(AT_THREE + 15)}")
    assert heading(tab.page).startswith("At 03:12:1")
    expect(tab.page.locator("#zone")).to_contain_text("Europe/Berlin")
    expect(tab.page.locator("#explanation")).to_contain_text("kubectl-scale")


def test_a_target_that_is_not_there_is_a_sentence(story: Served, open_tab: Open) -> None:
    """With the one that may have been meant."""
    page = open_tab(story).page
    answer = page.goto(f"{story.url}/targets/shop/Deployment/order-wroker")
    assert answer is not None
    assert answer.status == 404
    page.get_by_role("link", name="shop/Deployment/order-worker").click()
    expect(page.get_by_role("heading", level=1)).to_have_text("order-worker")
