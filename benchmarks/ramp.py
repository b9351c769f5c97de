"""How soon a load of a hundred pods is followed, by the HPA and by the daemon beside it.

    python -m benchmarks.ramp --pairs 20 --period 15

starts a real etcd, kube-apiserver, Prometheus, prometheus-adapter and kube-controller-manager, and
the daemon as a process. Of each pair of equal Deployments one is scaled by the HPA and one by the
daemon. Their load steps from 1 to 100 pods' worth; the default policies allow 5, 10, 20, 40, 80
and 100 replicas, a step per sync. The steps are seen by a watch of the API server. The exit code is
1 if a step of the daemon took more than one sync, or a Deployment did not come to 100 replicas.
"""

import statistics
import sys
import time
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path

from benchmarks import counters, daemon, fleet, measures
from benchmarks.bed import Bed
from benchmarks.command import Report, exit_code, parser_of
from benchmarks.daemon import Daemon, Settings
from benchmarks.hpa import TUNED, Adapter, HpaController
from benchmarks.landings import Change, Landings
from benchmarks.scale import machine
from benchmarks.tables import markdown
from tests.worlds.controlplane.api import Json
from tests.worlds.waiting import wait_until

LOW, HIGH = 1, 100
HPA, OURS = "HPA", "autoscaler"

_LOOK_SECONDS = 0.05
_PATIENCE_SYNCS = 30
"""Three times what the default policies need if every step takes two syncs."""


@dataclass(frozen=True)
class Climb:
    """The changes of one Deployment's replicas, from the first to the last."""

    name: str
    changes: Sequence[Change]

    @property
    def complete(self) -> bool:
        """Whether it came to all replicas."""
        return bool(self.changes) and self.changes[-1].replicas == HIGH

    @property
    def seconds(self) -> float:
        """Seconds from the first change to the last."""
        return self.changes[-1].at - self.changes[0].at if self.changes else 0.0

    def steps(self, period: float) -> list[int]:
        """Return how many syncs passed from each change to the next."""
        return [
            round((later.at - earlier.at) / period) for earlier, later in pairwise(self.changes)
        ]


@contextmanager
def servers(report: Report) -> Iterator[Bed]:
    """Start the servers and prometheus-adapter."""
    with Bed(report) as bed:
        # The adapter waits for the first series of the metric.
        measures.publish(bed, 1, LOW)
        with Adapter(bed):
            yield bed


class Watched:
    """What the watched Deployments want; their status follows it at every look."""

    def __init__(self, bed: Bed, landings: Landings, checks: Sequence[measures.Check]) -> None:
        self._bed = bed
        self._landings = landings
        self._checks = checks
        self._reported: dict[str, int] = {}

    def look(self) -> None:
        """Let each status say what is wanted; raise ServerFailedError if an autoscaler ended."""
        for check in self._checks:
            check()
        last = {name: found[-1].replicas for name, found in self._landings.changes().items()}
        new = {name: last[name] for name in last if last[name] != self._reported.get(name, LOW)}
        fleet.report_replicas(self._bed.bulk, new)
        self._reported |= new

    def wait(self, names: Sequence[str], timeout: float) -> None:
        """Look until all of them want `HIGH` replicas, or it takes too long."""
        deadline = time.monotonic() + timeout

        def over() -> bool:
            self.look()
            climbed = all(self._reported.get(name) == HIGH for name in names)
            return climbed or time.monotonic() > deadline

        wait_until("all climb", over, timeout=timeout + 60, interval=_LOOK_SECONDS)

    def climb(self, name: str) -> Climb:
        """Return the changes of a Deployment's wanted replicas so far."""
        found = list(self._landings.changes().get(name, ()))
        # An event of the status comes before the first change.
        return Climb(name, found[1:] if found and found[0].replicas == LOW else found)


def measure(bed: Bed, count: int, period: int) -> dict[str, list[Climb]]:
    """Let that many pairs climb; return the climbs of each side."""
    names = {side: [f"{side.lower()}-{each}" for each in range(count)] for side in (HPA, OURS)}
    both = [*names[HPA], *names[OURS]]
    fleet.create_named(bed.bulk, both, LOW)
    measures.publish(bed, count, LOW)
    config = _config(bed, names[OURS], period)
    # Its usual limit on requests would make it late with many HPAs and a short period.
    flags = [f"--horizontal-pod-autoscaler-sync-period={period}s", *TUNED]
    with (
        Landings(bed.bulk, fleet.DEPLOYMENTS) as landings,
        HpaController(bed.plane, bed.folder, flags) as controller,
        Daemon(bed, config, count, "debug") as process,
    ):
        watched = Watched(bed, landings, [controller.check, process.check])
        for number, name in enumerate(names[HPA]):
            queue = fleet.queue(number)
            fleet.create_hpa(bed.bulk, fleet.spec(name, fleet.METRIC, queue, behavior(period)))
            # Each is synced at the phase at which it was created.
            time.sleep(period / count)
        process.wait_first_sync(timeout=2 * period + 60)
        wait_until(
            "every HPA is reconciled",
            lambda: counters.reconciled(controller.metrics()) >= count,
            timeout=2 * period + 60,
        )
        bed.page.change(fleet.METRIC, float(HIGH * fleet.PER_REPLICA))
        watched.wait(both, timeout=_PATIENCE_SYNCS * period + 30)
        return {side: [watched.climb(name) for name in own] for side, own in names.items()}


def _config(bed: Bed, names: Sequence[str], period: int) -> Path:
    """Write targets with a query each, so that they are spread over the period as HPAs are."""
    metrics = [f"{fleet.METRIC}_{number}" for number in range(len(names))]
    queries = {
        metric: f'{fleet.METRIC}{{queue="{fleet.queue(number)}"}}'
        for number, metric in enumerate(metrics)
    }
    specs = (
        fleet.spec(name, metrics[number], fleet.queue(number), behavior(period))
        for number, name in enumerate(names)
    )
    return daemon.write_targets(bed, Settings(period), queries, specs)


def behavior(period: int) -> Json:
    """Return the HPA's default policies for going up, per sync instead of per 15 s."""
    policies = [
        {"type": "Pods", "value": 4, "periodSeconds": period},
        {"type": "Percent", "value": 100, "periodSeconds": period},
    ]
    return {"scaleUp": {"policies": policies}, **fleet.UNLIMITED_DOWN}


def faults(climbs: Mapping[str, Sequence[Climb]], period: float) -> list[str]:
    """Return what is wrong: slow steps of the daemon, and climbs of either that did not end."""
    found = [
        f"{climb.name} did not come to {HIGH} replicas"
        for side in climbs.values()
        for climb in side
        if not climb.complete
    ]
    slow = sum(step > 1 for climb in climbs[OURS] for step in climb.steps(period))
    if slow:
        found.append(f"{slow} steps of the {OURS} took more than one sync")
    return found


def table(climbs: Mapping[str, Sequence[Climb]], period: float) -> str:
    """Render one line for each side."""
    means = {
        side: statistics.mean(climb.seconds for climb in found) for side, found in climbs.items()
    }
    body = []
    for side, found in climbs.items():
        # Two changes within one sync would be a step of none; it counts as quick.
        steps = Counter(min(3, max(1, step)) for climb in found for step in climb.steps(period))
        seconds = [f"{means[side]:.1f}", f"{max(climb.seconds for climb in found):.1f}"]
        counts = [str(steps[length]) for length in (1, 2, 3)]
        body.append([side, *seconds, *counts, f"{means[side] / means[HPA]:.2f}"])
    head = [f"{LOW} -> {HIGH}, mean, s", "worst, s", "steps of one sync", "of two", "of more"]
    return markdown(["", *head, "mean / HPA's"], body)


def main(arguments: Sequence[str]) -> int:
    """Measure, print the table and what is wrong, and return the exit code."""
    parser = parser_of("ramp", __doc__)
    add = parser.add_argument
    add("--pairs", type=int, default=20, metavar="N", help="how many (20)")
    add("--period", type=int, default=15, metavar="SECONDS", help="between syncs, of both (15)")
    options = parser.parse_args(arguments)

    def work(report: Report) -> int:
        with servers(report) as bed:
            report(f"{options.pairs} pairs, synced every {options.period} s")
            climbs = measure(bed, options.pairs, options.period)
        print(f"{machine()}\n\n{table(climbs, options.period)}")
        wrong = faults(climbs, options.period)
        print("".join(f"\n{line}" for line in wrong))
        return 1 if wrong else 0

    return exit_code(work)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
