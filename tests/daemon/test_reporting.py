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
from autoscaler.core.writes import WriteConflict
from autoscaler.daemon import LogFormat, LogLevel
from autoscaler.daemon.reporting import LogReporter, Reporters
from autoscaler.sync.ports import BreakerChange, BreakerNews, Reporter
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


def test_a_change_of_scale_is_one_line_at_info() -> None:
    """The line holds the target, the counts, the reason and each metric's value and proposal."""
    (line,) = lines_of(world())
    assert line["level"] == "info"
    assert (line["event"], line["target"]) == ("sync", "shop/Deployment/a")
    assert (line["current_replicas"], line["desired_replicas"], line["write"]) == (2, 3, "written")
    assert line["reason"] == "queue above target"
    assert line["metrics"] == [
        {
            "type": "External",
            "name": "queue",
            "target_type": "average",
            "target": 30.0,
            "value": 45.0,
            "text": "45/30",
            "total": "90",
            "proposed_replicas": 3,
        }
    ]
    assert line["message"] == "scaled 2 -> 3: queue above target (45/30 per replica)"


def test_a_limit_that_binds_is_in_the_line() -> None:
    """A proposal of 7 from 1 is cut to 4, and the line says by what."""
    (line,) = lines_of(world(200.0, Scale(1, 1, "app=a")))
    assert line["limit"] == {"before": 7, "after": 4, "reason": "ScaleUpLimit"}


def test_a_sync_that_changes_nothing_is_a_line_at_debug_only() -> None:
    """At info it is silent; at debug it is one line."""
    assert lines_of(world(60.0)) == []
    (line,) = lines_of(world(60.0), LogLevel.DEBUG)
    assert (line["level"], line["message"]) == ("debug", "unchanged (2)")


def test_a_failed_metric_is_a_warning_with_the_servers_text() -> None:
    """Nothing changes, and the line carries the reason and Prometheus' own words."""
    (line,) = lines_of(world(answers={"queue": QueryFailure("parse error: unexpected )")}))
    assert (line["level"], line["outcome"]) == ("warning", "blocked")
    assert line["cause"] == "FailedGetExternalMetric: parse error: unexpected )"
    assert line["metrics"][0]["failed"] == "FailedGetExternalMetric"


def test_a_target_that_is_off_and_wanted_is_told_once() -> None:
    """A warning names who switched it off, and what asks for replicas."""
    off = Scale(0, 0, "app=a", replicas_by="kubectl")
    told, state = lines_of(world(60.0, off), syncs=3)
    assert (told["event"], told["level"]) == ("off_under_load", "warning")
    assert told["manager"] == "kubectl"
    assert "queue" in told["message"]
    assert "queue asks for replicas" in state["message"]


def test_an_unreadable_scale_is_a_warning() -> None:
    """The line says FailedGetScale and why; there is no current count to show."""
    (line,) = lines_of(world(60.0, ReadFailure("a is forbidden")))
    assert line["cause"] == "FailedGetScale: a is forbidden"
    assert line["current_replicas"] is None


def test_a_superseded_write_is_a_warning() -> None:
    """Somebody else's count stands, and the line names it."""
    (line,) = lines_of(world(outcomes={"shop/a": WriteConflict(Scale(9, 9, "app=a"))}))
    assert (line["level"], line["write"]) == ("warning", "superseded")
    assert "9" in line["message"]


def test_a_terminal_gets_readable_lines() -> None:
    """The console format is text, not JSON, with the same facts."""
    with logging(LogFormat.CONSOLE) as stream:
        structlog.get_logger().info("started", targets=3)
    assert "started" in stream.getvalue()
    assert "targets=3" in stream.getvalue()
    assert not stream.getvalue().startswith("{")


class _Closed(io.StringIO):
    """A stream whose reader is gone."""

    def write(self, _text: str, /) -> int:
        raise BrokenPipeError


def test_a_log_that_nobody_can_take_stops_nothing() -> None:
    """A closed pipe or a full disk loses lines, and raises nothing."""
    with logging(stream=_Closed()):
        structlog.get_logger().info("started")


def test_a_traceback_shows_no_values() -> None:
    """A defect is logged with its traceback, without the variables, which may be secrets."""

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


def test_equal_tracebacks_are_few(monkeypatch: pytest.MonkeyPatch) -> None:
    """Three at once, then one in ten minutes with the number of the others; others are told."""
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


def test_no_text_of_a_line_acts_on_a_terminal() -> None:
    """Neither a field, be it of our own line or a library's, nor the text of an exception."""
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
    lines = stream.getvalue().split("\n")
    assert [line for line in lines if not line.isprintable()] == []
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


def test_a_change_by_somebody_else_is_a_line_of_its_own() -> None:
    """With the manager's name where it is known; a warning, since it undoes our write."""
    line, _ = rivals("kubectl-edit")
    assert (line["level"], line["event"]) == ("warning", "replicas_changed_by_other")
    assert (line["before"], line["after"], line["manager"]) == (3, 2, "kubectl-edit")
    unnamed, _ = rivals("")
    assert unnamed["manager"] is None


def test_what_the_leader_will_write_is_a_line_at_debug_only() -> None:
    """A follower tells nothing at info of changes that it leaves to the leader."""
    follower = world()
    follower.leads = False
    assert lines_of(follower) == []


def test_a_defect_of_one_reporter_keeps_nothing_from_the_others() -> None:
    """The others are told all the same; the log has the defect, and it is counted."""
    told = world()
    lines_of(told)
    (result,) = told.results

    class Broken(Reporter):
        def report(self, result: SyncResult) -> None:  # noqa: ARG002
            raise ValueError("a defect")

    announced = Announced()
    with capture_logs() as lines:
        reporters = Reporters([Broken(), told, announced.announcements])
        reporters.report(result)
        reporters.fault(ValueError("another one"))
    assert len(told.results) == 2
    assert [(line["event"], line["log_level"]) for line in lines] == [("fault", "error")] * 2
    counted = announced.metrics.instruments.registry.get_sample_value
    assert counted("autoscaler_faults_total") == 2


def test_what_is_of_one_cluster_gets_only_its_results() -> None:
    """One without a connection has no Events, and is no defect; all hear of breakers."""
    told, eu, us = world(), Memory(), Memory()
    lines_of(told)
    (result,) = told.results
    reporters = Reporters([told], {"eu": eu, "us": us})
    for cluster in ("eu", "away"):
        reporters.report(replace(result, target=replace(result.target, cluster=cluster)))
    reporters.breaker_changed(BreakerNews(BreakerChange.ENDED, "", Trip(0, 1, 2, 3), 0, 3))
    assert (len(told.results), len(eu.results), len(us.results)) == (3, 1, 0)
    assert [len(each.news) for each in (told, eu, us)] == [1, 1, 1]


def test_a_saturation_that_lasts_is_one_line_and_so_is_its_end() -> None:
    """Not each sync of it, not the first quarter of an hour, and not where nothing was decided."""
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
    told = [dict(line) for line in lines if "satur" in line["event"]]
    assert all(line.pop("message") for line in told)
    assert told == [
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


def test_a_step_is_a_warning_in_the_log() -> None:
    """With its seconds."""
    with capture_logs() as lines:
        LogReporter().clock_set(-3600.0)
    (line,) = lines
    assert (line["event"], line["log_level"], line["seconds"]) == (CLOCK_SET, "warning", -3600.0)
