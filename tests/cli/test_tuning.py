"""`autoscaler tune`: the candidates that it finds in made loads, and its output."""

import json
import os
import re
import signal
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest
import yaml

from autoscaler.lab.engine.tuning import TuningSpace
from autoscaler.lab.tuning import space_document
from tests.cli.refusals import assert_refused
from tests.cli.replay_files import DAY, Load, config, samples, space, wave
from tests.cli.test_commands import ran
from tests.narrowing import assert_parts, known

DOCUMENT = Path(__file__).parents[2] / "docs" / "guides" / "replay.md"
PASTED = re.compile(r"^(?:metrics|behavior):.*", re.MULTILINE | re.DOTALL)
"""What is printed for the configuration."""
COSTS = ("--shortage-cost", "100", "--replica-hour-cost", "1")


def command(
    folder: Path, days: int, average: str = "10", load: Load = wave, **rules: object
) -> tuple[str, ...]:
    """Return the command that tunes a target by some days of a load."""
    file, csv = config(folder, "a.yaml", average, **rules), samples(folder, days, load)
    return ("tune", "shop/web", "-c", str(file), "--csv", str(csv))


def tuned(
    folder: Path, days: int, *more: str, of: Mapping[str, object] | None = None, **options: Any
) -> tuple[int, str, str]:
    """Tune a target, in a space of these values if there are any."""
    searched = () if of is None else ("--space", str(space(folder, **of)))
    return ran(*command(folder, days, **options), *searched, *more)


def tuned_as_json(folder: Path, days: int, *more: str, **options: Any) -> Sequence[Any]:
    """Tune a target; return the candidates of the JSON output."""
    out = tuned(folder, days, *more, "-o", "json", **options)[1]
    candidates: Sequence[Any] = json.loads(out)["candidates"]
    return candidates


def days_better(out: str) -> str:
    """Return on how many of the last days the choice is better: "6 of 6"."""
    return known(re.search(r"by days .* (\d+ of \d+)", out))[1]


def test_a_lower_target_is_found_and_can_be_pasted(tmp_path: Path) -> None:
    """A daily wave with noise is short of pods at its target; shortages are dear.

    The pasted configuration is valid, and a metric keeps the name of its query.
    """
    factors = {"targetFactors": [0.6, 0.8, 1.0, 1.2]}
    code, out, err = tuned(tmp_path, 12, "--trials", "16", *COSTS, of=factors)
    assert (code, err.count("\n")) == (0, 1)
    assert re.match(r"note: .* [\d.]+ s, 16 in (1 process|\d+ processes) ", err)
    assert_parts(out, "4 candidates", "  targetFactors: [0.6, 0.8, 1.0, 1.2]")
    assert_parts(out, "first 6 days, ", "last 6 days; ")
    assert (days_better(out), "not better" in out) == ("6 of 6", False)
    pasted = yaml.safe_load(known(PASTED.search(out))[0])
    external = {"metric": {"name": "load"}, "target": {"type": "AverageValue", "averageValue": "8"}}
    assert pasted == {"metrics": [{"type": "External", "external": external}]}
    file = tmp_path / "a.yaml"
    document = yaml.safe_load(file.read_text())
    document["targets"][0] |= pasted
    file.write_text(yaml.safe_dump(document))
    assert ran("validate", str(file))[0] == 0


def test_a_choice_that_is_not_better_on_the_last_days_is_not_pasted(tmp_path: Path) -> None:
    """A slow wave needs no window, but the bursts of the last days need it."""

    def load(number: int) -> float:
        burst = 400.0 if number // 3 % 2 else 100.0
        return burst if number >= 3 * DAY else 200 + 100 * abs((number % DAY) / DAY * 2 - 1)

    behavior = {"scaleDown": {"stabilizationWindowSeconds": 3600}}
    windows = {"scaleDownWindows": ["0s", "1h"]}
    more = ("--trials", "8", *COSTS)
    code, out, _ = tuned(tmp_path, 6, *more, of=windows, load=load, behavior=behavior)
    assert (code, days_better(out), "not better" in out) == (0, "0 of 3", True)
    assert not PASTED.search(out)


@pytest.mark.parametrize(("days", "better"), [(2, "1 of 1"), (6, "3 of 3")])
def test_a_gain_on_few_days_may_be_chance(tmp_path: Path, days: int, better: str) -> None:
    out = tuned(tmp_path, days, "--trials", "1", *COSTS, of={"targetFactors": [0.8]})[1]
    assert (days_better(out), "too few days" in out) == (better, days == 2)
    assert "by chance" in out


def test_without_a_better_candidate_the_configuration_is_chosen(tmp_path: Path) -> None:
    more, factors = ("--trials", "1", "--shortage-cost", "0"), {"targetFactors": [0.5]}
    out = tuned(tmp_path, 2, *more, of=factors)[1]
    assert ("none" in out.splitlines()[-1], PASTED.search(out)) == (True, None)
    candidates = tuned_as_json(tmp_path, 2, *more, of=factors)
    (chosen,) = [candidate for candidate in candidates if candidate["chosen"]]
    assert (chosen["asItIs"], chosen["front"], chosen["settings"]) == (True, True, {})


def test_the_same_seed_finds_the_same_in_any_number_of_processes(tmp_path: Path) -> None:
    def found_by(*more: str) -> object:
        candidates = tuned_as_json(tmp_path, 2, "--trials", "20", *more)
        return [(candidate["settings"], candidate["lastDays"]) for candidate in candidates]

    first = found_by("--processes", "1")
    assert found_by("--processes", "2") == first
    assert found_by("--seed", "2") != first


def test_the_cheapest_candidate_within_the_bound_of_the_shortage_is_chosen(tmp_path: Path) -> None:
    more, factors = ("--trials", "24", "--most-shortage", "1%"), [0.4, 0.6, 0.7, 0.8, 0.9]
    tried = tuned_as_json(tmp_path, 4, *more, of={"targetFactors": factors})
    within = [number for number in tried if number["firstDays"]["tauUnder"] <= 0.01]
    cheapest = min(within, key=lambda number: number["firstDays"]["replicaHours"])
    assert 0 < len(within) < len(tried)
    assert cheapest["chosen"]


@pytest.mark.parametrize(
    ("preference", "columns", "added"),
    [
        (COSTS, ["replica-hours a day", "missing pod-hours a day"], 0),
        (("--most-shortage", "1%"), ["under-provisioned time", "replica-hours a day"], 1),
    ],
    ids=["costs", "bound"],
)
def test_the_table_has_the_front_and_the_configuration_in_80_columns(
    tmp_path: Path, preference: tuple[str, ...], columns: list[str], added: int
) -> None:
    arguments = command(tmp_path, 2, "0.1", maxReplicas=10_000)
    out = ran(*arguments, "--trials", "60", "--processes", "1", *preference)[1]
    found = known(re.search(r" (\d+) of (\d+) (.*?):\n\n(.*?)\n\n", out, re.DOTALL))
    shown, front, table = int(found[1]), int(found[2]), found[4].splitlines()
    assert max(map(len, table)) <= 80
    heading, *rows = [line for line in table if " -> " in line or " a day" in line]
    assert re.split(r"  +", heading.strip()) == [*columns, "changes a day"]
    assert found[3].count("current configuration") == added
    assert front > shown == len(rows) - added
    settings = [line for line in table if line[2] != " "]
    assert settings[0] == table[1]
    assert len(settings) == len(rows)
    assert [line.removeprefix("  chosen: ").strip() for line in settings].count("as it is") == 1
    assert [line.startswith("  chosen: ") for line in settings].count(True) == 1


def test_an_interrupt_leaves_the_best_so_far(tmp_path: Path) -> None:
    arguments = (*command(tmp_path, 2), "--trials", "100000")
    with subprocess.Popen(
        [sys.executable, "-m", "autoscaler", *arguments],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    ) as search:
        assert known(search.stderr).readline().startswith("note: ")
        # As of a terminal: all processes of the search get it.
        os.killpg(search.pid, signal.SIGINT)
        out, err = search.communicate(timeout=60)
    assert search.returncode == 1
    assert re.fullmatch(r"interrupted: .* \d+ of 100000 .*\n", err)
    assert re.search(r"^\d+ candidates ", out, re.MULTILINE)


def test_every_mistake_in_a_space_has_its_place(tmp_path: Path) -> None:
    arguments, file = command(tmp_path, 2), tmp_path / "space.yaml"
    file.write_text("targetFactors: [0.5, -1]\nscaleDownWindows: [2h]\nwindows: []\n")
    code, _, err = ran(*arguments, "--space", str(file))
    places = [line.removeprefix(f"{file}:").rpartition(": ")[0] for line in err.splitlines()]
    keys = ("1: targetFactors[1]", "2: scaleDownWindows[0]", "3: windows")
    assert (code, len(places)) == (2, 3)
    assert all(place.startswith(key) for place, key in zip(places, keys, strict=True))
    refused = ran(*arguments, "--space", str(space(tmp_path, minReplicas=[2, 200])))
    assert_refused(refused, 2, f"{file}:1: minReplicas[1]: ", " 100, ", " 200)")


def test_tuning_needs_two_days_and_optuna(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert_refused(ran(*command(tmp_path, 1)), 1, " 1 d 0 h ", "one whole day")
    monkeypatch.setitem(sys.modules, "optuna", None)
    assert_refused(ran(*command(tmp_path, 2)), 1, "optuna", "promql-autoscaler[tune]")


def test_the_document_shows_the_space_that_is_searched() -> None:
    (text,) = re.findall(r"```yaml\n(targetFactors:.*?)```", DOCUMENT.read_text(), re.DOTALL)
    shown = TuningSpace.model_validate(yaml.safe_load(text))
    assert shown == TuningSpace()
    assert space_document(shown) == space_document(TuningSpace())
