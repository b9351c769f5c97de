"""How much many targets cost and how soon they all change, beside the HPA if asked for.

    python -m benchmarks.scale --targets 1000 --side-by-side --growth --json figures.json

starts a real etcd, kube-apiserver and Prometheus on loopback, and the daemon as a process. No
controller runs but the HPA's in its turn: Deployments are objects without pods, so that only the
autoscaler, the API server, etcd and Prometheus work. CPU comes from /proc of each process, and the
times of writes from a watch of the Deployments. Tables go to standard output, progress to standard
error. Everything it starts ends with it.
"""

import dataclasses
import json
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass, field

from benchmarks import daemon, fleet, measures, sides, tables
from benchmarks.bed import Bed
from benchmarks.command import Report, exit_code, hardware
from benchmarks.figures import Figures
from benchmarks.hpa import TUNED, Adapter
from benchmarks.options import Options, parse
from benchmarks.sides import HIGH, LOW
from tests.worlds.controlplane.binaries import kubernetes_version

CPU_CORES = 0.07
"""What each pod uses: 70 % of the request of its container."""


@dataclass
class Results:
    """All figures of a run, and the machine they are of."""

    machine: str
    compared: list[Figures] = field(default_factory=list)
    pods: list[Figures] = field(default_factory=list)
    growth: list[Figures] = field(default_factory=list)


def run(options: Options, report: Report) -> Results:
    """Measure what the options name; raises where a server is missing or fails."""
    results = Results(machine())
    with Bed(report) as bed:
        results.compared = compare(bed, options, report)
    if options.pods_per_target:
        # Tens of thousands of series at each scrape would be Prometheus' benchmark.
        with Bed(report, scrape_interval="1s" if options.targets < 100 else "5s") as bed:
            results.pods = [with_pods(bed, options, report)]
    if options.growth:
        with Bed(report) as bed:
            results.growth = grow(bed, options, report)
    return results


def compare(bed: Bed, options: Options, report: Report) -> list[Figures]:
    """Measure the daemon, and the HPA if asked for, on the same servers in turn."""
    targets, plan = options.targets, options.plan
    report(f"creating {targets:,} Deployments")
    fleet.create_deployments(bed.bulk, range(targets), LOW)
    measures.publish(bed, targets, LOW)
    idle = measures.idle(bed, {}, 2 * plan.period)
    report("the daemon at its defaults")
    found = [sides.autoscaler_steps(bed, plan, targets, None, "autoscaler, defaults")]
    found[0].steady = sides.autoscaler_at_rest(bed, plan, targets, idle)
    writes = options.max_writes_per_second
    if writes is not None and daemon.limits_writes(bed):
        report(f"the daemon with maxWritesPerSecond: {writes}")
        title = f"autoscaler, {writes:,} writes/s"
        found.append(sides.autoscaler_steps(bed, plan, targets, writes, title))
        # The limit makes no difference to a sync that writes nothing.
        found[1].steady = found[0].steady
    if options.side_by_side:
        fleet.create_hpas(bed.bulk, range(targets))
        with Adapter(bed) as adapter:
            for title, flags in (("HPA, defaults", ()), ("HPA, tuned", TUNED)):
                report(f"kube-controller-manager: {title} {' '.join(flags)}")
                found.append(sides.hpa(bed, adapter, plan, targets, flags, title))
    return found


def with_pods(bed: Bed, options: Options, report: Report) -> Figures:
    """Measure the daemon with a Pods and a CPU metric for each target."""
    targets, each = options.targets, options.pods_per_target
    report(f"creating {targets * each:,} pods")
    fleet.create_deployments(bed.bulk, range(targets), each)
    fleet.create_pods(bed.bulk, range(targets), each)
    labels = [
        {"namespace": fleet.NAMESPACE, "pod": pod}
        for number in range(targets)
        for pod in fleet.pod_names(number, each)
    ]
    bed.page.publish("http_requests_per_second", labels, lambda: 100.0)
    containers = ({**one, "container": "app"} for one in labels)
    name = "container_cpu_usage_seconds_total"
    bed.page.publish(name, containers, lambda: time.time() * CPU_CORES)
    measures.wait_for_count(bed, f"rate({name}[2m])", len(labels))
    figures = Figures(f"{targets:,} targets of {each} pods", targets)
    idle = measures.idle(bed, {}, 2 * options.plan.period)
    report("the daemon with Pods and Resource metrics")
    figures.start = sides.autoscaler_start(bed, options.plan, targets, pods=True)
    figures.steady = sides.autoscaler_at_rest(bed, options.plan, targets, idle, pods=True)
    return figures


def grow(bed: Bed, options: Options, report: Report) -> list[Figures]:
    """Measure the daemon at one number of targets after another."""
    plan = dataclasses.replace(options.plan, repeats=1)
    writes = options.max_writes_per_second if daemon.limits_writes(bed) else None
    found: list[Figures] = []
    present = 0
    for targets in sorted(options.growth):
        report(f"growing to {targets:,} targets")
        fleet.create_deployments(bed.bulk, range(present, targets), LOW)
        present = targets
        measures.publish(bed, targets, LOW)
        idle = measures.idle(bed, {}, 2 * plan.period)
        figures = sides.autoscaler_steps(bed, plan, targets, writes, f"{targets:,}")
        figures.steady = sides.autoscaler_at_rest(bed, plan, targets, idle)
        found.append(figures)
    return found


def machine() -> str:
    """Describe where and on what this runs."""
    return (
        f"{hardware()}; Kubernetes {kubernetes_version()}; control plane, Prometheus, autoscalers "
        "and this measurement share the machine"
    )


def text(results: Results, options: Options) -> str:
    """Render all tables, ready for a Markdown file."""
    plan = options.plan
    about = (
        f"syncPeriod {plan.period:g} s, {plan.syncs} syncs at rest, "
        f"the median of {plan.repeats} steps from {LOW} to {HIGH} replicas"
    )
    compared = tables.comparison(
        results.compared, _pairs(results.compared), tables.side_by_side_rows()
    )
    title = f"## {options.targets:,} targets, one External metric each"
    parts = [results.machine, title, about, compared]
    if results.pods:
        rows = [
            tables.Row("start to the end of the first sync, s", lambda found: found.start),
            *tables.steady_rows(),
        ]
        parts += ["## Pods and CPU metrics", tables.comparison(results.pods, (), rows)]
    if results.growth:
        parts += ["## Growth", tables.growth(results.growth, tables.growth_rows())]
    return "\n\n".join(parts)


def _pairs(columns: Sequence[Figures]) -> list[tuple[int, int]]:
    """Pair each HPA with each autoscaler, but the tuned one with the tuned one alone."""
    ours = [at for at, column in enumerate(columns) if column.name.startswith("autoscaler")]
    theirs = [at for at, column in enumerate(columns) if column.name.startswith("HPA")]
    return [(theirs[0], our) for our in ours] + [(theirs[1], ours[-1])] if theirs else []


def main(arguments: Sequence[str]) -> int:
    """Measure, print the tables and return the exit code."""
    options = parse(arguments, str(__doc__))

    def measure(report: Report) -> int:
        results = run(options, report)
        if options.raw is not None:
            options.raw.write_text(json.dumps(dataclasses.asdict(results), indent=1))
        print(text(results, options))
        return 0

    return exit_code(measure)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
