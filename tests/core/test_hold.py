"""While `holdScaleDownQuery` or the breaker holds, nothing goes down (semantics 8.9, 8.7)."""

import math
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from autoscaler.core.breaker import goes_down, held_back
from autoscaler.core.decide import decide
from autoscaler.core.decision import BreakerHold, Decision, Outcome, QueryHold, Saturation, Zone
from autoscaler.core.extensions import Extensions, Fallback, Idle, Pause, PauseMode
from autoscaler.core.history import History, shifted
from autoscaler.core.observation import Gap, GapKind, HoldReading, Values
from autoscaler.core.readings import read_hold
from autoscaler.core.series import QueryFailure, QueryResult
from autoscaler.core.spec import Flags, LabelSelector
from autoscaler.core.target import HoldQuery, Query
from autoscaler.rendering.alternatives import RemovedInput, alternatives_of
from autoscaler.rendering.record import stages_of
from tests.core.builders import (
    BASE,
    QUEUE,
    behavior,
    percent_policy,
    pods_policy,
    rules,
    series,
    spec,
)
from tests.core.deciding import observe, reasons
from tests.core.entries import of_last
from tests.core.timeline import Timeline
from tests.narrowing import known

AWAY = HoldReading(1, '{job="orders"}')
FREE = HoldReading()
SILENT = HoldReading(gap=Gap(GapKind.ERROR, "no answer"))
AT_ONCE = spec(
    QUEUE, minimum=1, maximum=20, behavior=behavior(down=rules(pods_policy(100), window=0))
)


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
        (QueryResult((series(1.0, age=301.0),)), {}, 0, GapKind.STALE),
        (QueryResult((series(0.0, age=301.0),)), {"condition": True}, 0, GapKind.STALE),
        (QueryResult((series(math.nan, age=301.0), ONE)), {}, 1, None),
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


@settings(max_examples=60)
@given(st.lists(st.tuples(st.integers(0, 200), st.booleans()), min_size=1, max_size=30))
def test_only_a_hold_changes_the_count(course: list[tuple[int, bool]]) -> None:
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
    line.restart().sync("45s", queue=30).want(10).holds(FREE).sync("60s", queue=30).want(10)
    line.restart().sync("3m30s", queue=30).want(10).sync("3m45s", queue=30).want(3)


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
    extensions = Extensions(idle=Idle(0, after=60.0))
    line = Timeline(AT_ONCE, replicas=3, extensions=extensions).sync("0s", queue=30).holds(AWAY)
    line.sync("2m", queue=0).want(3).conditions(ScalingLimited="ScaleDownHeld")
    assert (line.decision.zone, line.decision.hold) == (Zone.IDLE, QueryHold(AWAY, 0))
    line.holds(FREE).sync("2m15s", queue=0).want(3).sync("2m20s", queue=0).want(0)
    line.holds(SILENT).sync("2m30s", queue=0).want(0).sync("2m45s", queue=30).want(3)


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


def test_the_count_that_a_hold_prevents_is_an_alternative() -> None:
    line = down().over(120.0).sync("15s", queue=100).holds(AWAY).sync("30s", queue=30)
    assert ("holdScaleDownQuery", 3) in left_out(line)
    assert left_out(line.holds(FREE).sync("45s", queue=30)) == [("holdScaleDownQuery", 3)]
    assert left_out(down().holds(AWAY).sync("15s", queue=100)) == []


def left_out(line: Timeline) -> list[tuple[str, int]]:
    """Return the count without each removed input."""
    hold = HoldQuery(Query("up == 0"), JOB_B, condition=True)
    entry = of_last(line)
    found = alternatives_of(replace(entry, target=replace(entry.target, hold=hold)))
    return [(other.what, other.desired) for other in found if isinstance(other, RemovedInput)]


# -- the scale-down breaker: what a held target records (8.7) --------------------------------------


def scale_down(history: History | None = None, window: int = 0) -> tuple[Decision, History]:
    """Decide about 10 replicas whose metric asks for 2, with a stabilization window."""
    free = behavior(down=rules(percent_policy(100), window=window))
    target, seen = spec(QUEUE, maximum=20, behavior=free), observe(10, Values((20_000,)))
    return decide(target, Flags(), seen, history or History(), BASE)


def test_a_held_target_stays_and_has_the_condition_of_the_breaker() -> None:
    decision, history = scale_down(History(recommendations=()))
    assert goes_down(decision)
    held, _ = held_back(decision, history, History(), "mimir", BASE + 600)
    assert (held.rescale, held.desired, held.outcome) == (False, 10, decision.outcome)
    assert held.breaker == BreakerHold("mimir", BASE + 600, 2)
    assert reasons(held)["ScalingLimited"] == ("True", "ScaleDownBreaker")
    assert "mimir" in held.conditions[-1].message
    assert (held.metrics, held.events) == (decision.metrics, decision.events)
    assert stages_of(held) == stages_of(decision)


def test_the_condition_of_a_hold_keeps_its_first_time() -> None:
    _, first = held_back(*scale_down(History(recommendations=())), History(), "", BASE + 600)
    held, _ = held_back(*scale_down(first), shifted(first, -15.0), "", BASE + 600)
    begins = {condition.type: condition.last_transition for condition in held.conditions}
    assert begins["ScalingLimited"] == BASE - 15.0


def test_a_held_target_records_no_write() -> None:
    decision, history = scale_down(History(recommendations=()))
    _, after = held_back(decision, history, History(), "", BASE + 600)
    assert after.recommendations == history.recommendations
    assert [recommendation.replicas for recommendation in after.recommendations or ()] == [2]
    assert (after.scale_downs, after.pending, after.zeroed_by_us) == ((), None, False)
    assert replace(after, conditions=()) == replace(history, conditions=(), desired_replicas=10)


def test_a_stabilized_target_does_not_go_down() -> None:
    decision, _ = scale_down(window=300)
    assert known(decision.combination).after == 2
    assert not goes_down(decision)


def test_a_pause_at_a_count_is_not_held() -> None:
    target = Timeline(spec(QUEUE), replicas=10).annotated(paused_replicas="2")
    decision = target.sync("0s", queue=900).decision
    assert decision.desired == 2
    assert not goes_down(decision)


def test_a_saturation_is_reported_after_a_quarter_of_an_hour() -> None:
    """Semantics 8.6."""
    decision, _ = scale_down()
    assert decision.lasting_saturation is None
    for seconds, lasts in ((0.0, False), (899.0, False), (900.0, True), (5000.0, True)):
        saturation = Saturation(7, BASE - seconds, "TooManyReplicas")
        lasting = replace(decision, saturation=saturation).lasting_saturation
        assert lasting == (saturation if lasts else None)
