"""The page of one target: its chart, any instant of it explained, by pointer, keyboard and link."""

import re
from urllib.parse import parse_qs, urlsplit

import pytest
from playwright.sync_api import Page, expect

from autoscaler import clock
from autoscaler.core.text import instant_of, rfc3339
from tests.narrowing import known
from tests.pages.conftest import Open
from tests.worlds.browsing import PHONE
from tests.worlds.pages.fleets import AT_THREE, NOW
from tests.worlds.pages.serving import Served

PATH = "/targets/shop/Deployment/order-worker"

_HAS_INK = """() => {
  const canvas = document.querySelector("#chart canvas");
  const { data } = canvas.getContext("2d").getImageData(0, 0, canvas.width, canvas.height);
  return new Set(new Uint32Array(data.buffer)).size > 3;
}"""
"""Whether something is drawn on the chart."""
_PAINTED = """(points) => {
  const canvas = document.querySelector("#chart canvas"), box = canvas.getBoundingClientRect();
  const all = canvas.getContext("2d").getImageData(0, 0, canvas.width, canvas.height);
  return points.map(([x, y]) => {
    const at = 4 * (Math.round(y - box.y) * all.width + Math.round(x - box.x));
    return [...all.data.slice(at, at + 4)];
  });
}"""
"""What is drawn at points of the chart."""


def opened(open_tab: Open, served: Served, query: str = "?last=6h", **options: object) -> Page:
    """Open the page of the queue's workers and wait for its chart."""
    page = open_tab(served, **options).open(PATH + query)
    page.locator("#chart canvas").wait_for()
    return page


def chosen(page: Page) -> list[str]:
    return parse_qs(urlsplit(page.url).query).get("at", [])


def heading(page: Page) -> str:
    return page.locator("#explained").inner_text()


def place(page: Page, share: float) -> tuple[float, float]:
    """Return where the chart is after a share of its width."""
    box = page.locator("#chart .u-over").bounding_box()
    assert box is not None
    return box["x"] + box["width"] * share, box["y"] + box["height"] / 2


def press(page: Page, key: str) -> None:
    page.get_by_role("slider").focus()
    page.keyboard.press(key)


def drag(page: Page, begin: float, end: float) -> None:
    """Press the button on the chart after a share of its width, and move to another."""
    page.mouse.move(*place(page, begin))
    page.mouse.down()
    page.mouse.move(*place(page, end), steps=3)


def click_at(page: Page, share: float) -> list[str]:
    """Click the chart after a share of its width; return the instant in the address then."""
    before = page.url
    page.mouse.click(*place(page, share))
    page.wait_for_url(lambda url: url != before)
    return chosen(page)


def updated(page: Page, patch: pytest.MonkeyPatch, now: float, asked: str = "/chart?") -> None:
    """Let it be another instant, and the page ask for it as it does each ten seconds."""
    patch.setattr(clock, "wall", lambda: now)
    with page.expect_response(re.compile(re.escape(asked))) as answered:
        page.evaluate("document.dispatchEvent(new Event('visibilitychange'))")
    answered.value.finished()
    page.wait_for_timeout(100)


def test_a_target_page_shows_chart_changes_and_configuration(story: Served, open_tab: Open) -> None:
    page = opened(open_tab, story)
    expect(page.get_by_role("heading", level=1)).to_have_text("order-worker")
    expect(page.get_by_test_id("verdict")).to_contain_text("stabilizing")
    expect(page.locator("#changes")).to_contain_text("Set by kubectl-scale")
    expect(page.locator("#configuration")).to_contain_text("rabbitmq_queue_messages_ready")
    expect(page.locator("#chart-problem")).to_be_hidden()
    page.wait_for_function(_HAS_INK)


def test_the_arrow_keys_go_from_change_to_change(story: Served, open_tab: Open) -> None:
    page = opened(open_tab, story)
    expect(page.locator("#explained")).to_have_text("Now")
    press(page, "ArrowLeft")
    expect(page.locator("#explained")).to_contain_text("At ")
    last = heading(page)
    page.keyboard.press("ArrowLeft")
    expect(page.locator("#explained")).not_to_have_text(last)
    assert chosen(page) == []
    page.keyboard.press("Enter")
    (at,) = chosen(page)
    assert f"At {page.locator('#explained time').inner_text()}" == heading(page)
    value = known(page.get_by_role("slider").get_attribute("aria-valuetext"))
    assert page.locator("#explained time").inner_text() in value
    pinned = heading(page)
    page.reload()
    page.locator("#chart canvas").wait_for()
    assert (heading(page), chosen(page)) == (pinned, [at])
    press(page, "Escape")
    expect(page).not_to_have_url(re.compile("at="))


def test_pointing_explains_and_a_click_keeps_it(story: Served, open_tab: Open) -> None:
    page = opened(open_tab, story)
    page.mouse.move(*place(page, 0.8))
    expect(page.locator("#explained")).to_contain_text("At ")
    page.mouse.move(5, 5)
    expect(page.locator("#explained")).to_have_text("Now")
    click_at(page, 0.8)
    expect(page).to_have_url(re.compile("at="))
    page.mouse.move(5, 5)
    expect(page.locator("#explained")).to_contain_text("At ")


def test_the_links_of_a_view_keep_it(story: Served, open_tab: Open) -> None:
    page = opened(open_tab, story, f"?from={rfc3339(NOW - 7200)}&to={rfc3339(NOW - 3600)}")
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


def test_without_scripts_an_instant_is_explained(story: Served, open_tab: Open) -> None:
    page = open_tab(story, java_script_enabled=False).open(f"{PATH}?last=6h")
    by_others = page.locator("#changes tbody tr", has_text="Set by kubectl-scale").first
    by_others.get_by_role("link").click()
    expect(page.locator("#explanation")).to_contain_text("kubectl-scale")
    expect(page.locator("#no-chart")).to_be_visible()


def test_an_instant_at_night_is_explained_in_local_time(story: Served, open_tab: Open) -> None:
    page = opened(open_tab, story, f"?last=6h&at={rfc3339(AT_THREE + 15)}")
    assert heading(page).startswith("At 03:12:1")
    expect(page.locator("#zone")).to_contain_text("Europe/Berlin")
    expect(page.locator("#explanation")).to_contain_text("kubectl-scale")


# -- what the reader does stays ------------------------------------------------------------------


def test_an_update_leaves_what_the_reader_points_at(
    story: Served, open_tab: Open, monkeypatch: pytest.MonkeyPatch
) -> None:
    page = opened(open_tab, story, "?last=15m")
    updated(page, monkeypatch, NOW + 10)
    page.mouse.move(*place(page, 0.5))
    expect(page.locator("#explained")).to_contain_text("At ")
    crosshair, value = page.locator("#chart .u-cursor-x"), page.locator("#legend b").first
    before = known(crosshair.bounding_box())
    expect(value).to_have_text("4")
    updated(page, monkeypatch, NOW + 20)
    expect(value).to_have_text("4")
    assert before["x"] - 15 < known(crosshair.bounding_box())["x"] < before["x"]
    page.evaluate("document.dispatchEvent(new Event('themechange'))")
    expect(crosshair).to_be_in_viewport()
    drag(page, 0.25, 0.75)
    updated(page, monkeypatch, NOW + 80, "?last=15m")
    selected = page.locator("#chart .u-select").bounding_box()
    assert selected is not None
    assert selected["width"] > 300
    page.mouse.up()
    page.wait_for_url("**from=**")
    query = parse_qs(urlsplit(page.url).query)
    begin, end = (instant_of(query[key][0]) for key in ("from", "to"))
    assert begin == pytest.approx(NOW + 20 - 675, abs=4)
    assert end == pytest.approx(NOW + 20 - 225, abs=4)


def test_a_time_under_a_minute_is_not_another_hour(story: Served, open_tab: Open) -> None:
    page = opened(open_tab, story, "?last=15m")
    drag(page, 0.5, 0.52)
    page.mouse.up()
    page.wait_for_url("**from=**")
    expect(page.locator("#viewed")).to_contain_text("not live")
    times = page.locator("#viewed time").all()
    begin, end = (instant_of(time.get_attribute("datetime") or "") or 0 for time in times)
    assert end - begin == pytest.approx(60, abs=1)
    assert begin < NOW - 441 < end


TOP = "one => one.getBoundingClientRect().top"
"""Where somebody sees it; the browser scrolls where a line is added above what is seen."""


def test_an_explanation_moves_no_other_part_of_the_page(story: Served, open_tab: Open) -> None:
    page = opened(open_tab, story)
    tops, heights = set(), set()
    for share in (0.55, 0.735, 0.82):
        with page.expect_response(re.compile("part=explanation")):
            page.mouse.move(*place(page, share))
        expect(page.locator("#explanation.waiting")).to_have_count(0)
        tops.add(page.locator("#changes").evaluate("one => one.offsetTop"))
        heights.add(page.locator("#explanation").evaluate("one => one.offsetHeight"))
    assert len(heights) > 1
    assert len(tops) == 1
    page.evaluate("window.isTheSame = true")
    page.set_viewport_size({"width": 1280, "height": 400})
    over = page.locator("#metrics .u-over")
    over.scroll_into_view_if_needed()
    scrolled = page.evaluate("scrollY")
    assert scrolled > 100
    over.drag_to(over, source_position={"x": 400, "y": 40}, target_position={"x": 650, "y": 40})
    page.wait_for_url("**from=**")
    expect(page.locator("#viewed")).to_contain_text("not live")
    expect(page.locator("#changes tbody tr")).not_to_have_count(50)
    assert page.evaluate("scrollY") == pytest.approx(scrolled, abs=2)
    page.go_back()
    expect(page.locator("#viewed")).not_to_contain_text("not live")
    expect(page.locator("#changes tbody tr")).to_have_count(50)
    link = page.locator("#changes tbody th a").nth(30)
    link.scroll_into_view_if_needed()
    assert page.evaluate("scrollY") > 500
    top = link.evaluate(TOP)
    link.click()
    page.wait_for_url("**at=**")
    expect(page.locator("#changes tr.chosen")).to_have_count(1)
    expect(page.locator("#explained")).to_contain_text(f"At {link.inner_text()}")
    expect(page.locator("#explained")).to_be_in_viewport()
    # A click of Playwright's own would scroll to the link first.
    page.get_by_role("link", name="Previous decision").evaluate("one => one.click()")
    expect(page.locator("#explained")).not_to_contain_text(link.inner_text())
    assert link.evaluate(TOP) == pytest.approx(top, abs=2)
    assert page.evaluate("window.isTheSame")


def test_escape_goes_back_to_the_present(story: Served, open_tab: Open) -> None:
    page = opened(open_tab, story, "?last=15m")
    explained, viewed = page.locator("#explained"), page.locator("#viewed")
    press(page, "ArrowLeft")
    expect(explained).to_contain_text("At ")
    page.keyboard.press("Escape")
    expect(explained).to_have_text("Now")
    assert click_at(page, 0.5)
    expect(viewed).to_contain_text("not live")
    page.mouse.move(5, 5)
    page.reload()
    page.locator("#chart canvas").wait_for()
    page.keyboard.press("Escape")
    expect(explained).to_have_text("Now")
    expect(viewed).not_to_contain_text("not live")
    assert page.url.endswith("?last=15m")
    page.goto(f"{story.url}{PATH}?last=1h&at={rfc3339(NOW - 600)}")
    page.locator("#chart canvas").wait_for()
    expect(explained).to_contain_text("At ")
    page.keyboard.press("Escape")
    expect(explained).to_have_text("Now")
    assert page.url.endswith("?last=1h")


def test_the_back_button_undoes_a_click(story: Served, open_tab: Open) -> None:
    tab = open_tab(story)
    page = tab.open("/")
    tab.open(f"{PATH}?last=15m").locator("#chart canvas").wait_for()
    first = click_at(page, 0.3)
    explained = page.locator("#explained time").get_attribute("datetime")
    click_at(page, 0.6)
    page.mouse.move(5, 5)
    page.go_back()
    expect(page.locator("#explained time")).to_have_attribute("datetime", explained or "")
    assert chosen(page) == first
    page.go_back()
    expect(page.locator("#explained")).to_have_text("Now")
    assert page.url.endswith("?last=15m")
    page.go_back()
    expect(page.get_by_role("heading", level=1)).to_have_text("Fleet")


def test_times_outside_the_record_are_shaded_and_named(story: Served, open_tab: Open) -> None:
    begin, end = rfc3339(story.fleet.begin - 3600), rfc3339(NOW + 3600)
    page = opened(open_tab, story, f"?from={begin}&to={end}")
    legend = page.locator("#legend")
    expect(legend).to_contain_text("before the record")
    expect(legend).to_contain_text("after now")
    expect(legend).not_to_contain_text("nothing recorded")
    before, within, after = page.evaluate(
        _PAINTED, [place(page, item) for item in (0.1, 0.35, 0.9)]
    )
    assert before == after
    assert before[3] > 0
    assert within != before


def test_a_tap_keeps_the_instant_that_a_finger_points_at(story: Served, open_tab: Open) -> None:
    page = opened(open_tab, story, has_touch=True, viewport=PHONE)
    page.locator("#chart").scroll_into_view_if_needed()
    session = page.context.new_cdp_session(page)
    for kind, share in (("touchStart", 0.6), ("touchMove", 0.7), ("touchMove", 0.8)):
        x, y = place(page, share)
        points = [{"x": x, "y": y}]
        session.send("Input.dispatchTouchEvent", {"type": kind, "touchPoints": points})
    session.send("Input.dispatchTouchEvent", {"type": "touchEnd", "touchPoints": []})
    expect(page.locator("#explained")).to_contain_text("At ")
    assert chosen(page) == []

    def taps_until_kept() -> bool:
        # What is explained moves the chart, and the browser drops a tap soon after a swipe.
        expect(page.locator("#explanation.waiting")).to_have_count(0)
        page.touchscreen.tap(*place(page, 0.7))
        page.wait_for_timeout(500)
        return "at=" in page.url

    assert any(taps_until_kept() for _ in range(5))
    # The table is below the panel here, and moves with it until all has come.
    expect(page.locator("#viewed")).to_contain_text("not live")
    expect(page.locator("#explanation.waiting")).to_have_count(0)
    page.wait_for_timeout(200)
    link = page.locator("#changes tbody th a").nth(5)
    link.tap()
    expect(page.locator("#explained")).to_contain_text(f"At {link.inner_text()}")
    expect(page.locator("#explained")).to_be_in_viewport()
