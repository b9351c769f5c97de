"""The cpu query without pods whose scrapes failed, as promtool evaluates it."""

import subprocess
from collections.abc import Mapping
from pathlib import Path

import yaml

from tests.worlds.outages.cases import Case, Metric
from tests.worlds.outages.loads import CPU
from tests.worlds.prometheus.server import required_program

QUERY = Case("any", Metric.CPU_UP, 120, 0).promql
BROKEN = "1x39 0x3 1x50"
"""Four scrapes, every 15 s from 10 min on, fail."""
COUNTED = "0+15x39 stale _ _ _ 660+15x50"
"""What is scraped of one core in use."""
WHOLE, WITHIN, AFTER, HEALED = "9m45s", "10m", "12m30s", "13m"


def check(
    folder: Path, series: Mapping[str, str], expected: Mapping[str, Mapping[str, float]]
) -> None:
    """Check the pods and times for which the query has samples."""
    tests = [
        {
            "expr": QUERY,
            "eval_time": time,
            "exp_samples": [
                {"labels": f'{{namespace="shop",pod="{pod}",container="app"}}', "value": cores}
                for pod, cores in found.items()
            ],
        }
        for time, found in expected.items()
    ]
    inputs = [{"series": name, "values": values} for name, values in series.items()]
    group = {"interval": "15s", "input_series": inputs, "promql_expr_test": tests}
    file = folder / "test.yaml"
    file.write_text(yaml.safe_dump({"evaluation_interval": "15s", "tests": [group]}))
    promtool = required_program("promtool", "prometheus")
    ran = subprocess.run(
        [promtool, "test", "rules", str(file)], capture_output=True, text=True, check=False
    )
    assert ran.returncode == 0, ran.stdout + ran.stderr


def usage(pod: str, **scraped: str) -> str:
    """Return the series of a pod's only container."""
    labels = {**scraped, "namespace": "shop", "pod": pod, "container": "app"}
    return CPU + "{" + ",".join(f'{name}="{value}"' for name, value in labels.items()) + "}"


def test_pods_of_a_target_that_was_down_have_no_sample(tmp_path: Path) -> None:
    check(
        tmp_path,
        {
            'up{job="nodes",instance="a"}': "1x100",
            'up{job="nodes",instance="b"}': BROKEN,
            usage("one", job="nodes", instance="a"): "0+15x100",
            usage("two", job="nodes", instance="b"): COUNTED,
        },
        {
            WHOLE: {"one": 1, "two": 1},
            WITHIN: {"one": 1},
            AFTER: {"one": 1},
            HEALED: {"one": 1, "two": 1},
        },
    )


def test_two_paths_of_one_address_are_two_targets(tmp_path: Path) -> None:
    """A kubelet's own metrics that fail take nothing away from cAdvisor's."""
    kubelet = 'job="kubelet",instance="a"'
    check(
        tmp_path,
        {
            f'up{{{kubelet},metrics_path="/metrics"}}': BROKEN,
            f'up{{{kubelet},metrics_path="/metrics/cadvisor"}}': "1x100",
            usage("one", job="kubelet", instance="a", metrics_path="/metrics/cadvisor"): "0+15x100",
        },
        {WITHIN: {"one": 1}, AFTER: {"one": 1}},
    )


def test_without_an_up_that_fits_nothing_is_left_out(tmp_path: Path) -> None:
    """Federated or remote-written series may have no `up` with their labels."""
    check(tmp_path, {usage("one"): "0+15x100"}, {WITHIN: {"one": 1}})
    check(
        tmp_path,
        {'up{job="nodes",instance="a"}': "0x100", usage("one"): "0+15x100"},
        {WITHIN: {"one": 1}},
    )
