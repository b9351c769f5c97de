"""A sync of many targets: its queries, decisions, writes and reports."""

import gc
import threading
import weakref
from dataclasses import replace

import pytest

from autoscaler import clock
from autoscaler.core.decision import Outcome
from autoscaler.core.extensions import Extensions, Mode
from autoscaler.core.history import History, PendingWrite
from autoscaler.core.observation import ReadFailure, Scale
from autoscaler.core.series import QueryFailure, QueryResult
from autoscaler.core.spec import Flags
from autoscaler.core.target import Target
from autoscaler.core.writes import (
    AcceptedWrite,
    SkippedWrite,
    SkippedWriteReason,
    WriteConflict,
    WriteFailure,
    WriteOutcome,
)
from tests.sync.test_faults import raise_defect
from tests.worlds.memory import T0, Memory, answer, external, per_pod, pod, queue, sync_once
from tests.worlds.waiting import wait_until

BUDGET = 10.0


def test_a_target_is_scaled_as_its_queue_demands() -> None:
    """200 messages at 30 a replica are ceil(6.67) = 7, limited to 4 from 1 by the doubling rule."""
    world, targets = queue(200.0, worker=1), [external("shop", "worker")]
    with world.syncer() as syncer:
        syncer.sync(targets, T0, BUDGET, steady=0.0)
        assert world.written == [("shop/worker", 4)]
        syncer.sync(targets, T0 + 15, BUDGET, steady=15.0)
    assert world.written == [("shop/worker", 4), ("shop/worker", 7)]
    result = world.result("shop/worker")
    assert isinstance(result.write, AcceptedWrite)
    assert [condition.reason for condition in result.decision.conditions] == [
        "SucceededRescale",
        "ValidMetricFound",
        "DesiredWithinRange",
    ]


def test_answers_are_freed_with_the_sync() -> None:
    world = Memory(scales={"shop/worker": Scale(1, 1, "app=worker")})
    given: list[weakref.ref[QueryResult]] = []

    def query(_promql: str, _at: float | None, _deadline: float) -> QueryResult:
        reading = answer(200.0)
        given.append(weakref.ref(reading))
        return reading

    world.query = query  # type: ignore[method-assign, assignment]  # it keeps its answers
    gc.collect()
    gc.disable()
    try:
        with world.syncer() as syncer:
            for number in range(2):
                now = T0 + 15 * number
                syncer.sync([external("shop", "worker")], now, BUDGET, steady=15.0 * number)
            assert len(world.written) == 2
            wait_until("freed answers", lambda: all(text() is None for text in given))
    finally:
        gc.enable()


BAD = external("shop", "a", promql="bad")


@pytest.mark.parametrize(
    ("target", "broken", "reason", "message"),
    [
        (BAD, {"answers": {"bad": QueryFailure("char 3")}}, "FailedGetExternalMetric", "char 3"),
        (BAD, {"scales": {"shop/a": ReadFailure("not found")}}, "FailedGetScale", "not found"),
        (BAD, {"on_query": {"bad": raise_defect}}, "", "OverflowError"),
        (
            per_pod("shop", "a", promql="bad"),
            {"pod_lists": {"shop: app=a": ReadFailure("forbidden")}},
            "FailedListPods",
            "forbidden",
        ),
    ],
    ids=["metric", "object", "query-that-raises", "pods"],
)
def test_an_error_of_one_target_leaves_the_others_alone(
    target: Target, broken: dict[str, dict[str, object]], reason: str, message: str
) -> None:
    world = queue(90.0, a=5, b=2)
    world.answers["bad"] = answer(1.0, namespace="shop", pod="a-1")
    for name, changed in broken.items():
        setattr(world, name, getattr(world, name) | changed)
    sync_once(world, target, external("shop", "b"))
    assert world.written == [("shop/b", 3)]
    blocked = world.result("shop/a").decision
    assert blocked.outcome is Outcome.BLOCKED
    reported = {event.reason: event.message for event in blocked.events}
    reported |= {condition.reason: condition.message for condition in blocked.conditions}
    assert message in reported.get(reason, blocked.events[0].message)
    assert reason in {"", *reported}
    assert [type(error) for error in world.faults] == ([] if reason else [OverflowError])


def test_pods_are_listed_only_if_a_decision_needs_them() -> None:
    world = Memory(
        answers={"queue": answer(30.0), "rps": answer(25.0, namespace="shop", pod="web-1")},
        scales={"shop/worker": Scale(1, 1, "app=worker"), "shop/web": Scale(1, 1, "app=web")},
        pod_lists={"shop: app=web": (pod("web-1"),)},
    )
    sync_once(world, external("shop", "worker"), per_pod("shop", "web"))
    assert world.listed == ["shop: app=web"]
    assert world.written == [("shop/web", 3)]


@pytest.mark.parametrize("unread", [True, False], ids=["first-unread", "read"])
@pytest.mark.parametrize("cached", [True, False], ids=["cached", "not-cached"])
@pytest.mark.parametrize("shared", [True, False], ids=["shared", "apart"])
def test_two_targets_that_select_the_same_pods_are_both_held(
    *, shared: bool, cached: bool, unread: bool
) -> None:
    scales: dict[str, Scale | ReadFailure] = {
        "shop/a": Scale(2, 2, "app=x"),
        "shop/b": Scale(2, 2, "app=x,tier=b"),
    }
    world = Memory(
        answers={"queue": answer(600.0)},
        scales=dict.fromkeys(scales, ReadFailure("away")) if unread else dict(scales),
        pod_lists={"shop: app=x": (pod("a-1"),), "shop: app=x,tier=b": (pod("b-1"),)},
        scales_cached=cached,
    )
    if shared:
        world.pod_lists["shop: app=x"] = (pod("a-1"), pod("b-1"))
    targets = [external("shop", "a"), external("shop", "b")]
    with world.syncer() as syncer:
        if unread:
            syncer.sync(targets, T0, BUDGET)
            world.scales |= scales
        syncer.sync(targets, T0 + 15, BUDGET)
    for name in scales:
        conditions = world.result(name).decision.conditions
        reasons = {condition.reason for condition in conditions}
        assert ("AmbiguousSelector" in reasons) is shared
    assert len(world.written) == (0 if shared else 2)


@pytest.mark.parametrize(
    ("outcome", "error"),
    [
        pytest.param(WriteConflict(Scale(9, 9, "app=a")), "9", id="conflict"),
        pytest.param(WriteFailure("500"), "500", id="failure"),
        pytest.param(None, "OverflowError", id="defect"),
    ],
)
def test_a_failed_write_is_reported_and_not_counted(
    outcome: WriteConflict | WriteFailure | None, error: str
) -> None:
    world = queue(90.0, a=2)
    if outcome is None:
        world.on_write = raise_defect
    else:
        world.outcomes["shop/a"] = outcome
    with world.syncer() as syncer:
        syncer.sync([external("shop", "a")], T0, BUDGET)
        history = syncer.histories.get("shop/Deployment/a", 0.0)
    decision = world.result("shop/a").decision
    assert not decision.written
    assert decision.events[-1].reason == "FailedRescale"
    assert error in decision.events[-1].message
    assert history.scale_ups == ()
    assert history.last_scale_time is None
    assert [type(fault) for fault in world.faults] == ([OverflowError] if outcome is None else [])


def test_a_stop_finishes_the_running_write_and_begins_no_other() -> None:
    stop = threading.Event()
    names = [f"w{number}" for number in range(60)]
    world = queue(90.0, **dict.fromkeys(names, 2))
    world.on_write = lambda _name: stop.set()
    with world.syncer(stop) as syncer:
        syncer.sync([external("shop", name) for name in names], T0, BUDGET)
    written = {name for name, _ in world.written}
    reported = {
        f"shop/{result.target.spec.scale_target_ref.name}"
        for result in world.results
        if isinstance(result.write, AcceptedWrite)
    }
    assert written
    assert written == reported
    assert len(written) < len(names)


@pytest.mark.parametrize("reason", [SkippedWriteReason.PLANNED, SkippedWriteReason.SHADOW])
def test_a_plan_and_a_target_in_shadow_write_nothing(reason: SkippedWriteReason) -> None:
    world, target = queue(90.0, a=2), external("shop", "a")
    if reason is SkippedWriteReason.PLANNED:
        world.planned = True
    else:
        world.controllers["shop/a"] = 'HorizontalPodAutoscaler "keda-hpa-a"'
        target = replace(target, extensions=Extensions(mode=Mode.SHADOW))
    with world.syncer() as syncer:
        for number in range(3):
            syncer.sync([target], T0 + 15 * number, BUDGET, steady=15.0 * number)
    result = world.result("shop/a")
    assert (result.decision.desired, result.decision.rescale) == (3, True)
    assert result.write == SkippedWrite(reason)
    assert not result.decision.written
    assert world.written == []
    assert world.kept[target.key].pending is None


def test_a_changed_target_keeps_its_history_and_a_removed_one_loses_it() -> None:
    world = queue(600.0, a=20, b=20)
    a, b = external("shop", "a"), external("shop", "b")
    edited = replace(a, spec=replace(a.spec, max_replicas=a.spec.max_replicas + 5))
    with world.syncer() as syncer:
        syncer.sync([a, b], T0, BUDGET, steady=0.0)
        before = syncer.histories.get(a.key, 0.0)
        syncer.change(Flags(), world.world(), [edited], {})
        assert syncer.histories.get(a.key, 0.0) == before
        assert before.recommendations is not None
        assert syncer.histories.get(b.key, 0.0) == History()
        syncer.sync([edited], T0 + 15, BUDGET, steady=15.0)
    assert world.result("shop/a").decision.max_replicas == edited.spec.max_replicas


def test_nothing_is_written_by_a_process_that_does_not_lead() -> None:
    """It decides all the same, so that its history is warm when it takes over."""
    world = queue(90.0, a=2)
    world.leads = False
    target = external("shop", "a")
    with world.syncer() as syncer:
        syncer.sync([target], T0, BUDGET, steady=0.0)
        assert world.written == []
        assert world.result("shop/a").write == SkippedWrite(SkippedWriteReason.NOT_LEADING)
        recommended = syncer.histories.get(target.key, 0.0).recommendations
        assert recommended is not None
        assert [recommendation.replicas for recommendation in recommended] == [2, 3]
        world.leads = True
        syncer.sync([target], T0 + 15, BUDGET, steady=15.0)
    assert world.written == [("shop/a", 3)]


def test_a_write_is_noted_before_it_is_sent() -> None:
    seen: list[PendingWrite | None] = []
    world = Memory(answers={"queue": answer(90.0)}, scales={"shop/a": Scale(2, 2, "app=a", "7")})
    world.on_write = lambda _name: seen.append(world.kept["shop/Deployment/a"].pending)
    sync_once(world, external("shop", "a"))
    assert seen == [PendingWrite(2, 3, T0, "7")]
    assert world.kept["shop/Deployment/a"].pending is None
    assert world.kept["shop/Deployment/a"].last_scale_time == T0


def test_a_sync_is_one_transaction_of_the_store() -> None:
    names = [f"t{number}" for number in range(20)]
    world = queue(20.0, **dict.fromkeys(names, 1))
    sync_once(world, *(external("shop", name) for name in names))
    assert world.transactions == [len(names)]


@pytest.mark.parametrize(
    "second",
    [
        None,
        WriteFailure("refused"),
        WriteConflict(Scale(3, 2, "app=a", "8")),
        WriteFailure("timed out again", unknown=True),
    ],
)
def test_a_write_that_landed_unseen_outlives_the_tries_after_it(
    second: WriteOutcome | None,
) -> None:
    target, landed = external("shop", "a"), Scale(3, 2, "app=a", "8")
    world = Memory(answers={"queue": answer(90.0)}, scales={"shop/a": Scale(2, 2, "app=a", "7")})
    with world.syncer() as syncer:
        world.outcomes["shop/a"] = WriteFailure("timed out", unknown=True)
        syncer.sync([target], T0, BUDGET, steady=0.0)
        as_of = syncer.histories.as_of
        assert syncer.histories.get(target.key, as_of).last_scale_time is None
        if second is not None:
            world.outcomes["shop/a"] = second
            syncer.sync([target], T0 + 15, BUDGET, steady=15.0)
        world.scales["shop/a"] = landed
        syncer.sync([target], T0 + 30, BUDGET, steady=30.0)
        history = syncer.histories.get(target.key, as_of)
    assert history.last_scale_time == T0 + 30
    assert history.pending is None
    assert world.result("shop/a").decision.foreign is None


def test_a_restart_during_a_short_outage_begins_no_window_anew() -> None:
    """A restart of 12 s within 40 s without answers: a window of five minutes ends as it would."""
    world = queue(600.0, a=20)
    target = external("shop", "a")
    with world.syncer() as syncer:
        syncer.sync([target], T0, BUDGET, steady=1000.0)
    steps = clock.Steps(T0 + 12.0, 1012.0)
    with world.syncer(known=world.kept, steps=steps) as syncer:
        syncer.last_sync.update({target.key: 1000.0})
        for later in range(15, 320, 15):
            world.answers["queue"] = answer(30.0, now=T0 + later)
            if later < 45:
                world.answers["queue"] = QueryFailure("away")
            syncer.sync([target], T0 + later, BUDGET, steady=1000.0 + later)
            assert world.written == ([] if later < 300 else [("shop/a", 1)])


def test_a_hole_in_the_syncs_lets_nothing_go_down_before_one_window() -> None:
    """A process that was stopped for an hour begins its window anew, as after a restart."""
    world = queue(600.0, a=20)
    target = external("shop", "a")
    with world.syncer() as syncer:
        syncer.sync([target], T0, BUDGET, steady=0.0)
        for later in (3600.0, 3615.0):
            world.answers["queue"] = answer(0.0, now=T0 + later)
            syncer.sync([target], T0 + later, BUDGET, steady=later)
        assert world.written == []
        for step in range(1, 22):
            later = 3600.0 + 15 * step
            world.answers["queue"] = answer(0.0, now=T0 + later)
            syncer.sync([target], T0 + later, BUDGET, steady=later)
    assert world.written == [("shop/a", 1)]
