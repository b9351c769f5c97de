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

from benchmarks import beside, counters, daemon, fleet, measures
from benchmarks.bed import Bed
from benchmarks.beside import OURS, Pair
from benchmarks.command import Report, exit_code, parser_of
from benchmarks.daemon import Settings
from benchmarks.hpa import Adapter
from benchmarks.landings import Change
from benchmarks.scale import machine
from benchmarks.tables import markdown
from tests.worlds.controlplane.api import Json
from tests.worlds.waiting import wait_until

LOW, HIGH = 1, 100
HPA = "HPA"
SIDES = (HPA, OURS)

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


def measure(bed: Bed, count: int, period: int) -> dict[str, list[Climb]]:
    """Let that many pairs climb; return the climbs of each side."""
    pairs = [Pair(f"ramp-{number}") for number in range(count)]
    names = {side: [pair.deployment(side) for pair in pairs] for side in SIDES}
    both = [name for side in names.values() for name in side]
    fleet.create_named(bed.bulk, both, LOW)
    _demand(bed, pairs, LOW)
    measures.wait_for_count(bed, f'{fleet.METRIC}{{queue="{pairs[0].queue}"}}', 1)
    config = _config(bed, pairs, period)
    with beside.at_work(bed, both, LOW, config, count, period) as (watched, controller):
        for pair in pairs:
            name = pair.deployment(HPA)
            fleet.create_hpa(bed.bulk, fleet.spec(name, fleet.METRIC, pair.queue, behavior(period)))
            # Each is synced at the phase at which it was created.
            time.sleep(period / count)
        wait_until(
            "every HPA is reconciled",
            lambda: counters.reconciled(controller.metrics()) >= count,
            timeout=2 * period + 60,
        )
        _demand(bed, pairs, HIGH)
        watched.wait(
            f"all come to {HIGH} replicas",
            lambda wanted: all(wanted[name] == HIGH for name in both),
            timeout=_PATIENCE_SYNCS * period + 30,
        )
        return {
            side: [Climb(name, watched.changes(name)) for name in names[side]] for side in SIDES
        }


def _demand(bed: Bed, pairs: Sequence[Pair], replicas: int) -> None:
    beside.fill(bed, {pair.queue: replicas * fleet.PER_REPLICA for pair in pairs})


def _config(bed: Bed, pairs: Sequence[Pair], period: int) -> Path:
    """Write targets with a query each, so that they are spread over the period as HPAs are."""
    metrics = {pair: f"{fleet.METRIC}_{number}" for number, pair in enumerate(pairs)}
    queries = {
        metric: f'{fleet.METRIC}{{queue="{pair.queue}"}}' for pair, metric in metrics.items()
    }
    specs = (
        fleet.spec(pair.deployment(OURS), metric, pair.queue, behavior(period))
        for pair, metric in metrics.items()
    )
    return daemon.write_targets(bed, Settings(period), queries, specs)


def behavior(period: int) -> Json:
    """Return what both sides are told: the default policies, per sync, for going up."""
    return {"scaleUp": beside.default_policies(period), **fleet.UNLIMITED_DOWN}


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
