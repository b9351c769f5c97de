"""What is odd about the data of a rehearsal, in sentences."""

import math
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from itertools import islice
from operator import gt, lt

from autoscaler.config.promql import selectors_of
from autoscaler.config.promql_parser import Call, nodes_of, read
from autoscaler.core.series import QueryFailure
from autoscaler.core.target import QueryKey
from autoscaler.core.text import printable, rfc3339
from autoscaler.lab.past.own_pods import PODS
from autoscaler.lab.past.range_fetching import FetchedRange
from autoscaler.lab.past.ranges import Matrix, MatrixSeries

_LONGEST_QUERY = 120
_OF_COUNTERS = ("_total", "_count", "_sum", "_bucket")
_RATES = frozenset({"rate", "irate", "increase", "delta", "idelta", "deriv", "resets", "changes"})
_FEWEST_STEPS = 20
"""From one sample to the next, from which something is concluded."""
_MOST_SENTENCES = 20
_MOST_FAILURES = 3
"""The most different failures of a query that are told."""


@dataclass
class Scan:
    """What is seen of a query's samples; numbers are those of its grid."""

    samples: int = 0
    nans: int = 0
    steps: int = 0
    rises: int = 0
    falls: int = 0
    several: tuple[int, int] | None = None
    """Where there first is more than one series, and how many; None if there never is."""
    one: int | None = None
    """Where there first is just one."""
    others: bool = False
    """Whether there were series that do not count."""
    failed: Counter[str] = field(default_factory=Counter)
    """Instants that could not be read, by the sentence why."""
    partial: Counter[str] = field(default_factory=Counter)
    """Instants of incomplete answers, by the first warning."""


def scan_of(
    fetched: FetchedRange, selects: Callable[[Matrix], Matrix] = lambda matrix: matrix
) -> Scan:
    """Look at all samples of a query, or at those of some series."""
    scan = Scan()
    for part, answer in fetched.matrices():
        if isinstance(answer, QueryFailure):
            scan.failed[answer.message] += part.end - part.begin
            continue
        matrix = selects(answer)
        scan.others |= len(matrix.series) < len(answer.series)
        if matrix.warnings:
            scan.partial[matrix.warnings[0]] += part.end - part.begin
        # How many pods there are is no value of the metric.
        for series in (one for one in matrix.series if one.labels != PODS):
            _take(scan, series)
        _count_series(scan, matrix)
    return scan


def _take(scan: Scan, series: MatrixSeries) -> None:
    scan.samples += len(series.values)
    scan.nans += sum(map(math.isnan, series.values))
    at = 0
    for _, count in series.runs:
        values = series.values[at : at + count]
        later = values[1:]
        scan.steps += len(later)
        scan.rises += sum(map(lt, values, later))
        scan.falls += sum(map(gt, values, later))
        at += count


def _count_series(scan: Scan, matrix: Matrix) -> None:
    """Note where there are one and several series; most queries have one throughout."""
    if scan.several is not None or not matrix.series:
        return
    if len(matrix.series) == 1:
        scan.one = matrix.series[0].runs[0][0] if scan.one is None else scan.one
        return
    counts: Counter[int] = Counter()
    for series in matrix.series:
        for begin, count in series.runs:
            counts.update(range(begin, begin + count))
    singles = [number for number, count in counts.items() if count == 1]
    if singles and scan.one is None:
        scan.one = min(singles)
    first = min((number for number, count in counts.items() if count > 1), default=None)
    scan.several = None if first is None else (first, counts[first])


@dataclass(frozen=True, slots=True)
class ScannedQuery:
    """A query, what was asked of its server, and what is seen of its samples.

    ``of`` says what it is for; ``needs_one`` is whether one series is needed.
    """

    of: str
    asked: QueryKey
    fetched: FetchedRange
    scan: Scan
    needs_one: bool = False

    @property
    def name(self) -> str:
        """The query in a sentence."""
        return f"{self.of}: the query {printable(self.asked.promql, _LONGEST_QUERY)}"

    def findings(self) -> Iterator[str]:
        """Yield what is odd, in sentences that go on after the `name`."""
        yield from self._unread()
        scan, grid = self.scan, self.fetched.key.grid
        if not scan.samples and not scan.failed:
            parts = self.fetched.parts
            begin, end = rfc3339(grid.at(parts[0].begin)), rfc3339(grid.at(parts[-1].end))
            others = ": it gives series, and none of them is the metric's" if scan.others else ""
            yield f"has no data from {begin} to {end}{others}"
        if scan.nans:
            share = f"{100 * scan.nans / scan.samples:.3g} %"
            yield f"gives NaN in {share} of its samples, which are gaps"
        if self.needs_one and scan.several is not None:
            at, count = scan.several
            before = f"one series at {rfc3339(grid.at(scan.one))}, and " if scan.one else ""
            yield (
                f"gives {before}{count} series at {rfc3339(grid.at(at))}: exactly one"
                " is needed, and where there are several there is a gap"
            )
        if self._counts():
            yield "only rises, as a counter does: a load is how fast it rises, rate(...[2m])"

    def _unread(self) -> Iterator[str]:
        step = self.fetched.key.grid.step / 1000
        for message, count in self.scan.failed.most_common(_MOST_FAILURES):
            yield f"could not be read for {count * step:g} s: {message}"
        for warning, count in self.scan.partial.most_common(_MOST_FAILURES):
            yield f"has incomplete answers for {count * step:g} s: {warning}"

    def _counts(self) -> bool:
        """Return whether the samples are those of a counter; a reset of one is a fall."""
        scan = self.scan
        nodes = nodes_of(read(self.asked.promql))
        if scan.steps < _FEWEST_STEPS or any(
            isinstance(n, Call) and n.name in _RATES for n in nodes
        ):
            return False
        names = [one.name for one in selectors_of(self.asked.promql)]
        named = any(name.endswith(_OF_COUNTERS) for name in names)
        most_falls = scan.steps / 100 if named else 0
        return scan.rises >= scan.steps / 3 and scan.falls <= most_falls


def sentences_of(found: Iterable[tuple[ScannedQuery, str]]) -> list[str]:
    """Return what is odd about queries, at most 20 sentences: what is the same is told once.

    Of each query comes what is said after its name.
    """
    names: dict[str, list[str]] = {}
    for query, finding in found:
        names.setdefault(finding, []).append(query.name)
    told = []
    for finding, (first, *others) in islice(names.items(), _MOST_SENTENCES):
        more = f" ({len(others)} more queries do as well)" if others else ""
        told.append(f"{first} {finding}{more}")
    more_notes = len(names) - _MOST_SENTENCES
    return [*told, *([f"and {more_notes} notes more"] if more_notes > 0 else [])]
