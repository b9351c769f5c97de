"""Reads long ranges of one server in parts that it is able to answer, one after the other."""

import re
import threading
from collections.abc import Iterator
from dataclasses import replace
from typing import NamedTuple

from autoscaler import clock
from autoscaler.config.prometheus_connection import PrometheusSettings
from autoscaler.core.series import QueryFailure
from autoscaler.prometheus.ranges import AskedRange, Matrix
from autoscaler.prometheus.reader import PrometheusReader
from autoscaler.transport.retries import FOR_A_COMMAND, FailureKind, RequestFailure

MOST_POINTS = 10_000
"""Of one series in one answer: Prometheus gives 11,000."""
REQUESTS_A_SECOND = 20
"""The most, and never two at once."""
FEWEST_POINTS = 16
"""Of a piece of a part that was too large or too slow."""
_PART_SECONDS = 120.0
"""How long a part may take with all that is tried again, and with what Retry-After asks for."""
_MOST_TRIES = 5
_MOST_FAILURES = 3
"""After so many parts in a row nothing more is asked of a server."""
# Prometheus, Thanos, Mimir and VictoriaMetrics each have their words for limits of points, samples,
# series, bytes and of the length of a range.
_OVER_A_LIMIT = re.compile(r"exceed|\blimit\b|too many|too large|too long", re.IGNORECASE)


class AnsweredPart(NamedTuple):
    """The answer for the instants of a grid from the number ``begin`` up to ``end``."""

    begin: int
    end: int
    answer: Matrix | QueryFailure


def reader_for_ranges(settings: PrometheusSettings, name: str) -> PrometheusReader:
    """Return a reader for a command that somebody waits for."""
    return PrometheusReader(
        settings,
        threading.Event(),
        name=name,
        absent_seconds=FOR_A_COMMAND,
        most_tries=_MOST_TRIES,
    )


class RangeReader:
    """Asks one server, by one request at a time."""

    def __init__(self, reader: PrometheusReader) -> None:
        self._reader = reader
        self._next = 0.0
        self._failures = 0
        self._given_up: QueryFailure | None = None

    def parts(self, promql: str, asked: AskedRange) -> Iterator[AnsweredPart]:
        """Yield the answers for a range in order, which together are all of it.

        Where an answer is too large or too slow, or a limit of the server refuses it, parts of it
        are asked.  After a failure that other parts would have, too, the rest is not asked.
        """
        waiting = [asked]
        while waiting:
            part = waiting.pop()
            if part.end - part.begin > MOST_POINTS:
                waiting += _pieces(part, 2)
                continue
            outcome = self._given_up or self._ask(promql, part)
            if not isinstance(outcome, RequestFailure):
                yield AnsweredPart(part.begin, part.end, outcome)
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
                yield AnsweredPart(part.begin, asked.end, failure)
                return
            yield AnsweredPart(part.begin, part.end, failure)

    def _ask(self, promql: str, part: AskedRange) -> Matrix | RequestFailure:
        self._wait()
        outcome = self._reader.query_range(promql, part, clock.monotonic() + _PART_SECONDS)
        if isinstance(outcome, Matrix):
            self._failures = 0
        return outcome

    def _failure(self, outcome: RequestFailure) -> QueryFailure:
        """Return the failure of a part; nothing more is asked of a server that does not answer."""
        refused = outcome.kind is FailureKind.WRONG_QUERY
        if not refused and outcome.kind is not FailureKind.TOO_LARGE:
            self._failures += 1
        failure = QueryFailure(outcome.message, refused=refused)
        if self._failures >= _MOST_FAILURES or outcome.kind is FailureKind.SLOW:
            told = f"{failure.message}; nothing more was asked of it then"
            self._given_up = replace(failure, message=told)
        return failure

    def _wait(self) -> None:
        """Keep to the rate."""
        now = clock.monotonic()
        if self._next > now:
            threading.Event().wait(self._next - now)
        self._next = max(now, self._next) + 1 / REQUESTS_A_SECOND


def _pieces(part: AskedRange, count: int) -> list[AskedRange]:
    """Return so many pieces of a part, the last one first."""
    size = -(-(part.end - part.begin) // count)
    begins = range(part.begin, part.end, size)
    pieces = [replace(part, begin=one, end=min(one + size, part.end)) for one in begins]
    return pieces[::-1]


def _pieces_to_try(failure: RequestFailure) -> int:
    """Return in how many pieces what has failed may pass; 0 if no smaller part would."""
    if failure.kind is FailureKind.SLOW:
        return 8
    of_query = failure.kind in {FailureKind.WRONG_QUERY, FailureKind.OTHER}
    over_a_limit = of_query and not failure.transient and _OVER_A_LIMIT.search(failure.message)
    return 2 if over_a_limit or failure.kind is FailureKind.TOO_LARGE else 0
