"""The step that every sync takes: its instants, breakers, and writes that are left out."""

from collections.abc import Sequence
from dataclasses import replace

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from autoscaler.core.extensions import Extensions, Schedule
from autoscaler.core.history import History, PendingWrite
from autoscaler.core.observation import OpenWindow, Scale, Values
from autoscaler.core.series import QueryResult, Series
from autoscaler.core.spec import Flags
from autoscaler.core.step import Step, SyncReads, SyncTimes, inputs_of, step_of
from autoscaler.core.sync_result import Rules, SyncResult
from autoscaler.core.target import Query, Target
from autoscaler.core.writes import NotWritten, NotWrittenReason
from tests.core.builders import BASE, average, behavior, external, percent_policy, rules, spec
from tests.core.entries import entries

NIGHT = Schedule("night", "0 22 * * *", "0 6 * * *", "UTC", min_replicas=1)
QUEUES = spec(
    external(average("10")),
    external(average("10"), "mails"),
    maximum=20,
    behavior=behavior(down=rules(percent_policy(100), window=0)),
)
TARGET = Target(
    "shop",
    QUEUES,
    (Query("queue", range_seconds=60.0), Query("mails", server="mimir")),
    extensions=Extensions(schedules=(NIGHT,)),
)
READS = SyncReads(
    Scale(10, 10, "app=web"),
    None,
    {query.key: QueryResult([Series({}, 20.0, BASE)]) for query in TARGET.queries},
)


def closed(_schedules: Sequence[Schedule], _now: float) -> tuple[OpenWindow, ...]:
    """Return no window."""
    return ()


def going_down() -> Step:
    """Return the step of a target that goes from 10 replicas to 2."""
    inputs = inputs_of(TARGET, History(recommendations=()), READS, SyncTimes(*[BASE] * 3), closed)
    step = step_of(Rules(TARGET, Flags()), inputs)
    assert (step.decision.current, step.decision.desired) == (10, 2)
    return step


def test_a_late_sync_is_decided_as_of_its_instants_and_sees_the_windows_of_then() -> None:
    """What is read and which windows are open is of the instant at which ages are taken."""
    asked: list[tuple[Sequence[Schedule], float]] = []

    def opened(schedules: Sequence[Schedule], now: float) -> tuple[OpenWindow, ...]:
        asked.append((schedules, now))
        return (OpenWindow(NIGHT, BASE + 60, "06:00 UTC"),)

    times = SyncTimes(due=BASE, begun=BASE + 3, now=BASE + 5, last_read=BASE - 15)
    inputs = inputs_of(TARGET, History(recommendations=()), READS, times, opened)
    assert (inputs.stamp, inputs.now) == (BASE + 3.5, BASE + 5)
    assert asked == [((NIGHT,), BASE + 5)]
    seen = inputs.observation
    assert [one.schedule for one in seen.windows] == [NIGHT]
    assert seen.readings == (Values((20_000,)), Values((20_000,)))
    assert (seen.last_read, seen.last_sync, seen.ranges) == (BASE - 15, None, (60.0, 0.0))


@pytest.mark.parametrize(("absent", "gaps"), [(15.0, 0), (22.5, 0), (23.0, 2), (1e9, 2)])
def test_an_absence_opens_a_gap_of_each_metric(absent: float, gaps: int) -> None:
    """It is one from a period and a half on."""
    times = SyncTimes(BASE, BASE, BASE, last_sync=BASE - absent)
    inputs = inputs_of(TARGET, History(recommendations=()), READS, times, closed)
    assert len(inputs.history.gaps) == gaps
    assert inputs.observation.last_sync == BASE - absent


@pytest.mark.parametrize(
    ("holds", "server"),
    [
        ({}, None),
        ({"other": BASE + 900}, None),
        ({"": BASE + 600, "other": BASE + 900}, ""),
        ({"": BASE + 600, "mimir": BASE + 601}, "mimir"),
    ],
)
def test_of_its_servers_breakers_the_one_that_holds_longest_counts(
    holds: dict[str, float], server: str | None
) -> None:
    """Those of servers that it does not ask hold others."""
    step = going_down()
    held = step.held_back(holds)
    if server is None:
        assert held is step
        return
    assert held.decision.breaker is not None
    assert (held.decision.breaker.server, held.decision.breaker.until) == (server, holds[server])
    assert (held.decision.desired, held.decision.rescale) == (10, False)
    assert held.history.desired_replicas == 10
    assert held.held_back(holds) is held, "what is held does not go down"


@settings(max_examples=100, suppress_health_check=[HealthCheck.too_slow])
@given(entries, st.sampled_from([None, PendingWrite(2, 4, BASE - 15, "11")]))
def test_a_write_that_is_left_out_leaves_all_as_it_was(
    entry: SyncResult, earlier: PendingWrite | None
) -> None:
    """An earlier one whose outcome is not known stays pending."""
    step = step_of(entry.rules, entry.inputs)
    step = replace(step, history=replace(step.history, pending=earlier))
    for reason in NotWrittenReason:
        settled = step.settled(NotWritten(reason))
        assert settled == replace(step, write=NotWritten(reason))


def test_a_write_is_pending_before_it_is_sent() -> None:
    """With the count that it replaces and the version that guards it; the step goes on without."""
    step = going_down()
    assert step.intended().pending == PendingWrite(10, 2, step.inputs.stamp, "")
    assert step.history.pending is None
