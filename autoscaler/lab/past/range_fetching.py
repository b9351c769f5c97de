"""Fetches ranges, part by part: from files where they were asked before, else from the servers."""

from array import array
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from autoscaler.core.series import QueryFailure
from autoscaler.core.target import QueryKey
from autoscaler.lab.engine.answers import (
    AnswerChunk,
    Answers,
    RecordedSeries,
    TimeGrid,
    answers_from,
)
from autoscaler.lab.past.range_files import (
    RangeFiles,
    RangeKey,
    StoredPart,
    cut,
    read_part,
)
from autoscaler.lab.past.range_needs import RangeNeed, Use
from autoscaler.lab.past.range_reader import MOST_POINTS, RangeReader
from autoscaler.prometheus.ranges import AskedRange, Grid, Matrix, MatrixSeries

LATE_SECONDS = 600.0
"""Samples may come so late: what is younger is asked again the next time."""
_PART_SECONDS = (1, 10, 60, 600, 3600, 2 * 3600, 6 * 3600, *(86400 * 2**n for n in range(8)))
"""How long a part may be: it begins at a multiple of that."""

Progress = Callable[[int, int], object]
"""Is called with how many parts are at hand, and how many there are."""


class FailedPart(NamedTuple):
    """Instants of a grid from the number ``begin`` up to ``end``, and why they were not read."""

    begin: int
    end: int
    failure: QueryFailure


@dataclass(frozen=True, slots=True)
class FetchedRange:
    """A range that is at hand, part by part in order."""

    key: RangeKey
    parts: tuple[StoredPart | FailedPart, ...]

    def matrices(self) -> Iterator[tuple[StoredPart | FailedPart, Matrix | QueryFailure]]:
        """Yield each part with what it has; one part at a time is in memory."""
        for part in self.parts:
            if isinstance(part, FailedPart):
                yield part, part.failure
                continue
            try:
                yield part, read_part(self.key, part)
            except (OSError, ValueError) as error:
                yield part, QueryFailure(f"what was kept of its answers is lost: {error}")

    def answers(
        self, time: TimeGrid, selects: Callable[[Matrix], Matrix] = lambda matrix: matrix
    ) -> Answers:
        """Return the answers of a query over the time of a rehearsal, from its begin."""
        return answers_from(self._chunks(time, selects), time.step)

    def _chunks(self, time: TimeGrid, selects: Callable[[Matrix], Matrix]) -> Iterator[AnswerChunk]:
        first = self.key.grid.first_from(time.begin)
        for part, matrix in self.matrices():
            begin, end = time.at(part.begin - first), time.at(part.end - first)
            if isinstance(matrix, QueryFailure):
                yield AnswerChunk(begin, end, matrix)
                continue
            series = [_recorded(one, time, first) for one in selects(matrix).series]
            yield AnswerChunk(begin, end, series, matrix.warnings)


def _recorded(series: MatrixSeries, time: TimeGrid, first: int) -> RecordedSeries:
    runs = ((begin - first, begin - first + count) for begin, count in series.runs)
    times = array("d", (time.at(number) for run in runs for number in range(*run)))
    return RecordedSeries(series.labels, times, series.values)


@dataclass
class RangeFetcher:
    """Fetches what rehearsals need; ``kept`` are the files of other runs, ``own`` of this one."""

    readers: Mapping[str, RangeReader]
    """By the name of the server."""
    identities: Mapping[str, str]
    """What `identity_of` says of each server."""
    kept: RangeFiles | None
    own: RangeFiles
    now: float

    def fetch(
        self, needs: Sequence[RangeNeed], progress: Progress
    ) -> dict[tuple[QueryKey, str], FetchedRange]:
        """Return all ranges, by query and name of the use.  Raises OSError for its own files."""
        found: dict[RangeKey, list[StoredPart | FailedPart]] = defaultdict(list)
        holes = [(need, *hole) for need in needs for hole in self._holes(need, found)]
        for number, hole in enumerate(holes):
            progress(number, len(holes))
            self._ask(*hole, found)
        progress(len(holes), len(holes))
        return {
            (need.query, use.name): FetchedRange(key, tuple(sorted(found[key], key=_begin)))
            for need in needs
            for use in need.uses
            for key in (self._key(need, use),)
        }

    def _key(self, need: RangeNeed, use: Use) -> RangeKey:
        server, promql = need.query
        return RangeKey(self.identities[server], promql, need.grid, use.made)

    def _holes(
        self, need: RangeNeed, found: dict[RangeKey, list[StoredPart | FailedPart]]
    ) -> Iterator[tuple[int, int]]:
        """Note what is kept of a need, and yield what is to be asked."""
        keys = [self._key(need, use) for use in need.uses]
        for begin, end in parts_of(need.grid, need.begin, need.end):
            kept = [self._kept(key, begin, end) for key in keys]
            holes = [_holes(parts, begin, end) for parts in kept]
            if any(one != holes[0] for one in holes):
                # What was asked for one use is asked again with that for the others.
                kept, holes = [], [[(begin, end)]]
            for key, parts in zip(keys, kept, strict=False):
                found[key] += parts
            yield from holes[0]

    def _kept(self, key: RangeKey, begin: int, end: int) -> list[StoredPart]:
        return [] if self.kept is None else list(self.kept.covering(key, begin, end))

    def _ask(
        self,
        need: RangeNeed,
        begin: int,
        end: int,
        found: dict[RangeKey, list[StoredPart | FailedPart]],
    ) -> None:
        reader, asked = self.readers[need.query.server], AskedRange(need.grid, begin, end)
        settled = need.grid.first_from(self.now - LATE_SECONDS)
        for low, high, answer in reader.parts(need.query.promql, asked):
            for use in need.uses:
                key = self._key(need, use)
                if isinstance(answer, QueryFailure):
                    found[key].append(FailedPart(low, high, answer))
                    continue
                # What is incomplete may be whole the next time.
                until = low if answer.warnings else min(max(low, settled), high)
                found[key] += self._stored(key, (low, until, high), use.make(answer))

    def _stored(
        self, key: RangeKey, at: tuple[int, int, int], matrix: Matrix
    ) -> Iterator[StoredPart]:
        """Keep what is before the middle for other runs, and the rest for this one."""
        begin, middle, end = at
        for files, low, high in ((self.kept, begin, middle), (self.own, middle, end)):
            if low < high:
                yield (files or self.own).write(key, low, high, cut(matrix, low, high))


def parts_of(grid: Grid, begin: int, end: int) -> Iterator[tuple[int, int]]:
    """Yield a range in parts, which begin at the same instants whatever range is asked."""
    most = grid.step * MOST_POINTS / 1000
    seconds = max((one for one in _PART_SECONDS if one <= most), default=_PART_SECONDS[0])
    while begin < end:
        following = (grid.at(begin) // seconds + 1) * seconds
        until = min(max(grid.first_from(following), begin + 1), end)
        yield begin, until
        begin = until


def _holes(parts: Sequence[StoredPart], begin: int, end: int) -> list[tuple[int, int]]:
    holes = []
    for one in parts:
        if begin < one.begin:
            holes.append((begin, one.begin))
        begin = one.end
    return [*holes, (begin, end)] if begin < end else holes


def _begin(part: StoredPart | FailedPart) -> int:
    return part.begin
