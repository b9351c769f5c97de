"""Log lines about states of targets: changes, and a summary of lasting trouble each minute."""

import io
import json
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import pytest
import structlog

from autoscaler import clock
from autoscaler.core.classification import State
from autoscaler.core.observation import Scale
from autoscaler.core.series import QueryFailure
from autoscaler.core.sync_result import SyncResult
from autoscaler.core.target import Target
from autoscaler.core.writes import WriteFailure
from autoscaler.daemon import LogFormat, LogLevel
from autoscaler.daemon.logs import configure
from autoscaler.daemon.reporting import (
    FAILURES,
    QUIET,
    LogReporter,
    Pace,
    StateChange,
    StateChanges,
)
from autoscaler.sync.ports import SyncSummary
from tests.core.timeline import Timeline
from tests.narrowing import known
from tests.rendering import test_extension_words as extended
from tests.worlds.log import log_lines
from tests.worlds.memory import T0, Memory, answer, external
from tests.worlds.record import synced

REFUSED = "connection to http://prometheus:9090 refused"
TARGETS = 200
MOST_BYTES = 5_000 * TARGETS
"""So much is told of them in an hour, at most: of a thousand 5 MB."""
SYNCS = 240
"""An hour of syncs every 15 s."""


def noted(course: Sequence[tuple[State, str]]) -> list[StateChange | None]:
    """Note the states and causes of one target, every 15 s."""
    states = StateChanges()
    return [states.note("a", *item, T0 + 15 * sync) for sync, item in enumerate(course)]


OK, WINDOW = (State.OK, ""), (State.STABILIZING, "ScaleDownStabilized")
QUERY = (State.HELD, "ScaleDownHeld")


@pytest.mark.parametrize(
    "course",
    [
        [
            (OK, None),
            ((State.FAILING, REFUSED), (State.OK, None, True)),
            ((State.FAILING, REFUSED), None),
            ((State.FAILING, "a 500"), (State.FAILING, 30.0, True)),
            (WINDOW, (State.FAILING, 45.0, True)),
            ((State.STABILIZING, "another"), None),
            (OK, (State.STABILIZING, 30.0, False)),
            (OK, None),
        ],
        [
            (WINDOW, (None, None, False)),
            (OK, (State.STABILIZING, 15.0, False)),
            (WINDOW, (State.OK, 15.0, False)),
            (QUERY, (State.STABILIZING, 15.0, True)),
            (QUERY, None),
            (WINDOW, (State.HELD, 30.0, True)),
            (OK, (State.STABILIZING, 15.0, False)),
        ],
    ],
    ids=["failures", "holds"],
)
def test_a_beginning_and_an_end_are_noted_once_with_the_state_before(
    course: Sequence[tuple[tuple[State, str], tuple[State | None, float | None, bool] | None]],
) -> None:
    changes = noted([state for state, _ in course])
    assert [change and change[:3] for change in changes] == [expected for _, expected in course]


@pytest.mark.parametrize(
    ("state", "pace"), [(State.FAILING, FAILURES), (State.PAUSED, QUIET), (State.LIMITED, QUIET)]
)
def test_a_state_that_comes_and_goes_is_logged_a_few_times(state: State, pace: Pace) -> None:
    states = StateChanges()
    changes = [
        states.note("a", state if sync % 2 else State.OK, "", T0 + 15 * sync) for sync in range(200)
    ]
    logged = [change for change in changes if change is not None and change.logged]
    assert len(logged) == 2 * (pace.lines + int(198 * 15 // pace.refill_seconds))
    silent = [change.silent_until for change in logged if change.before is State.OK]
    assert silent[0] is None
    assert silent[pace.lines - 1] is not None
    states.retain({"a"})  # a reload gives it no more lines
    states.note("a", State.OK, "", T0 + 2986)
    assert not known(states.note("a", state, "", T0 + 2987)).logged


@pytest.mark.parametrize("state", [State.CONTROLLED, State.CONTESTED, State.DISABLED])
def test_a_long_lasting_state_is_logged_each_time(state: State) -> None:
    changes = noted([OK, (state, "")] * 100)
    assert sum(change is not None and change.logged for change in changes) == 199


def test_lasting_failures_are_summed_up_each_minute() -> None:
    states = StateChanges()
    for number in range(30):
        cause = REFUSED if number < 9 else f"cause {number}"
        states.note(f"t{number:02}", State.FAILING, cause, T0)
    states.note("held", State.STABILIZING, "ScaleDownStabilized", T0)
    assert states.due_summaries(T0) == []
    assert states.due_summaries(T0 + 59) == []
    first, *others = states.due_summaries(T0 + 60)
    assert (first.cause, first.targets, first.since) == (REFUSED, 9, T0)
    assert first.names == ("t00", "t01", "t02", "t03", "t04")
    assert (len(others), others[-1].cause, others[-1].targets) == (10, "12 other causes", 12)
    assert states.due_summaries(T0 + 61) == []
    states.retain({"t10"})
    assert [summary.names for summary in states.due_summaries(T0 + 120)] == [("t10",)]


def test_a_summary_has_the_start_of_the_cause_that_it_names() -> None:
    states = StateChanges()
    states.note("a", State.FAILING, REFUSED, T0)
    states.note("a", State.FAILING, "a 502", T0 + 300)
    states.retain({"a"})
    states.shift(5.0)
    (summary,) = states.due_summaries(T0 + 400)
    assert (summary.cause, summary.since) == ("a 502", T0 + 305)


class Fleet:
    """Targets whose results are logged at info for an hour."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.now = T0
        monkeypatch.setattr(clock, "wall", lambda: self.now)
        self.stream = io.StringIO()
        configure(LogLevel.INFO, LogFormat.JSON, self.stream)
        self.reporter = LogReporter()
        self.targets = [external("shop", f"worker-{number}") for number in range(TARGETS)]

    def tick(self, result_of: Callable[[Target], SyncResult]) -> None:
        """Report a sync of all targets, and go on by 15 s."""
        for target in self.targets:
            result = result_of(target)
            decision = replace(result.decision, time=self.now, stamp=self.now)
            self.reporter.report(replace(result, target=target, decision=decision))
        self.reporter.synced(SyncSummary(TARGETS, 1, 0, 0, 0.1))
        self.now += 15.0

    def lines(self) -> list[dict[str, Any]]:
        return [json.loads(line) for line in self.stream.getvalue().splitlines()]


def result_of(value: float | str) -> SyncResult:
    """Sync a target of two replicas once; a text is why its query fails."""
    reading = QueryFailure(value) if isinstance(value, str) else answer(value)
    world = Memory(answers={"queue": reading}, scales={"shop/a": Scale(2, 2, "app=a")})
    with world.syncer() as syncer:
        syncer.sync([external("shop", "a")], T0, 10.0)
    return world.results[0]


def test_an_outage_of_an_hour_has_a_beginning_and_an_end(monkeypatch: pytest.MonkeyPatch) -> None:
    fleet, good, bad = Fleet(monkeypatch), result_of(60.0), result_of(REFUSED)
    fleet.tick(lambda _: good)
    for _ in range(SYNCS):
        fleet.tick(lambda _: bad)
    fleet.tick(lambda _: good)
    structlog.reset_defaults()
    lines = fleet.lines()
    kinds = Counter((line["event"], line["level"]) for line in lines)
    assert kinds == {
        ("sync", "warning"): TARGETS,
        ("still_failing", "warning"): 59,
        ("sync", "info"): TARGETS,
    }
    assert (lines[0]["state"], lines[-1]["state"]) == ("failing", "ok")
    assert lines[-1]["seconds_before"] == SYNCS * 15.0
    summary = next(line for line in lines if line["event"] == "still_failing")
    assert summary["targets"] == TARGETS
    assert summary["cause"] == f"FailedGetExternalMetric: {REFUSED}"
    assert len(fleet.stream.getvalue()) < MOST_BYTES


@pytest.mark.parametrize("alternates", [True, False], ids=["alternating", "own-causes"])
def test_failures_do_not_fill_the_log(monkeypatch: pytest.MonkeyPatch, *, alternates: bool) -> None:
    fleet, good, bad = Fleet(monkeypatch), result_of(60.0), result_of(REFUSED)
    of_target = {
        target.key: replace(bad, write=WriteFailure(f"{target.key} was refused"))
        for target in fleet.targets
    }
    for sync in range(SYNCS):
        if alternates:
            fleet.tick(lambda _, sync=sync: bad if sync % 2 else good)  # type: ignore[misc] # bound now
        else:
            fleet.tick(lambda target: of_target[target.key])
    structlog.reset_defaults()
    assert MOST_BYTES / 10 < len(fleet.stream.getvalue()) < MOST_BYTES


def changes_of(*results: SyncResult) -> list[tuple[object, ...]]:
    """Return level, state, the state before and its seconds, and write of the lines at info."""
    names = ("level", "state", "state_before", "seconds_before", "write")
    return [tuple(line.get(name) for name in names) for line in log_lines(results)]


def synced_each_minute(
    timeline: Timeline, *queues: float | None, first: int = 0
) -> list[SyncResult]:
    """Sync a target once a minute, each time with another queue."""
    return [
        synced(timeline.sync(f"{minute}m", queue=queue))
        for minute, queue in enumerate(queues, first)
    ]


def test_a_pause_is_logged_when_it_begins_and_when_it_ends() -> None:
    timeline = extended.target(replicas=3)
    results = synced_each_minute(timeline, 30)
    timeline.annotated(paused="true")
    results += synced_each_minute(timeline, 40, 45, 50, 55, 60, first=1)
    timeline.annotated()
    results += synced_each_minute(timeline, 60, 60, first=6)
    assert changes_of(*results) == [
        ("info", "paused", "ok", None, None),
        ("info", "ok", "paused", 300.0, "written"),
    ]


@pytest.mark.parametrize(
    ("timeline", "queues", "expected"),
    [
        (
            extended.target(extended.IDLE, replicas=1),
            (9, 4, 4, 4, 4, 35, 35),
            [
                ("info", "idle", "ok", None, "written"),
                ("info", "ok", "idle", 240.0, "written"),
            ],
        ),
        (
            extended.target(extended.FALLBACK, replicas=3),
            (30, None, None, None, None, 60),
            [
                ("warning", "failing", "ok", None, None),
                ("warning", "failing", "failing", 60.0, "written"),
                ("info", "ok", "failing", 240.0, None),
            ],
        ),
    ],
    ids=["idle", "fallback"],
)
def test_idling_and_a_fallback_are_logged_when_they_begin_and_end(
    timeline: Timeline, queues: Sequence[float | None], expected: list[tuple[object, ...]]
) -> None:
    assert changes_of(*synced_each_minute(timeline, *queues)) == expected
