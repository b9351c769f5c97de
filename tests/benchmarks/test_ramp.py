"""What `benchmarks.ramp` derives from its counts, and a short run next to the real HPA.

No time is asserted of the run: machines differ.
"""

import os

import pytest

from benchmarks import ramp
from benchmarks.landings import Change
from benchmarks.ramp import HPA, OURS, Climb
from tests.narrowing import assert_parts
from tests.worlds.controlplane.fixtures import if_available
from tests.worlds.prometheus_adapter.adapter import ADAPTER_MODULE

COUNTS = (5, 10, 20, 40, 80, 100)


def climb(name: str, *times: float) -> Climb:
    return Climb(name, [Change(at, count) for at, count in zip(times, COUNTS, strict=False)])


QUICK = climb("quick", 100.0, 115.0, 130.1, 145.1, 160.1, 175.2)
SLOW = climb("slow", 100.0, 115.0, 145.0, 160.0, 205.3, 220.0)
UNENDED = climb("unended", 100.0, 115.0)


def test_a_step_is_as_long_as_the_syncs_it_took() -> None:
    assert QUICK.steps(15) == [1, 1, 1, 1, 1]
    assert SLOW.steps(15) == [1, 2, 1, 3, 1]
    assert SLOW.seconds == 120.0
    assert climb("moved never").steps(15) == []


def test_a_ramp_fails_on_slow_steps_of_ours_alone() -> None:
    assert ramp.faults({HPA: [SLOW], OURS: [QUICK]}, 15) == []
    (fault,) = ramp.faults({HPA: [QUICK], OURS: [QUICK, SLOW]}, 15)
    assert_parts(fault, "2 steps", OURS)
    unended, still = ramp.faults({HPA: [UNENDED], OURS: [climb("still")]}, 15)
    assert_parts(unended, "unended", "100 replicas")
    assert_parts(still, "still", "100 replicas")


def test_the_policies_of_a_ramp_are_the_defaults_at_the_default_period() -> None:
    assert ramp.behavior(15)["scaleUp"]["policies"] == [
        {"type": "Pods", "value": 4, "periodSeconds": 15},
        {"type": "Percent", "value": 100, "periodSeconds": 15},
    ]


# The binaries are built where they are not there yet, which takes minutes.
@pytest.mark.timeout(1200)
def test_a_short_run_climbs_to_the_maximum() -> None:
    if not ADAPTER_MODULE.cached() and "CI" not in os.environ:
        pytest.skip("prometheus-adapter is not built; `python -m benchmarks.ramp` builds it")
    with if_available(), ramp.servers(print) as bed:
        climbs = ramp.measure(bed, 1, 1)
    for side in (HPA, OURS):
        assert [change.replicas for change in climbs[side][0].changes] == list(COUNTS)
