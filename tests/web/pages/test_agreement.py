"""The page of the targets in shadow, and what the page of one says of it, without a browser."""

from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest

from autoscaler import clock
from autoscaler.core.extensions import Extensions, Mode
from autoscaler.core.sync_result import SyncResult
from autoscaler.persistence.record import DirectoryRecord
from autoscaler.persistence.record.agreement import Agreement
from autoscaler.web.site import Views
from tests.adapters.record.agreed import DIFFERENT, EQUAL, record_with, stretch
from tests.core.builders import BASE, values
from tests.telemetry.results import result_of, target_of
from tests.web.pages.reading import ask, names, views_of
from tests.worlds.pages.fleets import NOW, moving
from tests.worlds.pages.serving import serving

SHADOW = Extensions(mode=Mode.SHADOW)
MOST_BYTES = 300_000
HOUR = 3600.0


@pytest.fixture(autouse=True)
def _fixed_clock(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(clock, "wall", lambda: BASE + 2 * HOUR)


def in_shadow(name: str) -> SyncResult:
    return result_of(target_of(name, extensions=SHADOW), values(90))


def kept(folder: Path, seconds: Mapping[str, Mapping[Agreement, float]]) -> DirectoryRecord:
    """Return a record of these targets, with so many seconds of each kind."""
    rows = []
    for name, times in seconds.items():
        begin = 0.0
        for kind, lasted in times.items():
            rows.append((f"shop/Deployment/{name}", stretch(begin, lasted, kind)))
            begin += lasted
    return record_with(folder, *rows)


SOME: Mapping[str, Mapping[Agreement, float]] = {
    "good": {EQUAL: 5000.0},
    "late": {EQUAL: 600.0},
    "bad": {EQUAL: 500.0, DIFFERENT: 500.0},
    "worse": {EQUAL: 100.0, DIFFERENT: 900.0},
    "rare": {EQUAL: 6300.0, DIFFERENT: 700.0},
}


@pytest.fixture
def views(tmp_path: Path) -> Views:
    """Return two live targets, and six in shadow, of which one is compared with nothing."""
    live = [result_of(target_of(name)) for name in ("one", "two")]
    others = [in_shadow(name) for name in (*SOME, "alone")]
    return views_of(tmp_path, [*live, *others], record=kept(tmp_path, SOME))


def test_the_worst_come_first(views: Views) -> None:
    """First what differs, the least agreement before more; then what is not compared, or early."""
    answer = ask(views, "/agreement")
    assert names(answer) == ["worse", "bad", "rare", "alone", "late", "good"]
    assert "2 of 8 targets moved, 6 in shadow" in answer.page.by_id("agreement").text


def test_a_row_has_shares_counts_bar_and_verdict(views: Views) -> None:
    """The bar is as long as its times, and is read out in words."""
    answer = ask(views, "/agreement?q=bad")
    row = " ".join(answer.page.of("tr")[1].text.split())
    assert row.startswith("shop/Deployment/bad 50 % 50 %")
    assert "maxReplicas is 20 here and 8 there" in row
    (bar,) = [
        outcome for outcome in answer.page.of("svg") if outcome.attributes.get("role") == "img"
    ]
    assert bar.attributes["aria-label"] == "the same count 50 %, different 50 %"
    widths = [
        (outcome.attributes["class"], outcome.attributes["x"], outcome.attributes["width"])
        for outcome in answer.page.of("rect")
    ]
    assert widths == [("equal", "0.0", "50.0"), ("different", "50.0", "50.0")]


@pytest.mark.parametrize(
    ("query", "expected"),
    [
        ("verdict=ready", ["good"]),
        ("verdict=early", ["late"]),
        ("verdict=notCompared", ["alone"]),
        ("verdict=differs&q=shop+BA", ["bad"]),
        ("q=nothing", []),
        ("page=99", ["worse", "bad", "rare", "alone", "late", "good"]),
    ],
)
def test_the_address_chooses(views: Views, query: str, expected: list[str]) -> None:
    assert names(ask(views, f"/agreement?{query}")) == expected


def test_what_the_address_asks_in_vain_is_told(views: Views) -> None:
    """With what would be right; the rest holds."""
    answer = ask(views, "/agreement?verdict=best&last=1y&page=x&q=good")
    told = answer.page.by_id("told").text
    assert "verdict=best is ignored: it must be one of differs, notCompared, early, ready." in told
    assert "last=1y is ignored: it must be one of 24h, 7d, 14d." in told
    assert "page=x is ignored: it must be the number of a page." in told
    assert names(answer) == ["good"]


def test_links_keep_what_was_chosen(views: Views) -> None:
    """Another time keeps the search and the verdict."""
    links = ask(views, "/agreement?q=b&verdict=differs").page.links()
    assert "/agreement?q=b&verdict=differs&last=24h" in links


def test_a_shorter_time_leaves_out_what_was_before(
    views: Views, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Two days later the last day has nothing, and the week still has."""
    monkeypatch.setattr(clock, "wall", lambda: BASE + 48 * HOUR)
    assert "50 %" in ask(views, "/agreement?q=bad").text
    assert "50 %" not in ask(views, "/agreement?q=bad&last=24h").text


@pytest.mark.parametrize(("extensions", "linked"), [(SHADOW, True), (Extensions(), False)])
def test_the_frame_leads_to_it_only_while_a_target_is_in_shadow(
    tmp_path: Path, extensions: Extensions, linked: bool
) -> None:
    """On every page; without one the page says how there would be."""
    views = views_of(tmp_path, [result_of(target_of("web", extensions=extensions))])
    for path in ("/", "/health", "/targets/shop/Deployment/web"):
        assert ("/agreement" in ask(views, path).page.links()) is linked
    answer = ask(views, "/agreement")
    assert answer.status == 200
    assert ("No target is in shadow" in answer.text) is not linked


def test_ten_thousand_targets_are_a_hundred_on_a_page(tmp_path: Path) -> None:
    """Few bytes, and the worst of all of them on the first one."""
    results = [in_shadow(f"t{number:05d}") for number in range(10_000)]
    times = {f"t{number:05d}": {EQUAL: 4000.0} for number in range(10_000)}
    times["t07777"] = SOME["worse"]  # type: ignore[assignment] # only read
    answer = ask(views_of(tmp_path, results, record=kept(tmp_path, times)), "/agreement")
    assert len(names(answer)) == 100
    assert names(answer)[0] == "t07777"
    assert "Page 1 of 100" in answer.text
    assert len(answer.sent) < MOST_BYTES


def test_a_file_that_cannot_be_read_costs_the_comparison_only(views: Views, tmp_path: Path) -> None:
    """Both pages are there, and say what is wrong."""
    (tmp_path / "record.db").write_bytes(b"no database" * 1000)
    for path in ("/agreement", "/targets/shop/Deployment/bad"):
        answer = ask(views, path)
        assert answer.status == 200
        assert "record.db cannot be read" in answer.text


# -- the page of a target --------------------------------------------------------------------------


@pytest.fixture(scope="module")
def fleet(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Views]:
    """Return targets that were played beside their HPAs."""
    with serving(moving(tmp_path_factory.mktemp("fleet"))) as served:
        yield served.views


def section(views: Views, name: str, monkeypatch: pytest.MonkeyPatch) -> str:
    """Return the text of the section about agreement of a target's page."""
    monkeypatch.setattr(clock, "wall", lambda: NOW)
    page = ask(views, f"/targets/shop/Deployment/{name}").page
    return " ".join(page.by_id("agreement").text.split())


def test_a_target_has_both_counts_readings_and_disagreements(
    fleet: Views, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What each wants and has read, the kinds of time, and each difference."""
    text = section(fleet, "carts", monkeypatch)
    assert "differs it agrees with the HPA in" in text
    assert "HPA carts 7 requests 15184m of 40 Here 7 requests 15.51 of 40 Time" in text
    assert "different 65.2 % 1 h 53 min 9 12 min 52 s" in text
    assert "Not compared for 5 min 0 s: the first stabilization window after a start" in text
    assert "12 min 36 s 8 13 maxReplicas is 20 here and 8 there" in text


def test_an_hpa_of_keda_names_its_scaled_object(
    fleet: Views, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert "HPA keda-hpa-feeds of ScaledObject feeds" in section(fleet, "feeds", monkeypatch)


def test_the_same_spec_and_load_eight_seconds_apart_agree(fleet: Views) -> None:
    """But for windows that end between two syncs; also where the HPA is made later."""
    known = fleet.states.known()
    shares = {
        agreement.target.rpartition("/")[2]: agreement.agreement
        for agreement in fleet.agreements(known, 0, NOW)
    }
    assert all((shares[name] or 0) > 0.99 for name in ("accounts", "feeds", "images", "quotes"))


def test_a_live_target_has_no_such_section(fleet: Views) -> None:
    page = ask(fleet, "/targets/shop/Deployment/payments").page
    assert not any(element.attributes.get("id") == "agreement" for element in page.elements)
