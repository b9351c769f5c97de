"""The canonical log line of a target and sync."""

import io
import json
from dataclasses import replace
from logging import getLogger
from typing import Any

import pytest
import structlog
from structlog.testing import capture_logs

from autoscaler.core.breaker import Trip
from autoscaler.core.decision import Outcome, Saturation
from autoscaler.core.observation import ReadFailure, Scale
from autoscaler.core.series import QueryFailure
from autoscaler.core.sync_result import SyncResult
from autoscaler.core.target import Query
from autoscaler.core.text import rfc3339
from autoscaler.core.writes import WriteConflict
from autoscaler.daemon import LogFormat, LogLevel
from autoscaler.daemon.reporting import LogReporter, Reporters
from autoscaler.rendering.explanation import explain
from autoscaler.sync.ports import BreakerChange, BreakerNews, Reporter
from tests.narrowing import assert_parts
from tests.worlds.announced import Announced
from tests.worlds.log import log_lines, logging
from tests.worlds.memory import T0, Memory, answer, external

CLOCK_SET = "clock_set"
"""The event of a step of the clock."""


def world(value: float = 90.0, scale: Scale | ReadFailure | None = None, **more: Any) -> Memory:
    """Return one whose target has 2 replicas, and whose queue asks for one per 30 messages."""
    scales = {"shop/a": scale or Scale(2, 2, "app=a")}
    given: dict[str, Any] = {"answers": {"queue": answer(value)}, "scales": scales, **more}
    return Memory(**given)


def lines_of(
    world: Memory, level: LogLevel = LogLevel.INFO, syncs: int = 1
) -> list[dict[str, Any]]:
    """Sync the world's one target and return its log lines."""
    with world.syncer() as syncer:
        for number in range(syncs):
            later = 15.0 * number
            syncer.sync([external("shop", "a")], T0 + later, 10.0, steady=later)
    return log_lines(world.results, level)


METRIC = {
    "type": "External",
    "name": "queue",
    "target_type": "average",
    "target": 30.0,
    "value": 45.0,
    "text": "45/30",
    "total": "90",
    "proposed_replicas": 3,
}


@pytest.mark.parametrize(
    ("synced", "level", "fields"),
    [
        pytest.param(
            world(),
            "info",
            {
                "target": "shop/Deployment/a",
                "current_replicas": 2,
                "desired_replicas": 3,
                "write": "written",
                "reason": "queue above target",
                "metrics": [METRIC],
            },
            id="change",
        ),
        pytest.param(
            world(200.0, Scale(1, 1, "app=a")),
            "info",
            {"limit": {"before": 7, "after": 4, "reason": "ScaleUpLimit"}},
            id="limit",
        ),
        pytest.param(world(60.0), "debug", {"current_replicas": 2, "write": None}, id="unchanged"),
        pytest.param(
            world(answers={"queue": QueryFailure("parse error")}),
            "warning",
            {"outcome": "blocked", "cause": "FailedGetExternalMetric: parse error"},
            id="failed-metric",
        ),
        pytest.param(
            world(60.0, ReadFailure("forbidden")),
            "warning",
            {"cause": "FailedGetScale: forbidden", "current_replicas": None},
            id="scale-unreadable",
        ),
        pytest.param(
            world(outcomes={"shop/a": WriteConflict(Scale(9, 9, "app=a"))}),
            "warning",
            {"write": "superseded"},
            id="superseded",
        ),
        pytest.param(world(leads=False), "debug", {"desired_replicas": 3}, id="follower"),
    ],
)
def test_each_sync_is_one_line(synced: Memory, level: str, fields: dict[str, Any]) -> None:
    (line,) = lines_of(synced, LogLevel.DEBUG)
    assert (line["event"], line["level"]) == ("sync", level)
    assert {name: line.get(name) for name in fields} == fields
    assert len(log_lines(synced.results)) == (level != "debug")


def test_a_target_that_is_off_and_wanted_is_a_warning_once() -> None:
    off = Scale(0, 0, "app=a", replicas_by="kubectl")
    first, state = lines_of(world(60.0, off), syncs=3)
    assert (first["event"], first["level"]) == ("off_under_load", "warning")
    assert first["manager"] == "kubectl"
    assert_parts(first["message"], "queue")
    assert (state["event"], state["state"]) == ("sync", "disabled")


class _Closed(io.StringIO):
    """A stream whose reader is gone."""

    def write(self, _text: str, /) -> int:
        raise BrokenPipeError


def test_a_log_that_cannot_be_written_raises_nothing() -> None:
    with logging(stream=_Closed()):
        structlog.get_logger().info("started")


def test_a_traceback_shows_no_values() -> None:

    def fail(token: str) -> None:
        raise ValueError(len(token))

    with logging() as stream:
        try:
            fail("hunter2")
        except ValueError as error:
            structlog.get_logger().error("fault", exc_info=error)
    line = json.loads(stream.getvalue())
    assert (line["event"], line["level"]) == ("fault", "error")
    assert line["exception"][0]["exc_type"] == "ValueError"
    assert "hunter2" not in stream.getvalue()


def test_equal_tracebacks_are_logged_three_times_and_then_every_ten_minutes(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    now = 1000.0
    monkeypatch.setattr("autoscaler.clock.monotonic", lambda: now)

    def fault(value: Any, *, group: bool = False) -> None:
        try:
            int(value)
        except (TypeError, ValueError) as error:
            given = ExceptionGroup("faults", [error]) if group else error
            structlog.get_logger().error("fault", exc_info=given)

    with logging() as stream:
        for number in range(50):
            fault(f"x{number}", group=number % 2 == 1)
        fault([])
        structlog.get_logger().error("fault")
        now += 601
        fault("y")
    lines = [json.loads(line) for line in stream.getvalue().splitlines()]
    assert [line.get("untold") for line in lines] == [None, None, None, None, None, 47]


def test_the_console_format_is_printable_text_whatever_the_fields_are() -> None:
    odd = "a\x1b[2J\u202e\nb" + "x" * 1_000_000

    def fail() -> None:
        raise OSError(odd)

    with logging(LogFormat.CONSOLE) as stream:
        log = structlog.get_logger()
        log.warning("one", message=odd, problems=[odd], more={"of": odd})
        getLogger("library").warning(odd)
        try:
            fail()
        except OSError:
            log.exception("fault")
        log.info("started", targets=3)
    lines = stream.getvalue().split("\n")
    assert [line for line in lines if not line.isprintable()] == []
    assert_parts(lines[-2], "started", "targets=3")
    assert sum("x1b[2J" in line for line in lines) == 4
    assert "    raise OSError(odd)" in lines
    assert max(map(len, lines)) < 40_000


def rivals(manager: str) -> list[dict[str, Any]]:
    """Write 2 -> 3, let somebody set 2 again, sync, and return the lines of that sync."""
    ours = world()
    with ours.syncer() as syncer:
        syncer.sync([external("shop", "a")], T0, 10.0)
        ours.scales["shop/a"] = Scale(2, 2, "app=a", replicas_by=manager)
        syncer.sync([external("shop", "a")], T0, 10.0)
    return log_lines(ours.results[-1:])


def test_a_change_by_another_client_is_a_line_of_its_own() -> None:
    line, _ = rivals("kubectl-edit")
    assert (line["level"], line["event"]) == ("warning", "replicas_changed_by_other")
    assert (line["before"], line["after"], line["manager"]) == (3, 2, "kubectl-edit")
    unnamed, _ = rivals("")
    assert unnamed["manager"] is None


def test_a_defect_of_one_reporter_does_not_affect_the_others() -> None:
    others = world()
    lines_of(others)
    (result,) = others.results

    class Broken(Reporter):
        def report(self, result: SyncResult) -> None:  # noqa: ARG002
            raise ValueError("a defect")

    announced = Announced()
    with capture_logs() as lines:
        reporters = Reporters([Broken(), others, announced.announcements])
        reporters.report(result)
        reporters.fault(ValueError("another one"))
    assert len(others.results) == 2
    assert [(line["event"], line["log_level"]) for line in lines] == [("fault", "error")] * 2
    counted = announced.metrics.instruments.registry.get_sample_value
    assert counted("autoscaler_faults_total") == 2


def test_a_reporter_of_a_cluster_gets_only_its_results() -> None:
    everything, eu, us = world(), Memory(), Memory()
    lines_of(everything)
    (result,) = everything.results
    reporters = Reporters([everything], {"eu": [eu], "us": [us]})
    for cluster in ("eu", "away"):
        reporters.report(replace(result, target=replace(result.target, cluster=cluster)))
    reporters.breaker_changed(BreakerNews(BreakerChange.ENDED, "", Trip(0, 1, 2, 3), 0, 3))
    assert [len(reporter.results) for reporter in (everything, eu, us)] == [3, 1, 0]
    assert [len(reporter.news) for reporter in (everything, eu, us)] == [1, 1, 1]


def test_a_saturation_that_lasts_is_one_line_and_so_is_its_end() -> None:
    synced = world(scale=Scale(3, 3, "app=a"))
    lines_of(synced)
    (calm,) = synced.results
    with capture_logs() as lines:
        reporter = LogReporter()
        for seconds, missing in ((0, 4), (899, 4), (900, 7), (915, 6), (930, None), (945, None)):
            saturation = missing and Saturation(missing, T0, "TooManyReplicas")
            decision = replace(calm.decision, stamp=T0 + seconds, saturation=saturation or None)
            if missing == 6:
                blocked = replace(decision, outcome=Outcome.BLOCKED, saturation=None)
                reporter.report(replace(calm, decision=blocked))
            reporter.report(replace(calm, decision=decision))
    saturations = [dict(line) for line in lines if "satur" in line["event"]]
    assert all(line.pop("message") for line in saturations)
    assert saturations == [
        {
            "event": "saturated",
            "log_level": "warning",
            "target": "shop/Deployment/a",
            "missing": 7,
            "reason": "TooManyReplicas",
            "since": "2027-01-15T08:00:00Z",
        },
        {
            "event": "saturation_over",
            "log_level": "warning",
            "target": "shop/Deployment/a",
            "seconds": 930.0,
        },
    ]


def test_a_reading_that_returns_after_a_gap_is_one_line_at_info() -> None:
    target = replace(external("shop", "a"), queries=(Query("queue", range_seconds=120.0),))
    synced, back = world(150.0), 8
    with synced.syncer() as syncer:
        for sync in range(20):
            now = T0 + 15 * sync
            load = answer(150.0 if sync < back else 30.0, now=now)
            synced.answers["queue"] = QueryFailure("away") if 4 <= sync < back else load
            syncer.sync([target], now, 10.0, steady=15.0 * sync)
    (line,) = [line for line in log_lines(synced.results) if line["event"] == "reading_returned"]
    assert (line["level"], line["target"], line["metric"]) == ("info", "shop/Deployment/a", "queue")
    assert_parts(line["message"], rfc3339(T0 + 15 * back + 155)[:-4])
    assert "first reading after" in explain(synced.results[back + 2])
    assert "first reading" not in explain(synced.results[-1])


def test_a_step_of_the_clock_is_a_warning_with_its_seconds() -> None:
    with capture_logs() as lines:
        LogReporter().clock_set(-3600.0)
    (line,) = lines
    assert (line["event"], line["log_level"], line["seconds"]) == (CLOCK_SET, "warning", -3600.0)
