"""The page of one target, without a browser."""

from pathlib import Path
from urllib.parse import parse_qs, urlencode, urlsplit

import pytest

from autoscaler import clock
from autoscaler.core.extensions import Extensions, Idle, Schedule
from autoscaler.core.text import rfc3339, rfc3339_milli
from autoscaler.persistence.record.rows import RecordError
from autoscaler.rendering.instant import explanation_at
from autoscaler.web.pages.frame import NO_RECORD
from autoscaler.web.pages.target import LAST, View, planned, view_of
from autoscaler.web.site import Views
from tests.core.builders import BASE, average, behavior, external, pods_policy, rules, spec
from tests.core.timeline import Timeline
from tests.narrowing import assert_parts, known
from tests.telemetry.results import extended, result_of, target_of
from tests.web.api.serving import asking
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


def test_the_page_has_the_present_and_a_link_to_each_change(views: Views) -> None:
    page = ask(views, f"{PATH}?last=15m").page
    assert page.find("h1")[0].text == "web"
    table = page.by_id("changes")
    assert "Set by kubectl-scale" in table.text
    before, *links = [link for link in page.links() if "at=" in link]
    assert "at=2026-01-01T00:00:59.999Z" in before
    assert len(links) == 4
    query = parse_qs(urlsplit(links[0]).query)
    assert query["at"] == [rfc3339_milli(BASE + 60)]
    assert query["to"] == [rfc3339_milli(BASE + 75)]
    assert query["from"] == [rfc3339_milli(BASE)]


def test_a_chart_up_to_now_begins_with_the_record(
    views: Views, monkeypatch: pytest.MonkeyPatch
) -> None:
    charts = ask(views, f"{PATH}?last=14d").page.by_id("charts")
    assert charts.attributes["data-from"] == str(BASE)
    chosen = {"from": rfc3339_milli(BASE - 600), "to": rfc3339_milli(BASE + 60)}
    charts = ask(views, f"{PATH}?{urlencode(chosen)}").page.by_id("charts")
    assert charts.attributes["data-from"] == str(BASE - 600)
    monkeypatch.setattr(clock, "wall", lambda: BASE + 15.0)
    charts = ask(views, f"{PATH}?last=14d").page.by_id("charts")
    assert charts.attributes["data-from"] == str(BASE - 45)


@pytest.mark.parametrize("at", [0.0, 20.0, 40.0, 70.0])
def test_the_instant_of_the_address_is_explained_as_by_the_command(views: Views, at: float) -> None:
    expected = known(explanation_at(known(views.record), KEY, BASE + at))
    query = f"from={rfc3339(BASE - 60)}&to={rfc3339(BASE + 120)}&at={rfc3339_milli(BASE + at)}"
    whole, part = ask(views, f"{PATH}?{query}"), ask(views, f"{PATH}?{query}&part=explanation")
    for page in (whole.page, part.page):
        assert page.find("pre", class_="lines")[0].text == "".join(expected.lines)
    assert len(part.text) < len(whole.text) / 2


@pytest.mark.parametrize(
    ("query", "live"),
    [
        ("last=1h", True),
        (f"from={rfc3339(BASE - 900)}&to={rfc3339(BASE + 60)}", False),
        (f"last=1h&at={rfc3339(BASE + 15)}", False),
    ],
)
def test_only_the_time_up_to_now_is_live(views: Views, query: str, live: bool) -> None:
    assert ("not live" in ask(views, f"{PATH}?{query}").page.by_id("viewed").text) is not live


def test_an_instant_before_the_record_has_no_explanation(views: Views) -> None:
    query = f"from={rfc3339(BASE - 900)}&to={rfc3339(BASE)}&at={rfc3339(BASE - 600)}"
    answer = ask(views, f"{PATH}?{query}")
    assert answer.status == 200
    explanation = answer.page.by_id("explanation").words
    assert "Nothing is recorded" in explanation
    assert "metric 1" not in explanation


def test_without_a_record_only_the_present_is_explained(tmp_path: Path) -> None:
    views = views_of(tmp_path, [result_of(target_of("web"))])
    page = ask(views, f"{PATH}?at=2026-01-01T00:00:00Z").page
    assert NO_RECORD in page.by_id("main").words
    assert_parts(page.by_id("explanation").words, "Only the present", "metric 1")
    assert page.find(id="charts") == []


def test_a_record_that_cannot_be_read_costs_the_history_only(
    views: Views, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fails(*_: object, **__: object) -> object:
        raise RecordError("disk gone")

    for name in ("changes", "change_at", "targets", "span", "samples", "lapses"):
        monkeypatch.setattr(views.record, name, fails)
    answer = ask(views, PATH)
    assert answer.status == 200
    assert answer.text.count("disk gone") == 2
    assert ask(views, "/").status == 200
    assert "disk gone" in ask(views, "/health").text
    with asking(views) as client:
        assert "disk gone" in client.problem("/changes", 503)["detail"]
        assert client.json("/fleet")["targets"] == 1


def test_a_removed_target_is_shown_from_the_record(record: MemoryRecord, tmp_path: Path) -> None:
    answer = ask(views_of(tmp_path, [], record), f"{PATH}?last=15m")
    assert answer.status == 200
    assert "no longer configured" in answer.text
    assert "Set by kubectl-scale" in answer.page.by_id("changes").text


def test_the_page_has_the_configuration_in_force(tmp_path: Path) -> None:
    office = Schedule("office", "0 8 * * *", "0 18 * * *", "Europe/Berlin", 5)
    target = target_of(
        "web",
        behavior=behavior(up=rules(pods_policy(2, 60), window=0)),
        extensions=Extensions(idle=Idle(0, 600.0), schedules=(office,)),
    )
    page = ask(views_of(tmp_path, [result_of(target)]), PATH).page
    text = page.by_id("configuration").words
    assert_parts(text, "2 pods per 60 s", "no stabilization", "to 0 replicas", "10m", "q0")
    assert_parts(text, "minReplicas 5 0 8 * * * to 0 18 * * *, Europe/Berlin")


def test_open_schedules_come_before_the_next_ones() -> None:
    day = Schedule("day", "0 8 * * *", "0 18 * * *", "Europe/Berlin", 5)
    night = Schedule("night", "0 22 * * *", "0 6 * * *", "Europe/Berlin", None, 3, gradual=True)
    first, second = planned((day, night), BASE)
    assert (first.schedule.name, first.opens) == ("night", None)
    assert first.closes == BASE + 5 * 3600
    assert first.bounds == "maxReplicas 3 gradually"
    assert (second.opens, second.closes) == (BASE + 7 * 3600, BASE + 17 * 3600)


# -- the view ------------------------------------------------------------------------------------


def instant(seconds: float) -> str:
    return rfc3339_milli(BASE + seconds)


def test_the_link_of_a_view_gives_the_same_view() -> None:
    view = View(BASE, BASE + 3600, "")
    at = BASE + 12.3456
    query = {key: value[0] for key, value in parse_qs(view.to(at=at)[1:]).items()}
    back, wrong = view_of(query, BASE + 9999)
    assert wrong == []
    assert (back.begin, back.end) == (BASE, BASE + 3600)
    assert at <= known(back.at) <= at + 0.001


LAST_HOUR = View(BASE - 3600, BASE, "1h")
EARLIEST, LATEST = "0001-01-01T00:00:00+23:59", "9999-12-31T23:59:59-23:59"


@pytest.mark.parametrize(
    ("query", "expected", "wrong"),
    [
        ({}, LAST_HOUR, []),
        ({"last": "9y"}, LAST_HOUR, [["last=9y", *LAST]]),
        ({"from": "yesterday", "to": "now"}, LAST_HOUR, [["from=yesterday"], ["to=now"]]),
        ({"from": instant(0), "to": instant(-60)}, LAST_HOUR, [["from", "to", "366"]]),
        ({"from": instant(0)}, LAST_HOUR, [["from", "to"]]),
        (
            {"from": EARLIEST, "to": LATEST},
            LAST_HOUR,
            [[f"from={EARLIEST}"], [f"to={LATEST}"]],
        ),
        ({"at": "x" * 5000}, LAST_HOUR, [["at=xxx"]]),
        # A time under a minute is in the middle of a minute, and not another hour.
        ({"from": instant(-500), "to": instant(-480)}, View(BASE - 520, BASE - 460, ""), []),
        # An instant alone shows what was around it.
        (
            {"last": "1h", "at": instant(-86400)},
            View(BASE - 86400 - 1800, BASE - 86400 + 1800, "", BASE - 86400),
            [],
        ),
    ],
)
def test_an_address_gives_a_view_and_a_notice_for_each_invalid_part(
    query: dict[str, str], expected: View, wrong: list[list[str]]
) -> None:
    view, notices = view_of(query, BASE)
    assert view == expected
    for text, values in zip(notices, wrong, strict=True):
        assert_parts(text, *values)
        assert len(text) < 250


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


def test_paused_idle_and_fallback_targets_have_pages(tmp_path: Path) -> None:
    views = views_of(tmp_path, extended())
    for result in extended():
        assert ask(views, f"/targets/{result.target.key}").status == 200
