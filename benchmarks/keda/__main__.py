"""What many ScaledObjects of KEDA 2.21 cost when nothing changes, and as many targets of ours.

    python -m benchmarks.keda --targets 300

builds KEDA's operator and metrics adapter where they are not there yet (ten minutes on two cores),
then starts a real etcd, kube-apiserver, kube-controller-manager, Prometheus, KEDA and the daemon in
a network that has only loopback: first the daemon alone, then KEDA alone. The table goes to
standard output, progress to standard error. Everything it starts ends with it.
"""

import dataclasses
import sys
from collections.abc import Mapping, Sequence

from benchmarks import counters, fleet, measures, tables
from benchmarks.bed import Bed
from benchmarks.bulk import Request
from benchmarks.command import Report, exit_code, parser_of
from benchmarks.daemon import Daemon
from benchmarks.figures import Figures, Steady, Window
from benchmarks.hpa import TUNED, HpaController
from benchmarks.keda import pairs
from benchmarks.keda.isolation import isolate
from benchmarks.keda.pairs import PERIOD
from benchmarks.keda.programs import ADAPTER, KEDA, OPERATOR, Keda
from benchmarks.scale import machine
from tests.worlds.controlplane import binaries
from tests.worlds.waiting import wait_until

_REPLICAS = 2


def measure(report: Report, targets: int, seconds: float) -> list[Figures]:
    """Measure KEDA and ours on the same servers; each side's Deployments exist all the time."""
    numbers = range(targets)
    with Bed(report) as bed:
        report(f"creating {2 * targets} Deployments")
        fleet.create_deployments(bed.bulk, numbers, _REPLICAS)
        fleet.create_named(bed.bulk, [pairs.name_of(number) for number in numbers], _REPLICAS)
        measures.publish(bed, targets, _REPLICAS)
        # Ours first: what KEDA leaves behind in etcd and the API server's caches costs too.
        ours = Figures("autoscaler", targets, steady=_ours(bed, report, targets, seconds))
        return [Figures("KEDA", targets, steady=_keda(bed, report, targets, seconds)), ours]


def _ours(bed: Bed, report: Report, targets: int, seconds: float) -> Steady:
    report(f"the daemon with {targets} targets")
    idle = measures.idle(bed, {}, seconds)
    config = pairs.config(bed, range(targets))
    with Daemon(bed, config, targets, "info") as process:
        # Two syncs: the second comes at most one and a half periods after the first.
        measures.let_pass(2 * PERIOD, process.check)
        window = measures.window(bed, process.pids, seconds, process.check)
    return _steady(targets, window, idle)


def _keda(bed: Bed, report: Report, targets: int, seconds: float) -> Steady:
    report(f"KEDA with {targets} ScaledObjects")
    # The servers' own work is measured again: it drifts.
    idle = measures.idle(bed, {}, seconds)
    flags = [f"--horizontal-pod-autoscaler-sync-period={PERIOD}s", *TUNED]
    with HpaController(bed.plane, bed.folder, flags) as controller, Keda(bed) as keda:

        def check() -> None:
            controller.check()
            keda.check()

        url = bed.prometheus.url
        bed.bulk.send(
            Request("POST", pairs.SCALED_OBJECTS, pairs.scaled_object(number, url))
            for number in range(targets)
        )

        def reconciled() -> bool:
            check()
            return counters.reconciled(controller.metrics()) >= targets

        wait_until("every HPA is reconciled", reconciled, timeout=120 + targets, interval=1)
        report("every HPA is reconciled")
        measures.let_pass(2 * PERIOD, check)
        before = counters.metric_requests(controller.metrics())
        window = measures.window(bed, {**controller.pids, **keda.pids}, seconds, check)
        asked = counters.metric_requests(controller.metrics()) - before
    # The API server passes these on to the adapter without counting them.
    window = dataclasses.replace(window, api={**window.api, "GET external metric": asked})
    return _steady(targets, window, idle)


def _steady(targets: int, window: Window, idle: Mapping[str, float]) -> Steady:
    return Steady(targets, round(targets * window.seconds / PERIOD), window, idle)


def main(arguments: Sequence[str]) -> int:
    """Measure, print the table, and return the exit code."""
    parser = parser_of("keda", __doc__)
    add = parser.add_argument
    add("--targets", type=int, default=300, metavar="N", help="of each (300)")
    add("--seconds", type=float, default=60, metavar="S", help="measured at rest (60)")
    options = parser.parse_args(arguments)

    def work(report: Report) -> int:
        # What is built or downloaded needs the network.
        binaries.locate(report=report)
        KEDA.built([OPERATOR, ADAPTER], report)
        KEDA.source()
        isolate("benchmarks.keda", arguments)
        columns = measure(report, options.targets, options.seconds)
        table = tables.comparison(columns, [(0, 1)], tables.rest_rows())
        print(f"{machine()}; KEDA {KEDA.version()}\n\n{table}")
        return 0

    return exit_code(work)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
