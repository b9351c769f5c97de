"""The benchmark of the core runs.  Its figures are for people, so no time is asserted."""

import subprocess
import sys


def test_the_benchmark_prints_its_table() -> None:
    """With tiny counts: the baseline and four decisions, each with its figures."""
    ran = subprocess.run(
        [sys.executable, "-m", "benchmarks.core", "--repeats", "2", "--number", "3"],
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )
    assert ran.returncode == 0, ran.stderr
    lines = ran.stdout.splitlines()
    assert [line[:32].strip() for line in lines] == [
        "",
        "baseline loop",
        "one External metric",
        "the same with every extension",
        "CPU utilization over 5 pods",
        "CPU utilization over 100 pods",
    ]
    for line in lines[1:]:
        assert all(float(figure) > 0 for figure in line[32:].split())
