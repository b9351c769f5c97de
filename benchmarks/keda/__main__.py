"""KEDA 2.21 beside the daemon, on the same queues of one Prometheus.

    python -m benchmarks.keda

builds KEDA's operator and metrics adapter where they are not there yet (ten minutes on two cores),
then starts a real etcd, kube-apiserver, kube-controller-manager, Prometheus, KEDA and the daemon in
a network that has only loopback. Each queue is under a ScaledObject and under a target of ours. The
parts: `queue` (waking, climbing, cooldown) and `rest` (many of each, nothing changing); both take
about 15 minutes. Tables go to standard output, progress to standard error. Everything it starts
ends with it.
"""

import argparse
import sys
from collections.abc import Sequence

from benchmarks import tables
from benchmarks.command import Report, exit_code, parser_of
from benchmarks.keda import queues, rest
from benchmarks.keda.isolation import isolate
from benchmarks.keda.pairs import Times
from benchmarks.keda.programs import ADAPTER, KEDA, OPERATOR
from benchmarks.scale import machine
from tests.worlds.controlplane import binaries

QUEUE, REST = "queue", "rest"


def parse(arguments: Sequence[str]) -> argparse.Namespace:
    """Return what the command line asks for."""
    parser = parser_of("keda", __doc__)
    add = parser.add_argument
    add("--parts", nargs="+", choices=(QUEUE, REST), default=(QUEUE, REST), help="default: both")
    add("--cycles", type=int, default=4, metavar="N", help="how often queues fill (4)")
    add("--pairs", type=int, default=3, metavar="N", help="queues that fill in each cycle (3)")
    add("--poll", type=int, default=5, metavar="SECONDS", help="KEDA's pollingInterval (5)")
    add("--period", type=int, default=5, metavar="SECONDS", help="of the HPA's syncs and ours (5)")
    add("--cooldown", type=int, default=30, metavar="SECONDS", help="until idle, of both (30)")
    add("--targets", type=int, default=300, metavar="N", help="of each, at rest (300)")
    add("--rest-seconds", type=float, default=60, metavar="S", help="measured at rest (60)")
    add("--seed", type=int, default=1, help="of the random moments (1)")
    return parser.parse_args(arguments)


def main(arguments: Sequence[str]) -> int:
    """Measure, print the tables, and return the exit code."""
    options = parse(arguments)

    def work(report: Report) -> int:
        # What is built or downloaded needs the network.
        binaries.locate(report=report)
        KEDA.built([OPERATOR, ADAPTER], report)
        KEDA.source()
        isolate("benchmarks.keda", arguments)
        print(f"{machine()}; KEDA {KEDA.version()}", flush=True)
        if QUEUE in options.parts:
            times = Times(options.poll, options.period, options.cooldown)
            plan = queues.Plan(times, options.cycles, options.pairs, options.seed)
            print(f"\n## {QUEUE}\n\n{queues.table(queues.measure(report, plan))}", flush=True)
        if REST in options.parts:
            columns = rest.measure(report, rest.Plan(options.targets, options.rest_seconds))
            print(f"\n## {REST}\n\n{tables.comparison(columns, [(0, 1)], tables.rest_rows())}")
        return 0

    return exit_code(work)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
