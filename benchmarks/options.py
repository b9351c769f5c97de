"""The command line of `benchmarks.scale`."""

import argparse
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from benchmarks.sides import Plan


@dataclass(frozen=True)
class Options:
    """What to measure.

    `pods_per_target` of 0, `max_writes_per_second` of None and an empty `growth` leave that part
    out; `raw` is the file for the raw figures.
    """

    targets: int
    plan: Plan
    max_writes_per_second: int | None = 2000
    side_by_side: bool = False
    pods_per_target: int = 0
    growth: Sequence[int] = ()
    raw: Path | None = None


FULL = Options(
    targets=1000,
    plan=Plan(period=15.0, syncs=4, repeats=3),
    pods_per_target=20,
    growth=(100, 300, 1_000, 3_000, 10_000, 20_000),
)
QUICK = Options(
    targets=20, plan=Plan(period=2.0, syncs=2, repeats=1), pods_per_target=2, growth=(10, 20)
)


def parse(arguments: Sequence[str], description: str) -> Options:
    """Return what the command line asks for; the growth is measured only where asked for."""
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.scale",
        description=description,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    add = parser.add_argument
    add("--targets", type=int, metavar="N", help="compare at N targets (1000)")
    add("--pods-per-target", type=int, metavar="P", help="of the part with pods (20); 0: without")
    add("--side-by-side", action="store_true", help="measure the HPA too, with prometheus-adapter")
    add("--growth", nargs="*", type=int, metavar="N", help="measure growth, by default to 20,000")
    add("--period", type=float, metavar="SECONDS", help="the daemon's syncPeriod (15)")
    add("--syncs", type=int, metavar="K", help="periods to measure at rest (4)")
    add("--repeats", type=int, metavar="R", help="steps, of which the median is shown (3)")
    add("--max-writes-per-second", type=int, default=2000, metavar="W", help="beside the default")
    add("--extended", action="store_true", help="targets with idle, fallback and schedules")
    add("--no-record", action="store_true", help="without the record of decisions")
    add("--quick", action="store_true", help="smaller defaults: does it work?")
    add("--json", type=Path, metavar="FILE", help="write the raw figures there")
    given = parser.parse_args(arguments)
    usual = QUICK if given.quick else FULL
    pods: int | None = given.pods_per_target
    growth: list[int] | None = given.growth
    return Options(
        targets=given.targets or usual.targets,
        plan=Plan(
            period=given.period or usual.plan.period,
            syncs=given.syncs or usual.plan.syncs,
            repeats=given.repeats or usual.plan.repeats,
            extended=given.extended,
            record=not given.no_record,
        ),
        max_writes_per_second=given.max_writes_per_second,
        side_by_side=given.side_by_side,
        pods_per_target=usual.pods_per_target if pods is None else pods,
        growth=() if growth is None else growth or usual.growth,
        raw=given.json,
    )
