"""The page of one target, without a browser."""

from dataclasses import replace
from pathlib import Path
from urllib.parse import parse_qs, urlencode, urlsplit

import pytest

from autoscaler import clock
from autoscaler.core.extensions import Extensions, Idle, Schedule
from autoscaler.core.text import rfc3339, rfc3339_milli
from autoscaler.persistence.record.rows import RecordError
from autoscaler.rendering.instant import explanation_at
from autoscaler.web.pages.target import View, planned, view_of
from autoscaler.web.site import Views
from tests.core.builders import BASE, average, behavior, external, pods_policy, rules, spec
from tests.core.timeline import Timeline
from tests.telemetry.results import extended, result_of, target_of
from tests.web.pages.reading import ask, views_of
from tests.worlds.record import MemoryRecord

KEY = "shop/Deployment/web"
PATH = f"/targets/{KEY}"
QUEUE = external(average("10"))


@pytest.fixture
def record(monkeypatch: pytest.MonkeyPatch) -> MemoryRecord:
    """Return the record of a target that goes from 3 up to 8 and is scaled by others."""
    kept, timeline = MemoryRecord(), Timeline(spec(QUEUE, maximum=20), replicas=3)
    for step, total in enumerate((30, 30, 80, 80)):
        kept.keep_synced(timeline.sync(f"{15 * step}s", queue=total))
    kept.keep_synced(timeline.by_hand(12, "kubectl-scale").sync("1m", queue=120))
    monkeypatch.setattr(clock, "wall", lambda: BASE + 75.0)
    return kept


@pytest.fixture
def views(record: MemoryRecord, tmp_path: Path) -> Views:
    return views_of(tmp_path, [result_of(target_of("web", QUEUE), now=BASE + 60)], record)


def test_it_shows_the_present_and_the_changes_with_links(views: Views) -> None:
    """The last change first; each link keeps the view and is the instant of its change."""
    page = ask(views, f"{PATH}?last=15m").page
    assert page.of("h1")[0].text == "web"
    table = page.by_id("changes")
    assert "Set by kubectl-scale" in table.text
    before, *links = [link for link in page.links() if "at=" in link]
    assert "at=2026-01-01T00:00:59.999Z" in before
    assert len(links) == 4
    query = parse_qs(urlsplit(links[0]).query)
    assert query["at"] == [rfc3339_milli(BASE + 60)]
    assert query["to"] == [rfc3339_milli(BASE + 75)]
    assert query["from"] == [rfc3339_milli(BASE)]


def test_of_several_clusters_the_path_has_the_one_that_it_is_in(tmp_path: Path) -> None:
    """And the title is the name alone."""
    known = result_of(replace(target_of("web"), cluster="eu"))
    shown = views_of(tmp_path, [known], settings={"clusters": [{"name": "eu", "context": "eu"}]})
    page = ask(shown, "/targets/eu/shop/Deployment/web").page
    assert page.of("h1")[0].text == "web"
    (path,) = (outcome for outcome in page.of("p") if outcome.attributes.get("class") == "path")
    assert path.text == "Fleet / eu / shop / Deployment"


def test_the_time_up_to_now_begins_where_the_record_does(
    views: Views, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is not empty before, but a minute at least; a time that is chosen stays as it is."""
    charts = ask(views, f"{PATH}?last=14d").page.by_id("charts")
    assert charts.attributes["data-from"] == str(BASE)
    chosen = {"from": rfc3339_milli(BASE - 600), "to": rfc3339_milli(BASE + 60)}
    charts = ask(views, f"{PATH}?{urlencode(chosen)}").page.by_id("charts")
    assert charts.attributes["data-from"] == str(BASE - 600)
    monkeypatch.setattr(clock, "wall", lambda: BASE + 15.0)
    charts = ask(views, f"{PATH}?last=14d").page.by_id("charts")
    assert charts.attributes["data-from"] == str(BASE - 45)


@pytest.mark.parametrize("at", [0.0, 20.0, 40.0, 70.0])
def test_the_instant_of_the_address_is_explained_in_full(views: Views, at: float) -> None:
    """Word for word as on the command line; the part for scripts has the same."""
    assert views.record is not None
    expected = explanation_at(views.record, KEY, BASE + at)
    assert expected is not None
    query = f"from={rfc3339(BASE - 60)}&to={rfc3339(BASE + 120)}&at={rfc3339_milli(BASE + at)}"
    whole, part = ask(views, f"{PATH}?{query}"), ask(views, f"{PATH}?{query}&part=explanation")
    for page in (whole.page, part.page):
        lines = next(
            outcome for outcome in page.of("pre") if outcome.attributes.get("class") == "lines"
        )
        assert lines.text == "".join(expected.lines)
    assert len(part.text) < len(whole.text) / 2


@pytest.mark.parametrize(
    ("query", "live"),
    [
        ("last=1h", True),
        (f"from={rfc3339(BASE - 900)}&to={rfc3339(BASE + 60)}", False),
        (f"last=1h&at={rfc3339(BASE + 15)}", False),
    ],
)
def test_a_time_that_stays_says_that_it_is_not_live(views: Views, query: str, live: bool) -> None:
    assert ("not live" in ask(views, f"{PATH}?{query}").page.by_id("viewed").text) is not live


def test_what_the_address_asks_in_vain_is_told(views: Views) -> None:
    """On top of the page, and nothing where all is right."""
    told = ask(views, f"{PATH}?last=2h&at=noon").page.by_id("told").text
    assert "last=2h is ignored: it must be one of 15m" in told
    assert "at=noon is ignored: it must be an instant" in told
    assert ask(views, f"{PATH}?last=6h").page.by_id("told").text.strip() == ""


def test_an_instant_before_the_record_says_so(views: Views) -> None:
    """And the page is there all the same."""
    query = f"from={rfc3339(BASE - 900)}&to={rfc3339(BASE)}&at={rfc3339(BASE - 600)}"
    answer = ask(views, f"{PATH}?{query}")
    assert answer.status == 200
    assert "Nothing is recorded of this instant" in answer.page.by_id("explanation").text


def test_without_a_record_the_present_is_explained(tmp_path: Path) -> None:
    """It is said why there is no chart."""
    views = views_of(tmp_path, [result_of(target_of("web"))])
    page = ask(views, f"{PATH}?at=2026-01-01T00:00:00Z").page
    assert "No decisions are recorded" in page.by_id("main").text
    assert "Only the present can be explained" in page.by_id("explanation").text
    assert "metric 1" in page.by_id("explanation").text
    assert not any(element.attributes.get("id") == "charts" for element in page.elements)


def test_a_record_that_cannot_be_read_costs_the_history_only(
    views: Views, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The present is shown, with the sentence of what is wrong."""

    def fails(*_: object, **__: object) -> object:
        raise RecordError("the disk is gone")

    for name in ("changes", "change_at", "targets", "span", "samples", "lapses"):
        monkeypatch.setattr(views.record, name, fails)
    answer = ask(views, PATH)
    assert answer.status == 200
    assert answer.text.count("the disk is gone") == 2
    assert ask(views, "/").status == 200
    assert "the disk is gone" in ask(views, "/health").text


def test_a_target_that_is_gone_is_shown_from_the_record(
    record: MemoryRecord, tmp_path: Path
) -> None:
    """It says so, and explains what was."""
    answer = ask(views_of(tmp_path, [], record), f"{PATH}?last=15m")
    assert answer.status == 200
    assert "no longer configured" in answer.text
    assert "Set by kubectl-scale" in answer.page.by_id("changes").text


def test_a_name_that_is_not_there_has_suggestions(tmp_path: Path) -> None:
    """The same name elsewhere, or a name that is spelt alike."""
    views = views_of(tmp_path, [result_of(target_of("payments")), result_of(target_of("web"))])
    for wrong in ("other/Deployment/payments", "shop/Deployment/paymnets"):
        answer = ask(views, f"/targets/{wrong}")
        assert answer.status == 404
        assert "/targets/shop/Deployment/payments" in answer.page.links()


def test_the_configuration_in_force_is_beside_it(tmp_path: Path) -> None:
    """Bounds, rules, queries and extensions; a schedule with its next start and end."""
    office = Schedule("office", "0 8 * * *", "0 18 * * *", "Europe/Berlin", 5)
    target = target_of(
        "web",
        behavior=behavior(up=rules(pods_policy(2, 60), window=0)),
        extensions=Extensions(idle=Idle(0, 600.0), schedules=(office,)),
    )
    page = ask(views_of(tmp_path, [result_of(target)]), PATH).page
    text = " ".join(page.by_id("configuration").text.split())
    assert "at most 2 pods per 60 s, no stabilization window" in text
    assert "to 0 replicas once no metric was active for 10m" in text
    assert "q0" in text
    assert "minReplicas 5 0 8 * * * to 0 18 * * *, Europe/Berlin" in text


def test_a_schedule_comes_next_or_is_open() -> None:
    """The open one first; BASE is one in the morning in Berlin, in winter."""
    day = Schedule("day", "0 8 * * *", "0 18 * * *", "Europe/Berlin", 5)
    night = Schedule("night", "0 22 * * *", "0 6 * * *", "Europe/Berlin", None, 3, gradual=True)
    first, second = planned((day, night), BASE)
    assert (first.schedule.name, first.opens) == ("night", None)
    assert first.closes == BASE + 5 * 3600
    assert first.bounds == "maxReplicas 3 gradually"
    assert (second.opens, second.closes) == (BASE + 7 * 3600, BASE + 17 * 3600)


# -- the view ------------------------------------------------------------------------------------


def test_a_view_reads_back_what_its_links_say() -> None:
    """To the millisecond, so that a change is within its own link."""
    view = View(BASE, BASE + 3600, "")
    at = BASE + 12.3456
    query = {key: value[0] for key, value in parse_qs(view.to(at=at)[1:]).items()}
    back, wrong = view_of(query, BASE + 9999)
    assert wrong == []
    assert (back.begin, back.end) == (BASE, BASE + 3600)
    assert back.at is not None
    assert at <= back.at <= at + 0.001


@pytest.mark.parametrize(
    ("query", "told"),
    [
        ({}, []),
        ({"last": "9y"}, ["last=9y is ignored: it must be one of 15m, 1h, 6h, 24h, 7d, 14d."]),
        ({"from": "yesterday", "to": "now"}, ["from=yesterday is ignored", "to=now is ignored"]),
        (
            {"from": rfc3339_milli(BASE), "to": rfc3339_milli(BASE - 60)},
            ["from and to are ignored: to must be after from, by at most 366 days."],
        ),
        ({"from": rfc3339_milli(BASE)}, ["from is ignored: there must be both from and to."]),
        (
            {"from": "0001-01-01T00:00:00+23:59", "to": "9999-12-31T23:59:59-23:59"},
            ["from=0001-01-01T00:00:00+23:59 is ignored", "to=9999-12-31T23:59:59-23:59 is"],
        ),
        ({"at": "x" * 5000}, ["at=xxx"]),
    ],
)
def test_what_is_no_time_is_the_last_hour(query: dict[str, str], told: list[str]) -> None:
    """As if the address did not say it, and a sentence tells so; no sentence is long."""
    view, wrong = view_of(query, BASE)
    assert view == View(BASE - 3600, BASE, "1h")
    for text, start in zip(wrong, told, strict=True):
        assert text.startswith(start)
        assert len(text) < 250


def test_a_time_under_a_minute_is_within_the_minute_that_is_shown() -> None:
    """In its middle: not another hour."""
    query = {"from": rfc3339_milli(BASE - 500), "to": rfc3339_milli(BASE - 480)}
    assert view_of(query, BASE) == (View(BASE - 520, BASE - 460, ""), [])


@pytest.mark.parametrize(
    ("view", "link"),
    [
        (View(BASE - 300 * 86400, BASE, ""), {"zoom": 2}),
        (View(100.0, 5000.0, ""), {"shift": -0.5}),
        (View(4_102_444_000.0, 4_102_444_800.0, ""), {"shift": 0.5}),
    ],
)
def test_no_link_of_a_view_leads_to_a_time_that_cannot_be_shown(
    view: View, link: dict[str, float]
) -> None:
    """A longer time ends at the longest, an earlier or later one at the first or last instant."""
    query = {key: value[0] for key, value in parse_qs(view.to(**link)[1:]).items()}
    shown, wrong = view_of(query, BASE)
    assert (shown.last, wrong) == ("", [])


def test_an_instant_out_of_the_view_moves_the_view() -> None:
    """A link with an instant alone shows what was around it."""
    view, _ = view_of({"last": "1h", "at": rfc3339_milli(BASE - 86400)}, BASE)
    assert (view.begin, view.end) == (BASE - 86400 - 1800, BASE - 86400 + 1800)
    assert view.last == ""


def test_extended_targets_all_have_pages(tmp_path: Path) -> None:
    """Paused, idle and by their fallback."""
    views = views_of(tmp_path, extended())
    for result in extended():
        assert ask(views, f"/targets/{result.target.key}").status == 200
