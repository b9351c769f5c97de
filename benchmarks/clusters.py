"""What many clusters cost beside one that has as many targets: `python -m benchmarks.clusters`.

The daemon runs as a process beside one Prometheus: in turns with one cluster and with many that
share the targets, and then both with `leaderElection`. The clusters are stand-ins for API servers,
with TLS, which count what they are asked. Nothing changes while it is measured.
Bounds are printed with what was measured, and the exit code is 1 where one is missed.
"""

import math
import statistics
import sys
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import urllib3

from benchmarks import counters, measures, processes
from benchmarks.bed import SeriesBed
from benchmarks.command import Report, exit_code, hardware, parser_of
from benchmarks.daemon import Daemon
from benchmarks.stand_ins import REPLICAS, WATCH, Clusters
from benchmarks.tables import markdown
from tests.worlds.certificates import of_loopback
from tests.worlds.process import ServerFailedError
from tests.worlds.waiting import wait_until

START, CPU, RESIDENT = "start, s", "CPU per target and sync, ms", "resident, MB"
OF_TARGETS = "requests of targets a second"
WATCHES, LEASES = "watches begun a second", "requests of Leases a second"
DIGITS = {
    START: 1,
    CPU: 3,
    RESIDENT: 0,
    "peak, MB": 0,
    "threads": 0,
    OF_TARGETS: 2,
    WATCHES: 2,
    LEASES: 2,
}
"""What is measured of a daemon, with the digits that are shown of it."""

MOST_CPU, MOST_MEMORY, MOST_START = 1.3, 1.5, 20.0
"""Bounds: of CPU and memory as ratios to one cluster, of the start in seconds."""

Rest = Mapping[str, float]
Results = Mapping[tuple[int, bool], Sequence[Rest]]
"""What each round measured, by the number of clusters and whether a Lease is held in each."""


@dataclass(frozen=True)
class Options:
    """How much to measure: `syncs` periods at rest in each of `rounds`."""

    clusters: int = 50
    targets: int = 10_000
    period: float = 15.0
    syncs: int = 4
    rounds: int = 1


def kind_of(asked: str) -> str:
    """Return as which kind of request a verb and a resource count."""
    if asked.endswith("leases"):
        return LEASES
    return WATCHES if asked.startswith(WATCH) else OF_TARGETS


def run(options: Options, report: Report) -> Results:
    """Measure all; raises where a server is missing or fails."""
    results: dict[tuple[int, bool], list[Rest]] = {}
    with SeriesBed(report) as bed:
        measures.publish(bed, options.targets, REPLICAS)
        pair = of_loopback(bed.folder, "apiserver")
        kinds = [Clusters(bed, pair, count, options.targets) for count in (1, options.clusters)]
        for number in range(options.rounds):
            for elects in (False, True):
                for clusters in kinds:
                    report(f"round {number + 1}: {title_of(clusters.count, elects=elects)}")
                    found = measure(bed, clusters, options, elects=elects)
                    report(f"- {found}")
                    results.setdefault((clusters.count, elects), []).append(found)
    return results


def measure(bed: SeriesBed, clusters: Clusters, options: Options, *, elects: bool) -> Rest:
    """Start the daemon twice: to see when it has synced all, and to let it rest."""
    timeout = 60 + clusters.targets / 50
    with clusters.served():
        config = clusters.write_config(options.period, elects=elects)
        # Only at debug the log tells when a sync ended.
        with Daemon(bed, config, clusters.targets, "debug") as process:
            start = process.wait_first_sync(timeout) - process.started
            check_all_decided(process, clusters.targets)
        before = counters.prometheus_queries(bed.prometheus_metrics())

        def begins_second_sync() -> bool:
            process.check()
            # All targets share one query, which is asked once a sync.
            return counters.prometheus_queries(bed.prometheus_metrics()) >= before + 2

        with Daemon(bed, config, clusters.targets, "info") as process:
            wait_until("the second sync", begins_second_sync, timeout=timeout, interval=0.2)
            measures.let_pass(1 + clusters.targets / 500, process.check)
            return {START: start, **at_rest(process, clusters, options)}


def at_rest(process: Daemon, clusters: Clusters, options: Options) -> Rest:
    """Let the daemon rest, and return what that cost."""
    asked, cpu = clusters.request_counts(), processes.cpu_seconds(process.pids)
    seconds = options.syncs * options.period
    measures.let_pass(seconds, process.check)
    after, status = processes.cpu_seconds(process.pids), process.status()
    asked = clusters.request_counts() - asked
    check_all_decided(process, clusters.targets)
    spent = after["autoscaler"] - cpu["autoscaler"]
    kinds: Counter[str] = Counter()
    for request, count in asked.items():
        kinds[kind_of(request)] += count
    return {
        CPU: spent * 1000 / clusters.targets / options.syncs,
        RESIDENT: status["VmRSS"] * 1024 / 1e6,
        "peak, MB": status["VmHWM"] * 1024 / 1e6,
        "threads": status["Threads"],
        **{kind: kinds[kind] / seconds for kind in (OF_TARGETS, WATCHES, LEASES)},
    }


def check_all_decided(process: Daemon, targets: int) -> None:
    """Raise ServerFailedError unless each target had all of its inputs at its last sync."""
    page = urllib3.request("GET", f"http://{process.address()}/metrics", timeout=30).data.decode()
    outcomes = counters.counts(page, "autoscaler_targets", lambda labels: labels["outcome"])
    if outcomes["ok"] != targets:
        raise ServerFailedError(f"of {targets} targets not all are decided: {dict(outcomes)}")


def title_of(count: int, *, elects: bool) -> str:
    """Return what a row is called."""
    clusters = "1 cluster" if count == 1 else f"{count} clusters"
    return f"{clusters}, leaderElection" if elects else clusters


def median(rests: Sequence[Rest], what: str) -> float:
    """Return the median over the rounds."""
    return statistics.median(rest[what] for rest in rests)


def text(results: Results, options: Options) -> str:
    """Render the table, and below it each bound with what was measured."""
    body = [
        [
            title_of(count, elects=elects),
            *(f"{median(rests, what):,.{digits}f}" for what, digits in DIGITS.items()),
        ]
        for (count, elects), rests in results.items()
    ]
    about = (
        f"{options.targets:,} targets in all, syncPeriod {options.period:g} s, "
        f"{options.syncs} syncs at rest, median of {options.rounds}"
    )
    bounds = "\n".join(f"- {bound}" for bound in bounds_of(results, options))
    return f"{hardware()}\n\n{about}\n\n{markdown(['', *DIGITS], body)}\n\n{bounds}"


@dataclass(frozen=True)
class Bound:
    """What was measured, and the most that it may be."""

    what: str
    measured: float
    most: float

    @property
    def is_missed(self) -> bool:
        """Whether more was measured."""
        return self.measured > self.most

    def __str__(self) -> str:
        missed = ": missed" if self.is_missed else ""
        return f"{self.what}: {self.measured:.2f}, at most {self.most:g}{missed}"


def bounds_of(results: Results, options: Options) -> list[Bound]:
    """Return what the clusters are held to, without leader election."""
    single, many = results[1, False], results[options.clusters, False]

    def ratio(what: str) -> float:
        # The kernel counts CPU in hundredths of a second.
        base = median(single, what)
        return median(many, what) / base if base else math.inf

    return [
        Bound("CPU, times that of 1 cluster", ratio(CPU), MOST_CPU),
        Bound("memory, times that of 1 cluster", ratio(RESIDENT), MOST_MEMORY),
        Bound(START, median(many, START), MOST_START),
        Bound(OF_TARGETS, median(many, OF_TARGETS), 0.0),
    ]


def parse(arguments: Sequence[str]) -> Options:
    """Return what the command line asks for."""
    usual, parser = Options(), parser_of("clusters", __doc__)
    add = parser.add_argument
    add("--clusters", type=int, default=usual.clusters, metavar="N", help="how many (50)")
    add("--targets", type=int, default=usual.targets, metavar="N", help="in all (10000)")
    add("--period", type=float, default=usual.period, metavar="SECONDS", help="syncPeriod (15)")
    add("--syncs", type=int, default=usual.syncs, metavar="K", help="to measure at rest (4)")
    add("--rounds", type=int, default=usual.rounds, metavar="R", help="of each, in turns (1)")
    return Options(**vars(parser.parse_args(arguments)))


def main(arguments: Sequence[str]) -> int:
    """Measure, print the table and return the exit code."""
    options = parse(arguments)

    def work(report: Report) -> int:
        results = run(options, report)
        print(text(results, options))
        return int(any(bound.is_missed for bound in bounds_of(results, options)))

    return exit_code(work)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
