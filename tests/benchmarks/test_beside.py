"""What `benchmarks.ramp` and `benchmarks.threes` make of what they saw, and a short run of both.

No time is asserted of the run: machines differ.
"""

import os
import random

import pytest

from benchmarks import beside, ramp, threes
from benchmarks.landings import Change
from benchmarks.ramp import HPA, OURS, Climb
from benchmarks.series import SeriesPage
from benchmarks.threes import Comparison, Options, Tally, Three
from tests.worlds.controlplane.fixtures import if_available
from tests.worlds.prometheus_adapter.adapter import ADAPTER_MODULE

COUNTS = (5, 10, 20, 40, 80, 100)


def climb(name: str, *times: float) -> Climb:
    """Return a climb whose changes came at those times."""
    return Climb(name, [Change(at, count) for at, count in zip(times, COUNTS, strict=False)])


QUICK = climb("quick", 100.0, 115.0, 130.1, 145.1, 160.1, 175.2)
SLOW = climb("slow", 100.0, 115.0, 145.0, 160.0, 205.3, 220.0)
UNENDED = climb("unended", 100.0, 115.0)


def test_a_step_is_as_long_as_the_syncs_it_took() -> None:
    """The time from one change to the next is rounded to whole syncs."""
    assert QUICK.steps(15) == [1, 1, 1, 1, 1]
    assert SLOW.steps(15) == [1, 2, 1, 3, 1]
    assert SLOW.seconds == 120.0
    assert climb("moved never").steps(15) == []


def test_a_ramp_fails_on_slow_steps_of_ours_alone() -> None:
    """A slow step of the HPA is shown and is no fault; an unfinished climb is one on any side."""
    assert ramp.faults({HPA: [SLOW], OURS: [QUICK]}, 15) == []
    assert ramp.faults({HPA: [QUICK], OURS: [QUICK, SLOW]}, 15) == [
        "2 steps of the autoscaler took more than one sync"
    ]
    assert ramp.faults({HPA: [UNENDED], OURS: [climb("still")]}, 15) == [
        "unended did not come to 100 replicas",
        "still did not come to 100 replicas",
    ]


def test_the_policies_of_a_ramp_are_the_defaults_at_the_default_period() -> None:
    """At 15 s the policies are those of an HPA that names none for going up."""
    assert ramp.behavior(15)["scaleUp"]["policies"] == [
        {"type": "Pods", "value": 4, "periodSeconds": 15},
        {"type": "Percent", "value": 100, "periodSeconds": 15},
    ]


def comparison(first: int, second: int, ours: int) -> Comparison:
    """Return a comparison with those replicas."""
    three = Three(3, {"scaleUp": {"selectPolicy": "Min"}})
    return Comparison(three, 2, 7, 40, first, second, ours)


@pytest.mark.parametrize(
    ("replicas", "count"),
    [
        ([(4, 4, 4)], Tally(1, 0, 0, 0, 0, 0)),
        ([(4, 4, 5)], Tally(1, 0, 1, 1, 1, 0)),
        ([(4, 5, 5), (5, 5, 5)], Tally(2, 1, 1, 0, 0, 1)),
        ([(4, 5, 4)], Tally(1, 1, 0, 1, 0, 1)),
        ([(4, 5, 6)], Tally(1, 1, 1, 1, 0, 0)),
        ([(4, 5, 5), (4, 4, 5)], Tally(2, 1, 2, 1, 1, 1)),
    ],
)
def test_differences_are_counted_between_each_two(
    replicas: list[tuple[int, int, int]], count: Tally
) -> None:
    """Each two of a three are compared, and the odd one out is counted where two agree."""
    assert threes.tally([comparison(*three) for three in replicas]) == count


@pytest.mark.parametrize(
    ("ours_alone", "hpa_alone", "chance", "passed"),
    [
        (0, 0, 1.0, True),
        (0, 9, 1.0, True),
        (1, 0, 1 / 3, True),
        (1, 1, 5 / 9, True),
        (4, 0, 1 / 81, True),
        (5, 0, 1 / 243, False),
        (9, 2, 0.00135, False),
        (31, 8, 4.4e-9, False),
    ],
)
def test_ours_may_be_the_odd_one_out_as_often_as_a_third_hpa(
    ours_alone: int, hpa_alone: int, chance: float, *, passed: bool
) -> None:
    """Ours passes unless a third HPA in its place would be alone so often in less than 1 %."""
    found = Tally(210, hpa_alone, 0, 0, ours_alone, hpa_alone)
    assert found.chance == pytest.approx(chance, rel=0.05)
    assert found.passed is passed


def test_a_seed_gives_the_same_behaviors() -> None:
    """Two runs of one seed compare the same, and a run without one takes a seed of its own."""
    once, again = (threes.behavior(random.Random(4), 5) for _ in range(2))  # noqa: S311 - no secret
    assert once == again
    assert threes.parse(["--seed", "4"]) == Options(30, 7, 5, None, 4)
    assert len({threes.parse([]).seed for _ in range(4)}) > 1


def test_values_of_a_page_change_together() -> None:
    """Series with values of their own replace those before in one piece."""
    page = SeriesPage()
    page.publish("load", [{"queue": "old"}], lambda: 7.0)
    page.set_all("load", [({"queue": "a"}, 1.0), ({"queue": "b"}, 2.5)])
    assert page.page() == b'load{queue="a"} 1.0\nload{queue="b"} 2.5\n'


# The binaries are built where they are not there yet, which takes minutes.
@pytest.mark.timeout(1200)
def test_a_short_run_of_both() -> None:
    """The HPA and the daemon take every step of a ramp, and a three is compared after a plateau.

    One set of processes serves both, because starting it is most of the time.
    """
    if not ADAPTER_MODULE.cached() and "CI" not in os.environ:
        pytest.skip("prometheus-adapter is not built; `python -m benchmarks.ramp` builds it")
    chance = random.Random(1)  # noqa: S311 - no secret
    pair, three = ramp.scaled(pairs=1, period=1), Three(0, threes.behavior(chance, 1))
    theirs, ours = [*pair[HPA], *three.theirs], [*pair[OURS], three.ours]
    with (
        if_available(),
        beside.servers(print) as bed,
        beside.at_work(bed, 1, theirs, ours) as watched,
    ):
        climbs = ramp.climb(bed, watched, pair, 1)
        options = Options(threes=1, plateaus=1, period=1, seconds=3)
        ((compared,),) = threes.plateaus(bed, watched, [three], options, chance)
    for side in (HPA, OURS):
        assert [change.replicas for change in climbs[side][0].changes] == list(COUNTS)
    assert (compared.three, compared.plateau, compared.before) == (three, 1, 1)
    assert max(compared.first, compared.second, compared.ours) > 1
