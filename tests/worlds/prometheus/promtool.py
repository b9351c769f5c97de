"""Computes a query on series in promtool's notation, without a server."""

import subprocess
from collections.abc import Mapping
from pathlib import Path

import yaml

from tests.worlds.prometheus.server import required_program


def assert_computes(
    folder: Path, promql: str, series: Mapping[str, str], value: float | None
) -> None:
    """Check the sum of a query's result after five minutes; None is an empty result."""
    samples = [] if value is None else [{"labels": "{}", "value": round(value, 6)}]
    expected = {
        "expr": f"round(sum({promql}), 0.000001)",
        "eval_time": "5m",
        "exp_samples": samples,
    }
    test = {
        "interval": "1m",
        "input_series": [{"series": name, "values": values} for name, values in series.items()],
        "promql_expr_test": [expected],
    }
    file = folder / "test.yaml"
    file.write_text(
        yaml.safe_dump({"rule_files": [], "evaluation_interval": "1m", "tests": [test]})
    )
    command = [required_program("promtool"), "test", "rules", str(file)]
    done = subprocess.run(command, check=False, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
