"""How soon a load of a hundred pods is followed, by the HPA and by the daemon beside it.

    python -m benchmarks.ramp --pairs 20 --period 15

starts a real etcd, kube-apiserver, Prometheus, prometheus-adapter and kube-controller-manager, and
the daemon as a process. Of each pair of equal Deployments one is scaled by the HPA and one by the
daemon. Their load steps from 1 to 100 pods' worth; the default policies allow 5, 10, 20, 40, 80
and 100 replicas, a step per sync. The steps are seen by a watch of the API server. The exit code is
1 if a step of the daemon took more than one sync, or a Deployment did not come to 100 replicas.
"""

import argparse
import statistics
import sys
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise

from benchmarks import beside
from benchmarks.bed import Bed
from benchmarks.beside import FIRST_REPLICAS, Scaled, Watched
from benchmarks.command import Report, exit_code
from benchmarks.landings import Change
from benchmarks.scale import machine
from benchmarks.tables import markdown
from tests.worlds.controlplane.api import Json

HIGH = 100

HPA, OURS = "HPA", "autoscaler"

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


def measure(bed: Bed, pairs: int, period: int) -> dict[str, list[Climb]]:
    """Let that many pairs climb; return the climbs of each side."""
    sides = scaled(pairs, period)
    with beside.at_work(bed, period, sides[HPA], sides[OURS]) as watched:
        return climb(bed, watched, sides, period)


def scaled(pairs: int, period: int) -> dict[str, list[Scaled]]:
    """Return what each side scales."""
    rules, numbers = behavior(period), range(pairs)
    return {
        side: [Scaled(f"{side.lower()}-{each}", f"ramp-{each}", rules) for each in numbers]
        for side in (HPA, OURS)
    }


def climb(
    bed: Bed, watched: Watched, sides: Mapping[str, Sequence[Scaled]], period: float
) -> dict[str, list[Climb]]:
    """Let the load step, and wait until all have followed or have had time enough."""
    names = {side: [one.name for one in sides[side]] for side in sides}
    beside.demand(bed, {one.queue: HIGH for one in sides[OURS]})
    watched.wait(
        f"all come to {HIGH} replicas",
        lambda wanted: all(wanted[name] == HIGH for side in names.values() for name in side),
        timeout=_PATIENCE_SYNCS * period + 30,
    )
    return {side: [Climb(name, watched.changes(name)) for name in names[side]] for side in names}


def behavior(period: int) -> Json:
    """Return the default policies for going up, per sync instead of per 15 s.

    At the default period of 15 s they are the defaults.
    """
    return {
        "scaleUp": {
            "policies": [
                {"type": "Pods", "value": 4, "periodSeconds": period},
                {"type": "Percent", "value": 100, "periodSeconds": period},
            ]
        },
        "scaleDown": {"stabilizationWindowSeconds": 0},
    }


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
    head = [
        "",
        f"{FIRST_REPLICAS} -> {HIGH}, mean, s",
        "worst, s",
        "steps of one sync",
        "of two",
        "of more",
    ]
    return markdown(head, [_line(side, found, period) for side, found in climbs.items()])


def _line(side: str, climbs: Sequence[Climb], period: float) -> list[str]:
    seconds = [climb.seconds for climb in climbs]
    # Two changes within one sync would be a step of none; it counts as quick.
    steps = Counter(min(3, max(1, step)) for climb in climbs for step in climb.steps(period))
    return [
        side,
        f"{statistics.mean(seconds):.1f}",
        f"{max(seconds):.1f}",
        *(str(steps[length]) for length in (1, 2, 3)),
    ]


def main(arguments: Sequence[str]) -> int:
    """Measure, print the table and what is wrong, and return the exit code."""
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.ramp",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--pairs", type=int, default=20, metavar="N", help="how many (20)")
    parser.add_argument(
        "--period", type=int, default=15, metavar="SECONDS", help="between syncs, of both (15)"
    )
    options = parser.parse_args(arguments)

    def work(report: Report) -> int:
        with beside.servers(report) as bed:
            report(f"{options.pairs} pairs, synced every {options.period} s")
            climbs = measure(bed, options.pairs, options.period)
        print(f"{machine()}\n\n{table(climbs, options.period)}")
        wrong = faults(climbs, options.period)
        print("".join(f"\n{line}" for line in wrong))
        return 1 if wrong else 0

    return exit_code(work)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
