"""The pods that a scale-down removes (semantics 8.14)."""

import math
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from autoscaler.core.decision import Decision, Removal, RemovalReason, Removals
from autoscaler.core.extensions import Extensions, Idle, Mode, Pause, PauseMode, ReplicaRounding
from autoscaler.core.history import History
from autoscaler.core.observation import (
    Gap,
    GapKind,
    HoldReading,
    Observation,
    Pod,
    PodSamples,
    ReadFailure,
    Sample,
    Scale,
)
from autoscaler.core.readings import read_deletion_costs
from autoscaler.core.removals import MOST_COSTS, cost_changes, is_over, removals_of
from autoscaler.core.series import QueryFailure, QueryResult
from autoscaler.core.spec import ConditionStatus, Flags
from autoscaler.core.step import SyncTimes, inputs_of, recompute, step_of
from autoscaler.core.sync_result import Rules
from autoscaler.core.target import Query, Target
from autoscaler.core.writes import (
    AcceptedWrite,
    SkippedWrite,
    SkippedWriteReason,
    UnsetCosts,
    WriteFailure,
)
from autoscaler.persistence.codec import dumps, is_same, loads
from tests.core.builders import (
    BASE,
    QUEUE,
    behavior,
    percent_policy,
    pod,
    pods,
    rules,
    samples,
    series,
    spec,
)
from tests.narrowing import known

NOT_READY, OTHERS, LOWEST = RemovalReason


def seen(
    of: tuple[Pod, ...] | ReadFailure,
    costs: PodSamples | Gap | None,
    *,
    replicas: int | None = None,
    status: int | None = None,
    ambiguous: tuple[str, ...] = (),
) -> Observation:
    """Return an observation of a workload with these pods."""
    count = replicas or (len(of) if isinstance(of, tuple) else 3)
    scale = Scale(count, status or count, "app=web")
    return Observation(scale, of, (), ambiguous_with=ambiguous, deletion_costs=costs)


def of_values(*milli: int) -> PodSamples:
    return PodSamples(samples(*milli))


def removed(seen: Observation, desired: int) -> list[tuple[str, RemovalReason, int | None]]:
    """Return the pods that go, in order, with their costs."""
    found = known(removals_of(seen, desired))
    return [(each.pod, each.reason, each.cost) for each in found.pods]


def test_as_many_pods_as_go_get_negative_costs_and_the_lowest_value_goes_first() -> None:
    found = known(removals_of(seen(pods(5), of_values(9000, 0, 4000, 1500, 8000)), 2))
    assert found == Removals(
        3,
        (
            Removal("p1", LOWEST, 0, -3),
            Removal("p3", LOWEST, 1500, -2),
            Removal("p2", LOWEST, 4000, -1),
        ),
    )
    assert found.costs == {"p1": -3, "p3": -2, "p2": -1}


@pytest.mark.parametrize("desired", [0, 3, 4])
def test_at_zero_and_without_a_scale_down_no_pod_gets_a_cost(desired: int) -> None:
    assert removals_of(seen(pods(3), of_values(1, 2, 3)), desired) is None


def test_pods_that_are_not_ready_go_first_and_need_no_cost() -> None:
    of = (
        pod("p0"),
        pod("p1", ready=ConditionStatus.FALSE),
        pod("p2", phase="Pending", ready=None),
        pod("p3"),
        pod("p4", phase="Unknown"),
    )
    assert removed(seen(of, of_values(5, 0, 0, 1, 0)), 1) == [
        ("p2", NOT_READY, None),
        ("p4", NOT_READY, None),
        ("p1", NOT_READY, None),
        ("p3", LOWEST, -1),
    ]
    assert removed(seen(of, of_values(5, 0, 0, 1, 0)), 4) == [("p2", NOT_READY, None)]


def test_a_pod_without_a_value_never_goes_before_one_with_a_value() -> None:
    assert removed(seen(pods(4), of_values(7, 5)), 1) == [("p1", LOWEST, -2), ("p0", LOWEST, -1)]
    assert known(removals_of(seen(pods(4), of_values(7, 5)), 1)).count == 3


def test_a_cost_of_another_client_is_kept_and_a_negative_one_counts() -> None:
    of = (
        replace(pod("p0"), deletion_cost=-7),
        replace(pod("p1"), deletion_cost=100),
        replace(pod("p2"), deletion_cost=0),
        pod("p3"),
        # Another client has replaced ours.
        replace(pod("p4"), deletion_cost=5, our_deletion_cost=-1),
        replace(pod("p5"), deletion_cost=-1, our_deletion_cost=-1),
    )
    zeros = of_values(0, 0, 0, 9, 0, 10)
    assert removed(seen(of, zeros), 3) == [
        ("p0", OTHERS, -7),
        ("p3", LOWEST, -2),
        ("p5", LOWEST, -1),
    ]
    assert removed(seen(of, zeros), 5) == [("p0", OTHERS, -7)]


def test_of_equal_values_the_pod_that_became_ready_last_goes_first() -> None:
    of = (pod("p0", transition=-900), pod("p1", transition=-600), pod("p2", transition=-800))
    assert removed(seen(of, of_values(0, 0, 0)), 1) == [("p1", LOWEST, -2), ("p2", LOWEST, -1)]


def test_pods_of_a_surge_go_too_and_deleted_ones_are_gone() -> None:
    of = (*pods(5), pod("p5", deleted=True))
    values = of_values(1, 2, 3, 4, 5, 0)
    assert known(removals_of(seen(of, values, replicas=4, status=5), 3)).count == 2
    # Some pods that the selector matches are of another workload.
    assert known(removals_of(seen(of, values, replicas=4), 3)).count == 1
    # The pods of an earlier scale-up do not exist yet.
    assert removals_of(seen(pods(2), of_values(1, 2), replicas=8), 3) is None


@pytest.mark.parametrize(
    ("of", "costs", "ambiguous", "kind"),
    [
        (pods(3), Gap(GapKind.ERROR, "no answer"), (), GapKind.ERROR),
        (pods(3), Gap(GapKind.EMPTY, "no series"), (), GapKind.EMPTY),
        (pods(3), PodSamples(samples(1, 2), gaps=(Gap(GapKind.PARTIAL, "x"),)), (), "partial"),
        (ReadFailure("no pods"), Gap(GapKind.EMPTY, "no series"), (), GapKind.ERROR),
        (pods(3), of_values(1, 2, 3), ("shop/Deployment/other",), GapKind.AMBIGUOUS),
    ],
)
def test_without_values_that_count_no_pod_is_chosen(
    of: tuple[Pod, ...] | ReadFailure,
    costs: PodSamples | Gap,
    ambiguous: tuple[str, ...],
    kind: str,
) -> None:
    found = known(removals_of(seen(of, costs, ambiguous=ambiguous), 1))
    assert (found.count, found.pods, known(found.gap).kind) == (2, (), kind)


def test_in_a_rollout_no_pod_is_chosen() -> None:
    """Only the Deployment controller knows how many pods of each ReplicaSet go."""
    names = ("web-5d4-aaaaa", "web-5d4-bbbbb", "web-9f8-ccccc")
    of = tuple([pod(name) for name in names])
    values = PodSamples({name: Sample(0, BASE, 60.0) for name in names})
    found = known(removals_of(seen(of, values), 1))
    assert (found.pods, known(found.gap).kind) == ((), GapKind.AMBIGUOUS)
    # The last pod of the old one is on its way out.
    of = (*of[:2], replace(of[2], deleted=True))
    assert known(removals_of(seen(of, values), 1)).costs == {"web-5d4-aaaaa": -1}


def test_a_gap_leaves_the_pods_that_are_not_ready() -> None:
    of = (pod("p0"), pod("p1"), pod("p2", phase="Pending"))
    assert removed(seen(of, Gap(GapKind.STALE, "old")), 1) == [("p2", NOT_READY, None)]


def test_the_number_of_costs_is_limited() -> None:
    many = MOST_COSTS + 50
    found = known(removals_of(seen(pods(many), of_values(*range(many))), 10))
    assert (found.count, len(found.costs)) == (many - 10, MOST_COSTS)
    assert found.costs["p0"] == -MOST_COSTS


_pods = st.lists(
    st.builds(
        lambda ready, cost, ours, deleted: replace(
            pod(ready=ready, deleted=deleted), deletion_cost=cost, our_deletion_cost=ours
        ),
        st.sampled_from([ConditionStatus.TRUE, ConditionStatus.TRUE, ConditionStatus.FALSE]),
        st.none() | st.integers(-3, 3),
        st.none() | st.integers(-3, -1),
        st.booleans(),
    ),
    min_size=2,
    max_size=9,
).map(lambda of: tuple([replace(each, name=f"p{index}") for index, each in enumerate(of)]))


@given(_pods, st.dictionaries(st.integers(0, 8), st.integers(0, 3)), st.integers(1, 8))
def test_no_pod_that_stays_has_a_lower_value_or_a_cost_of_ours(
    of: tuple[Pod, ...], milli: dict[int, int], desired: int
) -> None:
    costs = PodSamples({f"p{key}": Sample(value, BASE, 60.0) for key, value in milli.items()})
    found = removals_of(seen(of, costs), desired)
    if found is None:
        return
    going = {each.pod for each in found.pods}
    assert len(going) == len(found.pods) <= found.count
    assert sorted(found.costs.values()) == list(range(-len(found.costs), 0))
    highest = max((costs.samples[name].milli for name in found.costs), default=-1)
    for each in of:
        theirs = each.deletion_cost is not None and each.deletion_cost != each.our_deletion_cost
        if each.name in found.costs:
            assert each.name in costs.samples
            assert not theirs
        elif each.name in costs.samples and not (each.name in going or theirs or each.deleted):
            # A pod that stays, and could have been chosen.
            assert not found.costs or costs.samples[each.name].milli >= highest


@given(_pods, st.integers(1, 8))
def test_after_the_changes_the_costs_of_ours_are_the_wanted_ones(
    of: tuple[Pod, ...], desired: int
) -> None:
    costs = PodSamples({each.name: Sample(0, BASE, 60.0) for each in of})
    found = removals_of(seen(of, costs), desired)
    wanted = {} if found is None else found.costs
    changes = cost_changes(of, wanted)
    ours = {each.name: each.our_deletion_cost for each in of if not each.deleted}
    after = {name: cost for name, cost in (ours | changes).items() if cost is not None}
    assert after == wanted
    # A cost that is already set is not written again.
    for each in of:
        if each.deletion_cost == each.our_deletion_cost and each.deletion_cost in wanted.values():
            assert wanted.get(each.name) != each.deletion_cost or each.name not in changes


def test_the_lowest_values_are_written_first_and_removals_last() -> None:
    of = (replace(pod("p0"), deletion_cost=-1, our_deletion_cost=-1), pod("p1"), pod("p2"))
    assert list(cost_changes(of, {"p2": -2, "p1": -1}).items()) == [
        ("p2", -2),
        ("p1", -1),
        ("p0", None),
    ]


def test_a_scale_down_is_over_when_no_pod_is_left_over() -> None:
    assert not is_over(seen(pods(5), None, replicas=3, status=5))
    assert not is_over(seen(pods(4), None, replicas=3, status=5))
    assert is_over(seen(pods(3), None, replicas=3, status=5))
    assert is_over(seen(pods(3), None))
    assert is_over(seen((*pods(3), pod("p3", deleted=True)), None, replicas=3, status=4))
    # Other workloads' pods that the selector matches do not keep our costs.
    assert is_over(seen(pods(5), None, replicas=3, status=3))
    assert not is_over(seen(ReadFailure("no pods"), None))


# -- in a decision ---------------------------------------------------------------------------------

AT_ONCE = behavior(down=rules(percent_policy(100), window=0))
TARGET = Target(
    "shop",
    spec(QUEUE, maximum=20, behavior=AT_ONCE),
    (Query("queue"),),
    deletion_cost=Query("requests", max_age=60.0),
)
REQUESTS = QueryResult(
    [series(count, namespace="shop", pod=f"p{count}") for count in range(5)]
    + [series(0, namespace="other", pod="p4")]
)


def decide(
    target: Target = TARGET,
    requests: QueryResult | QueryFailure = REQUESTS,
    queue: float = 20,
    hold: HoldReading | None = None,
) -> Decision:
    """Return the decision about 5 pods, of which the queue wants queue / 10."""
    answers = {
        target.queries[0].key: QueryResult([series(queue)]),
        Query("requests").key: requests,
    }
    observation = Observation(Scale(5, 5, "app=web"), pods(5), ())
    times = SyncTimes(BASE, BASE, BASE)
    inputs = inputs_of(target, History(), observation, answers, times, lambda *_: ())
    inputs = replace(inputs, observation=replace(inputs.observation, hold=hold))
    step = step_of(Rules(target, Flags()), inputs)
    assert recompute(step.result) == step.decision
    return step.decision


def test_a_decision_names_the_pods_of_its_scale_down() -> None:
    found = known(decide().removals)
    assert found.costs == {"p0": -3, "p1": -2, "p2": -1}
    assert decide(replace(TARGET, deletion_cost=None)).removals is None
    assert decide(queue=80).removals is None


@pytest.mark.parametrize(
    ("extensions", "names"),
    [
        (Extensions(pause=Pause()), None),
        (Extensions(pause=Pause(PauseMode.SCALE_DOWN)), None),
        (Extensions(pause=Pause(replicas=4)), {"p0"}),
        (Extensions(mode=Mode.SHADOW), {"p0", "p1", "p2"}),
        (Extensions(replicas=ReplicaRounding(4)), {"p0"}),
        (Extensions(idle=Idle(0)), {"p0", "p1", "p2"}),
    ],
)
def test_other_rules_come_first(extensions: Extensions, names: set[str] | None) -> None:
    removals = decide(replace(TARGET, extensions=extensions)).removals
    assert (None if removals is None else removals.costs.keys()) == names


def test_a_scale_down_that_a_hold_or_a_breaker_prevents_removes_no_pod() -> None:
    assert decide(hold=HoldReading(1, "{}")).removals is None
    inputs = inputs_of(
        TARGET,
        History(),
        Observation(Scale(5, 5, "app=web"), pods(5), ()),
        {TARGET.queries[0].key: QueryResult([series(20)]), Query("requests").key: REQUESTS},
        SyncTimes(BASE, BASE, BASE),
        lambda *_: (),
    )
    step = step_of(Rules(TARGET, Flags()), inputs)
    assert step.decision.removals is not None
    assert step.held_back({"": BASE + 600}).decision.removals is None
    settled = step.settled(SkippedWrite(SkippedWriteReason.NOT_LEADING))
    assert settled.decision.removals == step.decision.removals
    assert step.settled(WriteFailure("500")).decision.removals is None


@pytest.mark.parametrize("why", ["", "forbidden"])
def test_pods_that_did_not_get_their_cost_are_not_said_to_go(why: str) -> None:
    observation = Observation(Scale(5, 5, "app=web"), pods(5), ())
    answers = {
        TARGET.queries[0].key: QueryResult([series(20)]),
        Query("requests").key: REQUESTS,
    }
    times = SyncTimes(BASE, BASE, BASE)
    inputs = inputs_of(TARGET, History(), observation, answers, times, lambda *_: ())
    write = AcceptedWrite(Scale(2, 5, "app=web"), UnsetCosts(("p1", "p2"), why))
    settled = step_of(Rules(TARGET, Flags()), inputs).settled(write)
    removals = known(settled.decision.removals)
    assert (removals.count, removals.costs) == (3, {"p0": -3})
    assert ("" if removals.gap is None else removals.gap.detail) == why
    assert recompute(settled.result) == settled.decision
    assert is_same(loads(AcceptedWrite, dumps(write)), write)


@pytest.mark.parametrize("requests", [QueryFailure("no answer"), QueryResult([])])
def test_a_query_without_an_answer_changes_nothing_else(
    requests: QueryResult | QueryFailure,
) -> None:
    without = decide(replace(TARGET, deletion_cost=None))
    assert replace(decide(requests=requests), removals=None) == without
    assert known(decide(requests=requests).removals).costs == {}


def test_values_are_read_like_a_metric_of_pods() -> None:
    query = Query("requests", max_age=60.0, series_labels=(("cluster", "eu"),))
    answer = QueryResult(
        [
            series(1, cluster="eu", namespace="shop", pod="p0"),
            series(1, cluster="us", namespace="shop", pod="p1"),
            series(math.nan, cluster="eu", namespace="shop", pod="p2"),
            series(1, cluster="eu", namespace="shop", pod="p3", age=61.0),
            series(0.0005, cluster="eu", namespace="shop", pod="p4"),
        ],
    )
    reading = read_deletion_costs(query, answer, "shop", pods(5), BASE)
    assert isinstance(reading, PodSamples)
    assert reading.samples.keys() == {"p0", "p4"}
    assert {name: gap.kind for name, gap in reading.dropped.items()} == {
        "p2": GapKind.NOT_A_NUMBER,
        "p3": GapKind.STALE,
    }
    partial = QueryResult(answer.series, ("a store is down",))
    reading = read_deletion_costs(query, partial, "shop", pods(5), BASE)
    assert isinstance(reading, PodSamples)
    assert [gap.kind for gap in reading.gaps] == [GapKind.PARTIAL]
    used = read_deletion_costs(replace(query, use_partial=True), partial, "shop", pods(5), BASE)
    assert isinstance(used, PodSamples)
    assert used.gaps == ()


def test_a_target_with_costs_needs_its_pods_and_asks_its_query() -> None:
    assert TARGET.needs_pods
    assert not replace(TARGET, deletion_cost=None).needs_pods
    assert TARGET.deletion_cost in TARGET.all_queries
    # Its failures say nothing about the metrics, so that no breaker counts it.
    assert TARGET.deletion_cost not in TARGET.count_queries
