"""What queries return over time: series of samples, as they were recorded or are written in a file.

Instants are Unix seconds, and never decrease from one call to the next: so what is long may be read
in parts, and what is past is let go.
"""

from bisect import bisect_right
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol

from autoscaler.core.series import QueryFailure, QueryResult, Series

LOOKBACK_SECONDS = 300.0
"""For so long Prometheus takes the last sample of a series for its value."""
_EMPTY = QueryResult(())


class Answers(Protocol):
    """The answers to one query."""

    def at(self, instant: float) -> QueryResult | QueryFailure:
        """Return the answer as of an instant."""


@dataclass(frozen=True, slots=True)
class RecordedSeries:
    """The samples of one series: instants in order, and as many values.

    A value of None is a stale marker: from then on the series is gone.
    """

    labels: Mapping[str, str]
    times: Sequence[float]
    values: Sequence[float | None]


@dataclass(frozen=True, slots=True)
class AnswerChunk:
    """The series of a query from ``begin`` up to ``end``, or why there are none."""

    begin: float
    end: float
    series: Sequence[RecordedSeries] | QueryFailure
    warnings: tuple[str, ...] = ()


@dataclass(slots=True)
class ChunkedAnswers:
    """Answers from chunks in order; before, between and after them there are no series.

    A sample is the value of its series for ``lookback`` seconds, evaluated at the instant that is
    asked for.  Samples of a range query hold until its next evaluation: there the lookback is the
    step.
    """

    chunks: Iterator[AnswerChunk] | Iterable[AnswerChunk]
    lookback: float = LOOKBACK_SECONDS
    _chunk: AnswerChunk | None = None
    _next: AnswerChunk | None = None
    _places: list[int] = field(default_factory=list)
    _iterator: Iterator[AnswerChunk] | None = None

    def at(self, instant: float) -> QueryResult | QueryFailure:
        """Fit `Answers`."""
        chunk = self._chunk_at(instant)
        if chunk is None:
            return _EMPTY
        if isinstance(chunk.series, QueryFailure):
            return chunk.series
        found = []
        for number, one in enumerate(chunk.series):
            times, place = one.times, self._places[number]
            if place < len(times) and times[place] <= instant:
                place += 1
                if place < len(times) and times[place] <= instant:
                    place = bisect_right(times, instant, place)
                self._places[number] = place
            if not place:
                continue
            value, time = one.values[place - 1], times[place - 1]
            if value is not None and instant - time < self.lookback:
                found.append(Series(one.labels, value, instant))
        return QueryResult(found, chunk.warnings)

    def _chunk_at(self, instant: float) -> AnswerChunk | None:
        if self._iterator is None:
            self._iterator = iter(self.chunks)
            self._next = next(self._iterator, None)
        while self._next is not None and self._next.begin <= instant:
            self._chunk, self._next = self._next, next(self._iterator, None)
            series = self._chunk.series
            self._places = [] if isinstance(series, QueryFailure) else [0] * len(series)
        chunk = self._chunk
        return chunk if chunk is not None and instant < chunk.end else None


@dataclass(frozen=True, slots=True)
class TimeGrid:
    """From ``begin`` up to ``end``, Unix seconds, in which a query is evaluated every ``step``.

    The evaluations are at ``begin`` and then after each step: where targets are synced.
    """

    begin: float
    end: float
    step: float

    @property
    def points(self) -> int:
        """How many evaluations there are."""
        return max(0, -int(-(self.end - self.begin) // self.step))

    def at(self, number: int) -> float:
        """Return the instant of an evaluation."""
        return self.begin + number * self.step
