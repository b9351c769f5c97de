"""The elasticity measures, computed by hand."""

import pytest

from autoscaler.lab.engine.measures import Measures, Score

Interval = tuple[float, int | None, int]
"""Seconds, the demand, and the pods that are ready."""


def score(*intervals: Interval, maximum: int = 10) -> Measures:
    found = Score()
    for seconds, demand, supply in intervals:
        found.interval(seconds, demand, supply, supply, at_max=supply >= maximum)
    return found.measures()


def test_accuracy_and_time_share() -> None:
    """Of 100 s: 20 s of 2 missing of 4, 30 s of 3 too many for 6, and 50 s with just enough."""
    found = score((20.0, 4, 2), (30.0, 6, 9), (50.0, 5, 5))
    assert found.theta_under == pytest.approx(20 * (2 / 4) / 100)
    assert found.theta_over == pytest.approx(30 * (3 / 6) / 100)
    assert found.tau_under == pytest.approx(0.2)
    assert found.tau_over == pytest.approx(0.3)
    assert found.worst_shortage == 2
    assert found.shortage_pod_hours == pytest.approx(20 * 2 / 3600)


def test_instability() -> None:
    both = score((10.0, 1, 1), (10.0, 2, 2), (10.0, 1, 1), (10.0, 1, 1))
    assert both.upsilon == 0.0
    lagging = score((10.0, 1, 1), (10.0, 2, 1), (10.0, 2, 2), (10.0, 1, 3))
    assert lagging.upsilon == pytest.approx(30 / 40)


def test_a_surplus_over_no_demand_counts_against_one_pod() -> None:
    assert score((10.0, 0, 3)).theta_over == pytest.approx(3.0)
    assert score((10.0, 0, 0)).tau_over == 0.0


def test_a_gap_is_not_scored() -> None:
    found = score((10.0, 4, 2), (90.0, None, 50), (10.0, 4, 4))
    assert (found.scored_seconds, found.gap_seconds) == (20.0, 90.0)
    assert found.tau_under == pytest.approx(0.5)
    assert found.replica_hours == pytest.approx((20 + 4500 + 40) / 3600)
    assert found.upsilon == 0.0  # what was before a gap is not compared with what is after it


def test_the_longest_shortage_is_from_its_begin_to_its_end() -> None:
    found = score((10.0, 4, 2), (15.0, 9, 2), (5.0, 2, 2), (20.0, 3, 2))
    assert found.longest_shortage_seconds == 25.0


def test_time_at_the_maximum() -> None:
    assert score((10.0, 4, 10), (5.0, 4, 9)).at_max_seconds == 10.0


def test_a_queue_waits_by_littles_law() -> None:
    """A mean length of 30 over 100 s in which 600 are served: each waited 5 s."""
    found = Score()
    found.interval(100.0, 1, 1, 1, at_max=False)
    found.queue(50.0, 20.0, 300.0, 4.0)
    found.queue(50.0, 40.0, 300.0, 9.0)
    measures = found.measures()
    assert measures.mean_wait_seconds == pytest.approx(5.0)
    assert (measures.longest_queue, measures.longest_wait_seconds) == (40.0, 9.0)
    assert score((1.0, 1, 1)).mean_wait_seconds is None
