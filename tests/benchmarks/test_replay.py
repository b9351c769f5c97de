"""The benchmark of settings on real workloads, on small ones that are made by hand."""

from pathlib import Path

import pytest

from autoscaler.lab.past.file_data import read_samples
from benchmarks import replay
from benchmarks.replay import DEFAULT, MADE_BY_HAND, MEAN_PODS, SERVED_BY_POD, Setting


def test_each_setting_of_each_trace_has_a_line(capsys: pytest.CaptureFixture[str]) -> None:
    replay.main([str(MADE_BY_HAND), "--days", "0.3"])
    lines = [line for line in capsys.readouterr().out.splitlines() if line.startswith("|")]
    assert len(lines) == 2 + 2 * len(replay.SETTINGS)
    assert "bursts" in lines[2]
    assert "two-peaks" in lines[2 + len(replay.SETTINGS)]


def test_a_load_has_its_mean_and_its_gaps() -> None:
    load = replay.load_of(read_samples(MADE_BY_HAND / "bursts.csv"))
    values = [value for value in load.values if value is not None]
    assert sum(values) / len(values) == pytest.approx(MEAN_PODS * SERVED_BY_POD)
    assert not [time for time in load.times if 40_000 < time < 41_160]
    assert {time % replay.PERIOD for time in load.times} == {0.0}


def test_a_fine_trace_is_averaged_over_a_minute(tmp_path: Path) -> None:
    file = tmp_path / "fine.csv"
    file.write_text("t,value\n" + "".join(f"{second},{second % 2}\n" for second in range(301)))
    load = replay.load_of(read_samples(file))
    assert load.times[0] == 60.0
    assert max(load.values, key=lambda value: value or 0) == pytest.approx(2000.0, rel=0.02)


def test_measures_follow_the_setting() -> None:
    load = replay.load_of(read_samples(MADE_BY_HAND / "bursts.csv"))
    usual = replay.measured(load, DEFAULT, 30_000.0)
    roomy = replay.measured(load, Setting("", target=50), 30_000.0)
    slow = replay.measured(load, Setting("", ready=180.0), 30_000.0)
    short = [result.tau_under or 0.0 for result in (roomy, usual, slow)]
    assert short == sorted(set(short))
    assert roomy.replica_hours > usual.replica_hours
    assert usual.gap_seconds == 0.0
