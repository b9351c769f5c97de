"""What dividing targets among shards costs: `python -m benchmarks.shards`.

One, two and four daemons have the same targets in turns, in clusters that are stand-ins for API
servers, beside one Prometheus. Nothing changes while it is measured. The CPU of all daemons
together is printed as a ratio to that of one; the exit code is 1 where it is more than 1.25.
"""

import json
import re
import statistics
import sys
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path

import urllib3

from benchmarks import counters, measures, processes
from benchmarks.bed import SeriesBed
from benchmarks.command import Report, exit_code, hardware, parser_of
from benchmarks.stand_ins import REPLICAS, Clusters
from benchmarks.tables import markdown
from tests.worlds.certificates import of_loopback
from tests.worlds.process import ServerFailedError, ServerProcess
from tests.worlds.waiting import wait_until

SHARDS = (1, 2, 4)
MOST_CPU = 1.25
"""As a ratio to one shard."""

Costs = Mapping[str, float]
CPU, RESIDENT, LARGEST = "CPU per target and sync, ms", "resident, MB", "largest shard, targets"


@dataclass(frozen=True)
class Options:
    """How much to measure: `syncs` periods at rest in each of `rounds`."""

    clusters: int = 24
    targets: int = 20_000
    period: float = 15.0
    syncs: int = 4
    rounds: int = 1


class Shard:
    """A daemon with its number, of a configuration that names how many there are."""

    def __init__(self, config: Path, shards: int, number: int) -> None:
        own = config.with_name(f"shard-{number}-of-{shards}.yaml")
        text = re.sub("(?m)^stateDirectory:.*$", "stateDirectory: null", config.read_text())
        own.write_text(f"shards: {shards}\n{text}")
        self._log = own.with_suffix(".log")
        self._log.unlink(missing_ok=True)
        argv = ["-m", "autoscaler", "run", "-c", str(own), "--shard", str(number)]
        argv += ["--log-format", "json"]
        self.process = ServerProcess([sys.executable, *argv], self._log)

    def decided(self) -> int:
        """Return how many targets it has decided with all inputs; fails if it has ended."""
        if not self.process.running:
            raise ServerFailedError(f"a shard ended:\n{self._log.read_text()[-2000:]}")
        lines = [line for line in self._log.read_text().splitlines() if '"listening"' in line]
        if not lines:
            return 0
        address = json.loads(lines[0])["address"]
        page = urllib3.request("GET", f"http://{address}/metrics", timeout=30).data.decode()
        outcomes = counters.counts(page, "autoscaler_targets", lambda labels: labels["outcome"])
        return int(outcomes["ok"])


def run(options: Options, report: Report) -> Mapping[int, Sequence[Costs]]:
    """Measure all; raises where a server is missing or fails."""
    results: dict[int, list[Costs]] = {shards: [] for shards in SHARDS}
    with SeriesBed(report) as bed:
        measures.publish(bed, options.targets, REPLICAS)
        pair = of_loopback(bed.folder, "apiserver")
        for number in range(options.rounds):
            for shards in SHARDS:
                clusters = Clusters(bed, pair, options.clusters, options.targets)
                with clusters.served():
                    config = clusters.write_config(options.period, elects=True)
                    found = measure(config, shards, options)
                report(f"round {number + 1}, {shards} shards: {dict(found)}")
                results[shards].append(found)
    return results


def measure(config: Path, shards: int, options: Options) -> Costs:
    """Run so many daemons, and return what they cost together while nothing changes."""
    with ExitStack() as stack:
        daemons = [Shard(config, shards, number) for number in range(shards)]
        for daemon in daemons:
            stack.callback(daemon.process.stop)
            daemon.process.start()

        def all_decided() -> bool:
            return sum(daemon.decided() for daemon in daemons) == options.targets

        wait_until("all are decided", all_decided, timeout=60 + options.targets / 50, interval=2)
        measures.let_pass(2 * options.period, lambda: None)
        pids = {str(daemon.process.pid): daemon.process.pid or 0 for daemon in daemons}
        before = sum(processes.cpu_seconds(pids).values())
        measures.let_pass(options.syncs * options.period, lambda: None)
        spent = sum(processes.cpu_seconds(pids).values()) - before
        return {
            CPU: spent * 1000 / options.targets / options.syncs,
            RESIDENT: sum(processes.resident_bytes(pids).values()) / 1e6,
            LARGEST: max(daemon.decided() for daemon in daemons),
        }


def median(costs: Sequence[Costs], what: str) -> float:
    """Return the median over the rounds."""
    return statistics.median(cost[what] for cost in costs)


def text(results: Mapping[int, Sequence[Costs]], options: Options) -> tuple[str, bool]:
    """Render the table, and say whether the bound is kept."""
    single = median(results[1], CPU)
    ratios = {shards: median(costs, CPU) / single for shards, costs in results.items()}
    rows = [
        [str(shards), f"{median(costs, CPU):.3f}", f"{ratios[shards]:.2f}"]
        + [f"{median(costs, what):,.0f}" for what in (RESIDENT, LARGEST)]
        for shards, costs in results.items()
    ]
    table = markdown(["shards", CPU, "times that of one", RESIDENT, LARGEST], rows)
    about = f"{options.targets:,} targets in {options.clusters} clusters, {options.syncs} syncs"
    kept = max(ratios.values()) <= MOST_CPU
    return f"{hardware()}\n\n{about}, at most {MOST_CPU} times\n\n{table}", kept


def main(arguments: Sequence[str]) -> int:
    """Measure, print the table and return the exit code."""
    usual, parser = Options(), parser_of("shards", __doc__)
    for name, default in vars(usual).items():
        parser.add_argument(f"--{name}", type=type(default), default=default, help=f"({default})")
    options = Options(**vars(parser.parse_args(arguments)))

    def work(report: Report) -> int:
        told, kept = text(run(options, report), options)
        print(told)
        return int(not kept)

    return exit_code(work)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
