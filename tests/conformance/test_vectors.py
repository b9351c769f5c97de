"""The recorded outcomes of the real HPA controller, all of them, exactly."""

import gzip
import json
import subprocess
import sys
from pathlib import Path

import pytest

from autoscaler.adapters.store import Resumption
from autoscaler.config import parse_spec, to_core
from autoscaler.core.decision import Decision
from autoscaler.core.history import History
from tests.adapters.store.opening import decided_in, running, same
from tests.conformance.player import (
    Json,
    Mismatch,
    differences,
    flags_of,
    play_file,
    play_tick,
    scenarios,
)

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


class _Played:
    """One scenario that is played tick by tick, whatever keeps its history in between."""

    def __init__(self, scenario: Json) -> None:
        self.name = scenario["name"]
        self.ticks = scenario["ticks"]
        self._spec = to_core(parse_spec(scenario["spec"]))
        self._flags = flags_of(scenario["flags"])

    def tick(self, number: int, history: History) -> tuple[History, Decision, list[Mismatch]]:
        """Play one tick on; return what came of it, and what of that is wrong."""
        tick = self.ticks[number]
        decision, history = play_tick(self._spec, self._flags, tick, history)
        return history, decision, list(differences(self.name, tick, decision, history))


def test_every_recorded_tick_comes_out_the_same_from_a_store_that_is_reopened(
    tmp_path: Path,
) -> None:
    """Between every two ticks all state is written, dropped and read back, and nothing differs.

    The scenarios are targets of one store, side by side; each is dropped after its last tick.
    """
    plays = [
        _Played(scenario)
        for name in ("documented.jsonl.gz", "random.jsonl.gz")
        for scenario in scenarios(FOLDER / name)
    ]
    written: dict[str, tuple[History, Decision]] = {}
    mismatches: list[Mismatch] = []
    ticks = 0
    for number in range(1 + max(len(play.ticks) for play in plays)):
        with running(tmp_path) as (store, resumption):
            assert_holds(tmp_path, resumption, written)
            written = {}
            for play in plays:
                if number < len(play.ticks):
                    history = resumption.histories.get(play.name, History())
                    history, decision, wrong = play.tick(number, history)
                    written[play.name] = history, decision
                    mismatches += wrong
                    ticks += 1
            store.keep([(name, history, one.time) for name, (history, one) in written.items()])
            store.drop(resumption.histories.keys() - written.keys())
    with running(tmp_path) as (_, resumption):
        assert_holds(tmp_path, resumption, {})
    assert mismatches == []
    assert (len(plays), ticks) == (630, 10_217)


def assert_holds(
    directory: Path, resumption: Resumption, written: dict[str, tuple[History, Decision]]
) -> None:
    """Find exactly what was written: the histories, and when they were decided about."""
    assert resumption.moved == 0.0
    assert resumption.histories.keys() == written.keys()
    decided = decided_in(directory)
    for name, (history, decision) in written.items():
        assert same(resumption.histories[name], history)
        assert decided[name] == decision.time


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
