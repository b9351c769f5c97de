"""Whether the daemon in shadow agrees with real HPAs of every kind, while their loads change.

    python -m benchmarks.agreement --minutes 30

starts a real etcd, kube-apiserver, kube-controller-manager with its Deployments, ReplicaSets and
HPAs, Prometheus and prometheus-adapter, and the daemon as a process with `--shadow`. Twenty
Deployments have an HPA each, of all types of metrics, with and without behavior, and one as KEDA
makes it; the daemon has the same specifications, and queries that read the same series. Their loads
change all the time. Each minute a line tells how many counts agree at that moment. With `--planted`
the two sides differ on purpose, in ways that `run.json` lists. With `--keda` KEDA runs too,
makes the HPAs of all workloads that have External metrics alone, and serves these. What both did is
left in the folder of `--out`.
"""

import json
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from pathlib import Path

from benchmarks import measures
from benchmarks.agreement.options import Options, parse
from benchmarks.agreement.planted import (
    GAP_FROM,
    GAP_SECONDS,
    PLANTED,
    STALE_FROM,
    STALE_UNTIL,
    planted,
)
from benchmarks.agreement.stage import Pace, Stage, at_work
from benchmarks.agreement.workloads import under_keda, workloads
from benchmarks.command import Report, exit_code
from benchmarks.keda.isolation import isolate
from benchmarks.keda.programs import ADAPTER, KEDA, OPERATOR
from benchmarks.scale import machine
from tests.worlds.controlplane import binaries
from tests.worlds.controlplane.api import Json
from tests.worlds.prometheus_adapter import adapter

Act = Callable[[], None]


def run(options: Options, out: Path, report: Report) -> None:
    """Let the loads change for that long."""
    chosen = workloads(options.seed)[: options.targets]
    if options.planted:
        chosen = planted(chosen)
    if options.keda:
        chosen = under_keda(chosen)
    seconds = 60 * options.minutes
    with at_work(
        report,
        chosen,
        Pace(),
        out,
        planted=options.planted,
        keda=options.keda,
        flags=options.flags,
    ) as stage:
        report(f"{options.warm_up:g} min pass first, for the windows of the daemon to fill")
        measures.let_pass(60 * options.warm_up, stage.check)
        began = time.time()
        before = stage.agreement(began)
        _write_run(options, out, began)
        acts: list[tuple[float, Act]] = [
            (60.0 * minute, partial(_tell, stage, report))
            for minute in range(int(options.minutes) + 1)
        ]
        if options.planted:
            acts += _faults(stage, seconds, report)
        for at, act in sorted(acts, key=lambda one: one[0]):
            measures.let_pass(began + at - time.time(), stage.check)
            act()
        measures.let_pass(began + seconds - time.time(), stage.check)
        told = _since(before, stage.agreement(began))
        (out / "agreement.json").write_text(json.dumps(told, indent=2))
        for line in _summary(told):
            report(line)


def _since(before: Json, after: Json) -> Json:
    """Return what became known between two answers: sums are by the hour, and these are not."""
    known = {
        (one["target"], each["kind"]): each for one in before["targets"] for each in one["times"]
    }
    for one in after["targets"]:
        for each in one["times"]:
            earlier = known.get((one["target"], each["kind"]))
            each["seconds"] -= 0.0 if earlier is None else earlier["seconds"]
        compared = {each["kind"]: each["seconds"] for each in one["times"]}
        compared.pop("notCompared", None)
        agreed = compared.get("equal", 0.0) + compared.get("timing", 0.0)
        total = sum(compared.values())
        one["agreement"] = agreed / total if total else None
    return after


def _summary(told: Json) -> Iterator[str]:
    """Yield what the daemon tells of each target, and of all in sums."""
    total: Counter[str] = Counter()
    for one in sorted(told["targets"], key=lambda target: target["agreement"] or 0):
        for each in one["times"]:
            total[each["kind"]] += each["seconds"]
        kinds = ", ".join(
            f"{each['kind']} {each['seconds']:.0f} s" for each in one["times"] if each["seconds"]
        )
        share = "nothing compared" if one["agreement"] is None else f"{one['agreement']:.2%}"
        counts = (
            f"{one.get('meanReplicas')} replicas, {one.get('meanFreeReplicas')} had it been live"
        )
        yield f"{one['target']}: {share}; {kinds}; {counts}"
        for stretch in one.get("disagreements", ())[:5]:
            counts = f"{stretch['ours']} here, {stretch['theirs']} there"
            yield f"    {stretch['begin']} to {stretch['end']}, {counts}: {stretch['message']}"
    compared = sum(total.values()) - total["notCompared"]
    for kind, seconds in total.most_common():
        yield f"{kind}: {seconds:.0f} s, {seconds / compared:.2%} of the time of all"
    yield f"agreement: {(total['equal'] + total['timing']) / compared:.2%}"


def _faults(stage: Stage, seconds: float, report: Report) -> list[tuple[float, Act]]:
    """Return what happens to the servers of a run with planted differences, and when."""

    def become_stale(*, stale: bool) -> None:
        stage.stale.stale = stale
        report(f"the adapter reads {'old answers of one queue' if stale else 'new answers again'}")

    def stop() -> None:
        report("Prometheus is stopped")
        stage.bed.prometheus.stop()

    def start() -> None:
        stage.bed.start_prometheus()
        report("Prometheus runs again")

    return [
        (STALE_FROM * seconds, lambda: become_stale(stale=True)),
        (STALE_UNTIL * seconds, lambda: become_stale(stale=False)),
        (GAP_FROM * seconds, stop),
        (GAP_FROM * seconds + GAP_SECONDS, start),
    ]


def _write_run(options: Options, out: Path, began: float) -> None:
    """Write when what counts began (Unix time), and what differs on purpose."""
    seconds = 60 * options.minutes
    found: dict[str, object] = {
        "seed": options.seed,
        "flags": options.flags,
        "began": began,
        "seconds": seconds,
    }
    if options.planted:
        gap = began + GAP_FROM * seconds
        found |= {
            "planted": {one.workload: one.what for one in PLANTED},
            "stale": [began + share * seconds for share in (STALE_FROM, STALE_UNTIL)],
            "gap": [gap, gap + GAP_SECONDS],
        }
    (out / "run.json").write_text(json.dumps(found, indent=2))


def _tell(stage: Stage, report: Report) -> None:
    stands = stage.stands()
    agreeing = sum(one.agrees for one in stands)
    others = ", ".join(f"{one.name} {one.hpa}/{one.ours}" for one in stands if not one.agrees)
    report(f"{agreeing} of {len(stands)} agree now{f'; HPA/ours: {others}' if others else ''}")


def main(arguments: Sequence[str]) -> int:
    """Run, and return the exit code."""
    options = parse(arguments, __doc__)

    def work(report: Report) -> int:
        if options.keda:
            # What is built or downloaded needs the network.
            binaries.locate(report=report)
            adapter.ADAPTER_MODULE.built([adapter.ADAPTER], report)
            KEDA.built([OPERATOR, ADAPTER], report)
            isolate("benchmarks.agreement", arguments)
        report(f"{machine()}; seed {options.seed}")
        with tempfile.TemporaryDirectory(prefix="agreement-") as folder:
            out = options.out or Path(folder)
            out.mkdir(parents=True, exist_ok=True)
            run(options, out, report)
        return 0

    return exit_code(work)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
