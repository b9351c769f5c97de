"""KEDA 2.21 beside the daemon, on the same queues of one Prometheus.

    python -m benchmarks.keda --json figures.json

builds KEDA's operator and metrics adapter where they are not there yet (ten minutes on two cores),
then starts a real etcd, kube-apiserver, kube-controller-manager, Prometheus, KEDA and the daemon in
a network that has only loopback. Each queue is under a ScaledObject and under a target of ours. The
parts: `queue` (waking, climbing, cooldown), `outage` (Prometheus is away), `vanish` (the series
are), `pause` (annotations), `rest` (many of each, nothing changing). All of them take about 25
minutes. Tables go to standard output, progress to standard error. Everything it starts ends with
it.
"""

import dataclasses
import json
import sys
from collections.abc import Sequence

from benchmarks.command import Report, exit_code
from benchmarks.figures import Steady
from benchmarks.keda import report as reports
from benchmarks.keda import rest
from benchmarks.keda.isolation import isolate
from benchmarks.keda.options import REST, Options, parse
from benchmarks.keda.programs import ADAPTER, KEDA, OPERATOR
from benchmarks.keda.scenarios import SCENARIOS, Results
from benchmarks.scale import machine
from tests.worlds.controlplane import binaries


def main(arguments: Sequence[str]) -> int:
    """Measure, print the tables, and return the exit code."""
    options = parse(arguments, __doc__)

    def work(report: Report) -> int:
        # What is built or downloaded needs the network.
        binaries.locate(report=report)
        KEDA.built([OPERATOR, ADAPTER], report)
        KEDA.source()
        isolate("benchmarks.keda", arguments)
        print(f"{machine()}; KEDA {KEDA.version()}", flush=True)
        _measure(options, report)
        return 0

    return exit_code(work)


def _measure(options: Options, report: Report) -> None:
    """Measure each part, and print its tables as soon as they are there."""
    raw: dict[str, object] = {}
    for part in options.parts:
        if part == REST:
            steady = rest.measure(report, options.rest)
            _print_rest(steady)
            raw[part] = {side: dataclasses.asdict(one) for side, one in steady.items()}
        else:
            results = SCENARIOS[part](report, options.plan)
            _print_scenario(part, results)
            raw[part] = dataclasses.asdict(results)
        if options.raw is not None:
            options.raw.write_text(json.dumps(raw))


def _print_scenario(part: str, results: Results) -> None:
    timelines = "\n\n".join(reports.side_by_side(one) for one in results.timelines)
    texts = [f"## {part}", reports.rows(results), reports.paths(results.timelines), timelines]
    print("\n" + "\n\n".join(texts), flush=True)


def _print_rest(steady: dict[str, Steady]) -> None:
    print(f"\n## {REST}\n\n{reports.rest(steady)}", flush=True)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
