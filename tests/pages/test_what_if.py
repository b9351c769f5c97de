"""A target rehearsed with other settings on its page, with scripts and without."""

import json
from collections.abc import Iterator
from contextlib import contextmanager

import pytest
from playwright.sync_api import Page, expect

from autoscaler.web import what_if as bounds
from autoscaler.web.what_if_process import answer_to
from tests.pages.conftest import Open
from tests.worlds.browsing import PHONE, findings
from tests.worlds.pages.serving import Served

PATH = "/targets/shop/Deployment/order-worker?last=1h"
MILLISECONDS = 10_000


@contextmanager
def in_this_process() -> Iterator[None]:
    """Spare the start of a process, which takes long on a machine that is busy."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(
            bounds, "asked", lambda question: bounds.answer_in(answer_to(json.loads(question)))
        )
        yield


@pytest.fixture(autouse=True)
def _in_this_process() -> Iterator[None]:
    with in_this_process():
        yield


def opened(page: Page) -> Page:
    """Open the form."""
    page.locator("#what-if summary").click()
    return page


def written(page: Page, old: str, new: str) -> Page:
    """Change the YAML and send it."""
    text = page.locator("#what-if-yaml")
    text.fill(text.input_value().replace(old, new))
    page.get_by_role("button", name="Rehearse").click()
    return page


def test_it_lays_the_rehearsed_count_over_what_happened(story: Served, open_tab: Open) -> None:
    """In place, with both measures, and the changed keys; axe finds nothing in either theme."""
    tab = open_tab(story, color_scheme="light", bypass_csp=True)
    page = written(opened(tab.open(PATH)), "minReplicas: 1", "minReplicas: 9")
    result = page.locator("#what-if-result")
    expect(result.locator("canvas")).to_be_visible(timeout=MILLISECONDS)
    expect(result.locator(".patch")).to_have_text("minReplicas: 9")
    heads = result.locator("table.measures thead th").all_inner_texts()
    assert heads == ["Measure", "rehearsed", "really ran", "What it is"]
    expect(page.get_by_role("slider")).to_be_visible()
    assert findings(page) == []
    page.emulate_media(color_scheme="dark")
    assert findings(page) == []
    page.set_viewport_size({"width": PHONE["width"], "height": PHONE["height"]})
    assert findings(page) == []
    assert page.evaluate("document.scrollingElement.scrollWidth - innerWidth") <= 0


def test_a_mistake_leads_to_its_line(story: Served, open_tab: Open) -> None:
    """The line is selected in the text, which stays as it was written."""
    page = written(opened(open_tab(story).open(PATH)), "maxReplicas: 20", "maxReplicas: some")
    expect(page.locator("#what-if-result .notice")).to_contain_text(
        "the YAML has 1 mistake", timeout=MILLISECONDS
    )
    page.get_by_role("link", name="Line 7").click()
    selected = page.evaluate(
        "() => { const t = document.getElementById('what-if-yaml');"
        " return t.value.slice(t.selectionStart, t.selectionEnd); }"
    )
    assert selected == "maxReplicas: some"


@pytest.mark.parametrize("new", ["maxReplicas: 6", "maxReplicas: some"])
def test_without_scripts_it_answers_as_a_page(story: Served, open_tab: Open, new: str) -> None:
    """The whole page, with the text that was sent and what came of it."""
    tab = open_tab(story, java_script_enabled=False)
    page = written(opened(tab.open(PATH)), "maxReplicas: 20", new)
    result = page.locator("#what-if-result")
    told = ".patch" if new.endswith("6") else ".mistakes"
    expect(result.locator(told)).to_contain_text("axReplicas", timeout=MILLISECONDS)
    assert new in page.locator("#what-if-yaml").input_value()
    expect(page.locator("h1")).to_have_text("order-worker")
