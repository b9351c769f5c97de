"""What `benchmarks.agreement` tells both sides, its loads, its planted differences; a short run."""

import json
import os
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import cast

import pytest
import requests
import yaml

from autoscaler.config import load
from autoscaler.config.queries import DEFAULTS
from autoscaler.core.spec import SOURCES, HorizontalPodAutoscalerSpec
from benchmarks import daemon, measures
from benchmarks.agreement import loads, signals
from benchmarks.agreement.loads import Load
from benchmarks.agreement.options import parse
from benchmarks.agreement.planted import EVERYTHING, PLANTED, StaleAnswers, planted
from benchmarks.agreement.signals import CPU, KEDA_LABEL, MESSAGES, USUAL, Ranges, Signal
from benchmarks.agreement.stage import Pace, Stage, at_work
from benchmarks.agreement.workloads import KEDA, Workload, under_keda, workloads
from benchmarks.bed import Bed
from benchmarks.daemon import Settings
from benchmarks.fleet import NAMESPACE
from tests.importers.importing import imported
from tests.worlds.controlplane.fixtures import if_available
from tests.worlds.prometheus.exporter import Exporter
from tests.worlds.prometheus_adapter.adapter import ADAPTER_MODULE
from tests.worlds.proxies.http import FaultProxy
from tests.worlds.waiting import wait_until

ALL = workloads(1)


def ours(folder: Path, chosen: Sequence[Workload]) -> list[HorizontalPodAutoscalerSpec]:
    """Return what the daemon is told, as it reads it."""
    prometheus = SimpleNamespace(url="http://127.0.0.1:9090")
    bed = SimpleNamespace(prometheus=prometheus, folder=folder, kubeconfig=folder / "kubeconfig")
    bed.kubeconfig.touch()
    targets = [one.target for one in chosen]
    queries = signals.named_queries(USUAL)
    file = daemon.write_targets(cast("Bed", bed), Settings(15), queries, targets)
    return [target.spec for target in load(file).targets]


def theirs(folder: Path, workload: Workload) -> HorizontalPodAutoscalerSpec:
    """Return what `autoscaler import` makes of an HPA."""
    hpa = workload.hpa
    hpa["metadata"]["namespace"] = NAMESPACE
    (target,) = imported(folder, yaml.safe_dump(hpa)).decided.targets
    return target.spec


# -- both sides ----------------------------------------------------------------------------------


def test_both_sides_are_told_the_same(tmp_path: Path) -> None:
    """Each HPA, converted, is our target; those of KEDA are made of ScaledObjects."""
    chosen = [workload for workload in ALL if not workload.by_keda]
    for workload, spec in zip(chosen, ours(tmp_path, chosen), strict=True):
        assert theirs(tmp_path, workload) == spec


def test_a_scaled_object_says_the_same(tmp_path: Path) -> None:
    """Where KEDA runs it makes the HPAs of all that have External metrics alone."""
    chosen = [workload for workload in under_keda(ALL) if workload.by_keda]
    assert len(chosen) == 7
    for workload, spec in zip(chosen, ours(tmp_path, chosen), strict=True):
        scaled_object = workload.scaled_object("http://127.0.0.1:9090")
        (target,) = imported(tmp_path, yaml.safe_dump(scaled_object)).decided.targets
        assert replace(target.spec, metrics=()) == replace(spec, metrics=())
        assert [one.target for one in target.spec.metrics] == [one.target for one in spec.metrics]


def test_there_is_an_hpa_of_every_kind(tmp_path: Path) -> None:
    """All types of metrics with all targets that they may have, and one HPA as KEDA makes it."""
    specs = ours(tmp_path, ALL)
    assert len(specs) == 20
    found = {(metric.type, metric.target.type) for spec in specs for metric in spec.metrics}
    assert {kind for kind, _ in found} == SOURCES.keys()
    assert {kind for kind, target in found if target == "Value"} == {"Object", "External"}
    assert {kind for kind, target in found if target == "AverageValue"} >= SOURCES.keys() - {"Pods"}
    (hpa,) = (one.hpa for one in ALL if KEDA_LABEL in one.hpa["metadata"].get("labels", {}))
    assert hpa["metadata"]["name"] == f"keda-hpa-{KEDA}"
    assert {spec.behavior is None for spec in specs} == {True, False}


def test_the_rule_of_cpu_reads_what_the_built_in_query_reads() -> None:
    """The adapter and the daemon at its defaults take rates over the same range."""
    assert signals.cpu_query(USUAL.cpu) == DEFAULTS["cpu"].promql
    assert signals.resource_queries(USUAL) == {}
    rules = signals.adapter_rules(USUAL, [])["resourceRules"]
    assert f"[{USUAL.cpu}]" in rules["cpu"]["containerQuery"]
    assert rules["window"] == USUAL.cpu


def test_what_is_planted_is_all_that_differs(tmp_path: Path) -> None:
    """A workload with a difference in its specification differs, and no other one does."""
    changed = planted(ALL)
    told = ours(tmp_path, changed)
    differing = {
        workload.name
        for workload, spec in zip(changed, told, strict=True)
        if not workload.by_keda and theirs(tmp_path, workload) != spec
    }
    assert differing == {workload.name for workload in changed if workload.theirs}
    assert {one.workload for one in PLANTED} - {one.name for one in ALL} == {EVERYTHING}


# -- loads ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("load", "low", "high"),
    [
        (loads.steps("a", (2, 9), (10, 20)), 2.0, 9.0),
        (loads.ramps("a", (2, 9), (10, 20)), 2.0, 9.0),
        (loads.diurnal("a", (2, 9), 300), 2.0, 9.0),
        (loads.bursts("a", (2, 9), (50, 90), 20), 2.0, 9.0),
        (loads.noisy("a", loads.constant(10), 0.1), 9.0, 11.0),
    ],
)
def test_a_load_stays_within_its_range_and_uses_it(load: Load, low: float, high: float) -> None:
    """Over an hour it comes within a fifth of both ends."""
    found = [load(at) for at in range(3600)]
    assert low <= min(found) < low + (high - low) / 5
    assert high - (high - low) / 5 < max(found) <= high


def test_loads_depend_on_the_seed_and_the_time_alone() -> None:
    """Asked in any order, the same seed answers the same, and another one does not."""
    first, again, other = (
        [one.load for workload in workloads(seed) for one in workload.signals] for seed in (1, 1, 2)
    )
    forwards = [[load(at) for at in range(0, 900, 7)] for load in first]
    backwards = [[load(at) for at in reversed(range(0, 900, 7))][::-1] for load in again]
    assert forwards == backwards
    others = [[load(at) for at in range(0, 900, 7)] for load in other]
    assert all(mine != theirs for mine, theirs in zip(forwards, others, strict=True))


# -- a stale adapter -----------------------------------------------------------------------------


def test_answers_are_repeated_only_while_they_are_stale() -> None:
    """And of one queue only; afterwards they are new again."""
    stale = StaleAnswers("a")
    with Exporter() as server, FaultProxy(f"http://{server.target}") as proxy:

        def ask(queue: str) -> str:
            params = {"query": f'{MESSAGES.series}{{queue="{queue}"}}'}
            answer = requests.get(proxy.url, params=params, timeout=10).text
            return answer.partition(" ")[2].strip()

        with proxy.playing(stale.play, stale.concerns):
            answers = []
            for value, is_stale in ((1, False), (2, True), (3, True), (4, False)):
                server.set("value", {}, value)
                stale.stale = is_stale
                answers.append([ask(queue) for queue in "ab"])
    assert answers == [["1", "1"], ["1", "2"], ["1", "3"], ["4", "4"]]


def test_the_command_line_has_a_new_seed_unless_it_names_one() -> None:
    """All targets and half an hour unless told otherwise."""
    usual = parse([], "")
    assert (usual.minutes, usual.targets, usual.planted, usual.keda) == (30, len(ALL), False, False)
    assert parse(["--seed", "4", "--planted"], "").seed == 4
    assert len({parse([], "").seed for _ in range(4)}) > 1
    flag = "--horizontal-pod-autoscaler-tolerance=0.3"
    assert parse([f"--controller-flag={flag}"], "").flags == [flag]


# -- a short run ---------------------------------------------------------------------------------

PACE = Pace(period=1, scrape=1, ranges=Ranges(cpu="5s", others="5s"))
SECONDS = 12.0


def quick(seed: str) -> Load:
    """Return a load that changes every few seconds."""
    return loads.steps(seed, (1.5, 6.5), (4, 6))


def few() -> list[Workload]:
    """Return a workload of each of some types, which follow their loads at once."""
    at_once = {"scaleDown": {"stabilizationWindowSeconds": 0}}

    def one(name: str, signal: Signal) -> Workload:
        return Workload(name, [signal], at_once, (1, 8), by_keda=name == KEDA)

    per_replica = 0.08 / (1 + signals.PROXY_SHARE)
    return [
        one("cpu", signals.resource(CPU, signals.average("80m"), per_replica, quick("cpu"))),
        one("pods", signals.pods(20, quick("pods"))),
        one(
            "object",
            signals.of_object(
                signals.WAITING, "object", signals.average("12"), 12, quick("object")
            ),
        ),
        one(KEDA, signals.external(MESSAGES, KEDA, signals.average("30"), 30, quick("external"))),
    ]


def wanted(folder: Path) -> dict[str, set[int]]:
    """Return the counts that each HPA has asked for."""
    found: dict[str, set[int]] = {}
    for line in (folder / "hpa.jsonl").read_text().splitlines():
        hpa = json.loads(line)["object"]
        count = hpa.get("status", {}).get("desiredReplicas")
        if count:
            found.setdefault(hpa["spec"]["scaleTargetRef"]["name"], set()).add(count)
    return found


def readings(stage: Stage) -> dict[str, object]:
    """Return what the daemon has read last, by workload."""
    answer = requests.get(f"http://{stage.daemon.address()}/api/v1/targets", timeout=10).json()
    return {one["name"]: one["metrics"][0]["value"] for one in answer["targets"]}


# The binaries are built where they are not there yet, which takes minutes.
@pytest.mark.timeout(1200)
def test_a_short_run(tmp_path: Path) -> None:
    """Real HPAs of some types scale with their loads, and the daemon in shadow wants the same."""
    if not ADAPTER_MODULE.cached() and "CI" not in os.environ:
        pytest.skip("prometheus-adapter is not built; `python -m benchmarks.agreement` builds it")
    chosen = few()
    with if_available(), at_work(print, chosen, PACE, tmp_path) as stage:
        measures.let_pass(SECONDS, stage.check)
        assert all(isinstance(value, float) for value in readings(stage).values())
        wait_until(
            "all agree at one moment", lambda: all(one.agrees for one in stage.stands()), timeout=30
        )
    assert all(len(counts) > 1 for counts in wanted(tmp_path).values())
    assert wanted(tmp_path).keys() == {one.name for one in chosen}
    lines = (tmp_path / "syncs.jsonl").read_text().splitlines()
    synced = {json.loads(line)["target"] for line in lines}
    assert synced == {one.key for one in chosen}
    assert (tmp_path / "record.db").stat().st_size > 0
