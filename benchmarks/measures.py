"""The measurements that are the same for every autoscaler."""

import time
from collections.abc import Callable, Mapping

from benchmarks import counters, fleet, processes
from benchmarks.bed import Bed, SeriesBed
from benchmarks.figures import Step, Window, difference
from benchmarks.landings import Landings
from tests.worlds.waiting import wait_until

Pids = Mapping[str, int]
Check = Callable[[], object]

_LONGEST_SCRAPE_WAIT = 60.0


def window(bed: Bed, own: Pids, seconds: float, check: Check) -> Window:
    """Let that time pass and return what it cost; nothing may have to change in it.

    `own` are the autoscaler's own processes, and `check` may raise when one of them ends.
    """
    pids = {**own, **bed.servers()}
    api = counters.api_requests(bed.bulk.text("/metrics"))
    queries = counters.prometheus_queries(bed.prometheus_metrics())
    cpu, began = processes.cpu_seconds(pids), time.monotonic()
    let_pass(seconds, check)
    elapsed = time.monotonic() - began
    after = processes.cpu_seconds(pids)
    # The pages are read outside of the time that counts: making them costs the servers CPU.
    return Window(
        seconds=elapsed,
        cpu={name: after[name] - cpu[name] for name in pids},
        resident=processes.resident_bytes(pids),
        api=difference(api, counters.api_requests(bed.bulk.text("/metrics"))),
        queries=counters.prometheus_queries(bed.prometheus_metrics()) - queries,
    )


def let_pass(seconds: float, check: Check, interval: float = 1.0) -> None:
    """Wait for that long while `check`, called at that interval, raises nothing."""
    end = time.monotonic() + seconds
    while (left := end - time.monotonic()) > 0:
        check()
        time.sleep(min(left, interval))


def idle(bed: Bed, own: Pids, seconds: float) -> dict[str, float]:
    """Return the CPU seconds per second of servers for which no autoscaler makes work."""
    quiet = window(bed, own, seconds, lambda: None)
    return {name: spent / quiet.seconds for name, spent in quiet.cpu.items()}


def step(bed: Bed, own: Pids, targets: int, replicas: int, check: Check) -> Step:
    """Change all series so that every target must change, and watch the writes land."""
    pids = {**own, **bed.servers()}
    with Landings(bed.bulk, fleet.DEPLOYMENTS) as landings:
        cpu, changed = processes.cpu_seconds(pids), time.time()
        change(bed, targets, replicas)
        # The HPA at its defaults manages about ten a second.
        landed = landings.wait(replicas, targets, timeout=90 + targets / 5, alive=check)
        after = processes.cpu_seconds(pids)
    spent = {name: after[name] - cpu[name] for name in pids}
    return Step(replicas, changed, None, landed, spent)


def change(bed: SeriesBed, targets: int, replicas: int) -> None:
    """Make all series ask for that many replicas, and wait until Prometheus has them."""
    value = float(replicas * fleet.PER_REPLICA)
    bed.page.change(fleet.METRIC, value)
    wait_for_count(bed, f"{fleet.METRIC} == {value}", targets)


def publish(bed: SeriesBed, targets: int, replicas: int) -> None:
    """Serve one series per target, and wait until Prometheus has them all."""
    value = float(replicas * fleet.PER_REPLICA)
    labels = ({"queue": fleet.queue(each)} for each in range(targets))
    bed.page.publish(fleet.METRIC, labels, lambda: value)
    wait_for_count(bed, f"{fleet.METRIC} == {value}", targets)


def wait_for_count(bed: SeriesBed, promql: str, count: int) -> None:
    """Wait until a query would return that many series."""

    def enough() -> bool:
        found = bed.prometheus.samples(f"count({promql})")
        return bool(found) and found[0][1] >= count

    what = f"Prometheus has {count} series of {promql}"
    wait_until(what, enough, timeout=_LONGEST_SCRAPE_WAIT, interval=0.02)
