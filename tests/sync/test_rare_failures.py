"""A server that fails now and then, in simulated time: its targets still follow their load."""

import pytest

from autoscaler.core.observation import Scale
from autoscaler.core.series import QueryFailure
from autoscaler.core.target import Query, Target
from tests.worlds.memory import T0, Memory, answer, external

PERIOD = 15
EVERY = 50
"""One query of so many fails."""
LOWERED = 5
"""The sync from which on there is nothing to do."""


def down_after(first_failure: int, promql: str, seconds: float) -> float:
    """Return the seconds from the end of a load to the first count below."""
    whole = external("shop", "worker")
    target = Target(whole.namespace, whole.spec, (Query(promql, range_seconds=seconds),))
    world = Memory(scales={"shop/worker": Scale(10, 10, "app=worker")})
    with world.syncer() as syncer:
        for sync in range(4 * EVERY):
            now = T0 + sync * PERIOD
            fails = sync % EVERY == first_failure
            load = answer(300.0 if sync < LOWERED else 0.0, now=now)
            world.answers[promql] = QueryFailure("the head is gone") if fails else load
            syncer.sync([target], now, budget=10.0, steady=float(sync * PERIOD))
            if world.written:
                return float((sync - LOWERED) * PERIOD)
    raise AssertionError("it never went down")


@pytest.mark.parametrize("first_failure", [0, LOWERED, 10, 24, 26, 30, 49])
@pytest.mark.parametrize(
    ("promql", "seconds"), [("sum(rate(jobs_total[2m]))", 120.0), ("sum(queue_depth)", 0.0)]
)
def test_one_query_in_fifty_fails(first_failure: int, promql: str, seconds: float) -> None:
    """A load that ends takes its target down, at most one and a half ranges after its window."""
    # The last recommendation of the load is one sync older than its end.
    assert (
        300 - PERIOD <= down_after(first_failure, promql, seconds) <= 300 + 1.5 * 120 + 3 * PERIOD
    )
