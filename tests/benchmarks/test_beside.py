"""What `benchmarks.ramp` and `benchmarks.threes` make of what they saw, and a short run of both.

No time is asserted of the run: machines differ.
"""

import os
import random
from collections.abc import Iterator

import pytest

from benchmarks import beside, ramp, threes
from benchmarks.bed import Bed
from benchmarks.hpa import ADAPTER_MODULE
from benchmarks.landings import Change
from benchmarks.ramp import HPA, OURS, Climb
from benchmarks.series import SeriesPage
from benchmarks.threes import Comparison, Options, Tally, Three
from tests.controlplane.binaries import ControlPlaneUnavailable
from tests.controlplane.fixtures import unavailable

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


def test_the_table_of_a_ramp() -> None:
    """Each side has its mean and worst time, and its steps by their length."""
    lines = ramp.table({HPA: [QUICK, QUICK], OURS: [QUICK, SLOW]}, 15).splitlines()
    cells = [[cell.strip() for cell in line.split("|")[1:-1]] for line in lines]
    assert cells[2:] == [
        ["HPA", "75.2", "75.2", "10", "0", "0"],
        ["autoscaler", "97.6", "120.0", "8", "1", "1"],
    ]


def test_the_policies_of_a_ramp_are_the_defaults_at_the_default_period() -> None:
    """At 15 s the policies are those of an HPA that names none for going up."""
    assert ramp.behavior(15)["scaleUp"]["policies"] == [
        {"type": "Pods", "value": 4, "periodSeconds": 15},
        {"type": "Percent", "value": 100, "periodSeconds": 15},
    ]


def compared(first: int, second: int, ours: int) -> Comparison:
    """Return a comparison with those replicas."""
    three = Three(3, {"scaleUp": {"selectPolicy": "Min"}})
    return Comparison(three, 2, 7, 40, first, second, ours)


@pytest.mark.parametrize(
    ("replicas", "count", "passed"),
    [
        ([(4, 4, 4)], Tally(1, 0, 0, 0), True),
        ([(4, 4, 5)], Tally(1, 0, 1, 1), False),
        ([(4, 5, 5), (5, 5, 5)], Tally(2, 1, 1, 0), True),
        ([(4, 5, 6)], Tally(1, 1, 1, 1), True),
        ([(4, 5, 5), (4, 4, 5)], Tally(2, 1, 2, 1), False),
    ],
)
def test_ours_may_differ_as_often_as_two_hpas_do(
    replicas: list[tuple[int, int, int]], count: Tally, *, passed: bool
) -> None:
    """Differences between ours and either HPA are held against those between the two HPAs."""
    found = threes.tally([compared(*three) for three in replicas])
    assert found == count
    assert found.passed is passed


def test_each_difference_is_told_with_its_behavior() -> None:
    """The text has a line for each comparison that is not equal, and none for the others."""
    text = threes.text([compared(40, 40, 40), compared(40, 20, 40)])
    assert text.splitlines()[-1] == (
        "three 3, plateau 2, load 7 -> 40: HPAs 40 and 20, autoscaler 40; "
        'behavior {"scaleUp": {"selectPolicy": "Min"}}'
    )
    assert text.count("three 3") == 1


def test_a_seed_gives_the_same_behaviors() -> None:
    """Two runs of one seed compare the same, and a run without one takes a seed of its own."""
    once, again = (threes.behavior(random.Random(4)) for _ in range(2))  # noqa: S311 - no secret
    assert once == again
    assert threes.parse(["--seed", "4"]) == Options(30, 7, None, 4)
    assert len({threes.parse([]).seed for _ in range(4)}) > 1


def test_values_of_a_page_change_together() -> None:
    """Series with values of their own replace those before in one piece."""
    page = SeriesPage()
    page.publish("load", [{"queue": "old"}], lambda: 7.0)
    page.set_all("load", [({"queue": "a"}, 1.0), ({"queue": "b"}, 2.5)])
    assert page.page() == b'load{queue="a"} 1.0\nload{queue="b"} 2.5\n'


# The binaries are built where they are not there yet, which takes minutes.
@pytest.fixture(scope="module")
def bed() -> Iterator[Bed]:
    """Start the servers and prometheus-adapter for both runs."""
    if not ADAPTER_MODULE.cached() and "CI" not in os.environ:
        pytest.skip("prometheus-adapter is not built; `python -m benchmarks.ramp` builds it")
    try:
        with beside.servers(print) as running:
            yield running
    except ControlPlaneUnavailable as reason:
        unavailable(reason)


@pytest.mark.timeout(1200)
def test_a_short_ramp(bed: Bed) -> None:
    """The HPA and the daemon both come to 100 replicas, each count of the policies in turn."""
    climbs = ramp.measure(bed, pairs=1, period=1)
    for side in (HPA, OURS):
        assert [change.replicas for change in climbs[side][0].changes] == list(COUNTS)


@pytest.mark.timeout(1200)
def test_short_threes(bed: Bed) -> None:
    """Both HPAs and the daemon leave their first replica for the load of the plateau."""
    options = Options(threes=2, plateaus=1, seconds=8, seed=1)
    found = threes.measure(bed, options, print)
    assert [(one.three.number, one.plateau, one.before) for one in found] == [(0, 1, 1), (1, 1, 1)]
    for one in found:
        assert min(one.first, one.second, one.ours) > 1
