"""Syncs that begin early or late decide as those on the grid and as the HPA (semantics 7.1)."""

import math
from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from autoscaler.core.decide import decide
from autoscaler.core.history import History, shifted
from autoscaler.core.observation import Observation, Scale
from autoscaler.core.spec import (
    Flags,
    HorizontalPodAutoscalerSpec,
    PolicyType,
    ScalingPolicy,
    ScalingRules,
    SelectPolicy,
)
from autoscaler.core.step import instants_of
from autoscaler.core.writes import settle
from tests.core.builders import BASE, average, behavior, external, pods_policy, rules, spec, values

PERIODS = (1.0, 2.5, 5.0, 0.7, 15.0)
"""Periods of a sync, in seconds; 0.7 is no binary fraction."""

EARLY, LATE = -0.02, 0.2
"""The jitter of a sync, in seconds."""

jitters = st.floats(EARLY, LATE)
loads = st.lists(st.integers(0, 400), min_size=4, max_size=24)


def multiples(period: float, most: int) -> st.SearchStrategy[int]:
    """Draw whole seconds that are a multiple of a period."""
    step = next(
        round(count * period)
        for count in range(1, 11)
        if math.isclose(count * period, round(count * period))
    )
    return st.integers(1, max(1, most // step)).map(lambda n: n * step)


@st.composite
def specs(draw: st.DrawFn, period: float) -> HorizontalPodAutoscalerSpec:
    """Draw a spec whose windows and policies last whole periods."""

    def drawn() -> ScalingRules:
        seconds = multiples(period, 60)
        policy = st.builds(ScalingPolicy, st.sampled_from(PolicyType), st.integers(1, 100), seconds)
        return rules(
            *draw(st.lists(policy, min_size=1, max_size=3)),
            window=draw(st.just(0) | multiples(period, 120)),
            select=draw(st.sampled_from([SelectPolicy.MAX, SelectPolicy.MIN])),
        )

    chosen = behavior(drawn(), drawn()) if draw(st.booleans()) else None
    return spec(external(average("1")), maximum=300, behavior=chosen)


class Loop:
    """One target that is synced on a grid; every write is accepted."""

    def __init__(self, of: HorizontalPodAutoscalerSpec, period: float, origin: float) -> None:
        self.spec, self.period, self.origin = of, period, origin
        self.flags = Flags(downscale_stabilization=round(20 * period))
        self.replicas, self.history = 1, History()
        self.changes: list[tuple[float, int]] = []

    def sync(self, number: int, load: int, late: float) -> int:
        """Sync for the so-manieth time, so many seconds late; return the count."""
        due = self.origin + number * self.period
        stamp, now = instants_of(due, due + late, self.period)
        scale = Scale(self.replicas, self.replicas, "app=web")
        seen = Observation(scale, (), (values(load),))
        decision, self.history = decide(self.spec, self.flags, seen, self.history, now, stamp)
        if decision.rescale:
            self.changes.append((due + late, decision.desired - self.replicas))
            decision, self.history = settle(self.spec, decision, self.history)
            self.replicas = decision.desired
        return self.replicas


@given(st.data(), st.sampled_from(PERIODS), st.floats(0, 15), loads)
def test_jitter_changes_no_count(
    data: st.DataObject, period: float, offset: float, loads: list[int]
) -> None:
    """Any policy and window of whole periods: the counts are those of syncs without jitter.

    Also where the clock is set, and the histories moved with it, or the process starts again.
    """
    of = data.draw(specs(period))
    even, uneven = (Loop(of, period, BASE + offset) for _ in range(2))
    for number, load in enumerate(loads):
        if data.draw(st.integers(0, 9)) == 0:
            step = data.draw(st.floats(-1e5, 1e5))
            uneven.history = shifted(uneven.history, step)
            uneven.origin += step
        late = data.draw(jitters)
        assert uneven.sync(number, load, late) == even.sync(number, load, 0.0)


@given(st.data(), st.sampled_from(PERIODS), loads)
def test_what_is_one_period_old_has_left_the_period(
    data: st.DataObject, period: float, loads: list[int]
) -> None:
    """As in the HPA, whose reconciles lie a little more than a period apart: the same counts."""
    of = data.draw(specs(period))
    ours, theirs = Loop(of, period, BASE), Loop(of, period, BASE)
    theirs.period = period + 0.003
    for number, load in enumerate(loads):
        assert ours.sync(number, load, data.draw(jitters)) == theirs.sync(number, load, 0.0)


@given(st.data(), st.sampled_from([1.0, 5.0, 15.0]), st.lists(st.floats(0, 0.99), min_size=4))
def test_a_late_sync_lets_no_more_through(
    data: st.DataObject, period: float, parts: list[float]
) -> None:
    """However late each sync is, in real time a policy permits what it says, to a tenth of a sync.

    A quarter of a second where that is longer.
    """
    pods, seconds = data.draw(st.integers(1, 9)), data.draw(multiples(period, 60))
    up = rules(pods_policy(pods, seconds), window=0)
    of = spec(external(average("1")), maximum=10_000, behavior=behavior(up))
    loop = Loop(of, period, BASE)
    for number, part in enumerate(parts):
        loop.sync(number, 9_000, part * period)
    slack = max(0.25, period / 10) + 0.001  # `now` is at least a millisecond after `due`
    for at, _ in loop.changes:
        within = sum(change for time, change in loop.changes if at - seconds + slack < time <= at)
        assert within <= pods


def test_the_default_policies_take_one_sync_a_step() -> None:
    """From 1 to 100 in the doublings and fours of the HPA, a few milliseconds late now and then."""
    of = spec(external(average("1")), behavior=behavior())
    loop = Loop(of, 15.0, BASE)
    late = (0.004, 0.002, 0.003, 0.0, 0.001, 0.005)
    counts = [loop.sync(number, 100, jitter) for number, jitter in enumerate(late)]
    assert counts == [5, 10, 20, 40, 80, 100]
    assert {round((b[0] - a[0]) / 15) for a, b in pairwise(loop.changes)} == {1}


@given(st.floats(1, 60), st.floats(-100, 100), st.floats(0, 1e9))
def test_the_instants_of_a_sync(period: float, late: float, origin: float) -> None:
    """A stamp is not after its decision, and a decision on time is stamped as due."""
    due = BASE + origin
    stamp, now = instants_of(due, due + late, period)
    assert stamp < now or math.isclose(stamp, now)
    if EARLY <= late <= LATE:
        assert stamp == due
        assert now > due
    elif late >= -1:
        assert now == max(due + late, now)
        assert stamp >= due


def test_a_change_of_one_period_ago_gives_its_place_to_the_next() -> None:
    """As in the HPA, where it is a little older: what is then permitted is the same."""
    three, one = rules(pods_policy(2, 3), window=0), rules(pods_policy(1, 1), window=0)
    of = spec(external(average("1")), maximum=300, behavior=behavior(three, one))
    ours, theirs = Loop(of, 1.0, BASE), Loop(of, 1.003, BASE)
    loads = (3, 0, 0, 5)
    counts = [ours.sync(number, load, 0.0) for number, load in enumerate(loads)]
    assert counts == [theirs.sync(number, load, 0.0) for number, load in enumerate(loads)]
    assert counts == [3, 2, 1, 4]
