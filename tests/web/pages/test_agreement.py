"""The page of the targets in shadow, and what the page of one says of it, without a browser."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from autoscaler import clock
from autoscaler.web.site import Views
from tests.core.builders import BASE
from tests.narrowing import assert_parts
from tests.web.api.serving import asking
from tests.web.pages.conftest import HOUR
from tests.web.pages.reading import ask
from tests.worlds.pages.fleets import NOW, moving
from tests.worlds.pages.serving import serving


def test_a_row_has_its_shares_counts_bar_and_verdict(lists: Views) -> None:
    answer = ask(lists, "/agreement?q=bad")
    assert_parts(answer.page.by_id("agreement").words, "9 of 16 ", "7 in shadow")
    row = answer.page.find("tr")[1].words
    assert row.startswith("shop/Deployment/bad 50 % 50 %")
    assert_parts(row, "maxReplicas", " 20 ", " 8 ")
    (bar,) = answer.page.find("svg", role="img")
    assert bar.attributes["aria-label"] == "the same count 50 %, different 50 %"
    widths = [
        tuple(part.attributes[name] for name in ("class", "x", "width"))
        for part in answer.page.find("rect")
    ]
    assert widths == [("equal", "0.0", "50.0"), ("different", "50.0", "50.0")]


@pytest.mark.parametrize(("days", "longer", "shorter"), [(2, "7d", "24h"), (8, "14d", "7d")])
def test_a_shorter_time_leaves_out_older_comparisons(
    lists: Views, monkeypatch: pytest.MonkeyPatch, days: int, longer: str, shorter: str
) -> None:
    monkeypatch.setattr(clock, "wall", lambda: BASE + days * 24 * HOUR)
    assert "50 %" in ask(lists, f"/agreement?q=bad&last={longer}").text
    assert "50 %" not in ask(lists, f"/agreement?q=bad&last={shorter}").text


def test_a_file_that_cannot_be_read_costs_the_comparison_only(lists: Views, tmp_path: Path) -> None:
    (tmp_path / "record.db").write_bytes(b"no database" * 1000)
    for path in ("/agreement", "/targets/shop/Deployment/bad"):
        answer = ask(lists, path)
        assert answer.status == 200
        assert "record.db cannot" in answer.text
    with asking(lists) as client:
        assert "record.db" in client.problem("/agreement", 503)["detail"]


# -- the page of a target --------------------------------------------------------------------------


@pytest.fixture(scope="module")
def fleet(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Views]:
    """Return targets that were played together with their HPAs."""
    with serving(moving(tmp_path_factory.mktemp("fleet"))) as served:
        yield served.views


def test_a_target_page_has_counts_readings_and_disagreements(
    fleet: Views, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(clock, "wall", lambda: NOW)
    carts, feeds, payments = (
        ask(fleet, f"/targets/shop/Deployment/{name}").page
        for name in ("carts", "feeds", "payments")
    )
    text = carts.by_id("agreement").words
    assert_parts(text, "differs", "carts 7 requests 15184m of 40 ", "Here 7 requests 15.51 of 40 ")
    assert_parts(text, "different 65.2 % 1 h 53 min 9 12 min 52 s", " 5 min 0 s: ")
    assert_parts(text, "12 min 36 s 8 13 maxReplicas", " 20 here", " 8 there")
    assert "HPA keda-hpa-feeds of ScaledObject feeds" in feeds.by_id("agreement").words
    assert payments.find(id="agreement") == []


def test_syncs_eight_seconds_apart_agree_on_the_same_spec_and_load(fleet: Views) -> None:
    known = fleet.states.known()
    shares = {
        agreement.target.rpartition("/")[2]: agreement.agreement
        for agreement in fleet.agreements(known, 0, NOW)
    }
    assert all((shares[name] or 0) > 0.99 for name in ("accounts", "feeds", "images", "quotes"))
