"""The page of the daemon's health, without a browser."""

from pathlib import Path

from autoscaler.core.target import Query
from autoscaler.kubernetes.election import ClusterLeader
from autoscaler.sync.breakers import BreakerStatus
from autoscaler.telemetry.health import Component
from tests.core.builders import BASE
from tests.narrowing import assert_parts
from tests.telemetry.results import NOW, result_of, target_of
from tests.web.pages.reading import ask, views_of
from tests.worlds.record import MemoryRecord


def test_the_page_shows_components_syncs_and_leadership(tmp_path: Path) -> None:
    leaders = (ClusterLeader("", leading=True),)
    views = views_of(tmp_path, [result_of(target_of())], MemoryRecord(), leaders=leaders)
    text = ask(views, "/health").page.by_id("health").words
    assert text.startswith("ready ")
    assert_parts(text, "process leads", "15 s 1 1", "recorded yet")
    views.health.report(Component.CACHES, ok=False, message="pods refused")
    text = ask(views, "/health").page.by_id("health").words
    assert text.startswith("not ready ")
    assert_parts(text, "pods refused")


def test_a_tripped_breaker_has_its_numbers_end_and_release(tmp_path: Path) -> None:
    breakers = (BreakerStatus("", None, 0, 3), BreakerStatus("far", BASE, 30, 40))
    prometheus = {"url": "http://127.0.0.1:1", "servers": {"far": {"url": "http://127.0.0.1:2"}}}
    views = views_of(
        tmp_path,
        [result_of(target_of())],
        settings={"prometheus": prometheus, "scaleDownBreaker": {}},
        breakers=breakers,
    )
    page = ask(views, "/health").page
    text = page.by_id("health").words
    assert_parts(text, "tripped 30 of 40 ", "autoscaler resume --breaker --server far", "closed")
    assert page.find("time", datetime="2026-01-01T00:00:00Z")


def test_no_secret_of_a_server_is_shown(tmp_path: Path) -> None:
    secret = "s3cr3t"  # noqa: S105 - is looked for
    prometheus = {
        "url": f"http://{secret}.example:9090",
        "headers": {"X-Key": secret},
        "queryParameters": {"key": secret},
    }
    target = target_of()
    settings = {"prometheus": prometheus}
    views = views_of(tmp_path, [result_of(target, now=NOW)], settings=settings)
    assert Query("q0") in target.queries
    for path in ("/", "/health", "/targets/shop/Deployment/web"):
        answer = ask(views, path)
        assert answer.status == 200
        assert secret not in answer.text
