"""The example of floors by forecast does what its guide says."""

from pathlib import Path

from benchmarks import floors


def test_yesterday_as_a_floor_avoids_the_shortage_of_a_daily_rise(tmp_path: Path) -> None:
    found = floors.compared(tmp_path, floors.loads()["every day at 9:00"])
    (plain, _), (yesterday, lower) = found["plain"], found["yesterday"]
    assert plain.under > 0.004
    assert yesterday.under == 0.0 < lower.under
    assert yesterday.hours < 1.05 * plain.hours
    assert found["line"][0].hours > yesterday.hours
