"""While `holdScaleDownQuery` says so, nothing goes down (semantics 8.9)."""

import math
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from autoscaler.core.decision import Outcome, QueryHold, Zone
from autoscaler.core.extensions import Extensions, Fallback, Idle, Pause, PauseMode
from autoscaler.core.history import History
from autoscaler.core.observation import Gap, GapKind, HoldReading
from autoscaler.core.readings import read_hold
from autoscaler.core.series import QueryFailure, QueryResult, Series
from autoscaler.core.spec import Flags, LabelSelector
from autoscaler.core.sync_result import SyncResult
from autoscaler.core.target import HoldQuery, Query, Target
from autoscaler.persistence.codec import dumps, loads
from autoscaler.rendering.alternatives import RemovedInput, alternatives_of
from tests.core.builders import BASE, QUEUE, behavior, pods_policy, rules, spec
from tests.core.timeline import Timeline
from tests.narrowing import known

AWAY = HoldReading(1, '{job="orders"}')
FREE = HoldReading()
SILENT = HoldReading(gap=Gap(GapKind.ERROR, "no answer"))
AT_ONCE = spec(
    QUEUE, minimum=1, maximum=20, behavior=behavior(down=rules(pods_policy(100), window=0))
)


def series(value: float, age: float = 0.0, **labels: str) -> Series:
    return Series(labels, value, BASE - age)


ONE, OTHER = series(1.0, job="b"), series(2.0, job="a")
JOB_B = LabelSelector((("job", "b"),))
WARNED = QueryResult((), ("store eu",))


@pytest.mark.parametrize(
    ("answer", "hold", "says", "gap"),
    [
        (QueryResult(()), {}, 0, None),
        (QueryResult((series(0.0), series(-0.0, job="a"))), {}, 0, None),
        (QueryResult((ONE, OTHER, series(0.0))), {}, 2, None),
        (QueryResult((series(1e-9), series(-1.0), series(math.inf))), {}, 3, None),
        (QueryResult((series(0.0, job="a"),)), {"condition": True}, 1, None),
        (QueryResult(()), {"condition": True}, 0, None),
        (QueryResult((series(math.nan),)), {"condition": True}, 1, None),
        (QueryResult((ONE, OTHER)), {"selector": JOB_B}, 1, None),
        (QueryResult((OTHER,)), {"selector": JOB_B}, 0, None),
        (QueryFailure("it timed out"), {}, 0, GapKind.ERROR),
        (QueryResult((series(math.nan),)), {}, 0, GapKind.NOT_A_NUMBER),
        (QueryResult((series(1.0, 301.0),)), {}, 0, GapKind.STALE),
        (QueryResult((series(0.0, 301.0),)), {"condition": True}, 0, GapKind.STALE),
        (QueryResult((series(math.nan, 301.0), ONE)), {}, 1, None),
        (WARNED, {}, 0, GapKind.PARTIAL),
        (QueryResult((OTHER,), WARNED.warnings), {"selector": JOB_B}, 0, GapKind.PARTIAL),
        (QueryResult((ONE,), WARNED.warnings), {}, 1, None),
        (WARNED, {"query": Query("up", use_partial=True)}, 0, None),
        (QueryResult((series(math.nan),)), {"query": Query("up", nan_is_zero=True)}, 0, None),
    ],
)
def test_a_series_or_missing_data_holds(
    answer: QueryResult | QueryFailure, hold: dict[str, object], says: int, gap: GapKind | None
) -> None:
    """No series holds nothing; a value that is 0 neither, unless the query is a condition.

    Each kind of missing data holds, and a series that says so needs no whole answer.
    """
    query = replace(HoldQuery(Query("up")), **hold)  # type: ignore[arg-type]  # checked at run time
    found = read_hold(query, answer, BASE)
    assert (found.series, None if found.gap is None else found.gap.kind) == (says, gap)
    assert found.holds == (says > 0 or gap is not None)


def test_the_reported_series_does_not_depend_on_the_order() -> None:
    hold = HoldQuery(Query("up"))
    names = {
        read_hold(hold, QueryResult(both), BASE).first for both in ((ONE, OTHER), (OTHER, ONE))
    }
    assert names == {'{job="a"}'}


def down() -> Timeline:
    """Return a target of 10 replicas with messages for 10, that may go down at once."""
    return Timeline(AT_ONCE, replicas=10).sync("0s", queue=100).want(10)


@pytest.mark.parametrize("reading", [AWAY, SILENT])
def test_a_hold_prevents_scaling_down_and_not_up(reading: HoldReading) -> None:
    """After it the count is what metrics ask for.

    Not at the first sync: what that read of the metrics may be older than the end of the hold.
    """
    line = down().holds(reading).sync("15s", queue=30)
    line.want(10).conditions(ScalingLimited="ScaleDownHeld")
    assert line.decision.hold == QueryHold(reading, 3)
    assert known(line.decision.limit).after == 3
    line.sync("30s", queue=120).want(12).conditions(ScalingLimited="DesiredWithinRange")
    assert line.decision.hold == QueryHold(reading)
    line.sync("45s", queue=30).want(12)
    line.holds(FREE).sync("60s", queue=30).want(12, outcome=Outcome.OK)
    assert line.decision.hold == QueryHold(FREE, 3)
    line.sync("75s", queue=30).want(3).conditions(ScalingLimited="DesiredWithinRange")


def test_only_a_missing_answer_is_a_partial_failure() -> None:
    line = down().holds(AWAY).sync("15s", queue=30).want(10, outcome=Outcome.OK)
    line.holds(SILENT).sync("30s", queue=30).want(10, outcome=Outcome.PARTIAL)
    line.sync("45s", queue=100).want(10, outcome=Outcome.PARTIAL)


def test_the_stabilization_window_continues_during_a_hold() -> None:
    of = spec(QUEUE, minimum=1, maximum=20, behavior=behavior(down=rules(pods_policy(100))))
    line = Timeline(of, replicas=10).sync("0s", queue=100).want(10)
    line.holds(AWAY).sync("15s", queue=60).want(10).sync("4m", queue=30).want(10)
    line.holds(FREE).sync("4m30s", queue=30).want(10, stabilized="ScaleDownStabilized")
    line.sync("5m1s", queue=30).want(6).sync("5m16s", queue=30).want(3)
    line = Timeline(of, replicas=10).sync("0s", queue=100).holds(AWAY)
    line.sync("15s", queue=30).sync("10m", queue=30).want(10)
    line.holds(FREE).sync("10m15s", queue=30).want(10).sync("10m30s", queue=30).want(3)


@settings(max_examples=60)
@given(st.lists(st.tuples(st.integers(0, 200), st.booleans()), min_size=1, max_size=30))
def test_only_a_hold_changes_the_count(course: list[tuple[int, bool]]) -> None:
    """It is never lower while the query holds and once more; otherwise it is the HPA's count."""
    of = spec(
        QUEUE,
        minimum=1,
        maximum=20,
        behavior=behavior(up=rules(pods_policy(100)), down=rules(pods_policy(100), window=60)),
    )
    held, free = (Timeline(of, replicas=10, flags=Flags(tolerance=0.0)) for _ in range(2))
    held_before = False
    for number, (messages, holds) in enumerate(course):
        before = held.replicas
        free.sync(f"{15 * number}s", queue=messages)
        held.holds(AWAY if holds else FREE).sync(f"{15 * number}s", queue=messages)
        kept = holds or held_before
        assert held.replicas == (max(before, free.replicas) if kept else free.replicas)
        held_before = holds


@pytest.mark.parametrize("reading", [AWAY, SILENT])
def test_a_range_refills_after_a_hold(reading: HoldReading) -> None:
    """What it told of may have cost samples, as an exporter's that was away: as after a gap."""
    line = down().over(120.0).sync("15s", queue=100).holds(reading).sync("30s", queue=100)
    line.holds(FREE).sync("45s", queue=30).want(10, stabilized="ScaleDownStabilized")
    assert line.decision.hold == QueryHold(FREE)
    assert line.decision.refill is not None
    assert line.decision.refill.after_hold
    assert line.decision.refill.until == BASE + 45.0 + 155.0
    line.conditions(ScalingLimited="DesiredWithinRange").sync("60s", queue=120).want(12)
    line.sync("3m15s", queue=30).want(12).sync("3m20s", queue=30).want(3)
    assert line.history.extended.hold_gap is None


def test_a_short_hold_does_not_refill_a_long_range() -> None:
    line = down().over(600.0).sync("15s", queue=100).holds(AWAY).sync("30s", queue=100)
    line.holds(FREE).sync("45s", queue=30).want(10).sync("60s", queue=30).want(3)


def test_a_restart_forgets_neither_hold_nor_refill() -> None:
    line = down().over(120.0).sync("15s", queue=100).holds(AWAY).sync("30s", queue=30).want(10)
    line.history, line.looked = loads(History, dumps(line.history)), None
    line.sync("45s", queue=30).want(10).holds(FREE).sync("60s", queue=30).want(10)
    line.history, line.looked = loads(History, dumps(line.history)), None
    line.sync("3m30s", queue=30).want(10).sync("3m45s", queue=30).want(3)


def test_a_hold_survives_a_takeover() -> None:
    line = down().led(by_us=False).holds(AWAY).sync("15s", queue=30).want(10)
    line.led(by_us=True).sync("30s", queue=30).want(10).holds(FREE).sync("45s", queue=30).want(10)
    line.sync("60s", queue=30).want(3)


def test_a_new_target_that_is_held_goes_down_a_window_later() -> None:
    of = spec(QUEUE, behavior=behavior(down=rules(pods_policy(100), window=60)))
    line = Timeline(of, replicas=10).holds(AWAY).sync("0s", queue=30).want(10)
    line.holds(FREE).sync("30s", queue=30).want(10).sync("61s", queue=30).want(3)


def test_a_failed_metric_blocks_during_a_hold() -> None:
    line = down().over(120.0).sync("15s", queue=100).holds(AWAY)
    line.sync("30s", queue=None).want(10, outcome=Outcome.BLOCKED)
    line.holds(FREE).sync("45s", queue=30).want(10).sync("3m15s", queue=30).want(10)
    line.sync("3m30s", queue=30).want(3)


def test_a_hold_keeps_an_idle_target_awake() -> None:
    """An idle target keeps its count; afterwards it sleeps at once. It wakes at any time."""
    extensions = Extensions(idle=Idle(0, after=60.0))
    line = Timeline(AT_ONCE, replicas=3, extensions=extensions).sync("0s", queue=30).holds(AWAY)
    line.sync("2m", queue=0).want(3).conditions(ScalingLimited="ScaleDownHeld")
    assert (line.decision.zone, line.decision.hold) == (Zone.IDLE, QueryHold(AWAY, 0))
    line.holds(FREE).sync("2m15s", queue=0).want(3).sync("2m20s", queue=0).want(0).holds(
        SILENT
    ).sync("2m30s", queue=0).want(0)
    line.sync("2m45s", queue=30).want(3)


def test_after_a_hold_a_target_sleeps_once_the_range_is_complete() -> None:
    extensions = Extensions(idle=Idle(0, after=60.0))
    line = Timeline(AT_ONCE, replicas=3, extensions=extensions).over(120.0)
    line.sync("0s", queue=30).sync("2m40s", queue=30).holds(AWAY).sync("4m", queue=0).want(3)
    line.holds(FREE).sync("5m", queue=0).want(3).sync("7m30s", queue=0).want(3)
    line.sync("7m35s", queue=0).want(0)


@pytest.mark.parametrize("reading", [AWAY, SILENT])
def test_a_lower_maximum_waits_for_the_end_of_a_hold(reading: HoldReading) -> None:
    line = down().change(replace(AT_ONCE, max_replicas=5)).holds(reading)
    line.sync("15s", queue=100).want(10).conditions(ScalingLimited="ScaleDownHeld")
    assert (line.decision.zone, line.decision.hold) == (Zone.ABOVE_MAX, QueryHold(reading, 5))
    line.holds(FREE).sync("30s", queue=100).want(10).sync("45s", queue=100).want(5)


def test_a_lower_fallback_waits_for_the_end_of_a_hold() -> None:
    fallback = Extensions(fallback=Fallback(4, failure_threshold=1))
    line = Timeline(AT_ONCE, replicas=10, extensions=fallback).holds(AWAY)
    line.sync("0s", queue=None).want(10).by_hand(2).sync("15s", queue=None).want(4)


def test_a_pause_at_a_count_overrules_a_hold() -> None:
    """A pause of one direction adds to the hold."""
    line = down().holds(AWAY).annotated(paused_replicas="2").sync("15s", queue=30).want(2)
    line.annotated(paused="scale-up").sync("30s", queue=30).want(2)
    line = down().holds(AWAY).annotated(paused="scale-up").sync("15s", queue=30).want(10)
    assert (line.decision.hold, line.decision.paused_from) == (QueryHold(AWAY, 3), None)
    line.annotated(paused="scale-down").sync("30s", queue=30).want(10)
    assert (line.decision.hold, line.decision.paused_from) == (QueryHold(AWAY), 3)
    paused = Extensions(pause=Pause(PauseMode.ALL))
    line = Timeline(AT_ONCE, replicas=10, extensions=paused).holds(SILENT).sync("0s", queue=30)
    line.want(10)
    assert line.decision.zone is Zone.PAUSED


def test_a_hold_keeps_a_count_that_others_set() -> None:
    down().holds(AWAY).by_hand(4).sync("15s", queue=30).want(4)


def test_a_conflicting_write_after_a_hold_is_retried() -> None:
    line = down().holds(AWAY).sync("15s", queue=30).holds(FREE).sync("20s", queue=30)
    line.sync("30s", queue=30, write_fails="conflict").want(10).sync("45s", queue=30).want(3)


def test_without_the_query_no_hold_is_kept() -> None:
    line = down().over(120.0).sync("15s", queue=100).holds(AWAY).sync("30s", queue=30).want(10)
    line.holds(None).sync("45s", queue=30).want(3)
    assert line.history.extended.hold_gap is None


def entry_of(line: Timeline) -> SyncResult:
    hold = HoldQuery(Query("up == 0"), JOB_B, condition=True)
    target = Target("shop", line.spec, (Query("q"),), extensions=line.extensions, hold=hold)
    return SyncResult(target, line.decision, given=line.inputs, flags=line.flags)


def test_the_count_that_a_hold_prevents_is_an_alternative() -> None:
    """While it holds, and while a range is filled after it."""
    line = down().over(120.0).sync("15s", queue=100).holds(AWAY).sync("30s", queue=30)
    assert ("holdScaleDownQuery", 3) in left_out(line)
    assert left_out(line.holds(FREE).sync("45s", queue=30)) == [("holdScaleDownQuery", 3)]
    assert left_out(down().holds(AWAY).sync("15s", queue=100)) == []


def left_out(line: Timeline) -> list[tuple[str, int]]:
    """Return without what there would be which count."""
    found = alternatives_of(entry_of(line))
    return [(text.what, text.desired) for text in found if isinstance(text, RemovedInput)]
