"""A reading that returns after a gap: in the log, in explanations and in metrics."""

from dataclasses import replace

import pytest

from autoscaler.core.observation import Scale
from autoscaler.core.series import QueryFailure
from autoscaler.core.sync_result import SyncResult
from autoscaler.core.target import Query
from autoscaler.core.text import rfc3339
from autoscaler.rendering.explanation import explain
from tests.narrowing import assert_parts
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


def test_a_reading_that_returns_is_one_line_at_info(results: list[SyncResult]) -> None:
    """It is of the sync that reads it first; the first reading of all has no line."""
    (line,) = [line for line in log_lines(results) if line["event"] == "reading_returned"]
    assert (line["level"], line["metric"]) == ("info", "queue")
    assert line["target"] == "shop/Deployment/web"
    assert_parts(line["message"], "queue", rfc3339(T0 + 15 * BACK + 155)[:15])


def test_the_explanation_names_a_gap_until_the_range_is_whole(results: list[SyncResult]) -> None:
    held = explain(results[BACK + 2])
    assert_parts(held, "gap 30 s ago", "1 -> 5 (ScaleDownStabilized)")
    assert_parts(explain(results[1]), "15 s ago")
    assert "first reading" not in explain(results[WHOLE])


def test_the_page_shows_the_time_before_which_nothing_scales_down(
    results: list[SyncResult],
) -> None:
    """The series is absent before and after."""
    name = "autoscaler_target_no_scale_down_until_timestamp_seconds"
    (until,) = series_of(metrics_of(results[BACK + 2]), name).values()
    assert until == pytest.approx(T0 + 15 * BACK + 155, abs=1)
    assert series_of(metrics_of(results[WHOLE]), name) == {}
