"""How long a cluster is without a writer when its leader is killed, and what its Lease costs.

    python -m benchmarks.failover --rounds 5 --lease 6

kills the leader of a cluster with SIGKILL again and again, and measures the time until another
daemon's first write is accepted, with a load that needs one every second.  It counts the requests
for Leases at the API server, while nothing happens and from each kill on.
"""

import random
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from statistics import mean, median

from autoscaler import clock
from benchmarks.command import Report, exit_code, parser_of
from benchmarks.standbys import Bed, Times
from benchmarks.tables import markdown
from tests.worlds.cluster.accounts import DisplayedQuery
from tests.worlds.waiting import wait_until

_COUNTED_SECONDS = 10.0
"""The time over which requests are counted where many may come at once."""


@dataclass(frozen=True)
class Failover:
    """What followed a kill, in seconds since; and the requests for Leases before and after it."""

    taken: float
    """When another held the Lease."""
    written: float
    """When a write of another was accepted."""
    rest: Sequence[DisplayedQuery]
    rest_seconds: float
    after: Sequence[DisplayedQuery]
    """For ten seconds more than it took."""


def failovers(
    daemons: int, times: Times, rounds: int, rest_seconds: float, folder: Path, report: Report
) -> list[Failover]:
    """Kill the leader so many times, each after a time of rest."""
    chance = random.Random(1)  # noqa: S311 - no secret
    found = []
    with ExitStack() as stack:
        bed = Bed(folder, daemons, times, stack)
        for number in range(rounds):
            # What follows a start is none of a rest; and each kill is elsewhere between renewals.
            time.sleep(times.lease)
            begin = clock.wall()
            time.sleep(rest_seconds + chance.uniform(0, 3))
            found.append(_failover(bed, begin))
            report(f"{number + 1} of {rounds}: {found[-1].written:.2f} s")
    return found


def _failover(bed: Bed, begin: float) -> Failover:
    killed = bed.daemons[bed.holder()]
    at = clock.wall()
    killed.process.stop(0)

    def by_others() -> list[tuple[float, str | None]]:
        accepted = bed.accepted()
        others = [write for write in accepted if write.user != killed.name]
        return [(write.at, write.holder) for write in others if write.at > at]

    def written() -> list[float]:
        return [when for when, holder in by_others() if holder is None]

    first = wait_until("another writes", written)[0]
    taken = next(when for when, holder in by_others() if holder)
    time.sleep(_COUNTED_SECONDS)
    asked = list(bed.asked)
    killed.start()
    bed.wait_ready()
    rest = [request for request in asked if begin <= request[0] < at]
    after = [request for request in asked if request[0] >= at]
    return Failover(taken - at, first - at, rest, at - begin, after)


def busiest(asked: Sequence[DisplayedQuery]) -> float:
    """Return the requests a second in the busiest ten seconds."""
    times = [at for at, _ in asked]
    counts = (sum(begin <= at < begin + _COUNTED_SECONDS for at in times) for begin in times)
    return max(counts, default=0) / _COUNTED_SECONDS


def text(daemons: int, lease: float, found: Sequence[Failover]) -> str:
    """Return what was measured."""
    taken, written = [run.taken for run in found], [run.written for run in found]
    at_rest = [len(run.rest) / run.rest_seconds for run in found]
    rows = {
        "kill to the Lease of another, s": taken,
        "kill to the first write of another, s": written,
        "... / leaseDuration": [seconds / lease for seconds in written],
        "requests for Leases a second, at rest": at_rest,
        "... in the busiest ten seconds": [busiest(run.rest) for run in found],
        "... in those from the kill on": [busiest(run.after) for run in found],
    }
    body = [
        [name, *(f"{value:.2f}" for value in (min(values), median(values), max(values)))]
        for name, values in rows.items()
    ]
    head = [f"{daemons} daemons, {len(found)} kills", "least", "median", "most"]
    verbs = Counter(verb for run in found for _, verb in run.rest)
    seconds = sum(run.rest_seconds for run in found)
    lines = [f"{count / seconds:.2f} a second: {verb}" for verb, count in verbs.most_common(6)]
    return "\n".join([markdown(head, body), f"At rest, {mean(at_rest):.2f} a second:", *lines])


def main() -> int:
    """Measure, and print a table."""
    parser = parser_of("failover", __doc__)
    add = parser.add_argument
    add("--rounds", type=int, default=5, metavar="N", help="kills (5)")
    add("--rest", type=float, default=20.0, metavar="SECONDS", help="before each of them (20)")
    add("--daemons", type=int, default=2)
    Times.add_to(parser)
    given = parser.parse_args()
    daemons, times = given.daemons, Times.from_options(given)

    def measure(report: Report) -> int:
        with tempfile.TemporaryDirectory(prefix="failover-") as folder:
            found = failovers(daemons, times, given.rounds, given.rest, Path(folder), report)
        print(text(daemons, times.lease, found))
        return 0

    return exit_code(measure)


if __name__ == "__main__":
    sys.exit(main())
