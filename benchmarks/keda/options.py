"""The command line of `benchmarks.keda`."""

import argparse
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from benchmarks.keda import rest, scenarios
from benchmarks.keda.pairs import Times

REST = "rest"
PARTS = (*scenarios.SCENARIOS, REST)


@dataclass(frozen=True)
class Options:
    """Which parts to measure, and how; `raw` is the file for the raw figures."""

    parts: Sequence[str]
    plan: scenarios.Plan
    rest: rest.Plan
    raw: Path | None


def parse(arguments: Sequence[str], description: str | None) -> Options:
    """Return what the command line asks for."""
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.keda",
        description=description,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    add = parser.add_argument
    add("--parts", nargs="+", choices=PARTS, default=PARTS, help="by default all of them")
    add("--cycles", type=int, default=4, metavar="N", help="of the queue and of pausing (4)")
    add("--failures", type=int, default=2, metavar="N", help="how often something is away (2)")
    add("--pairs", type=int, default=3, metavar="N", help="queues that fill in each cycle (3)")
    add("--poll", type=int, default=5, metavar="SECONDS", help="KEDA's pollingInterval (5)")
    add("--period", type=int, default=5, metavar="SECONDS", help="of the HPA's syncs and ours (5)")
    add("--cooldown", type=int, default=30, metavar="SECONDS", help="until idle, of both (30)")
    add("--away", type=float, default=60, metavar="SECONDS", help="what fails is away so long (60)")
    add("--targets", type=int, default=300, metavar="N", help="of each, at rest (300)")
    add("--rest-seconds", type=float, default=60, metavar="S", help="measured at rest (60)")
    add("--seed", type=int, default=1, help="of the random moments (1)")
    add("--json", type=Path, metavar="FILE", help="write the raw figures there")
    given = parser.parse_args(arguments)
    return Options(
        parts=[part for part in PARTS if part in given.parts],
        plan=scenarios.Plan(
            times=Times(given.poll, given.period, given.cooldown),
            cycles=given.cycles,
            failures=given.failures,
            pairs=given.pairs,
            away=given.away,
            seed=given.seed,
        ),
        rest=rest.Plan(given.targets, given.rest_seconds),
        raw=given.json,
    )
