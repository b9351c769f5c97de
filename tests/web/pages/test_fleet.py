"""The page of all targets, without a browser."""

from dataclasses import replace
from pathlib import Path
from urllib.parse import parse_qs, urlsplit

import pytest
import yaml

from autoscaler.core.observation import Scale
from autoscaler.core.sync_result import SyncResult
from autoscaler.kubernetes.election import ClusterLeader
from autoscaler.telemetry.health import Component
from tests.core.builders import values
from tests.telemetry.results import FAILED, extended, many, rate_limited, result_of, target_of
from tests.web.pages.reading import ask, config_of, names, views_of

MOST_BYTES = 300_000


def failing(name: str = "broken") -> SyncResult:
    return result_of(target_of(name), FAILED)


def some() -> list[SyncResult]:
    calm = result_of(target_of("calm"), values(90))
    return [calm, *extended(), rate_limited(), full(), failing()]


def full(name: str = "full") -> SyncResult:
    """Return the result of a target that is at its maximum and asks for more."""
    return result_of(target_of(name), values(6000), scale=Scale(20, 20, "app=web"))


def test_without_targets_it_says_what_to_do(tmp_path: Path) -> None:
    """With the name of the file, no table, and an example that is a valid configuration."""
    answer = ask(views_of(tmp_path, []), "/")
    assert answer.status == 200
    assert "No target is configured yet" in answer.text
    assert str(tmp_path / "autoscaler.yaml") in answer.text
    assert answer.page.of("table") == []
    (example,) = answer.page.of("pre")
    assert len(config_of(tmp_path, **yaml.safe_load(example.text)).targets) == 1


def test_one_target_has_its_count_bounds_state_and_sentence(tmp_path: Path) -> None:
    """All in one row, which leads to its page."""
    answer = ask(views_of(tmp_path, [full("web")]), "/")
    row = answer.page.of("tr")[1].text
    assert row.split()[1] == "20"
    assert "1 to 20" in row
    assert "at maximum" in row
    assert "at maximum (20)" in row
    assert "/targets/shop/Deployment/web" in answer.page.links()


def test_a_target_before_its_first_sync_is_unknown(tmp_path: Path) -> None:
    """It has the bounds of its spec, and no count."""
    views = views_of(tmp_path, [])
    views.states.set_targets([target_of("new", minimum=2, maximum=7)])
    row = ask(views, "/").page.of("tr")[1].text
    assert "unknown" in row
    assert "2 to 7" in row
    assert "not synced yet" in row


def test_what_is_wrong_comes_first(tmp_path: Path) -> None:
    """Failing, limited, held, paused, idle, and then what needs nobody."""
    found = names(ask(views_of(tmp_path, some()), "/"))
    assert set(found[:2]) == {"broken", "fallback"}
    assert found.index("full") < found.index("paused") < found.index("idle")
    assert found[-1] == "calm"


@pytest.mark.parametrize(
    ("query", "expected"),
    [
        ("state=failing", ["broken", "fallback"]),
        ("state=atMaximum", ["full"]),
        ("state=paused", ["paused"]),
        ("state=idle", ["idle"]),
        ("q=CAL+shop", ["calm"]),
        ("q=cal+nowhere", []),
        ("sort=-name&state=failing", ["fallback", "broken"]),
        ("state=nonsense&sort=nonsense&page=nonsense&q=calm", ["calm"]),
        ("page=99&q=calm", ["calm"]),
    ],
)
def test_the_address_chooses(tmp_path: Path, query: str, expected: list[str]) -> None:
    """What is no choice in it is as if it was not there."""
    assert names(ask(views_of(tmp_path, some()), f"/?{query}")) == expected


def test_what_the_address_asks_in_vain_is_told(tmp_path: Path) -> None:
    """Each wrong choice with those that there are; an empty one, as of a form, is none."""
    views = views_of(tmp_path, some())
    told = ask(views, "/?state=nonsense&sort=-nonsense&page=x").page.by_id("told").text
    assert "state=nonsense is ignored: it must be one of failing, contested, unknown, " in told
    assert "sort=-nonsense is ignored: it must be one of problems, name, replicas, since" in told
    assert "page=x is ignored: it must be the number of a page" in told
    right = ask(views, "/?state=atMaximum&sort=-name&page=1&q=").page
    assert right.by_id("told").text.strip() == ""
    assert ask(views, "/?state=&sort=").page.by_id("told").text.strip() == ""


def test_links_keep_what_was_chosen(tmp_path: Path) -> None:
    """A filter keeps search and order; the first page is not in an address."""
    page = ask(views_of(tmp_path, some()), "/?q=shop&sort=replicas&state=failing").page
    link = page.by_id("filter-paused").attributes["href"] or ""
    assert parse_qs(urlsplit(link).query) == {
        "q": ["shop"],
        "sort": ["replicas"],
        "state": ["paused"],
    }
    hidden = {
        outcome.attributes["name"]: outcome.attributes["value"] for outcome in page.of("input")
    }
    assert hidden == {"q": "shop", "state": "failing", "sort": "replicas"}
    assert page.by_id("sort-replicas").attributes["href"] == "/?q=shop&state=failing&sort=-replicas"


def test_ten_thousand_targets_are_few_bytes(tmp_path: Path) -> None:
    """A hundred a page, with the counts of all; made before anybody waits for it."""
    views = views_of(tmp_path, many(10_000))
    answer = ask(views, "/?sort=name&page=3")
    assert len(answer.sent) < MOST_BYTES / 5
    assert len(answer.text) < MOST_BYTES
    assert len(names(answer)) == 100
    text = " ".join(answer.text.split())
    assert "201 to 300 of 10000 targets" in text
    assert "Page 3 of 100" in text
    assert answer.page.by_id("next").attributes["href"] == "/?sort=name&page=4"


def test_what_is_not_well_is_said_above(tmp_path: Path) -> None:
    """As is that this process only stands by."""
    views = views_of(tmp_path, some(), leaders=(ClusterLeader("", leading=False),))
    views.health.report(Component.RELOAD, ok=False, message="line 3 is wrong")
    text = ask(views, "/").page.by_id("notices").text
    assert "line 3 is wrong" in text
    assert "standby" in text


def test_while_the_daemon_starts_it_says_so() -> None:
    """The page comes again by itself."""
    for path in ("/", "/health", "/targets/a/b/c"):
        answer = ask(None, path)
        assert answer.status == 503
        assert answer.headers["retry-after"] == "3"
        assert "The daemon starts" in answer.page.of("h1")[0].text
        assert answer.page.of("body")[0].attributes == {"data-reload": "3"}


def test_a_count_of_zero_is_a_number(tmp_path: Path) -> None:
    """A target at zero is not unknown."""
    views = views_of(tmp_path, [result_of(target_of("none"), scale=Scale(0, 0, "app=web"))])
    cells = ask(views, "/").page.of("td")
    cell = next(text for text in cells if text.attributes.get("data-label") == "Replicas")
    assert cell.text.strip() == "0"


def test_clusters_have_totals_and_choose(tmp_path: Path) -> None:
    """One row each, in the order of the configuration, which leads to its targets; no others do."""
    us = result_of(replace(target_of("web"), cluster="us"), values(90))
    broken = result_of(replace(target_of("web"), cluster="eu"), FAILED)
    clusters = [{"name": name, "context": name} for name in ("us", "eu", "ap")]
    views = views_of(tmp_path, [us, broken], settings={"clusters": clusters})
    answer = ask(views, "/")
    table = [row.text.split() for row in answer.page.of("tr")[1:4]]
    assert [row[:3] for row in table] == [["us", "1", "0"], ["eu", "1", "1"], ["ap", "0", "0"]]
    assert "/?cluster=eu" in answer.page.links()
    assert "/targets/eu/shop/Deployment/web" in answer.page.links()
    assert names(ask(views, "/?cluster=eu")) == ["web"]
    chosen = ask(views, "/?cluster=eu&sort=name").page.links()
    assert "/?cluster=eu&sort=-name" in chosen
    assert "/targets/us/shop/Deployment/web" not in chosen
    assert "us, eu, ap" in ask(views, "/?cluster=eo").text
