"""Whatever the network does and whoever is stopped: no two lead at one time."""

from random import Random

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from autoscaler.core.election import ElectionTimes
from tests.daemon.leadership.simulation import Ports

TIMES = ElectionTimes(lease_duration=15, renew_deadline=10, retry_period=2)


@given(random=st.randoms(use_true_random=False), candidates=st.integers(2, 4))
@settings(max_examples=60, suppress_health_check=list(HealthCheck))
def test_no_two_lead_at_one_time(random: Random, candidates: int) -> None:
    """Chosen by hypothesis, which makes what it finds short."""
    Ports(random, TIMES, candidates).run(60)


@pytest.mark.parametrize("seed", range(10))
def test_no_two_lead_at_one_time_in_long_runs(seed: int) -> None:
    """Chosen by chance, ten thousand events in each; somebody does lead now and then."""
    world = Ports(Random(seed), TIMES, 2 + seed % 3)  # noqa: S311 - no secret
    world.run(10_000)
    assert world.terms > 100
