"""The page of all targets, without a browser."""

from dataclasses import replace
from pathlib import Path

import yaml

from autoscaler.core.observation import Scale
from autoscaler.core.sync_result import SyncResult
from autoscaler.kubernetes.election import ClusterLeader
from autoscaler.telemetry.health import Component
from tests.core.builders import values
from tests.narrowing import assert_parts
from tests.telemetry.results import FAILED, extended, rate_limited, result_of, target_of
from tests.web.pages.reading import ask, config_of, names, views_of


def some() -> list[SyncResult]:
    calm, broken = result_of(target_of("calm")), result_of(target_of("broken"), FAILED)
    return [calm, *extended(), rate_limited(), full(), broken]


def full(name: str = "full") -> SyncResult:
    """Return the result of a target that is at its maximum and asks for more."""
    return result_of(target_of(name), values(6000), scale=Scale(20, 20, "app=web"))


def test_without_targets_the_page_has_an_example_configuration(tmp_path: Path) -> None:
    answer = ask(views_of(tmp_path, []), "/")
    assert answer.status == 200
    assert str(tmp_path / "autoscaler.yaml") in answer.text
    assert answer.page.find("table") == []
    (example,) = answer.page.find("pre")
    assert len(config_of(tmp_path, **yaml.safe_load(example.text)).targets) == 1


def test_a_row_has_count_bounds_state_and_reason(tmp_path: Path) -> None:
    none = result_of(target_of("none"), scale=Scale(0, 0, "app=web"))
    views = views_of(tmp_path, [full("web"), none])
    new = target_of("new", minimum=2, maximum=7)
    views.states.set_targets([*(facts.target for facts in views.states.known()), new])
    page = ask(views, "/?sort=name").page
    rows = [row.words for row in page.find("tr")[1:]]
    assert_parts(rows[0], "/new", "2 to 7", "unknown", "not synced")
    assert_parts(rows[1], "/none 0 ", "1 to 20")
    assert_parts(rows[2], "/web 20 ", "1 to 20", "at maximum (20)")
    assert "/targets/shop/Deployment/web" in page.links()


def test_failing_targets_come_first_and_calm_ones_last(tmp_path: Path) -> None:
    order = names(ask(views_of(tmp_path, some()), "/"))
    assert set(order[:2]) == {"broken", "fallback"}
    assert order.index("full") < order.index("paused") < order.index("idle")
    assert order[-1] == "calm"


def test_notices_name_a_failing_component_and_a_standby(tmp_path: Path) -> None:
    views = views_of(tmp_path, some(), leaders=(ClusterLeader("", leading=False),))
    views.health.report(Component.RELOAD, ok=False, message="line 3")
    text = ask(views, "/").page.by_id("notices").text
    assert_parts(text, "line 3", "standby")


def test_while_the_daemon_starts_every_page_is_loaded_again() -> None:
    for path in ("/", "/health", "/targets/a/b/c"):
        answer = ask(None, path)
        assert answer.status == 503
        assert answer.headers["retry-after"] == "3"
        assert "starts" in answer.page.find("h1")[0].text
        assert answer.page.find("body")[0].attributes == {"data-reload": "3"}


def test_each_cluster_has_totals_and_links_to_its_targets(tmp_path: Path) -> None:
    us = result_of(replace(target_of("web"), cluster="us"), values(90))
    broken = result_of(replace(target_of("web"), cluster="eu"), FAILED)
    clusters = [{"name": name, "context": name} for name in ("us", "eu", "ap")]
    views = views_of(tmp_path, [us, broken], settings={"clusters": clusters})
    answer = ask(views, "/")
    table = [row.text.split() for row in answer.page.find("tr")[1:4]]
    assert [row[:3] for row in table] == [["us", "1", "0"], ["eu", "1", "1"], ["ap", "0", "0"]]
    assert "/?cluster=eu" in answer.page.links()
    assert "/targets/eu/shop/Deployment/web" in answer.page.links()
    assert names(ask(views, "/?cluster=eu")) == ["web"]
    chosen = ask(views, "/?cluster=eu&sort=name").page.links()
    assert "/?cluster=eu&sort=-name" in chosen
    assert "/targets/us/shop/Deployment/web" not in chosen
    assert "us, eu, ap" in ask(views, "/?cluster=eo").text
    page = ask(views, "/targets/eu/shop/Deployment/web").page
    assert page.find("h1")[0].text == "web"
    assert page.find("p", class_="path")[0].text == "Fleet / eu / shop / Deployment"
