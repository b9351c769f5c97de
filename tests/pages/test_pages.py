"""The pages in a real browser."""

from tests.pages.conftest import Open
from tests.pages.serving import Served


def test_a_page_without_targets_is_there(nothing: Served, open_tab: Open) -> None:
    """It loads without a complaint."""
    tab = open_tab(nothing)
    tab.open("/")
    assert tab.page.title() == "autoscaler"
    tab.assert_clean()
