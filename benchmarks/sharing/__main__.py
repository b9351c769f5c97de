"""Whether three daemons share twelve clusters as promised, while everything fails.

    python -m benchmarks.sharing --minutes 20 --seed 1

starts stand-ins for clusters (with `--real 2` two real control planes among them), a Prometheus
whose loads change every second, and daemons with one configuration, with a proxy between each of
them and each cluster.  Daemons are killed, stopped and frozen, ways are cut, dead or slow, and
Leases are deleted and edited; between such bouts there is quiet.  Then it is checked what the API
servers accepted (`benchmarks.sharing.judging`).  The exit code is 1 if a promise was broken.
"""

import argparse
import dataclasses
import json
import sys
import tempfile
from collections.abc import Iterable, Iterator
from contextlib import ExitStack
from pathlib import Path
from statistics import median

from benchmarks.command import Report, exit_code
from benchmarks.sharing.bed import Bed, Fleet, Times
from benchmarks.sharing.faults import Faults, Pace
from benchmarks.sharing.judging import (
    MOST_CHANGES,
    SLACK_SECONDS,
    Course,
    Gap,
    broken,
    clock_of,
    gaps,
    handovers,
    pauses,
    requests_for_leases,
    settlings,
    told,
    two_writers,
)
from benchmarks.tables import markdown

_WORST = 5


def run(
    fleet: Fleet, folder: Path, seconds: float, seed: int, pace: Pace, report: Report
) -> Course:
    """Let everything fail for so long, and return what happened."""
    with ExitStack() as stack:
        return Faults(Bed(folder, fleet, seed, stack), seed, pace, report).run(seconds)


Row = tuple[str, float | None, float | None]
"""What was measured: its name, the value if there is any, and the most that is promised."""


def rows(course: Course) -> list[Row]:
    """Return what was measured; of times the worst, in seconds."""
    scales = sum(one.holder is None for every in course.accepted.values() for one in every)
    unled, quiet = gaps(course), settlings(course)
    limit = course.lease_seconds + SLACK_SECONDS
    later = sum(number for one in quiet for number in one.later.values())
    changes = [number for one in quiet for number in one.changes.values()]
    requests, paused = requests_for_leases(course), handovers(course)
    fair, even = (one.fair_after for one in quiet), (one.even_after for one in quiet)
    return [
        ("faults", len(course.disruptions), None),
        ("writes of scales", scales, None),
        ("... by who did not hold the Lease", len([*two_writers(course)]), 0),
        ("without a leader", _most(one.seconds for one in unled), limit),
        ("quiet times", len(quiet), None),
        ("within one of the fair share", _most(fair), course.settle_seconds),
        ("none leads two more than another", _most(even), None),
        ("changes of one cluster's leader meanwhile", _most(changes), MOST_CHANGES),
        ("... of all clusters' after that", later, 0),
        ("no write while a cluster is handed over", _most(paused), None),
        ("... median", median(paused) if paused else None, None),
        ("no write of a cluster while all is settled", _most(pauses(course)), None),
        ("requests for Leases a second in a cluster", _most(requests), None),
        ("... median", median(requests) if requests else None, None),
    ]


def _most(values: Iterable[float]) -> float | None:
    return max(values, default=None)


def _text(value: float | None) -> str:
    return "" if value is None else f"{value:,.2f}".removesuffix(".00")


def table(course: Course) -> str:
    """Return what was measured as Markdown."""
    body = [[name, _text(value), _text(limit)] for name, value, limit in rows(course)]
    return markdown(["", "measured", "promised"], body)


def details(course: Course) -> Iterator[str]:
    """Yield the worst, and how each quiet time went."""
    yield "Longest times without a leader:"
    # Of several daemons that could have led, one is enough.
    worst: dict[tuple[str, float], Gap] = {}
    for gap in gaps(course):
        worst.setdefault((gap.cluster, gap.begin), gap)
    yield from (f"  {gap}" for gap in [*worst.values()][:_WORST])
    yield "Quiet times:"
    for one in settlings(course):
        yield (
            f"  {clock_of(one.begin)} fair after {one.fair_after:.1f} s, even after "
            f"{one.even_after:.1f} s, {sum(one.changes.values())} changes; in the end {told(one)}"
        )


def main() -> int:
    """Run, and print what was seen."""
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.sharing",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    add = parser.add_argument
    add("--minutes", type=float, default=20.0)
    add("--seed", type=int, default=1)
    add("--daemons", type=int, default=3)
    add("--clusters", type=int, default=12)
    add("--real", type=int, default=0, metavar="N", help="of the clusters, control planes (0)")
    Times.add_to(parser)
    add("--no-share", action="store_true", help="daemons that take what they get")
    add("--keep", type=Path, metavar="FOLDER", help="a new folder that keeps logs and course.json")
    given = parser.parse_args()
    return exit_code(lambda report: _measured(given, report))


def _measured(given: argparse.Namespace, report: Report) -> int:
    fleet = Fleet(
        daemons=given.daemons,
        clusters=given.clusters,
        real=given.real,
        times=Times.of(given),
        share=not given.no_share,
    )
    with ExitStack() as stack:
        kept = given.keep
        folder = kept or Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="sharing-")))
        folder.mkdir(parents=True, exist_ok=True)
        course = run(fleet, folder, 60 * given.minutes, given.seed, Pace(), report)
        (folder / "course.json").write_text(json.dumps(dataclasses.asdict(course), default=sorted))
    print(table(course), *details(course), sep="\n")
    found = broken(course, shared=fleet.share)
    print(*found, f"{len(found)} broken promises", sep="\n")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
