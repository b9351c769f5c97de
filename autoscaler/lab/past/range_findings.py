"""What is odd about the data of a rehearsal, in sentences."""

import math
from array import array
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from itertools import islice, pairwise
from operator import gt, lt, ne

from autoscaler.config.promql import functions_of, selectors_of
from autoscaler.core.series import QueryFailure
from autoscaler.core.target import QueryKey
from autoscaler.core.text import printable, rfc3339
from autoscaler.lab.engine.answers import LOOKBACK_SECONDS
from autoscaler.lab.past.own_pods import PODS
from autoscaler.lab.past.range_fetching import FetchedRange
from autoscaler.lab.past.range_reader import RangeReader
from autoscaler.prometheus.ranges import AskedRange, Grid, Matrix, MatrixSeries

_LONGEST_QUERY = 120
_OF_COUNTERS = ("_total", "_count", "_sum", "_bucket")
_RATES = frozenset({"rate", "irate", "increase", "delta", "idelta", "deriv", "resets", "changes"})
_FEWEST_STEPS, _FEWEST_CHANGES = 20, 10
"""Of samples from which something is concluded."""
_SEARCHED_SECONDS = 30 * 86400.0
_SEARCHED_POINTS = 200
_MOST_FAILURES = 3
"""The most different failures of a query that are told."""


@dataclass
class Scan:
    """What is seen of a query's samples; numbers are those of its grid."""

    samples: int = 0
    nans: int = 0
    first: int | None = None
    last: int | None = None
    steps: int = 0
    rises: int = 0
    falls: int = 0
    changes: int = 0
    between: int = 0
    """The greatest common divisor of the instants between two changes of a series."""
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
    values, runs = series.values, series.runs
    first, last = runs[0][0], sum(runs[-1]) - 1
    scan.samples += len(values)
    scan.nans += sum(map(math.isnan, values))
    scan.first = first if scan.first is None else min(scan.first, first)
    scan.last = last if scan.last is None else max(scan.last, last)
    at = 0
    for begin, count in runs:
        _take_run(scan, values[at : at + count], begin)
        at += count


def _take_run(scan: Scan, values: "array[float]", begin: int) -> None:
    later = values[1:]
    scan.steps += len(later)
    scan.rises += sum(map(lt, values, later))
    scan.falls += sum(map(gt, values, later))
    changed = [number for number, one in enumerate(map(ne, values, later), begin) if one]
    scan.changes += len(changed)
    if scan.between != 1:
        scan.between = math.gcd(scan.between, *(b - a for a, b in pairwise(changed)))


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
            yield ("only rises, as a counter does: a load is how fast it rises, rate(...[2m])")
        step = grid.step / 1000
        if scan.changes >= _FEWEST_CHANGES and scan.between > 1:
            yield (
                f"changes every {scan.between * step:g} s at most: a step of {step:g} s"
                " is finer than its samples, and reads each of them several times"
            )

    def _unread(self) -> Iterator[str]:
        step = self.fetched.key.grid.step / 1000
        for message, count in self.scan.failed.most_common(_MOST_FAILURES):
            yield f"could not be read for {count * step:g} s: {message}"
        for warning, count in self.scan.partial.most_common(_MOST_FAILURES):
            yield f"has incomplete answers for {count * step:g} s: {warning}"

    def _counts(self) -> bool:
        """Return whether the samples are those of a counter; a reset of one is a fall."""
        scan = self.scan
        if scan.steps < _FEWEST_STEPS or functions_of(self.asked.promql) & _RATES:
            return False
        names = [one.name for one in selectors_of(self.asked.promql)]
        named = any(name.endswith(_OF_COUNTERS) for name in names)
        most_falls = scan.steps / 100 if named else 0
        return scan.rises >= scan.steps / 3 and scan.falls <= most_falls


def where_data_are(reader: RangeReader, query: ScannedQuery, now: float) -> str:
    """Say after a query's name why it has no sample, and where the nearest are that are found."""
    parts, grid = query.fetched.parts, query.fetched.key.grid
    begin, end = grid.at(parts[0].begin), grid.at(parts[-1].end)
    none = f"has no data from {rfc3339(begin)} to {rfc3339(end)}"
    if query.scan.others:
        return f"{none}: it gives series, and none of them is the metric's"
    later = _found(reader, query.asked.promql, end, now)
    if later:
        return f"{none}; they begin at about {rfc3339(later[0])}"
    earlier = _found(reader, query.asked.promql, begin - _SEARCHED_SECONDS, begin)
    if earlier:
        return f"{none}; they end at about {rfc3339(earlier[-1])}"
    return none if None in {later, earlier} else f"{none}, nor in the 30 days before or since"


def _found(reader: RangeReader, promql: str, begin: float, end: float) -> tuple[float, ...] | None:
    """Return the instants of a time before which, for one step, there is a series.

    None if the server did not say it.
    """
    step = max(1, math.ceil((end - begin) / _SEARCHED_POINTS))
    if step > LOOKBACK_SECONDS:
        promql = f"count_over_time(({promql}\n)[{step}s:{LOOKBACK_SECONDS:.0f}s])"
    # The last instant is the end, so that the steps before all of them are the whole time.
    grid = Grid(step * 1000, round(end * 1000) % (step * 1000))
    low, high = grid.first_from(begin), grid.first_from(end) + 1
    numbers: set[int] = set()
    for part in islice(reader.parts(promql, AskedRange(grid, low, high)), 8):
        if isinstance(part.answer, QueryFailure):
            return None
        for series in part.answer.series:
            numbers.update(*(range(at, at + count) for at, count in series.runs))
    return tuple(grid.at(one) for one in sorted(numbers))


def sentences_of(found: Iterable[tuple[ScannedQuery, str]], most: int) -> list[str]:
    """Return what is odd about queries, at most so many sentences: what is the same is told once.

    Of each query comes what is said after its name.
    """
    names: dict[str, list[str]] = {}
    for query, finding in found:
        names.setdefault(finding, []).append(query.name)
    told = []
    for finding, (first, *others) in islice(names.items(), most):
        more = f" ({len(others)} more queries do as well)" if others else ""
        told.append(f"{first} {finding}{more}")
    return [*told, *([f"and {len(names) - most} notes more"] if len(names) > most else [])]
