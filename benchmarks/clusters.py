"""What many clusters cost beside one that has as many targets: `python -m benchmarks.clusters`.

The daemon runs as a process beside one Prometheus: in turns with one cluster and with many that
share the targets, and then both with `leaderElection`. The clusters are stand-ins for API servers,
with TLS and pages of lists, which count what they are asked. Nothing changes while it is measured.
Bounds are printed with what was measured, and the exit code is 1 where one is missed.
"""

import argparse
import dataclasses
import json
import math
import statistics
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import urllib3

from benchmarks import counters, measures, processes
from benchmarks.bed import SeriesBed
from benchmarks.command import Report, exit_code, hardware
from benchmarks.daemon import Daemon
from benchmarks.stand_ins import REPLICAS, WATCH, Clusters
from benchmarks.tables import markdown
from tests.worlds.certificates import of_loopback
from tests.worlds.process import ServerFailedError
from tests.worlds.waiting import wait_until

_LEASES = "leases"
MOST_CPU, MOST_MEMORY, MOST_START = 1.3, 1.5, 20.0
"""Bounds: of CPU and memory as ratios to one cluster, of the start in seconds."""


@dataclass(frozen=True)
class Options:
    """How much to measure: `syncs` periods at rest in each of `rounds`."""

    clusters: int = 50
    targets: int = 10_000
    period: float = 15.0
    syncs: int = 4
    rounds: int = 1
    raw: Path | None = None


@dataclass(frozen=True)
class Rest:
    """A daemon at rest.

    `start` is in seconds to the end of the first sync of all targets, `cpu` in milliseconds of a
    target and sync, `resident` and `peak` in bytes. `asked` counts the requests of `seconds` by
    verb and resource.
    """

    start: float
    cpu: float
    resident: int
    peak: int
    threads: int
    seconds: float
    asked: Mapping[str, int]

    def a_second(self, is_meant: Callable[[str], bool]) -> float:
        """Return how many requests of a kind there were in a second."""
        return sum(count for what, count in self.asked.items() if is_meant(what)) / self.seconds


def begins_watch(what: str) -> bool:
    """Return whether it is a watch of anything but Leases that begins, the first or again."""
    return what.startswith(WATCH) and not is_of_lease(what)


def is_of_lease(what: str) -> bool:
    """Return whether it is about the Lease of a cluster."""
    return what.endswith(_LEASES)


def is_of_target(what: str) -> bool:
    """Return whether it is anything else."""
    return not begins_watch(what) and not is_of_lease(what)


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
            asked, cpu = clusters.asked(), processes.cpu_seconds(process.pids)
            seconds = options.syncs * options.period
            measures.let_pass(seconds, process.check)
            after, status = processes.cpu_seconds(process.pids), process.status()
            now_asked = clusters.asked()
            check_all_decided(process, clusters.targets)
            spent = after["autoscaler"] - cpu["autoscaler"]
            return Rest(
                start=start,
                cpu=spent * 1000 / clusters.targets / options.syncs,
                resident=status["VmRSS"] * 1024,
                peak=status["VmHWM"] * 1024,
                threads=status["Threads"],
                seconds=seconds,
                asked=dict(now_asked - asked),
            )


def check_all_decided(process: Daemon, targets: int) -> None:
    """Raise ServerFailedError unless each target had all of its inputs at its last sync."""
    page = urllib3.request("GET", f"http://{process.address()}/metrics", timeout=30).data.decode()
    outcomes = counters.counts(page, "autoscaler_targets", lambda labels: labels["outcome"])
    if outcomes["ok"] != targets:
        raise ServerFailedError(f"of {targets} targets not all are decided: {dict(outcomes)}")


@dataclass
class Results:
    """What each round measured, by the number of clusters and whether a Lease is held in each."""

    machine: str
    rows: dict[tuple[int, bool], list[Rest]]

    def median(self, count: int, value: Callable[[Rest], float], *, elects: bool = False) -> float:
        """Return the median over the rounds."""
        return statistics.median(value(one) for one in self.rows[count, elects])

    def ratio(self, count: int, value: Callable[[Rest], float]) -> float:
        """Return how many times as much it is as with one cluster."""
        one = self.median(1, value)
        # The kernel counts CPU in hundredths of a second.
        return self.median(count, value) / one if one else math.inf


def run(options: Options, report: Report) -> Results:
    """Measure all; raises where a server is missing or fails."""
    results = Results(hardware(), {})
    with SeriesBed(report) as bed:
        measures.publish(bed, options.targets, REPLICAS)
        pair = of_loopback(bed.folder, "apiserver")
        kinds = [Clusters(bed, pair, count, options.targets) for count in (1, options.clusters)]
        for at in range(options.rounds):
            for elects in (False, True):
                for clusters in kinds:
                    report(f"round {at + 1}: {title_of(clusters.count, elects=elects)}")
                    found = measure(bed, clusters, options, elects=elects)
                    report(f"- {found}")
                    results.rows.setdefault((clusters.count, elects), []).append(found)
    return results


def title_of(count: int, *, elects: bool) -> str:
    """Return what a row is called."""
    clusters = "1 cluster" if count == 1 else f"{count} clusters"
    return f"{clusters}, leaderElection" if elects else clusters


_COLUMNS: Sequence[tuple[str, Callable[[Rest], float], int]] = (
    ("start, s", lambda one: one.start, 1),
    ("CPU per target and sync, ms", lambda one: one.cpu, 3),
    ("resident, MB", lambda one: one.resident / 1e6, 0),
    ("peak, MB", lambda one: one.peak / 1e6, 0),
    ("threads", lambda one: one.threads, 0),
    ("requests of targets a second", lambda one: one.a_second(is_of_target), 2),
    ("watches begun a second", lambda one: one.a_second(begins_watch), 2),
    ("requests of Leases a second", lambda one: one.a_second(is_of_lease), 2),
)


def text(results: Results, options: Options) -> str:
    """Render the table, and below it each bound with what was measured."""
    head = ["", *(title for title, _, _ in _COLUMNS)]
    body = [
        [
            title_of(count, elects=elects),
            *(
                f"{results.median(count, value, elects=elects):,.{digits}f}"
                for _, value, digits in _COLUMNS
            ),
        ]
        for count, elects in results.rows
    ]
    about = (
        f"{options.targets:,} targets in all, syncPeriod {options.period:g} s, "
        f"{options.syncs} syncs at rest, median of {options.rounds}"
    )
    bounds = [f"- {one}" for one in bounds_of(results, options)]
    return "\n\n".join([results.machine, about, markdown(head, body), "\n".join(bounds)])


@dataclass(frozen=True)
class Bound:
    """What was measured, and the most that it may be."""

    what: str
    measured: float
    most: float

    def __str__(self) -> str:
        kept = "" if self.measured <= self.most else ": missed"
        return f"{self.what}: {self.measured:.2f}, at most {self.most:g}{kept}"


def bounds_of(results: Results, options: Options) -> list[Bound]:
    """Return what the clusters are held to, without leader election."""
    count = options.clusters
    return [
        Bound("CPU, times that of 1 cluster", results.ratio(count, lambda one: one.cpu), MOST_CPU),
        Bound(
            "memory, times that of 1 cluster",
            results.ratio(count, lambda one: one.resident),
            MOST_MEMORY,
        ),
        Bound("start, s", results.median(count, lambda one: one.start), MOST_START),
        Bound(
            "requests of targets a second",
            results.median(count, lambda one: one.a_second(is_of_target)),
            0.0,
        ),
    ]


def parse(arguments: Sequence[str]) -> Options:
    """Return what the command line asks for."""
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.clusters",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    usual, add = Options(), parser.add_argument
    add("--clusters", type=int, default=usual.clusters, metavar="N", help="how many (50)")
    add("--targets", type=int, default=usual.targets, metavar="N", help="in all (10000)")
    add("--period", type=float, default=usual.period, metavar="SECONDS", help="syncPeriod (15)")
    add("--syncs", type=int, default=usual.syncs, metavar="K", help="to measure at rest (4)")
    add("--rounds", type=int, default=usual.rounds, metavar="R", help="of each, in turns (1)")
    add("--json", type=Path, dest="raw", metavar="FILE", help="write the raw figures there")
    return Options(**vars(parser.parse_args(arguments)))


def main(arguments: Sequence[str]) -> int:
    """Measure, print the table and return the exit code."""
    options = parse(arguments)

    def work(report: Report) -> int:
        results = run(options, report)
        if options.raw is not None:
            rows = {
                title_of(count, elects=elects): [dataclasses.asdict(one) for one in rests]
                for (count, elects), rests in results.rows.items()
            }
            options.raw.write_text(json.dumps(rows, indent=1))
        print(text(results, options))
        return int(any(one.measured > one.most for one in bounds_of(results, options)))

    return exit_code(work)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
