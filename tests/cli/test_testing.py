"""`autoscaler test` as its users see it: its output, its exit codes, JUnit XML."""

import errno
import os
import re
import time
from pathlib import Path
from xml.etree import ElementTree as ET

import pytest

from autoscaler.lab.testing import _check_writable
from tests.cli.test_commands import ran
from tests.narrowing import assert_parts
from tests.policy_tests.files import QUEUE, written

EXAMPLES = sorted((Path(__file__).parents[2] / "config" / "policy-tests").glob("*.yaml"))
GOOD = "tests:\n- {name: stays, start: {replicas: 1}, series: {queue: 9}, never: {above: 1}}\n"
BAD = """
tests:
- name: a queue of 200
  start: {replicas: 1, readyAfter: 30s}
  series: {queue: 200x8}
  expect:
  - {at: 1m, replicas: 8, limitedBy: nothing}
- name: stays
  start: {replicas: 1}
  series: {queue: 9x8}
  never: {above: 1}
"""


def test_examples_pass_with_one_line_a_file() -> None:
    code, out, err = ran("test", *map(str, EXAMPLES))
    assert (code, err) == (0, "")
    assert re.fullmatch(r"(\S+\.yaml: [1-9] passed\n){8}", out)
    code, out, _ = ran("test", "-v", *map(str, EXAMPLES))
    names = [line.removeprefix("ok   ").partition(" (")[0] for line in out.splitlines()]
    assert code == 0
    assert "1 -> 10 -> 13 -> 1" in names
    assert len(names) > 3
    assert re.search(r"^       .* 30 s ", out, re.MULTILINE)


def test_a_failure_has_its_explanation_and_a_timeline(tmp_path: Path) -> None:
    file = written(tmp_path, BAD)
    code, out, err = ran("test", str(file))
    assert (code, err) == (1, "")
    lines = out.splitlines()
    number = QUEUE.count("\n") + 7
    key = "shop/Deployment/worker"
    assert lines[:2] == [
        "FAIL a queue of 200",
        f"  {file}:{number}: tests[0].expect[0]: at 1m {key}: replicas: expected 8, got 7",
    ]
    assert f"  {key} at 2026-01-05T00:01:00Z: unchanged (7)" in lines
    assert_parts(out, "queries.queue: sum(queue_length)", "ratio: 0.9524 (tolerated: 0.9 to 1.1)")
    table = out[out.index("    time ") :].splitlines()
    assert len(table[0].split()) == 7
    assert table[1].split()[0] == "0s"
    (marked,) = [row for row in table if row.startswith("  > ")]
    assert re.split(r"  +", marked[4:]) == [
        *("1m", "28.57/30 per replica", "7", "7", "7", "7", "unchanged (7)")
    ]
    assert lines[-1] == f"{file}: 1 passed, 1 failed"


PLURAL_OF_1 = r"\b1 (replicas|changes|syncs|runs)\b"


@pytest.mark.parametrize(
    ("test", "part", "absent"),
    [
        ("start: {replicas: 3}, series: {queue: 1x20}", " 3 to 1 replica$", PLURAL_OF_1),
        ("start: {replicas: 3}, series: {queue: 60x20}", " to 2 replicas$", PLURAL_OF_1),
        ("series: {queue: _x9}", "no series", "validate --prometheus"),
    ],
    ids=["one-replica", "two-replicas", "no-series"],
)
def test_a_failure_has_singulars_and_no_hint_at_prometheus(
    test: str, part: str, absent: str, tmp_path: Path
) -> None:
    tests = f"tests:\n- {{name: a, {test}, never: {{below: 3}}}}\n"
    code, out, _ = ran("test", str(written(tmp_path, tests)))
    assert code == 1
    assert re.search(part, out, re.MULTILINE)
    assert not re.search(absent, out)


def test_the_exit_code_is_2_if_a_file_is_not_valid(tmp_path: Path) -> None:
    good = written(tmp_path, GOOD)
    bad = tmp_path / "bad.yaml"
    bad.write_text("config: nowhere.yaml\ntests: [{name: a, series: {q: 1 +}}]\n")
    code, out, err = ran("test", str(bad), str(good), str(tmp_path / "none.yaml"))
    assert code == 2
    assert out == f"{good}: 1 passed\n"
    places = [f"{bad}:2: tests[0].series.q: ", f"{tmp_path}/nowhere.yaml: "]
    for line, place in zip(err.splitlines(), [*places, f"{tmp_path}/none.yaml: "], strict=True):
        assert line.startswith(place)


@pytest.mark.parametrize("name", ["QUEUE OF", "*200"])
def test_tests_are_chosen_by_name(name: str, tmp_path: Path) -> None:
    file = written(tmp_path, BAD.replace("replicas: 8", "replicas: 7"))
    code, out, _ = ran("test", str(file), "-k", name)
    assert (code, out.count("\n")) == (0, 1)
    assert out.startswith(f"{file}: 1 passed, 1 ")
    code, _, err = ran("test", str(file), "-k", "nothing like it")
    assert (code, "'nothing like it'" in err) == (2, True)


def test_junit_has_a_suite_for_each_file(tmp_path: Path) -> None:
    bad = tmp_path / "bad.yaml"
    bad.write_text("tests: 1\n")
    named = BAD.replace("a queue of 200", '"a <queue> \\x1b[31m & co"')
    file, report = written(tmp_path, named), tmp_path / "report.xml"
    code, _, _ = ran("test", str(file), str(bad), "--junit", str(report))
    assert code == 2
    root = ET.parse(report).getroot()  # noqa: S314 - our own
    assert (root.tag, root.attrib["tests"]) == ("testsuites", "3")
    assert (root.attrib["failures"], root.attrib["errors"]) == ("1", "1")
    suites = root.findall("testsuite")
    assert [suite.attrib["name"] for suite in suites] == [str(file), str(bad)]
    for suite in suites:
        assert {"name", "tests", "failures", "errors", "time"} <= suite.attrib.keys()
        for case in suite.findall("testcase"):
            assert case.attrib.keys() == {"name", "classname", "time"}
            assert float(case.attrib["time"]) >= 0
            assert {child.tag for child in case} <= {"failure", "error"}
    (failure,) = root.iter("failure")
    assert failure.attrib["message"].endswith("replicas: expected 8, got 7")
    assert "    time   reading" in (failure.text or "")
    (error,) = root.iter("error")
    assert "bad.yaml" in error.attrib["message"]


def test_a_report_that_cannot_be_written_is_refused_before_the_tests_run(tmp_path: Path) -> None:
    file = written(tmp_path, GOOD)
    for report, error in (
        (tmp_path, errno.EISDIR),
        (tmp_path / "nodir" / "x.xml", errno.ENOENT),
        (file / "x.xml", errno.ENOTDIR),
    ):
        code, out, err = ran("test", str(file), "--junit", str(report))
        assert (code, out) == (2, "")
        assert_parts(err, str(report), os.strerror(error))


def test_a_report_is_unchanged_until_the_tests_have_run(tmp_path: Path) -> None:
    report = tmp_path / "x.xml"
    _check_writable(report)
    assert not [*tmp_path.iterdir()]
    report.write_text("of before")
    _check_writable(report)
    assert report.read_text() == "of before"


def test_a_hundred_tests_of_an_hour_take_seconds(tmp_path: Path) -> None:
    tests = "".join(
        f"- {{name: t{number}, series: {{queue: {number}+1x240}}, never: {{above: 20}}}}\n"
        for number in range(100)
    )
    file = written(tmp_path, f"tests:\n{tests}")
    begin = time.process_time()
    code, out, _ = ran("test", str(file))
    assert time.process_time() - begin < 10.0
    assert (code, out) == (0, f"{file}: 100 passed\n")
