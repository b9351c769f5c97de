"""The log, the metrics, the pages, the API and the record agree on each decision."""

import json
import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from autoscaler.cli.showing_status import lines_for_programs
from autoscaler.core.classification import Classification, Mark, State, failure_of
from autoscaler.core.decision import Outcome, Zone
from autoscaler.core.history import Contention
from autoscaler.core.observation import Scale
from autoscaler.core.spec import Flags
from autoscaler.core.step import step_of
from autoscaler.core.sync_result import Inputs, SyncResult
from autoscaler.core.target import Query
from autoscaler.core.writes import (
    AcceptedWrite,
    SkippedWrite,
    SkippedWriteReason,
    WriteConflict,
    WriteFailure,
    WriteOutcome,
)
from autoscaler.daemon import LogLevel
from autoscaler.daemon.recording import Recorder
from autoscaler.persistence.record import SyncRow
from autoscaler.persistence.record.changes import numbers_of
from autoscaler.persistence.record.rows import Sample
from autoscaler.rendering.answers import Decision, TargetList, TargetState
from autoscaler.rendering.chart import ShadeKind, chart_of
from autoscaler.rendering.explanation import explain
from autoscaler.rendering.reasons import verdict
from autoscaler.rendering.record import target_state, whole
from autoscaler.telemetry.target_text import target_text
from autoscaler.web.api.endpoints import fleet, target_list
from tests.conformance.player import played_ticks
from tests.core import strategies
from tests.core.builders import BASE
from tests.core.entries import any_rules, entries_of
from tests.telemetry.results import metrics_of
from tests.web.pages.reading import ask, views_of
from tests.worlds.log import log_lines
from tests.worlds.record import MemoryRecord

OF_STATE = {
    State.CONTESTED: Mark.CONTESTED,
    State.FAILING: Mark.FAILED,
    State.SHADOW: Mark.SHADOW,
    State.CONTROLLED: Mark.CONTROLLED,
    State.PAUSED: Mark.PAUSED,
    State.DISABLED: Mark.DISABLED,
    State.HELD: Mark.HELD,
    State.STABILIZING: Mark.STABILIZING,
    State.IDLE: Mark.IDLE,
    State.LIMITED: Mark.LIMITED,
}
"""The mark of each state, in the order in which docs/reference/states.md lists them."""
SHADES = {
    Mark.FAILED: ShadeKind.FAILING,
    Mark.FALLBACK: ShadeKind.FALLBACK,
    Mark.PAUSED: ShadeKind.PAUSED,
    Mark.IDLE: ShadeKind.IDLE,
    Mark.BREAKER: ShadeKind.BREAKER,
    Mark.QUERY_HOLD: ShadeKind.QUERY_HOLD,
    Mark.CONTESTED: ShadeKind.CONTESTED,
    Mark.CONTROLLED: ShadeKind.CONTROLLED,
    Mark.DISABLED: ShadeKind.DISABLED,
    Mark.STANDBY: ShadeKind.STANDBY,
}
GAUGES = {
    Mark.FALLBACK: "fallback_replicas",
    Mark.SHADOW | Mark.CONTROLLED: "shadow",
    Mark.PAUSED: "paused",
    Mark.LIMITED: "limited",
    Mark.CONTESTED: "held_until_timestamp_seconds",
    Mark.QUERY_HOLD: "scale_down_held",
}
KEYS = {
    Mark.PAUSED: "pause",
    Mark.BREAKER: "breaker",
    Mark.CONTESTED: "heldUntil",
    Mark.QUERY_HOLD: "hold",
}
PHRASES = {
    State.SHADOW: r"^shadow: ",
    State.CONTROLLED: r"^controlled by ",
    State.CONTESTED: r"other clients undo our changes",
    State.PAUSED: r"paused",
    State.DISABLED: r"disabled",
    State.HELD: r"no scale-down|scale-down breaker",
    State.STABILIZING: r"window keeps|no scale-down",
    State.IDLE: r"idle",
    State.AT_MAXIMUM: r"at maximum|maxReplicas is|permits",
    State.LIMITED: r"permits|count as all",
}
"""A phrase in the sentence of each state."""
NOT_OK = re.compile(
    r"permits|at maximum|window keeps|scale-down breaker|undo|cannot be read|paused"
)
modest = settings(max_examples=300, deadline=None, suppress_health_check=[HealthCheck.too_slow])


LOG_ONLY = {"event", "level", "timestamp", "logger", "stateBefore", "secondsBefore"}
LIST_ONLY = {"namespace", "kind", "name", "since", "lastSync"}


# -- the outputs ---------------------------------------------------------------------------------


def log_line(result: SyncResult) -> dict[str, Any]:
    """Return the line of the log, with keys in camelCase and without the keys that only it has."""
    (line,) = (line for line in log_lines([result], LogLevel.DEBUG) if line["event"] == "sync")
    # These two stages have keys of their own; the reason is written for people.
    for key in ("stabilize", "limit", "reason", "time"):
        line.pop(key, None)
    return dict(json.loads(json.dumps(line), object_pairs_hook=camel))


def camel(pairs: list[tuple[str, object]]) -> dict[str, object]:
    """Return an object with keys in camelCase."""
    return {
        first + "".join(other.capitalize() for other in others): value
        for (first, *others), value in ((key.split("_"), value) for key, value in pairs)
    }


def gauges(results: Sequence[SyncResult]) -> dict[str, set[str]]:
    """Return which gauges each target has, by its key."""
    names: dict[str, set[str]] = {result.target.key: set() for result in results}
    rows = metrics_of(*results).states.rows()
    for line in b"".join(target_text(rows, openmetrics=False)).decode().splitlines():
        if form := re.match(r'autoscaler_target_(\w+)\{target="([^"]*)"', line):
            names[form[2]].add(form[1])
    return names


class Rows:
    """A writer of the record that keeps its rows."""

    epoch = 0

    def __init__(self) -> None:
        self.rows: list[SyncRow] = []

    def put(self, row: SyncRow) -> None:
        """Keep it."""
        self.rows.append(row)

    def retain(self, targets: object) -> None:
        """Do nothing."""


def recorded(result: SyncResult) -> tuple[Mark, str, str]:
    """Return what the record has of a result."""
    writer = Rows()
    recorder = Recorder(writer)  # type: ignore[arg-type]
    recorder.configure([result.target], Flags())
    recorder.report(result)
    (row,) = writer.rows
    assert row.change is not None
    return row.change.classified().marks, row.state, row.message


def shades(result: SyncResult) -> set[ShadeKind]:
    """Return how the chart is shaded at the instant of a result."""
    at, key = result.decision.stamp, result.target.key
    later = Sample(at + 15, numbers_of(result.decision)[:1])
    record = MemoryRecord().keep(result).keep_sample(key, later)
    chart = chart_of(record, key, at - 10, at + 10)
    return set() if chart is None else {shade.kind for shade in chart.shades}


# -- whether they agree --------------------------------------------------------------------------


def check(result: SyncResult) -> Classification:
    """Compare the outputs of one result; return its classification."""
    classified = result.classified()
    marks, state, cause, _ = classified
    of_mark = State.LIMITED if state is State.AT_MAXIMUM else state
    assert of_mark is next((state for state, mark in OF_STATE.items() if mark in marks), State.OK)
    decision = whole(result)
    line, document = log_line(result), decision.document()
    assert (document["state"], document.get("cause", "")) == (state, cause)
    check_fields(line, document, LOG_ONLY)
    assert Decision.model_validate_json(decision.encoded()).document() == document
    listed = target_state(result, BASE)
    assert TargetState.model_validate_json(listed.encoded()).document() == listed.document()
    assert listed.message == decision.message
    for mark, key in KEYS.items():
        assert (key in document) is (mark in marks), key
    in_use = any("fallback" in metric for metric in document["metrics"])
    assert in_use is (Mark.FALLBACK in marks)
    sentence = verdict(result)
    check_sentence(result, state, sentence)
    assert explain(result).split("\n")[0].endswith(document["message"])
    if result.given is not None:
        assert recorded(result) == (marks, state, sentence)
    check_outcome(result, marks)
    return classified


def check_fields(part: dict[str, Any], document: dict[str, Any], own: set[str]) -> None:
    """Check that the fields of a part of a decision, and of its metrics, are those of the whole."""
    metrics = part.pop("metrics")
    assert {key: part[key] for key in part.keys() - own} == {
        key: document[key] for key in part.keys() - own
    }
    if document["metrics"]:  # a list has metrics also where none was read
        for metric, whole_metric in zip(metrics, document["metrics"], strict=True):
            assert metric == {key: whole_metric[key] for key in metric}


def check_sentence(result: SyncResult, state: State, sentence: str) -> None:
    """Compare a sentence with the state; that of a write that somebody forestalled is short."""
    if state is State.OK:
        assert not NOT_OK.search(sentence), sentence
    elif state is State.FAILING:
        failure = failure_of(result.decision)
        message = "" if failure is None else failure.message
        if isinstance(result.write, WriteFailure):
            message = result.write.message
        assert message
        assert message in sentence
    elif not isinstance(result.write, WriteConflict):
        assert re.search(PHRASES[state], sentence), sentence


def check_outcome(result: SyncResult, marks: Mark) -> None:
    """Check that what is not ok has a reason, and fails, unless it is paused or left alone."""
    decision = result.decision
    # An idle target whose reading may understate stays so, also while it is paused.
    idle = decision.zone is Zone.IDLE or (
        decision.zone is Zone.PAUSED and decision.idle is not None
    )
    understates = idle and decision.outcome is Outcome.PARTIAL
    not_asked = decision.zone is Zone.PAUSED or decision.held_until is not None
    if decision.outcome is not Outcome.OK and not understates:
        assert failure_of(decision) is not None
    if not isinstance(result.write, WriteFailure) and not (not_asked or understates):
        assert (Mark.FAILED in marks) is (decision.outcome is not Outcome.OK)


def check_many(results: Sequence[SyncResult]) -> None:
    """Compare the outputs of many at once: gauges, the list of the API, the sums, the table."""
    classified = {result.target.key: check(result) for result in results}
    assert len(classified) == len(results)
    shown = gauges(results)
    for key, (marks, *_) in classified.items():
        for mark, gauge in GAUGES.items():
            assert (gauge in shown[key]) is bool(mark & marks), (key, gauge)
    page = json.loads(b"".join(target_list(metrics_of(*results).states.known(), BASE)))
    states = {target["target"]: target["state"] for target in page["targets"]}
    assert states == {key: state for key, (_, state, *_) in classified.items()}
    table = list(lines_for_programs(TargetList.model_validate(page)))[1:]
    assert [line.split("\t")[6] for line in table] == list(states.values())
    documents = {result.target.key: json.loads(whole(result).encoded()) for result in results}
    for target in page["targets"]:
        check_fields(target, documents[target["target"]], LIST_ONLY)


def unlike(results: Sequence[SyncResult]) -> list[SyncResult]:
    """Return the results as those of targets with names of their own."""
    return [
        replace(result, target=replace(result.target, namespace=f"n{number}"))
        for number, result in enumerate(results)
    ]


# -- the decisions -------------------------------------------------------------------------------


@st.composite
def results_of(draw: st.DrawFn, entry: SyncResult) -> SyncResult:
    """Draw a result of an entry's inputs, with a hold, the breaker, other clients, and a write."""
    inputs, queries = entry.inputs, (Query("q"),) * len(entry.target.spec.metrics)
    rules = replace(entry.rules, target=replace(entry.target, queries=queries))
    observation = replace(
        inputs.observation,
        hold=draw(st.none() | strategies.hold_readings),
        controller=draw(st.sampled_from((None, None, None, 'HorizontalPodAutoscaler "web"'))),
    )
    reversals = draw(st.sampled_from(((), (), (BASE - 30, BASE - 20, BASE - 10))))
    history = replace(inputs.history, contention=Contention(reversals=reversals))
    step = step_of(rules, Inputs(observation, history, BASE, BASE))
    if draw(st.booleans()):
        step = step.held_back({"": BASE + 600})
    if step.decision.rescale:
        step = step.settled(draw(writes))
    return step.result


SCALE = Scale(7, 7, "app=web")
writes: st.SearchStrategy[WriteOutcome] = st.sampled_from(
    (
        AcceptedWrite(SCALE),
        AcceptedWrite(SCALE),
        WriteConflict(SCALE),
        WriteFailure("refused"),
        SkippedWrite(SkippedWriteReason.NOT_LEADING),
    )
)
results = any_rules().flatmap(entries_of).flatmap(results_of)


@modest
@given(st.lists(results, min_size=1, max_size=3))
def test_outputs_agree_on_any_decision(several: list[SyncResult]) -> None:
    check_many(unlike(several))
    for result in several:
        if result.decision.current is not None:
            marks = result.classified().marks
            assert shades(result) == {SHADES[mark] for mark in SHADES if mark in marks} | {
                ShadeKind.BEFORE
            }


@pytest.mark.slow
def test_outputs_agree_on_every_recorded_tick() -> None:
    """These are more than 10,000 decisions that the real controller has taken too."""
    ticks = unlike(list(played_ticks()))
    assert len(ticks) == 353 + 9_864
    check_many(ticks)


def test_the_filters_of_the_fleet_match_the_states(tmp_path: Path) -> None:
    several = unlike([result for _, result in zip(range(400), played_ticks(), strict=False)])
    classified = [result.classified() for result in several]
    counts = Counter(target.state for target in classified)
    at_maximum = sum(Mark.AT_MAXIMUM in target.marks for target in classified)
    assert at_maximum
    views = views_of(tmp_path, several)
    sums = fleet(views, BASE)
    assert sums.states == {state.value: counts[state] for state in State}
    assert sums.at_maximum == at_maximum
    for state, count in counts.items():
        assert f"of {count} target" in " ".join(ask(views, f"/?state={state}").text.split())
