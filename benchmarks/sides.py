"""The autoscalers that are compared, each with its processes, its start, its rest and its step."""

import dataclasses
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from benchmarks import counters, daemon, fleet, measures
from benchmarks.bed import Bed
from benchmarks.daemon import Daemon, Settings
from benchmarks.figures import Figures, Steady, Step
from benchmarks.hpa import Adapter, HpaController
from tests.worlds.process import ServerFailedError
from tests.worlds.waiting import wait_until

LOW, HIGH = 2, 4
"""The replicas before a step and after: a change that no default policy divides in two."""


@dataclass(frozen=True)
class Plan:
    """How long to measure: `syncs` periods at rest, and `repeats` steps up and down.

    With `extended` each target has `idle`, `fallback` and `schedules`; without `record` no
    decision is recorded.
    """

    period: float = 15.0
    syncs: int = 4
    repeats: int = 3
    extended: bool = False
    record: bool = True


def autoscaler_steps(
    bed: Bed,
    plan: Plan,
    targets: int,
    max_writes_per_second: int | None,
    name: str,
    *,
    pods: bool = False,
) -> Figures:
    """Measure the daemon's start, and steps of all its targets.

    It logs at debug, because the lines that say when a sync began and ended are logged there;
    a first sync of unchanged targets so costs a line for each.
    """
    figures = Figures(name, targets)
    settings = Settings(plan.period, max_writes_per_second, plan.extended, plan.record)
    config = daemon.write_config(bed, settings, range(targets), pods=pods)
    with Daemon(bed, config, targets, "debug") as process:
        figures.start = process.wait_first_sync(_start_timeout(targets)) - process.started
        for _ in range(plan.repeats):
            _wait_half_way(process, plan.period)
            figures.ups.append(_autoscaler_step(bed, process, targets, HIGH))
            figures.downs.append(_autoscaler_step(bed, process, targets, LOW))
    return figures


def autoscaler_at_rest(
    bed: Bed, plan: Plan, targets: int, idle: Mapping[str, float], *, pods: bool = False
) -> Steady:
    """Measure what the daemon costs when nothing changes.

    `idle` was measured before it, and is measured again after it, because an idle etcd's use of
    CPU drifts by more than a small number of targets costs.
    """
    settings = Settings(plan.period, extended=plan.extended, record=plan.record)
    config = daemon.write_config(bed, settings, range(targets), pods=pods)
    before = counters.prometheus_queries(bed.prometheus_metrics())

    def asks() -> bool:
        process.check()
        return counters.prometheus_queries(bed.prometheus_metrics()) > before

    with Daemon(bed, config, targets, "info") as process:
        wait_until("the daemon asks Prometheus", asks, timeout=_start_timeout(targets))
        # Two syncs: the second comes at most one and a half periods after the first.
        warm_up = 1.6 * plan.period + 3 + targets / 500
        measures.let_pass(warm_up, process.check)
        seconds = plan.syncs * plan.period
        window = measures.window(bed, process.pids, seconds, process.check)
    after = measures.idle(bed, {}, 2 * plan.period)
    mean = {name: (idle[name] + after[name]) / 2 for name in after}
    return Steady(targets, round(targets * window.seconds / plan.period), window, mean)


def hpa(
    bed: Bed, adapter: Adapter, plan: Plan, targets: int, flags: Sequence[str], name: str
) -> Figures:
    """Measure kube-controller-manager's HPA; afterwards the Deployments are reset."""
    figures = Figures(name, targets)
    idle = measures.idle(bed, adapter.pids, 2 * plan.period)
    # The adapter's own housekeeping is part of the price of having one.
    idle = {process: spent for process, spent in idle.items() if process not in adapter.pids}
    began = time.time()
    period = f"--horizontal-pod-autoscaler-sync-period={plan.period:g}s"
    with HpaController(bed.plane, bed.folder, [period, *flags]) as controller:
        own = {**adapter.pids, **controller.pids}

        def reconciled() -> bool:
            return counters.reconciled(controller.metrics()) >= targets

        wait_until("every HPA is reconciled", reconciled, timeout=120 + targets / 2, interval=0.5)
        figures.start = time.time() - began
        figures.steady = _hpa_at_rest(bed, plan, targets, controller, own, idle)
        # The window was of whole periods: without this the step would come right after a sync.
        measures.let_pass(plan.period / 2, controller.check)
        figures.ups.append(measures.step(bed, own, targets, HIGH, controller.check))
    measures.change(bed, targets, LOW)
    fleet.reset(bed.bulk, range(targets), LOW)
    return figures


def _hpa_at_rest(
    bed: Bed,
    plan: Plan,
    targets: int,
    controller: HpaController,
    own: Mapping[str, int],
    idle: Mapping[str, float],
) -> Steady:
    before = controller.metrics()
    window = measures.window(bed, own, plan.syncs * plan.period, controller.check)
    after = controller.metrics()
    asked = counters.metric_requests(after) - counters.metric_requests(before)
    window = dataclasses.replace(window, api={**window.api, "GET external metric": asked})
    decisions = counters.reconciles(after) - counters.reconciles(before)
    if not decisions:
        raise ServerFailedError("kube-controller-manager reconciled no HPA; see its log")
    return Steady(targets, decisions, window, idle)


def _autoscaler_step(bed: Bed, process: Daemon, targets: int, replicas: int) -> Step:
    measured = measures.step(bed, process.pids, targets, replicas, process.check)

    def seen() -> list[float]:
        process.check()
        syncs = process.syncs()
        return [sync.began for sync in syncs if sync.changed and sync.ended > measured.changed]

    if not measured.landings:
        return measured
    # A sync's line follows its last write.
    began = wait_until("the log tells of the sync", seen, timeout=30)
    return dataclasses.replace(measured, began=min(began))


def _wait_half_way(process: Daemon, period: float) -> None:
    """Wait until half-way between two syncs, so that what waits for one waits the mean time."""
    before = len(process.syncs())

    def synced() -> bool:
        process.check()
        return len(process.syncs()) > before

    wait_until("the next sync", synced, timeout=2 * period + 30)
    measures.let_pass(period / 2, process.check)


def _start_timeout(targets: int) -> float:
    return 60 + targets / 50
