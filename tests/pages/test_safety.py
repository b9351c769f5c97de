"""What the pages forbid the browser, and what texts from outside cannot do on them."""

import pytest

from tests.pages.conftest import Open
from tests.pages.serving import Served

PAGES = ["/", "/health", "/targets/shop/Deployment/order-worker?last=1h"]


@pytest.mark.parametrize("path", PAGES)
def test_a_page_does_nothing_that_its_policy_forbids(
    story: Served, open_tab: Open, path: str
) -> None:
    """No refusal, no error, no request to another origin; and the policy has no inline script."""
    tab = open_tab(story)
    answer = tab.page.goto(story.url + path)
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
    assert any("Content Security Policy" in one for one in tab.complaints)
