"""The answers of queries over time: series of samples, recorded or written in a file.

Instants are Unix seconds, and never decrease from one call to the next: so long data can be read in
parts, and past data can be freed.
"""

import math
from bisect import bisect_right
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import NamedTuple, TypeAlias

from autoscaler.core.series import QueryFailure, QueryResult, Series

LOOKBACK_SECONDS = 300.0
"""The lookback of Prometheus, in seconds: how long the last sample of a series is its value."""
EMPTY = QueryResult(())

Answer: TypeAlias = QueryResult | QueryFailure
Answers: TypeAlias = Callable[[float], Answer]
"""Returns the answer to a query as of an instant."""


class RecordedSeries(NamedTuple):
    """The samples of one series: instants in order, and as many values.

    A value of None is a stale marker: the series ends there.
    """

    labels: Mapping[str, str]
    times: Sequence[float]
    values: Sequence[float | None]


class AnswerChunk(NamedTuple):
    """The series of a query from ``begin`` to ``end``, or the reason without them."""

    begin: float
    end: float
    series: Sequence[RecordedSeries] | QueryFailure
    warnings: tuple[str, ...] = ()


def answers_from(chunks: Iterable[AnswerChunk], lookback: float = LOOKBACK_SECONDS) -> Answers:
    """Return answers from chunks in order; before, between and after them there are no series.

    A sample is the value of its series for ``lookback`` seconds, at the requested instant. Samples
    of a range query hold until its next evaluation: there the lookback is the step.
    """
    rest = iter(chunks)
    chunk = AnswerChunk(-math.inf, -math.inf, ())
    following: AnswerChunk | None = chunk
    places: list[int] = []

    def answer(instant: float) -> Answer:
        nonlocal chunk, following, places
        while following is not None and following.begin <= instant:
            chunk, following = following, next(rest, None)
            places = [] if isinstance(chunk.series, QueryFailure) else [0] * len(chunk.series)
        if instant >= chunk.end:
            return EMPTY
        if isinstance(chunk.series, QueryFailure):
            return chunk.series
        found = []
        for number, (labels, times, values) in enumerate(chunk.series):
            place = places[number]
            if place < len(times) and times[place] <= instant:
                place += 1
                if place < len(times) and times[place] <= instant:
                    place = bisect_right(times, instant, place)
                places[number] = place
            if not place:
                continue
            value = values[place - 1]
            if value is not None and instant - times[place - 1] < lookback:
                found.append(Series(labels, value, instant))
        return QueryResult(found, chunk.warnings)

    return answer


def constant(number: float) -> Answers:
    """Return answers with one series of a constant value."""
    return lambda instant: QueryResult([Series({}, number, instant)])


class Fault(NamedTuple):
    """A time in which a query fails, or its answer has a warning."""

    begin: float
    end: float
    failure: str = ""
    warning: str = ""


def with_faults(answer: Answer, faults: Iterable[Fault], instant: float) -> Answer:
    """Return an answer with the faults of an instant."""
    for begin, end, failure, warning in faults:
        if begin <= instant < end:
            if failure:
                answer = QueryFailure(failure)
            elif isinstance(answer, QueryResult):
                answer = QueryResult(answer.series, (*answer.warnings, warning))
    return answer
