"""The benchmark of punctuality, small: it runs and measures; no time is asserted."""

from benchmarks.cadence import PERIODS, measure


def test_every_period_is_measured() -> None:
    """A few seconds of thirty targets give intervals of the shortest period."""
    deviations = measure(targets=30, seconds=4.5)
    assert deviations[PERIODS[0]]
