"""How much many targets cost and how soon they all change, beside the HPA if asked for.

    python -m benchmarks.scale --targets 1000 --side-by-side --growth

starts a real etcd, kube-apiserver and Prometheus on loopback, and the daemon as a process. No
controller runs but the HPA's in its turn: Deployments are objects without pods, so that only the
autoscaler, the API server, etcd and Prometheus work. CPU comes from /proc of each process, and the
times of writes from a watch of the Deployments. Tables go to standard output, progress to standard
error. Everything it starts ends with it.
"""

import dataclasses
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass, field

from benchmarks import fleet, measures, sides, tables
from benchmarks.bed import Bed
from benchmarks.command import Report, exit_code, hardware, parser_of
from benchmarks.figures import Figures
from benchmarks.hpa import TUNED, Adapter
from benchmarks.sides import HIGH, LOW, Plan
from tests.worlds.controlplane.binaries import kubernetes_version

CPU_CORES = 0.07
"""What each pod uses: 70 % of the request of its container."""

MORE_WRITES = 2000
"""`maxWritesPerSecond` beside the default of 100."""


@dataclass(frozen=True)
class Options(Plan):
    """What to measure: `pods_per_target` of 0 and an empty `growth` leave that part out."""

    targets: int = 1000
    side_by_side: bool = False
    pods_per_target: int = 20
    growth: Sequence[int] = ()


GROWTH = (100, 300, 1_000, 3_000, 10_000, 20_000)
QUICK = Options(period=2.0, syncs=2, repeats=1, targets=20, pods_per_target=2)


@dataclass
class Results:
    """All figures of a run."""

    compared: list[Figures] = field(default_factory=list)
    pods: list[Figures] = field(default_factory=list)
    growth: list[Figures] = field(default_factory=list)


def run(options: Options, report: Report) -> Results:
    """Measure what the options name; raises where a server is missing or fails."""
    results = Results()
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
    targets = options.targets
    report(f"creating {targets:,} Deployments")
    fleet.create_deployments(bed.bulk, range(targets), LOW)
    measures.publish(bed, targets, LOW)
    idle = measures.idle(bed, {}, 2 * options.period)
    report("the daemon at its defaults")
    steps = sides.autoscaler_steps(bed, options, targets, None, "autoscaler, defaults")
    steps.steady = sides.autoscaler_at_rest(bed, options, targets, idle)
    report(f"the daemon with maxWritesPerSecond: {MORE_WRITES}")
    title = f"autoscaler, {MORE_WRITES:,} writes/s"
    more = sides.autoscaler_steps(bed, options, targets, MORE_WRITES, title)
    # The limit makes no difference to a sync that writes nothing.
    more.steady = steps.steady
    found = [steps, more]
    if options.side_by_side:
        fleet.create_hpas(bed.bulk, range(targets))
        with Adapter(bed) as adapter:
            for title, flags in (("HPA, defaults", ()), ("HPA, tuned", TUNED)):
                report(f"kube-controller-manager: {title} {' '.join(flags)}")
                found.append(sides.hpa(bed, adapter, options, targets, flags, title))
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
    bed.page.publish(fleet.REQUESTS, labels, lambda: 100.0)
    containers = ({**pod, "container": "app"} for pod in labels)
    name = "container_cpu_usage_seconds_total"
    bed.page.publish(name, containers, lambda: time.time() * CPU_CORES)
    measures.wait_for_count(bed, f"rate({name}[2m])", len(labels))
    idle = measures.idle(bed, {}, 2 * options.period)
    report("the daemon with Pods and Resource metrics")
    at_start = dataclasses.replace(options, repeats=0)
    title = f"{targets:,} targets of {each} pods"
    figures = sides.autoscaler_steps(bed, at_start, targets, None, title, pods=True)
    figures.steady = sides.autoscaler_at_rest(bed, options, targets, idle, pods=True)
    return figures


def grow(bed: Bed, options: Options, report: Report) -> list[Figures]:
    """Measure the daemon at one number of targets after another."""
    plan = dataclasses.replace(options, repeats=1)
    found: list[Figures] = []
    present = 0
    for targets in sorted(options.growth):
        report(f"growing to {targets:,} targets")
        fleet.create_deployments(bed.bulk, range(present, targets), LOW)
        present = targets
        measures.publish(bed, targets, LOW)
        idle = measures.idle(bed, {}, 2 * plan.period)
        figures = sides.autoscaler_steps(bed, plan, targets, MORE_WRITES, f"{targets:,}")
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
    rest, step = tables.rest_rows(), tables.step_rows()
    about = (
        f"syncPeriod {options.period:g} s, {options.syncs} syncs at rest, "
        f"the median of {options.repeats} steps from {LOW} to {HIGH} replicas"
    )
    compared = tables.comparison(results.compared, _pairs(results.compared), [*rest, *step])
    title = f"## {options.targets:,} targets, one External metric each"
    parts = [machine(), title, about, compared]
    if results.pods:
        parts += ["## Pods and CPU metrics", tables.comparison(results.pods, (), rest)]
    if results.growth:
        parts += ["## Growth", tables.comparison(results.growth, (), [*rest, *step])]
    return "\n\n".join(parts)


def _pairs(columns: Sequence[Figures]) -> list[tuple[int, int]]:
    """Pair each HPA with each autoscaler, but the tuned one with the last one alone."""
    return [(2, 0), (2, 1), (3, 1)] if len(columns) > 2 else []


def parse(arguments: Sequence[str]) -> Options:
    """Return what the command line asks for; the growth is measured only where asked for."""
    quick = "--quick" in arguments
    usual = QUICK if quick else Options()
    parser = parser_of("scale", __doc__)
    add = parser.add_argument
    add("--targets", type=int, metavar="N", help="compare at N targets (1000)")
    add("--pods-per-target", type=int, metavar="P", help="of the part with pods (20); 0: without")
    add("--side-by-side", action="store_true", help="measure the HPA too, with prometheus-adapter")
    add("--growth", nargs="*", type=int, metavar="N", help="measure growth, by default to 20,000")
    add("--period", type=float, metavar="SECONDS", help="the daemon's syncPeriod (15)")
    add("--syncs", type=int, metavar="K", help="periods to measure at rest (4)")
    add("--repeats", type=int, metavar="R", help="steps, of which the median is shown (3)")
    add("--extended", action="store_true", help="targets with idle, fallback and schedules")
    add("--no-record", dest="record", action="store_false", help="without the record of decisions")
    add("--quick", action="store_true", help="smaller defaults: does it work?")
    parser.set_defaults(**dataclasses.asdict(usual))
    given = vars(parser.parse_args(arguments))
    del given["quick"]
    found = Options(**given)
    grows = found.growth == []
    return dataclasses.replace(found, growth=(10, 20) if quick else GROWTH) if grows else found


def main(arguments: Sequence[str]) -> int:
    """Measure, print the tables and return the exit code."""
    options = parse(arguments)

    def measure(report: Report) -> int:
        print(text(run(options, report), options))
        return 0

    return exit_code(measure)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
