"""Fetches ranges in parts: from files if they were fetched before, else from the servers."""

import re
import threading
from array import array
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import NamedTuple

from autoscaler import clock
from autoscaler.config.prometheus_connection import PrometheusSettings
from autoscaler.core.series import QueryFailure
from autoscaler.core.target import QueryKey
from autoscaler.lab.engine.answers import AnswerChunk, Answers, RecordedSeries, answers_from
from autoscaler.lab.past.range_files import RangeFiles, RangeKey, StoredPart, read_part
from autoscaler.lab.past.range_needs import RangeNeed, TimeGrid, Use
from autoscaler.lab.past.ranges import Grid, Matrix, MatrixSeries, RangeRequest, cut, matrix_of
from autoscaler.prometheus.reader import PrometheusReader
from autoscaler.transport.retries import FOR_A_COMMAND, FailureKind, RequestFailure

MOST_POINTS = 10_000
"""The most points of one series in one answer; Prometheus permits 11,000."""
REQUESTS_A_SECOND = 20
"""The most requests per second, and never two at once."""
FEWEST_POINTS = 16
"""The least instants of a piece of a part that was too large or too slow."""
_LONGEST_OF_A_PART = 120.0
"""The time limit of a part in seconds, with all retries, and with Retry-After."""
_MOST_TRIES = 5
_MOST_FAILURES = 3
"""The consecutive failed parts after which a server is not asked any more."""
# Prometheus, Thanos, Mimir and VictoriaMetrics each have their own texts for limits of points,
# samples, series, bytes and the length of a range.
_OVER_A_LIMIT = re.compile(r"exceed|\blimit\b|too many|too large|too long", re.IGNORECASE)


class AnswerPart(NamedTuple):
    """The answer for the instants of a grid from the number ``begin`` to ``end``."""

    begin: int
    end: int
    answer: Matrix | QueryFailure


def reader_for_ranges(settings: PrometheusSettings, name: str) -> PrometheusReader:
    """Return a reader for an interactive command."""
    return PrometheusReader(
        settings, threading.Event(), name=name, absent_seconds=FOR_A_COMMAND, most_tries=_MOST_TRIES
    )


class RangeReader:
    """Queries one server, with one request at a time."""

    def __init__(self, reader: PrometheusReader) -> None:
        self._reader = reader
        self._next = 0.0
        self._failures = 0
        self._given_up: QueryFailure | None = None

    def parts(self, promql: str, asked: RangeRequest) -> Iterator[AnswerPart]:
        """Yield the answers for a range in order, which together cover it.

        If an answer is too large or too slow, or a limit of the server refuses it, parts of it are
        requested. After a failure that other parts would have, too, the rest is not requested.
        """
        waiting = [asked]
        while waiting:
            part = waiting.pop()
            if part.end - part.begin > MOST_POINTS:
                waiting += _pieces(part, 2)
                continue
            outcome = self._given_up or self._ask(promql, part)
            if not isinstance(outcome, RequestFailure):
                yield AnswerPart(part.begin, part.end, outcome)
                continue
            pieces = _pieces_to_try(outcome)
            if pieces and part.end - part.begin >= pieces * FEWEST_POINTS:
                waiting += _pieces(part, pieces)
                continue
            if pieces:
                told = f"{outcome.message} (even for {part.end - part.begin} evaluations at once)"
                outcome = replace(outcome, message=told)
            failure = self._failure(outcome)
            if pieces or failure.refused:
                yield AnswerPart(part.begin, asked.end, failure)
                return
            yield AnswerPart(part.begin, part.end, failure)

    def _ask(self, promql: str, part: RangeRequest) -> Matrix | RequestFailure:
        self._wait()
        parameters, convert = {"query": promql, **part.parameters}, partial(matrix_of, asked=part)
        deadline = clock.monotonic() + _LONGEST_OF_A_PART
        # A slow query is not retried: a shorter range may be faster.
        outcome = self._reader.ask("query_range", parameters, convert, deadline, slow_again=False)
        if isinstance(outcome, Matrix):
            self._failures = 0
        return outcome

    def _failure(self, outcome: RequestFailure) -> QueryFailure:
        """Return the failure of a part; a server that does not answer gets no further requests."""
        refused = outcome.kind is FailureKind.WRONG_QUERY
        if not refused and outcome.kind is not FailureKind.TOO_LARGE:
            self._failures += 1
        failure = QueryFailure(outcome.message, refused=refused)
        if self._failures >= _MOST_FAILURES or outcome.kind is FailureKind.SLOW:
            told = f"{failure.message}; nothing more was asked of it then"
            self._given_up = replace(failure, message=told)
        return failure

    def _wait(self) -> None:
        """Wait until the rate permits the next request."""
        now = clock.monotonic()
        if self._next > now:
            threading.Event().wait(self._next - now)
        self._next = max(now, self._next) + 1 / REQUESTS_A_SECOND


def _pieces(part: RangeRequest, count: int) -> list[RangeRequest]:
    """Return a part in pieces, the last one first."""
    size = -(-(part.end - part.begin) // count)
    begins = range(part.begin, part.end, size)
    pieces = [replace(part, begin=begin, end=min(begin + size, part.end)) for begin in begins]
    return pieces[::-1]


def _pieces_to_try(failure: RequestFailure) -> int:
    """Return the number of pieces that may succeed after a failure; 0 if none would."""
    if failure.kind is FailureKind.SLOW:
        return 8
    of_query = failure.kind in {FailureKind.WRONG_QUERY, FailureKind.OTHER}
    over_a_limit = of_query and not failure.transient and _OVER_A_LIMIT.search(failure.message)
    return 2 if over_a_limit or failure.kind is FailureKind.TOO_LARGE else 0


# -- all ranges ---------------------------------------------------------------------------------

LATE_SECONDS = 600.0
"""How late samples may arrive, in seconds; younger ones are fetched again the next time."""
_PART_SECONDS = (1, 10, 60, 600, 3600, 2 * 3600, 6 * 3600, *(86400 * 2**n for n in range(8)))
"""The length of a part in seconds: it begins at a multiple of it."""

Progress = Callable[[int, int], object]
"""Called with the number of available parts, and of all parts."""


@dataclass(frozen=True, slots=True)
class FetchedRange:
    """A fetched range, part by part in order; a failed part has its failure."""

    key: RangeKey
    parts: tuple[StoredPart | AnswerPart, ...]

    def matrices(self) -> Iterator[tuple[StoredPart | AnswerPart, Matrix | QueryFailure]]:
        """Yield each part with its data; one part at a time is in memory."""
        for part in self.parts:
            if isinstance(part, AnswerPart):
                yield part, part.answer
                continue
            try:
                yield part, read_part(self.key, part)
            except (OSError, ValueError) as error:
                yield part, QueryFailure(f"what was kept of its answers is lost: {error}")

    def answers(
        self, time: TimeGrid, selects: Callable[[Matrix], Matrix] = lambda matrix: matrix
    ) -> Answers:
        """Return the answers of a query over the time of a replay, from its begin."""
        return answers_from(self._chunks(time, selects), time.step)

    def _chunks(self, time: TimeGrid, selects: Callable[[Matrix], Matrix]) -> Iterator[AnswerChunk]:
        first = self.key.grid.first_from(time.begin)
        for part, matrix in self.matrices():
            begin, end = time.instant(part.begin - first), time.instant(part.end - first)
            if isinstance(matrix, QueryFailure):
                yield AnswerChunk(begin, end, matrix)
                continue
            series = [_recorded(samples, time, first) for samples in selects(matrix).series]
            yield AnswerChunk(begin, end, series, matrix.warnings)


def _recorded(series: MatrixSeries, time: TimeGrid, first: int) -> RecordedSeries:
    runs = ((begin - first, begin - first + count) for begin, count in series.runs)
    times = array("d", (time.instant(number) for run in runs for number in range(*run)))
    return RecordedSeries(series.labels, times, series.values)


@dataclass
class RangeFetcher:
    """Fetches what replays need; ``kept`` are the files of other runs, ``own`` of this one."""

    readers: Mapping[str, RangeReader]
    """By the name of the server."""
    identities: Mapping[str, str]
    """The `identity_of` each server."""
    kept: RangeFiles | None
    own: RangeFiles
    now: float

    def fetch(
        self, needs: Sequence[RangeNeed], progress: Progress
    ) -> dict[tuple[QueryKey, str], FetchedRange]:
        """Return all ranges, by query and name of the use. Raises OSError for its own files."""
        found: dict[RangeKey, list[StoredPart | AnswerPart]] = defaultdict(list)
        holes = [(need, *hole) for need in needs for hole in self._holes(need, found)]
        for number, hole in enumerate(holes):
            progress(number, len(holes))
            self._ask(*hole, found)
        progress(len(holes), len(holes))
        for parts in found.values():
            parts.sort(key=lambda part: part.begin)
        return {
            (need.query, use.name): FetchedRange(key, tuple(found[key]))
            for need in needs
            for use in need.uses
            for key in (self._key(need, use),)
        }

    def _key(self, need: RangeNeed, use: Use) -> RangeKey:
        server, promql = need.query
        return RangeKey(self.identities[server], promql, need.grid, use.made)

    def _holes(
        self, need: RangeNeed, found: dict[RangeKey, list[StoredPart | AnswerPart]]
    ) -> Iterator[tuple[int, int]]:
        """Note the stored parts of a need, and yield the parts to fetch."""
        keys = [self._key(need, use) for use in need.uses]
        for begin, end in parts_of(need.grid, need.begin, need.end):
            kept = [
                [] if self.kept is None else list(self.kept.covering(key, begin, end))
                for key in keys
            ]
            holes = [_holes(parts, begin, end) for parts in kept]
            if any(hole != holes[0] for hole in holes):
                # A part for one use is fetched again together with the others' uses.
                kept, holes = [], [[(begin, end)]]
            for key, parts in zip(keys, kept, strict=False):
                found[key] += parts
            yield from holes[0]

    def _ask(
        self,
        need: RangeNeed,
        begin: int,
        end: int,
        found: dict[RangeKey, list[StoredPart | AnswerPart]],
    ) -> None:
        reader, asked = self.readers[need.query.server], RangeRequest(need.grid, begin, end)
        settled = need.grid.first_from(self.now - LATE_SECONDS)
        for low, high, answer in reader.parts(need.query.promql, asked):
            for use in need.uses:
                key = self._key(need, use)
                if isinstance(answer, QueryFailure):
                    found[key].append(AnswerPart(low, high, answer))
                    continue
                # An incomplete part may be complete the next time.
                until = low if answer.warnings else min(max(low, settled), high)
                found[key] += self._stored(key, (low, until, high), use.make(answer))

    def _stored(
        self, key: RangeKey, at: tuple[int, int, int], matrix: Matrix
    ) -> Iterator[StoredPart]:
        """Store the part before the middle for other runs, and the rest for this one."""
        begin, middle, end = at
        for files, low, high in ((self.kept, begin, middle), (self.own, middle, end)):
            if low < high:
                yield (files or self.own).write(key, low, high, cut(matrix, low, high))


def parts_of(grid: Grid, begin: int, end: int) -> Iterator[tuple[int, int]]:
    """Yield a range in parts, which begin at the same instants for any range."""
    most = grid.step * MOST_POINTS / 1000
    seconds = max(
        (seconds_of_part for seconds_of_part in _PART_SECONDS if seconds_of_part <= most),
        default=_PART_SECONDS[0],
    )
    while begin < end:
        following = (grid.instant(begin) // seconds + 1) * seconds
        until = min(max(grid.first_from(following), begin + 1), end)
        yield begin, until
        begin = until


def _holes(parts: Sequence[StoredPart], begin: int, end: int) -> list[tuple[int, int]]:
    holes = []
    for part in parts:
        if begin < part.begin:
            holes.append((begin, part.begin))
        begin = part.end
    return [*holes, (begin, end)] if begin < end else holes
