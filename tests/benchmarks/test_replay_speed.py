"""The benchmark of what a replay costs."""

import re

import pytest

from benchmarks import replay_speed


def test_both_tables_have_a_row_for_each_size(capsys: pytest.CaptureFixture[str]) -> None:
    replay_speed.main(["--targets", "2", "--days", "0.02"])
    printed = capsys.readouterr().out
    assert "2 targets, 0.02 days, 230 steps:" in printed
    rows = [
        re.findall(r"[\d.]+", line) for line in printed.splitlines() if re.match(r"\| \d", line)
    ]
    assert [row[0] for row in rows] == ["1", "2", "0.02", "0.14"]
    day, week = (float(row[1]) for row in rows[2:])
    assert week < day + 5
