"""The notation of series is promtool's: the same samples at each instant, the same refusals."""

import math
import random
import re
import shutil
import subprocess
import time
from pathlib import Path

import pytest
import yaml

from autoscaler.core.series import QueryResult
from autoscaler.lab.engine.answers import LOOKBACK_SECONDS
from autoscaler.lab.engine.stated import StatedSeries, stated_answers
from autoscaler.lab.series_notation import MOST_SAMPLES, parse, samples_of

PROMTOOL = shutil.which("promtool")
needs_promtool = pytest.mark.skipif(PROMTOOL is None, reason="promtool is not on the PATH")
TAKEN = [
    *("1 2 3", "1x3", "1+2x3", "1-2x3", "-1-2x3", "+1+2x3", "_", "_x3 1", "1 _x0 2", "1x0", "0x10"),
    *("1 stale", "1 stale _x3 2 3", "_ _x2  3", "  1  2 ", "1\t2", "", "1e3", "1e3x2", "5.", ".5"),
    *("1.5e-3+.5x2", "010", "08", "1x010", "Inf", "-Inf", "+Inf 1", "Inf+1x2", "1e-400", "1E3"),
    *("NaN 1 NaN+1x2 nan", "1x2 _x30 7", "100-10x10 _ _ 3x2 stale 5", "0.1+0.1x10", "-5-5x3"),
]
REFUSED = [
    *("STALE", "stalex3", "nanx3", "NaNx3", "inf x3", "1+Infx2", "1 + 2x3", "1+ 2x3", "1 x3"),
    *("1x 3", "1x-1", "1x+1", "1x1.5", "1x1e1", "0x1F", "1_000", "1__", "_1", "1,2", "1+2", "1x"),
    *("x3", "--1", "1--1x2", "1+-1x2", "+-1", "{{schema:0 count:1}}", "1s", "5m", "1x3x2"),
    *("1x3 x2", "1+1x2+1x2", "_x3_", "1staleX", "0x1x2", "1e400", "infinity", "1e", "1ex2"),
    *("1.2.3", "- 1", "true", "1x_2", "1._2", "1\n2"),
]


@pytest.mark.parametrize("text", REFUSED)
def test_invalid_notation_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match=r"^(has|goes|stands) "):
        parse(text)


def test_native_histograms_are_refused() -> None:
    with pytest.raises(ValueError, match="histogram"):
        parse("1 {{schema:0 sum:5 count:4 buckets:[1 2 1]}}x3")


@pytest.mark.parametrize("text", [f"1x{MOST_SAMPLES}", "1 " * (MOST_SAMPLES + 1), f"_x{10**40}"])
def test_samples_are_bounded_before_they_are_made(text: str) -> None:
    with pytest.raises(ValueError, match=f"{MOST_SAMPLES:,}"):
        parse(text)


def test_reading_takes_time_in_proportion_to_the_text() -> None:
    begin = time.process_time()
    for text in ("1" * 60_000 + "z", "1." + "1" * 60_000 + "z", "1e" + "1" * 60_000, "_" * 60_000):
        with pytest.raises(ValueError, match=r"^has "):
            parse(text)
    assert time.process_time() - begin < 0.5


def promtool(folder: Path, tests: list[dict[str, object]]) -> str:
    """Run promtool's unit tests, and return what it prints."""
    file = folder / "tests.yaml"
    file.write_text(yaml.dump({"evaluation_interval": "15s", "tests": tests}))
    command = [str(PROMTOOL), "test", "rules", str(file)]
    ran = subprocess.run(command, capture_output=True, text=True, check=False, timeout=60)
    return ran.stdout + ran.stderr


@needs_promtool
@pytest.mark.parametrize("text", [*TAKEN, *REFUSED])
def test_promtool_takes_and_refuses_the_same(text: str, tmp_path: Path) -> None:
    series = [{"series": "m", "values": text}]
    printed = promtool(tmp_path, [{"interval": "15s", "input_series": series}])
    assert ("parse error" in printed) == (text in REFUSED), printed


def expected_at(text: str, instants: range) -> list[dict[str, object]]:
    """Return promtool's tests of the values that we read at these instants."""
    answers = stated_answers([StatedSeries(samples_of(parse(text)), {})], 0.0, 15.0)
    tests: list[dict[str, object]] = []
    for instant in instants:
        answer = answers(float(instant))
        assert isinstance(answer, QueryResult)
        value = answer.series[0].value if answer.series else None
        expr, expected = "m", value
        if value is not None and math.isnan(value):
            expr, expected = "count(m != m)", 1.0
        of_m = [] if expected is None else [{"labels": "m" if expr == "m" else "{}"}]
        samples = [{**item, "value": expected} for item in of_m]
        tests.append({"expr": expr, "eval_time": f"{instant}s", "exp_samples": samples})
    return tests


def boundary(text: str) -> set[int]:
    """Return the instants at which a sample is exactly as old as one may be.

    Prometheus 2 takes it then, Prometheus 3 does not.
    """
    places = samples_of(parse(text)).places
    return {round(place * 15 + LOOKBACK_SECONDS) for place in places}


def made_up(seed: int) -> str:
    """Return a series that is made up."""
    source = random.Random(seed)  # noqa: S311 - nothing is kept secret by it
    choices = ("7", "3x4", "0+2.5x9", "9-1x5", "_", "_x6", "_x25", "stale", "-2x3", "1e2")
    return " ".join(source.choices(choices, k=8))


@needs_promtool
@pytest.mark.parametrize("text", [*TAKEN, *(made_up(seed) for seed in range(8))])
def test_promtool_reads_the_same_at_each_instant(text: str, tmp_path: Path) -> None:
    away = boundary(text)
    checks = [
        check
        for instant in range(0, 900, 5)
        if instant not in away
        for check in expected_at(text, range(instant, instant + 1))
    ]
    series = [{"series": "m", "values": text}]
    test: dict[str, object] = {
        "interval": "15s",
        "input_series": series,
        "promql_expr_test": checks,
    }
    printed = promtool(tmp_path, [test])
    assert "SUCCESS" in printed, printed
    assert re.search("FAILED|error", printed) is None, printed
