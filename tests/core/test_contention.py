"""Others who set the replicas (semantics 7.4, 7.5)."""

import math
from collections.abc import Callable, Mapping
from dataclasses import replace
from itertools import product

import pytest
from hypothesis import given
from hypothesis import strategies as st

from autoscaler.core.decision import ForeignChange
from autoscaler.core.history import ScaleEvent
from autoscaler.core.spec import Behavior, Flags, SelectPolicy
from autoscaler.core.writes import FIELD_MANAGER
from tests.core.builders import (
    BASE,
    QUEUE,
    average,
    behavior,
    both_ways,
    external,
    percent_policy,
    pods_policy,
    rules,
    spec,
)
from tests.core.timeline import Timeline
from tests.core.two_writers import PERIOD, EventOutcome, TwoWriters
from tests.narrowing import known

SPEC = spec(QUEUE, maximum=20)


def test_a_change_by_somebody_else_is_reported_once_with_its_manager() -> None:
    line = Timeline(SPEC, replicas=4)
    line.sync("0s", queue=40).foreign(None)
    line.by_hand(6, "kubectl")
    line.sync("15s", queue=60).foreign(ForeignChange(4, 6, "kubectl"))
    line.sync("30s", queue=60).foreign(None)


def test_three_reversals_in_ten_minutes_hold_for_ten_minutes() -> None:
    line = Timeline(SPEC, replicas=2).sync("0s", queue=40).want(4)
    for number, time in enumerate(("15s", "30s"), 1):
        line.by_hand(2, "kubectl").sync(time, queue=40).want(4)
        line.foreign(ForeignChange(4, 2, "kubectl", reversal=True))
        assert len(line.history.contention.reversals) == number
    line.by_hand(2, "kubectl").sync("45s", queue=40).want(2, outcome="blocked")
    line.conditions(AbleToScale="ReplicasContested").events("ReplicasContested")
    assert line.decision.held_until == BASE + 45 + 600
    line.sync("5m", queue=40).want(2, outcome="blocked")
    line.sync("10m44s", queue=40).want(2, outcome="blocked")
    line.sync("10m45s", queue=40).want(4, outcome="ok")


def test_a_hold_is_not_reported_if_nothing_would_change() -> None:
    line = Timeline(SPEC, replicas=2).sync("0s", queue=40).want(4)
    for time in ("15s", "30s", "45s"):
        line.by_hand(2).sync(time, queue=40)
    line.sync("6m", queue=20).want(2, outcome="ok").events()


def test_reversals_far_apart_hold_nothing() -> None:
    line = Timeline(SPEC, replicas=2).sync("0s", queue=40).want(4)
    for time in ("5m1s", "10m2s", "15m3s", "20m4s"):
        line.by_hand(2).sync(time, queue=40).want(4, outcome="ok")


def test_only_a_change_against_our_own_is_a_reversal() -> None:
    """Somebody who goes on in our direction, or undoes his own change, contests nothing."""
    line = Timeline(SPEC, replicas=2).sync("0s", queue=40).want(4)
    line.by_hand(6).sync("15s", queue=60).foreign(ForeignChange(4, 6))
    line.by_hand(4).sync("30s", queue=40).foreign(ForeignChange(6, 4))
    assert line.history.contention.reversals == ()


def test_the_flag_0_turns_the_hold_off() -> None:
    line = Timeline(SPEC, replicas=2, flags=Flags(hold_after_reversals=0)).sync("0s", queue=40)
    for time in ("15s", "30s", "45s", "60s"):
        line.by_hand(2).sync(time, queue=40).want(4, outcome="ok")


def test_a_change_by_another_instance_of_ours_counts_as_our_write() -> None:
    """A follower that takes over keeps the rate limits of the leader before it."""
    slow = behavior(up=rules(pods_policy(4, 60)))
    line = Timeline(spec(QUEUE, maximum=20, behavior=slow), replicas=2).led(by_us=False)
    line.sync("0s", queue=20).want(2)
    line.by_hand(6, FIELD_MANAGER).sync("15s", queue=200).want(6, limited="ScaleUpLimit")
    line.foreign(None)
    assert line.history.scale_ups == (ScaleEvent(4, BASE + 15, earliest=BASE - 60),)
    line.sync("1m15s", queue=200).want(10)


def test_an_autoscaler_with_another_lease_is_somebody_else() -> None:
    line = Timeline(SPEC, replicas=2).sync("0s", queue=40).want(4)
    for time in ("15s", "30s", "45s"):
        line.by_hand(2, FIELD_MANAGER).sync(time, queue=40)
        line.foreign(ForeignChange(4, 2, FIELD_MANAGER, reversal=True))
    line.want(2, outcome="blocked").conditions(AbleToScale="ReplicasContested")


def test_others_are_counted_from_the_second_look_of_a_leader_on() -> None:
    """Its first one may show a write of the leader before; as a follower it holds for none."""
    line = Timeline(SPEC, replicas=2).led(by_us=False).sync("0s", queue=40)
    for time in ("15s", "30s", "45s", "60s"):
        line.by_hand(2, FIELD_MANAGER).sync(time, queue=40).foreign(None).want(4, outcome="ok")
    line.led(by_us=True).by_hand(2, FIELD_MANAGER).sync("75s", queue=40)
    line.foreign(ForeignChange(4, 2, FIELD_MANAGER, reversal=True)).want(4)


# -- rate limits across a change of leader: what it did not see frees nothing ----------------------


SLOW = both_ways(pods_policy(1, 30))
"""One pod in thirty seconds, both ways."""


def fast(pods: int) -> Behavior:
    """Return rules by which the leader may make any change at once, and then no other for 30 s."""
    return both_ways(pods_policy(pods, 30))


@pytest.mark.parametrize(
    ("by_hand", "by_leader", "then"), [(23, 20, 1), (1, 4, 40), (20, 6, 40), (2, 6, 1)]
)
def test_a_change_by_hand_in_the_sum_frees_nothing(by_hand: int, by_leader: int, then: int) -> None:
    """The standby sees the sum of a change by hand and of one by the leader, and then leads."""
    world = TwoWriters(fast(abs(by_leader - by_hand)))
    world.pass_time(60)
    world.instances[1].runs = False
    world.hand(by_hand)
    world.load = by_leader
    world.pass_time(PERIOD)
    assert world.replicas == by_leader
    world.instances[1].runs = True
    world.pass_time(PERIOD)
    world.fails_over()
    world.load = then
    world.pass_time(15)
    assert world.replicas == by_leader, "the allowance of these 30 seconds is used"
    world.pass_time(30)
    assert world.replicas != by_leader, "and that of the next ones is free"


def test_a_standby_knows_a_change_that_it_saw() -> None:
    world = TwoWriters(fast(10))
    world.pass_time(60)
    world.load = 10
    world.pass_time(2 * PERIOD)
    world.fails_over()
    world.load = 30
    world.pass_time(PERIOD)
    assert world.replicas == 16, "four of ten pods were the leader's before"


@pytest.mark.parametrize("remembers", [True, False])
def test_only_a_leader_without_memory_waits_after_a_takeover(remembers: bool) -> None:
    world = TwoWriters(fast(10))
    world.pass_time(60)
    world.instances[1].runs = False
    world.pass_time(600)
    world.fails_over(remembers=remembers)
    world.load = 12
    world.pass_time(PERIOD)
    assert world.replicas == (12 if remembers else 6)
    world.pass_time(30)
    assert world.replicas == 12


def test_a_recreated_object_is_not_a_known_one() -> None:
    world = TwoWriters(SLOW)
    world.pass_time(10)
    world.leader = -1
    instance = world.instances[1]
    world.generation = 1
    contention = replace(instance.history.contention, generation=9)
    instance.history = replace(instance.history, contention=contention)
    world.pass_time(PERIOD)
    assert instance.history.unseen == world.now - PERIOD


def test_the_count_of_the_last_leader_holds_for_a_window_after_a_takeover() -> None:
    """The standby never read the leader's burst: it goes down no earlier than the leader would."""
    window = rules(pods_policy(10, 15), window=60)
    line = Timeline(spec(external(average("1")), behavior=behavior(down=window)), replicas=8)
    line.led(by_us=False).sync("0s", queue=8).sync("15s", queue=8)
    line.by_hand(10, FIELD_MANAGER).sync("30s", queue=8).led(by_us=True)
    line.sync("45s", queue=8).want(10, stabilized="ScaleDownStabilized")
    line.sync("1m15s", queue=8).want(10)
    line.sync("1m30s", queue=8).want(8)


@pytest.mark.parametrize(
    ("manager", "held"), [("kubectl", False), ("", True), (FIELD_MANAGER, True)]
)
def test_a_count_set_by_a_person_is_not_a_recommendation(manager: str, *, held: bool) -> None:
    """What a person set counts no more than in the HPA; nor does it keep anything from going up."""
    up = behavior(up=rules(pods_policy(10, 15), window=60))
    line = Timeline(spec(external(average("1")), behavior=up), replicas=8)
    line.led(by_us=False).sync("0s", queue=20).by_hand(10, manager).sync("15s", queue=20)
    recommendations = known(line.history.recommendations)
    counts = [entry.replicas for entry in recommendations if entry.only_down]
    assert counts == ([10] if held else [])


# -- no write whose answer was lost breaks a rate, or is taken for another autoscaler's (7.4, 7.7) -


ANSWERED = EventOutcome()
LANDED, NEVER = EventOutcome(answered=False), EventOutcome(math.inf, answered=False)
LATE = tuple(EventOutcome(delay, answered=False) for delay in (3.0, 8.0, 22.0, 61.0))
KILLED = tuple(EventOutcome(delay, answered=False, killed=True) for delay in (0.0, 4.0, math.inf))
FATES = (ANSWERED, LANDED, NEVER, *LATE, *KILLED)
_PERIODS = st.sampled_from([5, 15, 30, 60])
_POLICIES = st.one_of(
    st.builds(pods_policy, st.integers(1, 20), _PERIODS),
    st.builds(percent_policy, st.integers(10, 100), _PERIODS),
)
_RULES = st.builds(
    lambda policies, select: rules(*policies, window=0, select=select),
    st.lists(_POLICIES, min_size=1, max_size=2),
    st.sampled_from([SelectPolicy.MAX, SelectPolicy.MIN]),
)
_BEHAVIORS = st.builds(Behavior, _RULES, _RULES)
Step = Callable[[TwoWriters], None]


def new_load(load: int) -> Step:
    return lambda world: setattr(world, "load", load)


def new_fate(fate: EventOutcome) -> Step:
    """Change the outcome of writes from now on."""
    return lambda world: setattr(world, "fate", fate)


def by_hand(replicas: int) -> Step:
    return lambda world: world.hand(replicas)


def other_runs(runs: bool) -> Step:
    """Stop the instance that does not lead, or let it go on."""

    def act(world: TwoWriters) -> None:
        if world.election:
            world.instances[1 - world.leader].runs = runs

    return act


def take_over(remembers: bool) -> Step:
    """Let the other instance lead, with its memory or without."""

    def act(world: TwoWriters) -> None:
        if world.election:
            world.fails_over(remembers=remembers)

    return act


STEPS: Mapping[str, Callable[[int], Step]] = {
    "leader": new_load,
    "hand": by_hand,
    "stop": lambda _: other_runs(runs=False),
    "go on": lambda _: other_runs(runs=True),
    "take over": lambda _: take_over(remembers=True),
    "forget": lambda _: take_over(remembers=False),
    "wait": lambda _: lambda _world: None,
}


@pytest.mark.parametrize("steps", list(product(STEPS, repeat=3)))
def test_no_three_events_in_any_order_break_a_rate(steps: tuple[str, ...]) -> None:
    """Changes by the leader and by hand, stops, takeovers: the judge sees every write of ours."""
    world = TwoWriters(SLOW)
    world.pass_time(2 * PERIOD)
    for step, number in zip(steps, (18, 3, 31), strict=True):
        STEPS[step](number)(world)
        world.pass_time(2 * PERIOD)
    world.fails_over()
    world.load = 1 if world.replicas > 6 else 40
    world.pass_time(40)
    world.settle()


_STEPS: st.SearchStrategy[Step] = st.one_of(
    st.builds(new_load, st.integers(1, 60)),
    st.builds(new_fate, st.sampled_from(FATES)),
    st.builds(by_hand, st.integers(1, 60)),
    st.sampled_from([TwoWriters.roll_out, TwoWriters.report_status]),
    st.builds(other_runs, st.booleans()),
    st.builds(take_over, st.booleans()),
)
_COURSES = st.lists(st.tuples(_STEPS, st.sampled_from([0, 5, 5, 10, 40])), max_size=20)


@given(
    _BEHAVIORS,
    _COURSES,
    st.booleans(),
    st.sampled_from([frozenset(), frozenset({"manager"}), frozenset({"generation"})]),
)
def test_no_course_of_events_breaks_a_rate(
    of: Behavior, course: list[tuple[Step, int]], election: bool, blind: frozenset[str]
) -> None:
    world = TwoWriters(of, election=election, blind=blind)
    for step, wait in course:
        step(world)
        world.pass_time(wait)
    for load in (60, 1):
        world.load = load
        world.pass_time(20)
    world.settle()
