"""All pages to axe, in both themes and on a desk and a phone."""

import pytest

from tests.pages.conftest import Open
from tests.worlds.browsing import PHONE, findings

TARGET = "/targets/shop/Deployment/order-worker"
PAGES = [
    ("nothing", "/"),
    ("nothing", "/health"),
    ("single", "/"),
    ("single", TARGET),
    ("single", "/health"),
    ("story", "/"),
    ("story", "/?state=failing&q=mail"),
    ("story", f"{TARGET}?last=6h"),
    ("story", "/health"),
    ("regions", "/"),
    ("regions", "/health"),
    ("regions", "/targets/us/shop/Deployment/web"),
    ("moving", "/agreement"),
    ("moving", "/targets/shop/Deployment/carts"),
]


@pytest.mark.parametrize(("fleet", "path"), PAGES)
def test_axe_finds_nothing(
    request: pytest.FixtureRequest, open_tab: Open, fleet: str, path: str
) -> None:
    served = request.getfixturevalue(fleet)
    # axe is our own script within the page, which the policy would refuse.
    page = open_tab(served, color_scheme="light", bypass_csp=True).open(path)
    assert findings(page) == []
    page.emulate_media(color_scheme="dark")
    assert findings(page) == []
    page.set_viewport_size({"width": PHONE["width"], "height": PHONE["height"]})
    assert findings(page) == []
    beside = page.evaluate("document.scrollingElement.scrollWidth - innerWidth")
    assert beside <= 0
