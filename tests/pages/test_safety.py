"""What the pages forbid the browser, and what texts from outside cannot do on them."""

import pytest

from tests.pages.conftest import Open
from tests.worlds.browsing import Tab
from tests.worlds.pages.fleets import BIDI, HOSTILE
from tests.worlds.pages.serving import Served

PAGES = [
    "/",
    "/health",
    "/agreement",
    "/targets/shop/Deployment/order-worker?last=1h",
    "/targets/shop/Deployment/carts",
]


@pytest.mark.parametrize("path", PAGES)
def test_a_page_does_nothing_that_its_policy_forbids(
    moving: Served, open_tab: Open, path: str
) -> None:
    tab = open_tab(moving)
    answer = tab.page.goto(moving.url + path)
    assert answer is not None
    policy = answer.headers["content-security-policy"]
    assert "default-src 'none'" in policy
    assert "unsafe" not in policy
    tab.assert_clean()
    # An inline script is refused: the harness would see it if a page had one.
    tab.page.evaluate(
        "() => { const s = document.createElement('script');"
        " s.textContent = 'window.pwned = 1'; document.head.append(s); }"
    )
    assert tab.page.evaluate("window.pwned") is None
    assert any("Content Security Policy" in complaint for complaint in tab.complaints)
    tab.complaints.clear()


@pytest.mark.parametrize("scripts", [True, False], ids=["with scripts", "without"])
def test_texts_from_outside_run_no_script(
    hostile: Served, open_tab: Open, *, scripts: bool
) -> None:
    tab = open_tab(hostile, java_script_enabled=scripts)
    page = tab.open("/")
    links = page.locator("table.fleet tbody th a")
    assert links.count() == len(HOSTILE)
    addresses = [link.get_attribute("href") or "" for link in links.all()]
    assert_harmless(tab)
    for address in addresses:
        tab.open(address)
        assert_harmless(tab)


def assert_harmless(tab: Tab) -> None:
    """Fail where a text has become more than a text."""
    page = tab.page
    html = page.content()
    assert "\x1b" not in html
    assert not set(html) & set(BIDI)
    assert not page.locator("script:not([src])").count()
    assert not page.locator("main img").count()
    links = page.eval_on_selector_all("a", "all => all.map(link => link.getAttribute('href'))")
    assert all(link.startswith(("/", "?", "#")) for link in links)
    names = page.evaluate("[...document.querySelectorAll('*')].flatMap(e => e.getAttributeNames())")
    assert not [name for name in names if name.startswith("on")]
    beside = page.evaluate("document.scrollingElement.scrollWidth - innerWidth")
    assert beside <= 0
