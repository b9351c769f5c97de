"""What all pages have: themes that stay, and ways through them without a pointer."""

from playwright.sync_api import Page, expect

from tests.pages.conftest import Open
from tests.worlds.browsing import DESKTOP
from tests.worlds.pages.serving import Served


def brightness(page: Page) -> float:
    """Return how light the page's background is, from 0 to 255."""
    color = page.evaluate("getComputedStyle(document.body).backgroundColor")
    red, green, blue = (int(item) for item in color[4:-1].split(",")[:3])
    return (red + green + blue) / 3


def test_the_theme_is_the_systems_until_another_is_chosen(story: Served, open_tab: Open) -> None:
    tab = open_tab(story, color_scheme="dark")
    page = tab.open("/")
    assert brightness(page) < 60
    button = page.get_by_role("button", name="Theme")
    expect(button).to_have_text("Theme: system")
    button.click()
    expect(button).to_have_text("Theme: light")
    assert brightness(page) > 200
    tab.open("/health")
    assert brightness(page) > 200
    page.get_by_role("button", name="Theme").click()
    expect(page.get_by_role("button", name="Theme")).to_have_text("Theme: dark")
    page.reload()
    assert brightness(page) < 60


def test_the_first_tab_skips_to_the_content(story: Served, open_tab: Open) -> None:
    page = open_tab(story, viewport=DESKTOP).open("/")
    page.keyboard.press("Tab")
    expect(page.locator("a[href='#main']")).to_be_focused()
    order = []
    for _ in range(30):
        page.keyboard.press("Tab")
        place = page.evaluate(
            "() => { const r = document.activeElement.getBoundingClientRect();"
            " return [Math.round(r.top / 12), Math.round(r.left)]; }"
        )
        order.append(place)
        assert page.evaluate("getComputedStyle(document.activeElement).outlineStyle") != "none"
        if page.evaluate("document.activeElement.closest('tbody') !== null"):
            break
    else:
        raise AssertionError("the table of targets is not reached")
    assert order == sorted(order)
    page.goto(f"{story.url}/")
    page.keyboard.press("Tab")
    page.keyboard.press("Enter")
    expect(page.locator("#main")).to_be_focused()
    page.keyboard.press("Tab")
    expect(page.get_by_role("searchbox")).to_be_focused()
