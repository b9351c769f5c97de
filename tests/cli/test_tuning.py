"""`autoscaler tune` as its users see it: what it finds in made loads, and what it promises."""

import json
import os
import re
import signal
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

import pytest
import yaml

from autoscaler.lab.engine.tuning import TuningSpace
from autoscaler.lab.tuning import space_document
from tests.cli.replay_files import DAY, Load, config, samples, space, wave
from tests.cli.test_commands import ran
from tests.narrowing import instance, known

DOCUMENT = Path(__file__).parents[2] / "docs" / "guides" / "replay.md"
COSTS = ("--shortage-cost", "100", "--replica-hour-cost", "1")


def pasted(out: str) -> dict[str, object]:
    return instance(dict, yaml.safe_load(out.partition("to paste into ")[2].partition("\n")[2]))


def tuned(
    folder: Path,
    days: int,
    *more: str,
    of: Mapping[str, object] | None = None,
    load: Load = wave,
    **rules: object,
) -> tuple[int, str, str]:
    """Tune a target by some days of a load, in a space of these values if there are any."""
    file, csv = config(folder, "a.yaml", "10", **rules), samples(folder, days, load)
    searched = () if of is None else ("--space", str(space(folder, **of)))
    return ran("tune", "shop/web", "-c", str(file), "--csv", str(csv), *searched, *more)


def test_a_lower_target_is_found_and_stays_better(tmp_path: Path) -> None:
    """A daily wave with noise is short of pods at its target; shortages are dear.

    What is pasted is a valid configuration, and a metric goes on naming its query.
    """
    factors = {"targetFactors": [0.6, 0.8, 1.0, 1.2]}
    code, out, err = tuned(tmp_path, 12, "--trials", "16", *COSTS, of=factors)
    assert code == 0
    assert re.fullmatch(
        r"note: a candidate takes [\d.]+ s, 16 in (1 process|\d+ processes) about .*\n", err
    )
    searched = "of this space:\n  targetFactors: [0.6, 0.8, 1.0, 1.2]"
    assert f"4 candidates were replayed, {searched}" in out
    assert "chosen by the first 6 days, evaluated on the last 6 days; both are shown\n" in out
    assert "on the last days what was chosen is better than the configuration as it is\n" in out
    assert "by days it is better on 6 of 6\n" in out
    own, file = pasted(out), tmp_path / "a.yaml"
    external = {"metric": {"name": "load"}, "target": {"type": "AverageValue", "averageValue": "8"}}
    assert own == {"metrics": [{"type": "External", "external": external}]}
    document = yaml.safe_load(file.read_text())
    document["targets"][0] |= own
    file.write_text(yaml.safe_dump(document))
    assert ran("validate", str(file))[0] == 0


def test_what_is_only_remembered_is_not_promised(tmp_path: Path) -> None:
    """A slow wave needs no window, the bursts of the last days do: the window is what there is."""

    def load(number: int) -> float:
        burst = 400.0 if number // 3 % 2 else 100.0
        return burst if number >= 3 * DAY else 200 + 100 * abs((number % DAY) / DAY * 2 - 1)

    behavior = {"scaleDown": {"stabilizationWindowSeconds": 3600}}
    windows = {"scaleDownWindows": ["0s", "1h"]}
    more = ("--trials", "8", *COSTS)
    code, out, _ = tuned(tmp_path, 6, *more, of=windows, load=load, behavior=behavior)
    assert code == 0
    assert (
        "on the last days the chosen candidate is not better than the current configuration" in out
    )
    assert "by days it is better on 0 of 3\n" in out
    assert "to paste" not in out


def test_a_gain_on_few_days_may_be_chance(tmp_path: Path) -> None:
    for days, better in ((2, "on 1 of 1: too few days to be sure"), (6, "on 3 of 3")):
        factors = {"targetFactors": [0.8]}
        out = tuned(tmp_path, days, "--trials", "1", *COSTS, of=factors)[1]
        assert "by no more than days differ by chance\n" in out
        assert f"by days it is better {better}\n" in out


def test_nothing_better_is_told_and_nothing_pasted(tmp_path: Path) -> None:
    more, factors = ("--trials", "1", "--shortage-cost", "0"), {"targetFactors": [0.5]}
    out = tuned(tmp_path, 2, *more, of=factors)[1]
    assert out.endswith("none that was tried is preferred to the configuration as it is\n")
    found = json.loads(tuned(tmp_path, 2, *more, "-o", "json", of=factors)[1])
    (chosen,) = [number for number in found["candidates"] if number["chosen"]]
    assert (chosen["asItIs"], chosen["front"], chosen["settings"]) == (True, True, {})


def test_the_same_seed_finds_the_same_in_any_number_of_processes(tmp_path: Path) -> None:
    def candidates(*more: str) -> object:
        found = json.loads(tuned(tmp_path, 2, "--trials", "20", "-o", "json", *more)[1])
        return [(number["settings"], number["lastDays"]) for number in found["candidates"]]

    first = candidates("--processes", "1")
    assert candidates("--processes", "2") == first
    assert candidates("--seed", "2") != first


def test_a_bound_of_the_time_short_is_kept(tmp_path: Path) -> None:
    more = ("--trials", "24", "--most-shortage", "1%", "-o", "json")
    factors = {"targetFactors": [0.4, 0.6, 0.7, 0.8, 0.9]}
    tried = json.loads(tuned(tmp_path, 4, *more, of=factors)[1])["candidates"]
    within = [number for number in tried if number["firstDays"]["tauUnder"] <= 0.01]
    cheapest = min(within, key=lambda number: number["firstDays"]["replicaHours"])
    assert 0 < len(within) < len(tried)
    assert cheapest["chosen"]


@pytest.mark.parametrize("preference", [COSTS, ("--most-shortage", "1%")], ids=["costs", "bound"])
def test_the_table_says_all_in_80_columns(tmp_path: Path, preference: tuple[str, ...]) -> None:
    """So many of the front as are told, and the configuration as it is, where it is none of them.

    Replica-hours have five digits, and each candidate has a value of each setting.
    """
    file = config(tmp_path, "a.yaml", "0.1", maxReplicas=10_000)
    csv = samples(tmp_path, 2, wave)
    _, out, _ = ran(
        *("tune", "shop/web", "-c", str(file), "--csv", str(csv), "--trials", "60", *preference),
        *("--processes", "1"),
    )
    told, _, rest = out.partition("none is better than one of these in ")[2].partition(":\n\n")
    table = rest.partition("\n\n")[0].splitlines()
    assert max(map(len, table)) <= 80
    heading, *rows = [line for line in table if " -> " in line or " a day" in line]
    assert re.split(r"  +", heading.strip()) == [
        *(["replica-hours a day", "missing pod-hours a day"] if preference == COSTS else []),
        *([] if preference == COSTS else ["under-provisioned time", "replica-hours a day"]),
        "changes a day",
    ]
    shown, front = map(int, re.findall(r"; the (\d+) of (\d+) that are preferred most", told)[0])
    beside = "; next to the current configuration" in told
    assert beside == (preference != COSTS)  # of which it is one of those that are preferred
    assert front > shown == len(rows) - beside
    settings = [line for line in table if line[2] != " "]
    assert settings[0] == table[1]
    assert len(settings) == len(rows)
    assert [line.removeprefix("  chosen: ").strip() for line in settings].count("as it is") == 1
    assert [line.startswith("  chosen: ") for line in settings].count(True) == 1


def test_an_interrupt_leaves_the_best_so_far(tmp_path: Path) -> None:
    file, csv = config(tmp_path, "a.yaml"), samples(tmp_path, 2, wave)
    arguments = ("tune", "shop/web", "-c", str(file), "--csv", str(csv), "--trials", "100000")
    with subprocess.Popen(
        [sys.executable, "-m", "autoscaler", *arguments],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    ) as search:
        assert known(search.stderr).readline().startswith("note: a candidate takes ")
        # As of a terminal: all processes of the search get it.
        os.killpg(search.pid, signal.SIGINT)
        out, err = search.communicate(timeout=60)
    assert search.returncode == 1
    assert re.fullmatch(r"interrupted: replayed \d+ of 100000 candidates\n", err)
    assert re.search(r"^\d+ candidates were replayed", out, re.MULTILINE)


def test_what_cannot_be_searched_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file, csv = config(tmp_path, "a.yaml"), samples(tmp_path, 1, wave)
    arguments = ("tune", "shop/web", "-c", str(file), "--csv", str(csv))
    code, _, err = ran(*arguments)
    told = "with fewer than 2 nothing can be chosen by some days and judged on others\n"
    assert (code, err) == (1, f"the time of 1 d 0 h has one whole day: {told}")
    csv = samples(tmp_path, 2, wave)
    wrong = tmp_path / "space.yaml"
    wrong.write_text("targetFactors: [0.5, -1]\nscaleDownWindows: [2h]\nwindows: []\n")
    code, _, err = ran(*arguments, "--space", str(wrong))
    assert code == 2
    places = [line.split(": ")[:2] for line in err.splitlines()]
    assert places == [
        [f"{wrong}:1", "targetFactors[1]"],
        [f"{wrong}:2", "scaleDownWindows[0]"],
        [f"{wrong}:3", "windows"],
    ]
    above = space(tmp_path, minReplicas=[2, 200])
    code, _, err = ran(*arguments, "--space", str(above))
    told = "minReplicas[1]: must be at most 100, maxReplicas of shop/Deployment/web (got 200)\n"
    assert (code, err) == (2, f"{above}:1: {told}")
    monkeypatch.setitem(sys.modules, "optuna", None)
    code, _, err = ran(*arguments)
    told = "a search needs optuna, which pip install --require-hashes -r "
    told += "requirements-tune.lock installs in the checkout of this project\n"
    assert (code, err) == (1, told)


def test_the_document_shows_the_space_that_is_searched() -> None:
    (text,) = re.findall(r"```yaml\n(targetFactors:.*?)```", DOCUMENT.read_text(), re.DOTALL)
    shown = TuningSpace.model_validate(yaml.safe_load(text))
    assert shown == TuningSpace()
    assert space_document(shown) == space_document(TuningSpace())
