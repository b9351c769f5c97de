"""What `benchmarks.agreement` tells both sides, its loads, its planted differences; a short run."""

import os
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import cast

import pytest
import yaml

from autoscaler.config import load
from autoscaler.config.conversion import DEFAULTS
from autoscaler.core.spec import SOURCES, HorizontalPodAutoscalerSpec
from benchmarks import daemon, measures
from benchmarks.agreement.__main__ import at_work, chosen_by, parse, summary
from benchmarks.agreement.workloads import (
    CPU_RANGE,
    PLANTED,
    Load,
    Workload,
    adapter_rules,
    day,
    noisy,
    queries,
    steps,
    workloads,
)
from benchmarks.bed import Bed
from benchmarks.daemon import Settings
from benchmarks.fleet import NAMESPACE
from tests.importers.importing import imported
from tests.worlds.controlplane.fixtures import if_available
from tests.worlds.prometheus_adapter.adapter import ADAPTER_MODULE
from tests.worlds.waiting import wait_until


def ours(folder: Path, chosen: Sequence[Workload]) -> list[HorizontalPodAutoscalerSpec]:
    """Return the specs that the daemon reads."""
    prometheus = SimpleNamespace(url="http://127.0.0.1:9090")
    bed = SimpleNamespace(prometheus=prometheus, folder=folder, kubeconfig=folder / "kubeconfig")
    bed.kubeconfig.touch()
    targets = [workload.target for workload in chosen]
    file = daemon.write_targets(cast("Bed", bed), Settings(15), queries(), targets)
    return [target.spec for target in load(file).targets]


def theirs(folder: Path, workload: Workload) -> HorizontalPodAutoscalerSpec:
    """Return what `autoscaler import` makes of an HPA."""
    hpa = workload.hpa
    hpa["metadata"]["namespace"] = NAMESPACE
    (target,) = imported(folder, yaml.safe_dump(hpa)).decided.targets
    return target.spec


def test_both_sides_differ_only_in_what_is_planted(tmp_path: Path) -> None:
    chosen = chosen_by(parse(["--planted", "--seed", "1"]))
    specs = ours(tmp_path, chosen)
    pairs = zip(chosen, specs, strict=True)
    assert {pair.name for pair, spec in pairs if theirs(tmp_path, pair) != spec} == set(PLANTED)
    assert {metric.type for spec in specs for metric in spec.metrics} == SOURCES.keys()


def test_the_rule_of_cpu_has_the_range_of_the_built_in_query() -> None:
    assert f"[{CPU_RANGE}]" in DEFAULTS["cpu"].promql
    rules = adapter_rules()["resourceRules"]
    assert f"[{CPU_RANGE}]" in rules["cpu"]["containerQuery"]
    assert rules["window"] == CPU_RANGE


@pytest.mark.parametrize(
    ("load", "low", "high"),
    [
        (steps("a", 2, 9, (10, 20)), 2.0, 9.0),
        (day("a", 2, 9, 300), 2.0, 9.0),
        (noisy("a", lambda _: 10, 0.1), 9.0, 11.0),
    ],
)
def test_a_load_stays_within_its_range_and_uses_it(load: Load, low: float, high: float) -> None:
    found = [load(at) for at in range(3600)]
    assert low <= min(found) < low + (high - low) / 5
    assert high - (high - low) / 5 < max(found) <= high


# The binaries are built where they are not there yet, which takes minutes.
@pytest.mark.timeout(1200)
def test_a_short_run_compares_every_target() -> None:
    if not ADAPTER_MODULE.cached() and "CI" not in os.environ:
        pytest.skip("prometheus-adapter is not built; `python -m benchmarks.agreement` builds it")
    at_once = {"scaleDown": {"stabilizationWindowSeconds": 0}}
    chosen = [replace(workload, behavior=at_once) for workload in workloads(2)]
    with if_available(), at_work(print, chosen, Settings(1, cpu_initialization="1s")) as stage:

        def compared() -> bool:
            measures.let_pass(1.0, stage.check)
            targets = stage.agreement(0.0)["targets"]
            return all(target["comparedSeconds"] > 0 for target in targets)

        wait_until("all are compared", compared, timeout=180)
        lines = list(summary(stage.agreement(0.0)))
    assert any(line.startswith("agreement: ") for line in lines)
