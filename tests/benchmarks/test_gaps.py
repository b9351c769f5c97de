"""What a gap makes of `rate()`: the table of docs/decisions.md, as promtool works it out."""

from pathlib import Path

import pytest

from benchmarks.gaps import GAPS, outcomes, smallest_gap
from tests.worlds.prometheus.server import required_program

DOCUMENT = Path(__file__).parents[2] / "docs" / "decisions.md"


@pytest.fixture(autouse=True)
def _promtool() -> None:
    required_program("promtool", "prometheus")


def documented(seconds: int, interval: int) -> list[str]:
    """Return the line of the table for a range, scraped so often."""
    for line in DOCUMENT.read_text().splitlines():
        cells = [cell.strip() for cell in line.strip("|").split("|")]
        if cells[:2] == [f"{seconds} s", f"{interval} s"]:
            return cells[2:]
    raise AssertionError(f"{DOCUMENT.name} has no line for {seconds} s scraped every {interval} s")


@pytest.mark.parametrize(("seconds", "interval"), [(120, 15), (120, 30)])
def test_the_lowest_readings_are_documented(seconds: int, interval: int) -> None:
    """Each cell is what promtool finds, in whole percents."""
    losts = [-(-gap // interval) for gap in GAPS]
    found = outcomes(seconds, interval, losts, stale=False)
    smallest = smallest_gap(seconds, interval)
    assert [f"{one.after * 100:.0f}" for one in found] + [str(smallest)] == documented(
        seconds, interval
    )


def test_the_rule_behind_the_table() -> None:
    """Where n scrapes are lost, n + 1/2 intervals of the range are missing, at either end."""
    for lost, outcome in zip((1, 2, 4), outcomes(120, 15, (1, 2, 4), stale=True), strict=True):
        expected = 1 - (lost + 0.5) * 15 / 120
        # The lowest instant lies between two readings.
        assert outcome.after == pytest.approx(expected, abs=0.003)
        assert outcome.within == pytest.approx(expected, abs=0.003)
        assert outcome.empty == 0


def test_a_range_that_is_lost_as_a_whole() -> None:
    """It is empty from range - 2 x interval after the first lost scrape, whatever was away."""
    for stale in (False, True):
        (outcome,) = outcomes(120, 15, [12], stale=stale)
        assert outcome.after == pytest.approx(0.1875)
        assert outcome.empty == pytest.approx(12 * 15 - (120 - 2 * 15), abs=0.3)


def test_only_failed_scrapes_end_a_series_at_once() -> None:
    """Without a note of its end an instant selector finds the last sample for five minutes."""
    (away,) = outcomes(120, 15, [24], stale=False)
    (exporter_away,) = outcomes(120, 15, [24], stale=True)
    # The last sample is one interval older than the first lost scrape.
    assert away.instant_empty == pytest.approx(24 * 15 - (300 - 15), abs=0.3)
    assert exporter_away.instant_empty == 24 * 15
