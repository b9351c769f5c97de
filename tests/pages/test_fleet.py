"""The page of all targets: what it shows first, and how one finds a target on it."""

import time
from pathlib import Path

import pytest
import yaml
from playwright.sync_api import Page, expect

from autoscaler.config import load
from tests.pages.conftest import Open
from tests.pages.serving import Served


def names(page: Page) -> list[str]:
    """Return the names of the targets that are listed, in their order."""
    links = page.locator("table.fleet tbody th a").all_text_contents()
    return [text.rpartition("/")[2].strip() for text in links]


def test_without_targets_it_says_how_to_add_one(
    nothing: Served, open_tab: Open, tmp_path: Path
) -> None:
    """Its example is a configuration that is valid."""
    tab = open_tab(nothing)
    page = tab.open("/")
    expect(page.get_by_role("heading", name="No target is configured yet")).to_be_visible()
    example = yaml.safe_load(page.locator("main pre").inner_text())
    file = tmp_path / "example.yaml"
    file.write_text(yaml.safe_dump({"prometheus": {"url": "http://127.0.0.1:9090"}} | example))
    assert len(load(file).targets) == 1
    tab.assert_clean()


def test_one_target_is_a_row_of_words(one: Served, open_tab: Open) -> None:
    """With its count, its bounds, its state in words, and since when it has that."""
    tab = open_tab(one)
    page = tab.open("/")
    row = page.locator("table.fleet tbody tr")
    expect(row).to_have_count(1)
    expect(row.get_by_role("link")).to_have_text("shop/Deployment/order-worker")
    expect(row).to_contain_text("1 to 20")
    expect(row).to_contain_text("the metrics ask for 3; held at 4")
    expect(row.locator("svg.sparkline")).to_be_visible()
    tab.assert_clean()


def test_what_is_wrong_comes_first(story: Served, open_tab: Open) -> None:
    """Failing before limited before what needs nobody, each with its number."""
    tab = open_tab(story)
    page = tab.open("/")
    found = names(page)
    assert set(found[:2]) == {"mailer", "invoices"}
    assert found.index("checkout") < found.index("order-worker") < found.index("web")
    assert "2 failing" in page.title()
    expect(page.locator("#filter-failing")).to_contain_text("2")
    expect(page.locator("#filter-all")).to_contain_text("10")
    tab.assert_clean()


@pytest.mark.parametrize(
    ("path", "expected"),
    [
        ("/?state=failing", {"mailer", "invoices"}),
        ("/?state=limited", {"checkout"}),
        ("/?state=at-maximum", {"checkout"}),
        ("/?state=held", {"order-worker"}),
        ("/?state=paused", {"reports"}),
        ("/?q=order", {"order-worker"}),
        ("/?q=shop+we", {"web"}),
        ("/?q=nowhere", set()),
    ],
)
def test_an_address_filters(story: Served, open_tab: Open, path: str, expected: set[str]) -> None:
    """By state and by words of the name, without a click, so that it can be passed on."""
    page = open_tab(story).open(path)
    assert set(names(page)) == expected


def test_search_filter_and_order_keep_each_other(story: Served, open_tab: Open) -> None:
    """Each is a link or a form, and the address holds all that was chosen."""
    tab = open_tab(story)
    page = tab.open("/")
    page.get_by_role("searchbox").fill("e")
    page.keyboard.press("Enter")
    page.wait_for_url("**/?q=e")
    page.locator("#sort-replicas").click()
    page.wait_for_url("**sort=replicas")
    counts = page.locator("table.fleet td[data-label=Replicas]").all_text_contents()
    assert [int(one.split()[0]) for one in counts] == sorted(int(one.split()[0]) for one in counts)
    page.locator("#sort-replicas").click()
    page.locator("#filter-failing").click()
    page.wait_for_url("**state=failing**")
    assert "q=e" in page.url
    assert "sort=-replicas" in page.url
    assert names(page) == ["invoices", "mailer"]
    page.go_back()
    assert len(names(page)) > 2
    tab.assert_clean()


def test_without_scripts_it_is_the_same(story: Served, open_tab: Open) -> None:
    """Rows, search and filters need no JavaScript; times are in UTC then, and say so."""
    page = open_tab(story, java_script_enabled=False).open("/?state=failing")
    assert set(names(page)) == {"mailer", "invoices"}
    page.get_by_role("searchbox").fill("mail")
    page.get_by_role("button", name="Find").click()
    assert names(page) == ["mailer"]
    expect(page.locator("#zone")).to_have_text("UTC")


def test_ten_thousand_targets_are_shown_at_once(many: Served, open_tab: Open) -> None:
    """With few bytes on the wire; how quickly is measured by benchmarks, here only its order."""
    tab = open_tab(many)
    tab.open("/health")  # so that the browser has started what it needs
    tab.received = 0
    begun = time.monotonic()
    page = tab.open("/?sort=problems")
    expect(page.locator("table.fleet tbody tr").last).to_be_visible()
    seconds = time.monotonic() - begun
    assert "failing" in page.locator("table.fleet tbody tr").first.inner_text()
    expect(page.locator("#filter-all")).to_contain_text("10000")
    assert tab.received < 300_000
    assert seconds < 10
    page.get_by_role("searchbox").fill("payments-04321")
    page.keyboard.press("Enter")
    expect(page.locator("table.fleet tbody tr")).to_have_count(1)
    page.goto(f"{many.url}/?q=team-07")
    page.locator("#next").click()
    expect(page.locator("p.found")).to_contain_text("101 to 200 of 200 targets")
    tab.assert_clean()
