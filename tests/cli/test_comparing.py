"""`autoscaler replay` of several configurations as its users see it."""

import json
import re
import time
from pathlib import Path
from typing import Any

import pytest

from tests.cli.refusals import assert_refused
from tests.cli.replay_files import PERIOD, config, samples, wave
from tests.cli.test_commands import ran

Configs = tuple[Path, Path]


@pytest.fixture
def both(tmp_path: Path) -> Configs:
    """Write a configuration, and one with a lower target."""
    return config(tmp_path, "a.yaml"), config(tmp_path, "b.yaml", "8")


@pytest.fixture
def day(tmp_path: Path) -> Path:
    """Write the samples of one day."""
    return samples(tmp_path, 1, wave)


def compared(path: Path, other: Path, csv: Path, *more: str) -> tuple[int, str, str]:
    return ran("replay", "-c", str(path), "-c", str(other), "--csv", str(csv), *more)


def compared_as_json(*arguments: Any) -> Any:
    """Compare; return what is printed as JSON."""
    return json.loads(compared(*arguments, "-o", "json")[1])


def measures_of(*arguments: Any) -> dict[str, Any]:
    """Compare; return the measures of the target by their names."""
    (pair,) = compared_as_json(*arguments)["comparisons"]
    return {measure["measure"]: measure for measure in pair["targets"]["shop/Deployment/web"]}


def test_days_show_which_configuration_is_better(both: Configs, tmp_path: Path) -> None:
    """A lower target costs replica-hours and saves shortage, on each of seven days.

    The demand is counted in pods of the first: against its own pods the second would be no better.
    """
    first, other = both
    csv = samples(tmp_path, 7, wave)
    code, out, err = compared(first, other, csv)
    assert (code, err) == (0, "")
    time, demand, _, *head = out.splitlines()[:5]
    assert time == "2026-01-01T00:00:00Z to 2026-01-08T00:00:00Z, 7 d 0 h"
    assert f" {first}: " in demand
    assert head == [f"{first} -> {other}", "  shop/Deployment/web"]
    measures = measures_of(first, other, csv)
    assert (measures["shortagePodHours"]["betterDays"], measures["replicaHours"]["worseDays"]) == (
        7,
        7,
    )
    for row in (r"missing pod-hours .* -[\d.]+  better ", r"replica-hours .* \+[\d.]+  worse "):
        assert re.search(rf"^    {row} .* 7 of 7 ", out, re.MULTILINE)


def test_the_report_has_the_sign_test(tmp_path: Path) -> None:
    config_file = config(tmp_path, "a.yaml", "10", "web", "api")
    other, report = config(tmp_path, "b.yaml", "8", "web", "api"), tmp_path / "report.html"
    out = compared(config_file, other, samples(tmp_path, 7, wave), "--report", str(report))[1]
    tables = re.findall(r"<caption>(.*?)</caption>(.*?)</table>", report.read_text(), re.DOTALL)
    title = f"{config_file} -&gt; {other}, "
    assert [caption.startswith(title) for caption, _ in tables] == [True] * 3
    assert ["all targets" in caption for caption, _ in tables] == [True, False, False]
    for _, table in tables:
        rows = [re.sub(r"<[^>]+>", "|", row) for row in table.split("</tr>")[1:-1]]
        cells = [[cell for cell in row.split("|") if cell.strip()] for row in rows]
        assert [len(cells), cells[3][0]] == [5, "replica-hours"]
        assert cells[3][4:] == ["worse", "on 7 of 7 days", "1.56%"]
        assert f"{cells[3][1]} -> {cells[3][2]}" in out


def test_one_day_is_not_sure(both: Configs, day: Path) -> None:
    for other, verdict in ((both[1], "worse"), (both[0], "equal")):
        hours = measures_of(both[0], other, day)["replicaHours"]
        assert (hours["verdict"], hours["days"], hours["chance"]) == (verdict, 1, None)
        assert ("one day" in compared(both[0], other, day)[1]) is (verdict == "worse")


def test_without_scored_time_no_demand_is_compared(both: Configs, day: Path) -> None:
    span = ("--since", "2026-02-01T00:00:00Z", "--until", "2026-02-01T02:00:00Z")
    out = compared(*both, day, *span)[1]
    assert re.search(r"^    under-provisioned time +- -> +- +-$", out, re.MULTILINE)
    assert re.search(r"^    replica-hours +2.00 -> 2.00 +0.00$", out, re.MULTILINE)
    short = measures_of(*both, day, *span)["tauUnder"]
    assert (short["first"], short["second"], short["verdict"]) == (None, None, "unknown")


def test_targets_of_only_some_configurations_are_named(tmp_path: Path, day: Path) -> None:
    first = config(tmp_path, "a.yaml", "10", "web", "api", "old")
    second = config(tmp_path, "b.yaml", "8", "web", "api")
    code, out, _ = compared(first, second, day)
    assert code == 0
    assert re.search(rf" shop/Deployment/old .* {first}$", out, re.MULTILINE)
    heads = [line.strip() for line in out.splitlines() if re.match("  [^ ]", line)]
    assert heads == ["all targets", "shop/Deployment/api", "shop/Deployment/web"]
    found = compared_as_json(first, second, day)
    assert found["notInAll"] == {"shop/Deployment/old": [str(first)]}
    (pair,) = found["comparisons"]
    assert pair["targets"].keys() == {"shop/Deployment/api", "shop/Deployment/web"}
    totals = {item["measure"]: item["first"] for item in pair["allTargets"]}
    each = [text for target in pair["targets"].values() for text in target]
    parts = [item["first"] for item in each if item["measure"] == "replicaHours"]
    assert totals["replicaHours"] == sum(parts)


def test_a_time_relative_to_now_is_the_same_for_all(both: Configs, tmp_path: Path) -> None:
    file = samples(tmp_path, 1, wave, int(time.time()) - 86_400 - PERIOD)
    replays = compared_as_json(*both, file, "--since", "6h ago")["replays"]
    assert len({each["from"] for each in replays.values()}) == 1


def test_the_former_name_does_the_same(both: Configs, day: Path) -> None:
    first, other = map(str, both)
    assert ran("compare", "-c", first, "-c", other, "--csv", str(day)) == compared(*both, day)
    assert "compare" not in ran("--help")[1]


def test_configurations_without_a_common_target_are_refused(tmp_path: Path, day: Path) -> None:
    files = config(tmp_path, "a.yaml"), config(tmp_path, "b.yaml", "8", "api")
    assert_refused(compared(*files, day), 1, "in common")


def test_a_report_does_not_replace_a_file_without_force(both: Configs, day: Path) -> None:
    assert_refused(compared(*both, day, "--report", str(day)), 2, f"{day} ", "--force")
