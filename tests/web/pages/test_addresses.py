"""What the addresses of pages choose, and what pages do with choices that do not exist."""

from pathlib import Path

import pytest

from autoscaler.agreement.sentences import DIFFERS, EARLY, NOT_COMPARED, READY
from autoscaler.core.classification import State
from autoscaler.core.extensions import Extensions, Mode
from autoscaler.web.pages.agreement import LAST
from autoscaler.web.site import Views
from tests.adapters.record.agreed import EQUAL
from tests.narrowing import assert_parts
from tests.telemetry.results import result_of, target_of
from tests.web.pages.conftest import TIMES, agreements, in_shadow
from tests.web.pages.reading import ask, names, views_of

WORST_FIRST = ["worse", "bad", "rare", "alone", "seen", "late", "good"]
TARGET = "/targets/shop/Deployment/good"
MOST_BYTES = 300_000


@pytest.mark.parametrize(
    ("address", "expected"),
    [
        ("/?state=failing", ["broken", "fallback"]),
        ("/?state=atMaximum", ["full"]),
        ("/?state=paused", ["paused"]),
        ("/?state=idle", ["idle"]),
        ("/?q=CAL+shop", ["calm"]),
        ("/?q=cal+nowhere", []),
        ("/?sort=-name&state=failing", ["fallback", "broken"]),
        ("/?state=nonsense&sort=nonsense&page=nonsense&q=calm", ["calm"]),
        ("/?page=99&q=calm", ["calm"]),
        ("/agreement?verdict=ready", ["good"]),
        ("/agreement?verdict=early", ["late"]),
        ("/agreement?verdict=notCompared", ["alone", "seen"]),
        ("/agreement?verdict=differs&q=shop+BA", ["bad"]),
        ("/agreement?q=nothing", []),
        ("/agreement?page=99", WORST_FIRST),
        ("/agreement?verdict=best&last=1y&page=x&q=good", ["good"]),
    ],
)
def test_an_address_chooses_targets(lists: Views, address: str, expected: list[str]) -> None:
    assert names(ask(lists, address)) == expected


@pytest.mark.parametrize(
    ("address", "wrong"),
    [
        ("/?page=x", ["page=x"]),
        ("/?state=nonsense&sort=-nonsense", ["state=nonsense", *State, "sort=-nonsense"]),
        ("/?sort=nonsense", ["sort=nonsense", "problems", "name", "replicas", "since"]),
        ("/?state=atMaximum&sort=-name&page=1&q=", []),
        ("/?state=&sort=", []),
        ("/agreement?page=x", ["page=x"]),
        ("/agreement?verdict=best", ["verdict=best", DIFFERS, NOT_COMPARED, EARLY, READY]),
        ("/agreement?last=1y", ["last=1y", *LAST]),
        (f"{TARGET}?last=2h&at=noon", ["last=2h", "15m", "at=noon", "2026-"]),
        (f"{TARGET}?last=6h", []),
    ],
)
def test_invalid_choices_are_listed_with_valid_ones(
    lists: Views, address: str, wrong: list[str]
) -> None:
    notice = ask(lists, address).page.by_id("told").words
    assert bool(notice) is bool(wrong)
    assert_parts(notice, *wrong)


@pytest.mark.parametrize(
    ("address", "link"),
    [
        ("/agreement?q=b&verdict=differs", "/agreement?q=b&verdict=differs&last=24h"),
        ("/?q=shop&sort=replicas&state=failing", "/?q=shop&state=paused&sort=replicas"),
        ("/?q=shop&sort=replicas&state=failing", "/?q=shop&state=failing&sort=-replicas"),
    ],
)
def test_links_keep_other_choices_but_no_number_of_a_page(
    lists: Views, address: str, link: str
) -> None:
    assert link in ask(lists, f"{address}&page=2").page.links()


def test_a_search_keeps_filter_and_order(lists: Views) -> None:
    page = ask(lists, "/?q=shop&sort=replicas&state=failing").page
    fields = {field.attributes["name"]: field.attributes["value"] for field in page.find("input")}
    assert fields == {"q": "shop", "state": "failing", "sort": "replicas"}


@pytest.mark.usefixtures("after_two_hours")
def test_of_ten_thousand_targets_a_page_has_a_hundred_in_few_bytes(tmp_path: Path) -> None:
    everything = {f"t{number:05d}": {EQUAL: 4000.0} for number in range(10_000)}
    everything["t07777"] = dict(TIMES["worse"])
    record = agreements(tmp_path, everything)
    views = views_of(tmp_path, map(in_shadow, everything), record)
    worst, third = ask(views, "/agreement"), ask(views, "/?sort=name&page=3")
    for answer, page, first in ((worst, 1, "t07777"), (third, 3, "t00200")):
        assert len(names(answer)) == 100
        assert names(answer)[0] == first
        assert f"Page {page} of 100" in answer.text
        assert len(answer.sent) < MOST_BYTES / 5
        assert len(answer.text) < MOST_BYTES
    assert "201 to 300 of 10000" in third.page.by_id("main").words
    assert third.page.by_id("next").attributes["href"] == "/?sort=name&page=4"


@pytest.mark.parametrize(("mode", "linked"), [(Mode.SHADOW, True), (Mode.LIVE, False)])
def test_pages_link_to_the_agreement_only_while_a_target_is_in_shadow(
    tmp_path: Path, mode: Mode, linked: bool
) -> None:
    target = target_of("good", extensions=Extensions(mode=mode))
    views = views_of(tmp_path, [result_of(target)])
    for path in ("/", "/health", TARGET):
        assert ("/agreement" in ask(views, path).page.links()) is linked
    answer = ask(views, "/agreement")
    assert answer.status == 200
    assert names(answer) == (["good"] if linked else [])
