"""The page of the daemon's health, without a browser."""

from pathlib import Path

from autoscaler.core.target import Query
from autoscaler.kubernetes.election import ClusterLeader
from autoscaler.sync.breakers import BreakerStatus
from autoscaler.telemetry.health import Component
from tests.core.builders import BASE
from tests.telemetry.results import NOW, result_of, target_of
from tests.web.pages.reading import ask, views_of
from tests.worlds.record import MemoryRecord


def text_of(page_text: str) -> str:
    return " ".join(page_text.split())


def test_it_shows_components_syncs_and_leadership(tmp_path: Path) -> None:
    """What does not work is named, and makes the daemon not ready."""
    leaders = (ClusterLeader("", leading=True),)
    views = views_of(tmp_path, [result_of(target_of())], MemoryRecord(), leaders=leaders)
    text = text_of(ask(views, "/health").page.by_id("health").text)
    assert "All that the daemon needs works" in text
    assert "This process leads and writes" in text
    assert "15 s 1 1" in text
    assert "Nothing is recorded yet" in text
    views.health.report(Component.CACHES, ok=False, message="the watch of pods is refused")
    text = text_of(ask(views, "/health").page.by_id("health").text)
    assert "Something that the daemon needs does not work" in text
    assert "the watch of pods is refused" in text


def test_a_breaker_that_has_tripped_says_how_it_is_released(tmp_path: Path) -> None:
    """And until when it holds; other servers are closed."""
    breakers = (BreakerStatus("", None, 0, 3), BreakerStatus("far", BASE, 30, 40))
    prometheus = {"url": "http://127.0.0.1:1", "servers": {"far": {"url": "http://127.0.0.1:2"}}}
    views = views_of(
        tmp_path,
        [result_of(target_of())],
        settings={"prometheus": prometheus, "scaleDownBreaker": {}},
        breakers=breakers,
    )
    page = ask(views, "/health").page
    text = text_of(page.by_id("health").text)
    assert "tripped 30 of 40 targets would go down; nothing goes down before" in text
    assert "2026-01-01T00:00:00Z" in [outcome.attributes["datetime"] for outcome in page.of("time")]
    assert "autoscaler resume --breaker --server far" in text
    assert "closed" in text


def test_no_secret_of_a_server_is_shown(tmp_path: Path) -> None:
    """Neither headers nor parameters nor the address."""
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
