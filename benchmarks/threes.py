"""How often the daemon's replicas differ from the HPA's, and two HPAs' from each other.

    python -m benchmarks.threes --threes 30 --plateaus 7

starts a real etcd, kube-apiserver, Prometheus, prometheus-adapter and kube-controller-manager, and
the daemon as a process. Of each three equal Deployments two are scaled by an HPA each and one by
the daemon. The behavior of each three is random: stabilization windows of 0 to 20 s, policies of
5 to 20 s. Loads are random too; all change at one scrape and then hold for a plateau, at whose end
the replicas are compared. The three are synced at different moments, so a plateau may end when only
some of them have taken their next step: how often that happens between the two HPAs is the measure.
The exit code is 1 if the daemon differs from one of them more often than they do from each other.
"""

import argparse
import json
import random
import secrets
import sys
from collections.abc import Sequence
from dataclasses import dataclass

from benchmarks import beside
from benchmarks.bed import Bed
from benchmarks.beside import FIRST_REPLICAS, Scaled
from benchmarks.command import Report, exit_code
from benchmarks.scale import machine
from benchmarks.tables import markdown
from tests.controlplane.api import Json

PERIOD = 5
"""Seconds between syncs, of all. Windows and policies are whole numbers of them: at such an age a
scale event or a recommendation just ceases to count."""

LARGEST_LOAD = 60
"""In replicas; below `maxReplicas`, so that it is the load that stops a ramp."""

PLATEAU_SECONDS = (40.0, 60.0)


@dataclass(frozen=True)
class Options:
    """What to measure; `seconds` of None lets each plateau last between 40 and 60 s."""

    threes: int = 30
    plateaus: int = 7
    seconds: float | None = None
    seed: int = 0


@dataclass(frozen=True)
class Three:
    """The names of three equal Deployments; all follow one queue and behave the same."""

    number: int
    behavior: Json

    @property
    def theirs(self) -> tuple[Scaled, Scaled]:
        """Those that the two HPAs scale."""
        return self._scaled("first"), self._scaled("second")

    @property
    def ours(self) -> Scaled:
        """The one that the daemon scales."""
        return self._scaled("ours")

    @property
    def queue(self) -> str:
        """Their queue."""
        return f"three-{self.number}"

    def _scaled(self, which: str) -> Scaled:
        return Scaled(f"three-{self.number}-{which}", self.queue, self.behavior)


@dataclass(frozen=True)
class Comparison:
    """The replicas of a three at the end of a plateau, whose load stepped from `before`."""

    three: Three
    plateau: int
    before: int
    load: int
    first: int
    second: int
    ours: int

    @property
    def equal(self) -> bool:
        """Whether all three agree."""
        return self.first == self.second == self.ours

    def __str__(self) -> str:
        return (
            f"three {self.three.number}, plateau {self.plateau}, "
            f"load {self.before} -> {self.load}: HPAs {self.first} and {self.second}, "
            f"autoscaler {self.ours}; behavior {json.dumps(self.three.behavior)}"
        )


@dataclass(frozen=True)
class Tally:
    """How many comparisons there were, and in how many two of a three differed."""

    comparisons: int
    between_hpas: int
    ours_from_first: int
    ours_from_second: int

    @property
    def passed(self) -> bool:
        """Whether ours differs from neither HPA more often than they from each other."""
        return max(self.ours_from_first, self.ours_from_second) <= self.between_hpas

    def __str__(self) -> str:
        return (
            f"of {self.comparisons} the HPAs differ in {self.between_hpas}, the autoscaler from "
            f"the first in {self.ours_from_first} and from the second in {self.ours_from_second}"
        )


def tally(comparisons: Sequence[Comparison]) -> Tally:
    """Count the differences."""
    return Tally(
        comparisons=len(comparisons),
        between_hpas=sum(one.first != one.second for one in comparisons),
        ours_from_first=sum(one.first != one.ours for one in comparisons),
        ours_from_second=sum(one.second != one.ours for one in comparisons),
    )


def measure(bed: Bed, options: Options, report: Report) -> list[Comparison]:
    """Let all threes follow random loads, and compare them at the end of each plateau."""
    chance = random.Random(options.seed)  # noqa: S311 - no secret
    threes = [Three(number, behavior(chance)) for number in range(options.threes)]
    theirs = [scaled for three in threes for scaled in three.theirs]
    # In any order, so that the two of a three are synced at moments that have nothing in common.
    chance.shuffle(theirs)
    found: list[Comparison] = []
    loads = {three.queue: FIRST_REPLICAS for three in threes}
    with beside.at_work(bed, PERIOD, theirs, [three.ours for three in threes]) as watched:
        for plateau in range(1, options.plateaus + 1):
            before = loads
            loads = {three.queue: chance.randint(1, LARGEST_LOAD) for three in threes}
            beside.demand(bed, loads)
            watched.let_pass(options.seconds or chance.uniform(*PLATEAU_SECONDS))
            wanted = watched.wanted()
            found += [
                _comparison(three, plateau, before[three.queue], loads[three.queue], wanted)
                for three in threes
            ]
            report(f"plateau {plateau} of {options.plateaus}: {tally(found)}")
    return found


def behavior(chance: random.Random) -> Json:
    """Return a random behavior."""
    return {side: _rules(chance) for side in ("scaleUp", "scaleDown")}


def text(comparisons: Sequence[Comparison]) -> str:
    """Render the tally, and a line for each comparison in which not all three agree."""
    count = tally(comparisons)
    rows = [
        ("the second HPA from the first", count.between_hpas),
        ("the autoscaler from the first HPA", count.ours_from_first),
        ("the autoscaler from the second HPA", count.ours_from_second),
    ]
    summary = markdown(
        ["", "differs", "of"],
        [[name, str(differs), str(count.comparisons)] for name, differs in rows],
    )
    return "\n".join([summary, "", *(str(one) for one in comparisons if not one.equal)])


def _rules(chance: random.Random) -> Json:
    return {
        "stabilizationWindowSeconds": chance.choice((0, 5, 10, 15, 20)),
        "selectPolicy": chance.choice(("Max", "Min")),
        "policies": [_policy(chance) for _ in range(chance.choice((1, 2)))],
    }


def _policy(chance: random.Random) -> Json:
    kind = chance.choice(("Pods", "Percent"))
    return {
        "type": kind,
        "value": chance.randint(4, 20) if kind == "Pods" else chance.randint(30, 200),
        "periodSeconds": chance.choice((5, 10, 15, 20)),
    }


def _comparison(
    three: Three, plateau: int, before: int, load: int, wanted: dict[str, int]
) -> Comparison:
    first, second = (wanted[scaled.name] for scaled in three.theirs)
    return Comparison(three, plateau, before, load, first, second, wanted[three.ours.name])


def parse(arguments: Sequence[str]) -> Options:
    """Return what the command line asks for, with a new seed unless it names one."""
    usual = Options()
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.threes",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    add = parser.add_argument
    add("--threes", type=int, default=usual.threes, metavar="N", help="how many (30)")
    add("--plateaus", type=int, default=usual.plateaus, metavar="K", help="loads in turn (7)")
    add("--seconds", type=float, metavar="S", help="of each plateau (40 to 60)")
    add("--seed", type=int, metavar="SEED", help="of behaviors and loads; printed")
    given = parser.parse_args(arguments)
    seed = secrets.randbelow(1_000_000) if given.seed is None else given.seed
    return Options(given.threes, given.plateaus, given.seconds, seed)


def main(arguments: Sequence[str]) -> int:
    """Measure, print the seed, the tally and the differences, and return the exit code."""
    options = parse(arguments)

    def work(report: Report) -> int:
        report(f"seed {options.seed}")
        with beside.servers(report) as bed:
            comparisons = measure(bed, options, report)
        print(f"{machine()}; seed {options.seed}\n\n{text(comparisons)}")
        return 0 if tally(comparisons).passed else 1

    return exit_code(work)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
