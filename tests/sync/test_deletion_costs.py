"""Deletion costs in a sync: set before a scale-down, removed after it (semantics 8.14)."""

import threading
from collections.abc import Mapping
from dataclasses import replace

import pytest

from autoscaler import clock
from autoscaler.core.extensions import Extensions, Mode, Pause
from autoscaler.core.observation import GapKind, Pod, ReadFailure, Scale
from autoscaler.core.series import QueryFailure, QueryResult, Series
from autoscaler.core.target import Query, Target
from autoscaler.core.writes import UnsetCosts, WriteFailure
from tests.core.builders import behavior, percent_policy, rules
from tests.narrowing import known
from tests.worlds.memory import T0, Memory, external, pod

BUDGET = 12.0
AT_ONCE = behavior(down=rules(percent_policy(100), window=0))
NAMES = ("p0", "p1", "p2", "p3", "p4")


def target(extensions: Extensions = Extensions()) -> Target:  # noqa: B008 - frozen
    plain = external("shop", "web")
    return replace(
        plain,
        spec=replace(plain.spec, behavior=AT_ONCE),
        deletion_cost=Query("requests"),
        extensions=extensions,
    )


def busy(*counts: float) -> QueryResult:
    """Return the requests of each pod."""
    return QueryResult(
        [
            Series({"namespace": "shop", "pod": name}, count, T0)
            for name, count in zip(NAMES, counts, strict=False)
        ]
    )


def costly(costs: Mapping[str, int], names: tuple[str, ...] = NAMES) -> tuple[Pod, ...]:
    """Return pods, of which some have costs of ours."""
    return tuple(
        replace(pod(name), deletion_cost=costs.get(name), our_deletion_cost=costs.get(name))
        for name in names
    )


def world(queue: float = 90.0, pods: tuple[Pod, ...] | ReadFailure | None = None) -> Memory:
    """Return 5 pods, of which a queue of 90 needs 3."""
    found = Memory(
        answers={"queue": QueryResult([Series({}, queue, T0)]), "requests": busy(4, 0, 9, 1, 7)},
        scales={"shop/web": Scale(5, 5, "app=web")},
        pod_lists={"shop: app=web": costly({}) if pods is None else pods},
    )
    found.on_write = lambda _: found.costs.append(("write", {}))
    return found


def synced(of: Memory, target: Target, *times: float) -> Memory:
    with of.syncer() as syncer:
        for at in times or (0.0,):
            syncer.sync([target], T0 + at, BUDGET)
    return of


def test_the_costs_are_set_before_the_scale() -> None:
    assert synced(world(), target()).costs == [("shop", {"p1": -2, "p3": -1}), ("write", {})]


@pytest.mark.parametrize(
    ("of", "extensions"),
    [
        (world(150.0), Extensions()),
        (world(200.0), Extensions()),
        (world(), Extensions(pause=Pause())),
        (world(), Extensions(mode=Mode.SHADOW)),
        (replace(world(), leads=False), Extensions()),
        (replace(world(), controllers={"shop/web": 'HorizontalPodAutoscaler "web"'}), Extensions()),
    ],
    ids=["unchanged", "up", "paused", "shadow", "standby", "controlled"],
)
def test_nothing_is_set_without_a_scale_down_of_ours(of: Memory, extensions: Extensions) -> None:
    costs = [costs for where, costs in synced(of, target(extensions)).costs if where == "shop"]
    assert costs == []


def test_at_zero_no_pod_has_a_cost() -> None:
    plain = target()
    to_zero = replace(plain, spec=replace(plain.spec, min_replicas=0))
    of = synced(world(0.0), to_zero)
    assert (of.costs, of.written) == ([("write", {})], [("shop/web", 0)])


@pytest.mark.parametrize(
    "requests",
    [
        QueryFailure("no answer"),
        QueryResult([]),
        QueryResult(busy(1, 2, 3, 4, 5).series, ("a store is down",)),
        busy(*[float("nan")] * 5),
    ],
    ids=["error", "empty", "partial", "NaN"],
)
def test_without_values_the_scale_is_written_and_old_costs_are_removed(
    requests: QueryResult | QueryFailure,
) -> None:
    of = world(pods=costly({"p4": -1}))
    of.answers["requests"] = requests
    assert synced(of, target()).costs == [("shop", {"p4": None}), ("write", {})]
    assert of.written == [("shop/web", 3)]


def test_pods_that_cannot_be_read_do_not_keep_a_queue_from_scaling() -> None:
    of = synced(world(pods=ReadFailure("forbidden")), target())
    assert (of.costs, of.written) == ([("write", {})], [("shop/web", 3)])


def test_a_cost_that_fails_by_a_defect_does_not_prevent_the_write() -> None:
    def broken(_namespace: str) -> None:
        raise OverflowError("a defect")

    of = world()
    of.on_costs = broken
    synced(of, target())
    assert of.written == [("shop/web", 3)]
    assert [type(fault) for fault in of.faults] == [OverflowError]
    assert known(of.result("shop/web").decision.removals).costs == {}


def test_a_cost_that_was_not_set_is_in_the_decision() -> None:
    of = world()
    of.unset = UnsetCosts(("p1",), "forbidden")
    removals = known(synced(of, target()).result("shop/web").decision.removals)
    assert (removals.costs, known(removals.gap).detail) == ({"p3": -1}, "forbidden")


def test_a_slow_query_of_costs_delays_no_decision_by_more_than_a_moment() -> None:
    of, answered = world(), threading.Event()
    of.on_query = {"requests": lambda: answered.wait(10)}
    of.on_write = lambda _: answered.set()
    begun = clock.monotonic()
    synced(of, target())
    assert clock.monotonic() - begun < 5
    assert of.written == [("shop/web", 3)]
    assert of.costs == []
    gap = known(known(of.result("shop/web").decision.removals).gap)
    assert (gap.kind, "no answer came" in gap.detail) == (GapKind.ERROR, True)


def test_a_scale_up_that_fails_does_not_keep_old_costs() -> None:
    of = world(200.0, costly({"p2": -1}))
    of.outcomes["shop/web"] = WriteFailure("500")
    assert ("shop", {"p2": None}) in synced(of, target()).costs


def test_costs_are_removed_once_the_scale_down_is_over() -> None:
    of = world(pods=costly({}))
    with of.syncer() as syncer:
        syncer.sync([target()], T0, BUDGET)
        del of.costs[:]
        marked = {"p1": -2, "p3": -1}
        # The pods are not gone yet.
        of.pod_lists["shop: app=web"] = costly(marked)
        syncer.sync([target()], T0 + 15, BUDGET)
        assert of.costs == []
        # A pod that was not ready went instead of p3.
        of.pod_lists["shop: app=web"] = costly(marked, ("p0", "p2", "p3"))
        syncer.sync([target()], T0 + 30, BUDGET)
        assert of.costs == [("shop", {"p3": None})]


def test_costs_of_a_failed_write_are_set_once_and_removed_after_another_decision() -> None:
    of = world()
    of.outcomes["shop/web"] = WriteFailure("500")
    with of.syncer() as syncer:
        syncer.sync([target()], T0, BUDGET)
        of.pod_lists["shop: app=web"] = costly({"p1": -2, "p3": -1})
        syncer.sync([target()], T0 + 15, BUDGET)
        assert [costs for where, costs in of.costs if where == "shop"] == [{"p1": -2, "p3": -1}]
        of.answers["queue"] = QueryResult([Series({}, 150.0, T0 + 30)])
        syncer.sync([target()], T0 + 30, BUDGET)
        assert of.costs[-1] == ("shop", {"p1": None, "p3": None})


@pytest.mark.parametrize("extensions", [Extensions(), Extensions(pause=Pause())])
def test_after_a_restart_or_a_takeover_leftover_costs_are_removed(extensions: Extensions) -> None:
    """No memory is needed: the pods show which costs are ours; a pause keeps only the count."""
    of = world(150.0, costly({"p2": -1}))
    assert synced(of, target(extensions)).costs == [("shop", {"p2": None})]


@pytest.mark.parametrize("leads", [True, False])
def test_a_standby_and_a_target_in_shadow_leave_the_pods_as_they_are(*, leads: bool) -> None:
    of = replace(world(150.0, costly({"p2": -1})), leads=leads)
    shadow = Extensions(mode=Mode.SHADOW) if leads else Extensions()
    assert synced(of, target(shadow)).costs == []


def test_a_metric_without_an_answer_changes_no_pod() -> None:
    of = world()
    of.answers["queue"] = QueryFailure("no answer")
    assert synced(of, target()).costs == []


def test_targets_with_equal_queries_share_a_request() -> None:
    of = world()
    of.scales["shop/api"] = Scale(5, 5, "app=api")
    other = external("shop", "api")
    other = replace(other, deletion_cost=Query("requests"))
    with of.syncer() as syncer:
        syncer.sync([target(), other], T0, BUDGET)
    assert of.queried.count("requests") == 1
