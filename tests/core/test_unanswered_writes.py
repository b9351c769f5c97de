"""No write whose answer was lost breaks a rate, or is taken for another autoscaler's (7.4, 7.7)."""

import math
from collections.abc import Callable

from hypothesis import given
from hypothesis import strategies as st

from autoscaler.core.spec import Behavior, SelectPolicy
from tests.core.builders import percent_policy, pods_policy, rules
from tests.core.two_writers import Fate, TwoWriters

ANSWERED = Fate()
LANDED, NEVER = Fate(answered=False), Fate(math.inf, answered=False)
LATE = tuple(Fate(delay, answered=False) for delay in (3.0, 8.0, 22.0, 61.0))
KILLED = tuple(Fate(delay, answered=False, killed=True) for delay in (0.0, 4.0, math.inf))
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


def new_fate(fate: Fate) -> Step:
    """Let this become of the writes from now on."""
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
            world.instances[world.leader].runs = False
            world.takes_over(1 - world.leader, remembers=remembers)

    return act


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
    """Who knows all that landed would permit every write, and none of ours is another's."""
    world = TwoWriters(of, election=election, blind=blind)
    for step, wait in course:
        step(world)
        world.pass_time(wait)
    for load in (60, 1):
        world.load = load
        world.pass_time(20)
    world.settle()
