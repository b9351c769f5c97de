"""All pages to axe, in both themes and on a desk and a phone."""

import pytest

from tests.pages.conftest import Open
from tests.worlds.browsing import assert_accessible

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
    assert_accessible(open_tab(served, color_scheme="light", bypass_csp=True).open(path))
