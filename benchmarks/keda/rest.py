"""What many of each cost when nothing changes, one side after the other."""

import dataclasses
from collections.abc import Mapping
from dataclasses import dataclass

from benchmarks import counters, fleet, measures
from benchmarks.bed import Bed
from benchmarks.beside import OURS, Pair
from benchmarks.command import Report
from benchmarks.daemon import Daemon
from benchmarks.figures import Figures, Steady, Window
from benchmarks.hpa import TUNED, HpaController
from benchmarks.keda import pairs as paired
from benchmarks.keda.pairs import KEDA, Times
from benchmarks.keda.programs import Keda
from tests.worlds.waiting import wait_until

TIMES = Times(poll=15, period=15, cooldown=300)
"""The HPA's own period; KEDA polls as often."""

_REPLICAS = 2


@dataclass(frozen=True)
class Plan:
    """How many there are, and for how long they are measured."""

    targets: int
    seconds: float


def measure(report: Report, plan: Plan) -> list[Figures]:
    """Measure KEDA and ours on the same servers; each side's Deployments exist all the time."""
    pairs = [Pair(fleet.queue(number)) for number in range(plan.targets)]
    with Bed(report) as bed:
        report(f"creating {2 * plan.targets} Deployments")
        paired.create(bed, pairs, _REPLICAS)
        measures.publish(bed, plan.targets, _REPLICAS)
        # Ours first: what KEDA leaves behind in etcd and the API server's caches costs too.
        ours = Figures(OURS, plan.targets, steady=_ours(bed, report, plan, pairs))
        return [Figures(KEDA, plan.targets, steady=_keda(bed, report, plan, pairs)), ours]


def _ours(bed: Bed, report: Report, plan: Plan, pairs: list[Pair]) -> Steady:
    report(f"the daemon with {plan.targets} targets")
    idle = measures.idle(bed, {}, plan.seconds)
    config = paired.config(bed, pairs, TIMES)
    with Daemon(bed, config, plan.targets, "info") as process:
        # Two syncs: the second comes at most one and a half periods after the first.
        measures.let_pass(2 * TIMES.period, process.check)
        window = measures.window(bed, process.pids, plan.seconds, process.check)
    return _steady(plan, window, idle)


def _keda(bed: Bed, report: Report, plan: Plan, pairs: list[Pair]) -> Steady:
    report(f"KEDA with {plan.targets} ScaledObjects")
    # The servers' own work is measured again: it drifts.
    idle = measures.idle(bed, {}, plan.seconds)
    flags = [f"--horizontal-pod-autoscaler-sync-period={TIMES.period}s", *TUNED]
    with HpaController(bed.plane, bed.folder, flags) as controller, Keda(bed) as keda:

        def check() -> None:
            controller.check()
            keda.check()

        paired.create_scaled_objects(bed, pairs, TIMES)

        def reconciled() -> bool:
            check()
            return counters.reconciled(controller.metrics()) >= plan.targets

        timeout = 120 + plan.targets
        wait_until("every HPA is reconciled", reconciled, timeout=timeout, interval=1)
        report("every HPA is reconciled")
        measures.let_pass(2 * TIMES.period, check)
        before = counters.metric_requests(controller.metrics())
        window = measures.window(bed, {**controller.pids, **keda.pids}, plan.seconds, check)
        asked = counters.metric_requests(controller.metrics()) - before
    # The API server passes these on to the adapter without counting them.
    window = dataclasses.replace(window, api={**window.api, "GET external metric": asked})
    return _steady(plan, window, idle)


def _steady(plan: Plan, window: Window, idle: Mapping[str, float]) -> Steady:
    decisions = round(plan.targets * window.seconds / TIMES.period)
    return Steady(plan.targets, decisions, window, idle)
