"""What interrupts a target in the middle of a replay does to it what it does to a live one."""

from array import array
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace

import pytest

from autoscaler.core.extensions import Extensions, Idle
from autoscaler.core.series import QueryFailure
from autoscaler.core.spec import Flags
from autoscaler.core.sync_result import Rules
from autoscaler.core.target import Query, Target
from autoscaler.lab.engine.answers import AnswerChunk, Answers, RecordedSeries, answers_from
from autoscaler.lab.engine.loads import RecordedLoad
from autoscaler.lab.engine.outcome import OutcomeWatcher, TargetOutcome
from autoscaler.lab.engine.replay import own_reason
from autoscaler.lab.engine.workloads import SimulatedWorkload
from autoscaler.lab.engine.world import SimulatedTarget, World
from tests.core.builders import BASE, average, external, spec

PERIOD, MINUTE = 15.0, 60.0
END = BASE + 15 * MINUTE
TARGET = Target("shop", spec(external(average("10")), maximum=10), (Query("load"),))
SLEEPS = replace(TARGET, extensions=Extensions(idle=Idle(after=60.0)))
PARTIAL = ("server 2 timed out",)
PAUSED = {"autoscaler/paused": "true"}

Load = float | str | None | tuple[float, tuple[str, ...]]
TimedEvent = Callable[[SimulatedTarget, float], object]


@dataclass(frozen=True)
class Crossing:
    """Events of a target with 5 replicas and a load of 10 a replica, and its changes.

    ``loads`` are from a minute on: None is no series, a text a failure, with warnings it is
    partial.  ``happens`` is done before the sync of a minute.  ``changes`` are by minute.
    """

    loads: Mapping[int, Load]
    changes: Mapping[float, int]
    happens: Mapping[int, TimedEvent] = field(default_factory=dict)
    target: Target = TARGET
    failed: float = 0.0
    gap: float = 0.0


def becomes(**facts: object) -> TimedEvent:
    def happen(target: SimulatedTarget, _: float) -> None:
        for name, fact in facts.items():
            setattr(target, name, fact)

    return happen


def unreadable(why: str) -> TimedEvent:
    """Return a happening after which the scale cannot be read, or can again."""
    return lambda target, _: setattr(target.workload, "unreadable", why)


def annotated(annotations: Mapping[str, str]) -> TimedEvent:
    return lambda target, _: target.workload.annotate(annotations)


DOWN, UP = {0: 50.0, 1: 10.0}, {0: 50.0, 1: 80.0}
CASES = {
    "scale-down": Crossing(DOWN, {5.75: 1}),
    "scale-up": Crossing(UP, {1: 8}),
    # The count stays, and the time is neither scored nor decided.
    "no-series": Crossing({0: 50.0, 1: None, 4: 10.0}, {5.75: 1}, failed=180.0, gap=180.0),
    "query-failure": Crossing({0: 50.0, 1: "timeout", 4: 80.0}, {4: 8}, failed=180.0, gap=180.0),
    "partial-down": Crossing(
        {0: 50.0, 1: (10.0, PARTIAL), 8: 10.0}, {13: 1}, failed=420.0, gap=420.0
    ),
    # How much is missing is not known.
    "partial-up": Crossing({0: 50.0, 1: (80.0, PARTIAL)}, {1: 8}, gap=840.0),
    # The stabilization window starts again after a restart without state, and after a takeover
    # two minutes after the last sync.
    "restart-without-state": Crossing(DOWN, {9: 1}, {4: lambda target, _: target.forget()}),
    "takeover": Crossing(DOWN, {9: 1}, {4: lambda target, now: target.away(120.0, now)}),
    "standby": Crossing(UP, {4: 8}, {1: becomes(leads=False), 4: becomes(leads=True)}),
    "scale-to-zero": Crossing({0: 50.0, 1: 0.0, 10: 5.0}, {1.75: 0, 10: 1}, target=SLEEPS),
    "pause": Crossing(UP, {4: 8}, {1: annotated(PAUSED), 4: annotated({})}),
    "scale-to-zero-in-a-pause": Crossing(
        {0: 50.0, 1: 0.0}, {8: 0}, {1: annotated(PAUSED), 8: annotated({})}, SLEEPS
    ),
    "count-set-by-hand": Crossing(
        {0: 50.0}, {}, {2: lambda target, now: target.workload.set(8, now, "kubectl")}
    ),
    "write-failures": Crossing(
        UP, {4: 8}, {1: becomes(write_fails="refused"), 4: becomes(write_fails="")}
    ),
    "unreadable-scale": Crossing(
        UP, {4: 8}, {1: unreadable("gone"), 4: unreadable("")}, failed=180.0
    ),
    "controlled-by-an-hpa": Crossing(
        UP, {4: 8}, {1: becomes(controller="HPA web"), 4: becomes(controller=None)}
    ),
}


@pytest.mark.parametrize("case", CASES.values(), ids=CASES)
def test_an_interrupted_target_changes_at_the_right_minutes(case: Crossing) -> None:
    counts, outcome = replayed(case)
    before = [5, *counts.values()]
    pairs = zip(counts.items(), before, strict=False)
    assert {minute: now for (minute, now), past in pairs if now != past} == case.changes
    assert outcome.failed_seconds == case.failed
    assert outcome.measures.gap_seconds == case.gap
    assert outcome.measures.scored_seconds == END - BASE - case.gap


def replayed(case: Crossing) -> tuple[dict[float, int], TargetOutcome]:
    """Return the count after the sync of each minute, and the outcome."""
    workload = SimulatedWorkload("web", BASE, 5, 20.0)
    load = RecordedLoad(answers(case.loads), 10.0)
    target = SimulatedTarget(Rules(case.target, Flags()), workload, [load])
    watcher = OutcomeWatcher(BASE, END, own_reason)
    counts = {}

    def before(now: float) -> None:
        for minute, happen in case.happens.items():
            if now == BASE + minute * MINUTE:
                happen(target, now)

    for now in World([target], watcher).run(BASE, END, before):
        counts[(now - BASE) / MINUTE] = workload.replicas
    return counts, watcher.outcomes()[0]


def answers(loads: Mapping[int, Load]) -> Answers:
    """Return the answers of a query, each load until the next one."""
    begins = [BASE + minute * MINUTE for minute in loads]
    chunks = []
    for begin, end, load in zip(begins, [*begins[1:], END], loads.values(), strict=True):
        number, warnings = load if isinstance(load, tuple) else (load, ())
        if isinstance(number, str):
            chunks.append(AnswerChunk(begin, end, QueryFailure(number)))
            continue
        times = [] if number is None else [*range(int(begin), int(end), int(PERIOD))]
        series = RecordedSeries({}, array("d", times), array("d", [number or 0.0] * len(times)))
        chunks.append(AnswerChunk(begin, end, [series], warnings))
    return answers_from(chunks, PERIOD)
