"""A reading that returns after a gap: told once, explained for as long as it holds, and shown."""

from dataclasses import replace

import pytest

from autoscaler.core.observation import Scale
from autoscaler.core.series import QueryFailure
from autoscaler.core.sync_result import SyncResult
from autoscaler.core.target import Query
from autoscaler.rendering.explanation import explain
from tests.telemetry.results import metrics_of, series_of
from tests.worlds.log import log_lines
from tests.worlds.memory import T0, Memory, answer, external

AWAY, BACK, WHOLE = 4, 8, 19
"""The syncs from which on Prometheus is away, is back, and the range of two minutes is whole."""


@pytest.fixture(scope="module")
def results() -> list[SyncResult]:
    """Sync every 15 s through an outage of a minute, after which the load is really low."""
    target = replace(external("shop", "web"), queries=(Query("queue", range_seconds=120.0),))
    world = Memory(scales={"shop/web": Scale(5, 5, "app=web")})
    with world.syncer() as syncer:
        for sync in range(WHOLE + 1):
            now = T0 + 15 * sync
            load = answer(150.0 if sync < BACK else 30.0, now=now)
            away = AWAY <= sync < BACK
            world.answers["queue"] = QueryFailure("Prometheus is away") if away else load
            syncer.sync([target], now, 10.0, steady=15.0 * sync)
    return world.results


def test_it_is_told_once_at_info(results: list[SyncResult]) -> None:
    """At the sync that reads it first; the first reading of all is no news."""
    (line,) = [line for line in log_lines(results) if line["event"] == "reading_returned"]
    assert (line["level"], line["metric"]) == ("info", "queue")
    assert line["target"] == "shop/Deployment/web"
    assert line["message"].startswith("queue is read again after a gap; its range may lack")


def test_the_explanation_says_since_when_and_until_when(results: list[SyncResult]) -> None:
    """As long as it holds, and no longer."""
    held = explain(results[BACK + 2])
    assert "first reading after a gap 30 s ago" in held
    assert "1 -> 5 (ScaleDownStabilized): no scale-down until " in held
    assert "first reading 15 s ago" in explain(results[1])
    assert "first reading" not in explain(results[WHOLE])


def test_the_page_shows_until_when(results: list[SyncResult]) -> None:
    """As an instant, absent before and after."""
    name = "autoscaler_target_no_scale_down_until_timestamp_seconds"
    (until,) = series_of(metrics_of(results[BACK + 2]), name).values()
    assert until == pytest.approx(T0 + 15 * BACK + 155, abs=1)
    assert series_of(metrics_of(results[WHOLE]), name) == {}
