"""The recorded outcomes of the real HPA controller, all of them, exactly."""

import gzip
import json
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from autoscaler.core.decision import Calculation, Decision, Formula
from autoscaler.core.history import History
from autoscaler.core.step import step_of
from autoscaler.core.sync_result import Inputs
from autoscaler.persistence.store import Resumption
from tests.adapters.store.opening import decided_in, running, same
from tests.conformance.player import (
    Json,
    Mismatch,
    all_scenarios,
    differences,
    observation_of,
    play_file,
    play_tick,
    rules_of,
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
    score = play_file(FOLDER / name)
    assert score.mismatches == ()
    assert (score.scenarios, score.ticks) == (scenario_count, tick_count)


_OF_WRITES = ("scale_ups", "scale_downs", "last_scale_time", "zeroed_by_us", "contention")
"""What a history has of the writes of a target."""


class _Played:
    """One scenario that is played tick by tick, whatever keeps its history in between."""

    def __init__(self, scenario: Json) -> None:
        self.name = scenario["name"]
        self.ticks = scenario["ticks"]
        self._rules = rules_of(scenario)

    def tick(self, number: int, history: History) -> tuple[History, Decision, list[Mismatch]]:
        """Play one tick on; return what came of it, and what of that is wrong."""
        tick = self.ticks[number]
        step = play_tick(self._rules, tick, history)
        return step.history, step.decision, list(differences(self.name, tick, step))


def test_every_recorded_tick_comes_out_the_same_from_a_reopened_store(tmp_path: Path) -> None:
    plays = [_Played(scenario) for scenario in all_scenarios()]
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
            store.keep([(name, history, value.time) for name, (history, value) in written.items()])
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


def test_after_gaps_no_recorded_tick_comes_out_lower() -> None:
    played = [
        scenario
        for scenario in all_scenarios()
        if any("error" in metric for tick in scenario["ticks"] for metric in _metrics(tick))
    ]
    lower, higher = [], 0
    for number, scenario in enumerate(played):
        rules = rules_of(scenario)
        ranges = (120.0 * (number % 2),) * len(rules.target.spec.metrics)
        ours = theirs = History()
        last: float | None = None
        for tick in scenario["ticks"]:
            now, expected = tick["t"], tick["expected"]["specReplicas"]
            seen = observation_of(tick["observed"])
            followed = replace(seen, ranges=ranges, last_read=last)
            step = step_of(rules, Inputs(followed, ours, now, now))
            decision, ours = step.decision, step.history
            if decision.desired < expected:
                lower.append((scenario["name"], now, decision.desired, expected))
            higher += decision.desired > expected
            theirs = play_tick(rules, tick, theirs).history
            ours = replace(ours, **{item: getattr(theirs, item) for item in _OF_WRITES})
            last = now
    assert lower == []
    assert higher > 0, "gaps hold some of them"


def test_above_the_target_no_recorded_tick_comes_out_lower() -> None:
    """A Value metric above its target keeps the count: it is the controller's or a higher one.

    The target lives through what the controller wrote, and remembers its own recommendations.
    """
    lower, higher, kept = [], 0, 0
    for scenario in all_scenarios():
        rules = rules_of(scenario)
        if not any(metric.target.value for metric in rules.target.spec.metrics):
            continue
        keeping = replace(rules, flags=replace(rules.flags, keep_above_target=True))
        ours = theirs = History()
        for tick in scenario["ticks"]:
            now, expected = tick["t"], tick["expected"]["specReplicas"]
            step = step_of(keeping, Inputs(observation_of(tick["observed"]), ours, now, now))
            if step.decision.desired < expected:
                lower.append((scenario["name"], now, step.decision.desired, expected))
            higher += step.decision.desired > expected
            kept += any(
                isinstance(metric.outcome, Calculation)
                and metric.outcome.rule is Formula.ABOVE_TARGET
                for metric in step.decision.metrics
            )
            theirs = play_tick(rules, tick, theirs).history
            ours = replace(
                step.history, **{history: getattr(theirs, history) for history in _OF_WRITES}
            )
    assert lower == []
    assert 0 < higher < kept


def _metrics(tick: Json) -> list[Json]:
    return tick["observed"]["metrics"] or []


def played(*files: Path) -> "subprocess.CompletedProcess[str]":
    command = [sys.executable, "-m", "tests.conformance", *map(str, files)]
    return subprocess.run(command, capture_output=True, text=True, check=False)


def test_the_player_reports_a_difference_and_reads_plain_and_gzip_files(tmp_path: Path) -> None:
    scenario = dict(next(scenarios(FOLDER / "documented.jsonl.gz")))
    plain, packed = tmp_path / "one.jsonl", tmp_path / "one.jsonl.gz"
    plain.write_text(json.dumps(scenario) + "\n")
    packed.write_bytes(gzip.compress(plain.read_bytes()))
    right = played(plain, packed)
    assert (right.returncode, right.stdout.count("1 scenarios, ")) == (0, 2), right.stderr
    tick = scenario["ticks"][2]
    tick["expected"]["specReplicas"] += 1
    plain.write_text(json.dumps(scenario) + "\n")
    wrong = played(plain)
    assert wrong.returncode == 1
    assert f"at t={tick['t']}: specReplicas" in wrong.stdout
