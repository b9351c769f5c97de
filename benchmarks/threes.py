"""How often the daemon's replicas differ from the HPA's, and two HPAs' from each other.

    python -m benchmarks.threes --threes 30 --plateaus 7

starts a real etcd, kube-apiserver, Prometheus, prometheus-adapter and kube-controller-manager, and
the daemon as a process. Of each three equal Deployments two are scaled by an HPA each and one by
the daemon. The behavior of each three is random: stabilization windows of 0 to 20 s, policies of
5 to 20 s. Loads are random too; all change at one scrape and then hold for a plateau, at whose end
the replicas are compared. The three are synced at different moments, so a plateau may end when only
some of them have taken their next step: how often the two HPAs differ tells how often that happens.
If the daemon did as a third HPA would, each of the three would be the odd one out equally often.
The exit code is 1 if it is the daemon more often than chance explains (1 %).
"""

import argparse
import json
import math
import random
import secrets
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from benchmarks import beside
from benchmarks.bed import Bed
from benchmarks.beside import FIRST_REPLICAS, Scaled, Watched
from benchmarks.command import Report, exit_code
from benchmarks.scale import machine
from benchmarks.tables import markdown
from tests.worlds.controlplane.api import Json

LARGEST_LOAD = 60
"""In replicas; below `maxReplicas`, so that it is the load that stops a ramp."""

PLATEAU_SECONDS = (40.0, 60.0)

LEAST_CHANCE = 0.01
"""What a third HPA would do less often than this is taken for a difference of the daemon."""


@dataclass(frozen=True)
class Options:
    """What to measure; `seconds` of None lets each plateau last between 40 and 60 s.

    `period` is that of the syncs of all.
    """

    threes: int = 30
    plateaus: int = 7
    period: int = 5
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
    """How many comparisons there were, and in how many two of a three differed.

    `ours_alone` counts those in which the HPAs agree and ours does not, `hpa_alone` those in which
    ours agrees with one HPA and not with the other.
    """

    comparisons: int
    between_hpas: int
    ours_from_first: int
    ours_from_second: int
    ours_alone: int
    hpa_alone: int

    @property
    def chance(self) -> float:
        """The probability that a third HPA in our place would be alone at least as often.

        Whenever one of three HPAs is alone it is each of them with the same probability.
        """
        total = self.ours_alone + self.hpa_alone
        more = range(self.ours_alone, total + 1)
        return math.fsum(math.comb(total, k) * (1 / 3) ** k * (2 / 3) ** (total - k) for k in more)

    @property
    def passed(self) -> bool:
        """Whether ours differs from the HPAs as they differ from each other, or by chance more."""
        return self.chance >= LEAST_CHANCE

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
        ours_alone=sum(one.first == one.second != one.ours for one in comparisons),
        hpa_alone=sum(
            one.first != one.second and one.ours in {one.first, one.second} for one in comparisons
        ),
    )


def measure(bed: Bed, options: Options, report: Report) -> list[Comparison]:
    """Let all threes follow random loads, and compare them at the end of each plateau."""
    chance = random.Random(options.seed)  # noqa: S311 - no secret
    threes = [Three(each, behavior(chance, options.period)) for each in range(options.threes)]
    theirs = [scaled for three in threes for scaled in three.theirs]
    # In any order, so that the two of a three are synced at moments that have nothing in common.
    chance.shuffle(theirs)
    ours = [three.ours for three in threes]
    found: list[Comparison] = []
    with beside.at_work(bed, options.period, theirs, ours) as watched:
        for comparisons in plateaus(bed, watched, threes, options, chance):
            found += comparisons
            report(f"plateau {comparisons[0].plateau} of {options.plateaus}: {tally(found)}")
    return found


def plateaus(
    bed: Bed, watched: Watched, threes: Sequence[Three], options: Options, chance: random.Random
) -> Iterator[list[Comparison]]:
    """Let the loads step, and compare all threes at the end of the plateau, again and again."""
    loads = {three.queue: FIRST_REPLICAS for three in threes}
    for plateau in range(1, options.plateaus + 1):
        before = loads
        loads = {three.queue: chance.randint(1, LARGEST_LOAD) for three in threes}
        beside.demand(bed, loads)
        watched.let_pass(options.seconds or chance.uniform(*PLATEAU_SECONDS))
        yield compare(threes, plateau, before, loads, watched.wanted())


def compare(
    threes: Sequence[Three],
    plateau: int,
    before: Mapping[str, int],
    loads: Mapping[str, int],
    wanted: Mapping[str, int],
) -> list[Comparison]:
    """Compare each three's wanted replicas (by name); loads are by queue."""
    return [
        Comparison(
            three,
            plateau,
            before[three.queue],
            loads[three.queue],
            *(wanted[scaled.name] for scaled in (*three.theirs, three.ours)),
        )
        for three in threes
    ]


def behavior(chance: random.Random, period: int) -> Json:
    """Return a random behavior, whose windows and policies are whole numbers of sync periods.

    At such an age a recommendation or a scale event just ceases to count.
    """
    return {side: _rules(chance, period) for side in ("scaleUp", "scaleDown")}


def text(comparisons: Sequence[Comparison]) -> str:
    """Render the tally, and a line for each comparison in which not all three agree."""
    count = tally(comparisons)
    rows = [
        ("the second HPA from the first", count.between_hpas),
        ("the autoscaler from the first HPA", count.ours_from_first),
        ("the autoscaler from the second HPA", count.ours_from_second),
        ("the autoscaler from both, which agree", count.ours_alone),
        ("one HPA from the other and the autoscaler, which agree", count.hpa_alone),
    ]
    summary = markdown(
        ["", "differs", "of"],
        [[name, str(differs), str(count.comparisons)] for name, differs in rows],
    )
    judged = f"a third HPA would differ from both at least as often by chance: {count.chance:.2g}"
    return "\n".join([summary, "", judged, "", *(str(one) for one in comparisons if not one.equal)])


def _rules(chance: random.Random, period: int) -> Json:
    return {
        "stabilizationWindowSeconds": chance.randint(0, 4) * period,
        "selectPolicy": chance.choice(("Max", "Min")),
        "policies": [_policy(chance, period) for _ in range(chance.randint(1, 2))],
    }


def _policy(chance: random.Random, period: int) -> Json:
    kind = chance.choice(("Pods", "Percent"))
    return {
        "type": kind,
        "value": chance.randint(4, 20) if kind == "Pods" else chance.randint(30, 200),
        "periodSeconds": chance.randint(1, 4) * period,
    }


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
    add("--period", type=int, default=usual.period, metavar="S", help="between syncs, of all (5)")
    add("--seconds", type=float, metavar="S", help="of each plateau (40 to 60)")
    add("--seed", type=int, metavar="SEED", help="of behaviors and loads; printed")
    given = parser.parse_args(arguments)
    seed = secrets.randbelow(1_000_000) if given.seed is None else given.seed
    return Options(given.threes, given.plateaus, given.period, given.seconds, seed)


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
