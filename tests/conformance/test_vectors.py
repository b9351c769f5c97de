"""The recorded outcomes of the real HPA controller, all of them, exactly."""

import gzip
import json
import subprocess
import sys
from pathlib import Path

import pytest

from tests.conformance.player import play_file, scenarios

FOLDER = Path(__file__).parent


@pytest.mark.parametrize(
    ("name", "scenario_count", "tick_count"),
    [("documented.jsonl.gz", 30, 353), ("random.jsonl.gz", 600, 9864)],
)
def test_every_recorded_tick_comes_out_the_same(
    name: str, scenario_count: int, tick_count: int
) -> None:
    """Counts, conditions, events and reported metrics equal the controller's at every tick."""
    score = play_file(FOLDER / name)
    assert score.mismatches == ()
    assert (score.scenarios, score.ticks) == (scenario_count, tick_count)


def test_the_player_reports_a_difference(tmp_path: Path) -> None:
    """A file whose expectation is wrong by one replica gives a mismatch and exit code 1."""
    scenario = dict(next(scenarios(FOLDER / "documented.jsonl.gz")))
    tick = scenario["ticks"][2]
    tick["expected"]["specReplicas"] += 1
    wrong = tmp_path / "wrong.jsonl"
    wrong.write_text(json.dumps(scenario) + "\n")
    played = subprocess.run(
        [sys.executable, "-m", "tests.conformance", str(wrong)],
        capture_output=True,
        text=True,
        check=False,
    )
    assert played.returncode == 1
    assert f"at t={tick['t']}: specReplicas" in played.stdout


def test_the_player_reads_plain_and_gzip_files(tmp_path: Path) -> None:
    """The same scenario, packed or not, plays without a mismatch and exits 0."""
    line = json.dumps(next(scenarios(FOLDER / "documented.jsonl.gz"))) + "\n"
    plain, packed = tmp_path / "one.jsonl", tmp_path / "one.jsonl.gz"
    plain.write_text(line)
    packed.write_bytes(gzip.compress(line.encode()))
    played = subprocess.run(
        [sys.executable, "-m", "tests.conformance", str(plain), str(packed)],
        capture_output=True,
        text=True,
        check=False,
    )
    assert played.returncode == 0, played.stdout + played.stderr
    assert played.stdout.count("1 scenarios, ") == 2
