"""The result of a range query: series over the instants of a grid.

Format: https://prometheus.io/docs/prometheus/latest/querying/api/#range-queries
"""

from array import array
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from autoscaler.core.text import rfc3339_milli
from autoscaler.prometheus.answers import (
    LONGEST_TYPE,
    TEXT,
    QueryError,
    checked_labels,
    histograms,
    misshapen,
    result_of,
    warnings_of,
)
from autoscaler.transport.redaction import Redactor


@dataclass(frozen=True, slots=True)
class Grid:
    """Instants ``phase`` + n * ``step``, in milliseconds, Prometheus' unit."""

    step: int
    phase: int

    def instant(self, number: int) -> float:
        """Return the Unix time of an instant, in seconds."""
        return (self.phase + number * self.step) / 1000

    def first_from(self, seconds: float) -> int:
        """Return the number of the first instant that is not before a Unix time."""
        return -((self.phase - round(seconds * 1000)) // self.step)


@dataclass(frozen=True, slots=True)
class RangeRequest:
    """The instants of a grid from the number ``begin`` to ``end``, of one request."""

    grid: Grid
    begin: int
    end: int

    @property
    def parameters(self) -> Mapping[str, str]:
        """The parameters of the server's API."""
        return {
            "start": f"{self.grid.instant(self.begin):.3f}",
            "end": f"{self.grid.instant(self.end - 1):.3f}",
            "step": f"{self.grid.step / 1000:.3f}",
            # VictoriaMetrics would move the instants, for its cache.
            "nocache": "1",
        }


@dataclass(frozen=True, slots=True)
class MatrixSeries:
    """One series: a value at each instant of its ``runs``, which are pairs of number and length.

    The numbers are indexes of the grid, in order; between the runs the series did not exist.
    """

    labels: Mapping[str, str]
    runs: Sequence[tuple[int, int]]
    values: "array[float]"


@dataclass(frozen=True)
class Matrix:
    """The answer to a range query, and why it is incomplete."""

    series: Sequence[MatrixSeries]
    warnings: tuple[str, ...] = ()


def matrix_of(
    subject: str, document: dict[str, object], redactor: Redactor, asked: RangeRequest
) -> Matrix:
    """Convert a complete answer; raises QueryError if it is not a matrix of floats of the range."""
    kind, result = result_of(subject, document)
    if kind != "matrix":
        what = redactor.line(kind, LONGEST_TYPE) if isinstance(kind, str) else "an unknown type"
        raise misshapen(subject, f"the result of a range query is not a matrix but {what}")
    if not isinstance(result, list):
        raise misshapen(subject, "the result is not a list")
    try:
        series = [_series_of(subject, element, asked) for element in result]
    except (TypeError, ValueError, KeyError, AttributeError, OverflowError):
        raise misshapen(subject, "the result is not a matrix of floats") from None
    return Matrix(series, warnings_of(subject, document, redactor))


def _series_of(subject: str, element: Any, asked: RangeRequest) -> MatrixSeries:
    if element.get("histograms"):
        raise histograms()
    times = [pair[0] for pair in element["values"]]
    texts = [value for _, value in element["values"]]
    if not TEXT.issuperset(map(type, texts)):
        raise TypeError
    runs = _runs_of(subject, [round(time * 1000) for time in times], asked)
    return MatrixSeries(checked_labels(element["metric"]), runs, array("d", map(float, texts)))


def _runs_of(subject: str, times: list[int], asked: RangeRequest) -> list[tuple[int, int]]:
    """Return the runs of instants, which are in milliseconds; raises QueryError for others."""
    grid, numbers = asked.grid, list[int]()
    for time in times:
        number, rest = divmod(time - grid.phase, grid.step)
        if rest or not asked.begin <= number < asked.end:
            raise _wrong_time(subject, time, "which was not asked for")
        if numbers and numbers[-1] >= number:
            twice = numbers[-1] == number
            raise _wrong_time(subject, time, "twice" if twice else "after a later one")
        numbers.append(number)
    return runs_of(numbers)


def runs_of(instants: list[int]) -> list[tuple[int, int]]:
    """Return ordered numbers as runs: pairs of the first number and the length."""
    runs: list[tuple[int, int]] = []
    for instant in instants:
        if runs and sum(runs[-1]) == instant:
            runs[-1] = (runs[-1][0], runs[-1][1] + 1)
        else:
            runs.append((instant, 1))
    return runs


def _wrong_time(subject: str, time: int, what: str) -> QueryError:
    at = rfc3339_milli(time / 1000)
    return QueryError(f"{subject} sent a range with a sample at {at} {what}: it is not used")


def cut(matrix: Matrix, begin: int, end: int) -> Matrix:
    """Return the part of a matrix from the number ``begin`` to ``end``."""
    series = [cut_series(samples, begin, end) for samples in matrix.series]
    return replace(matrix, series=[samples for samples in series if samples.runs])


def cut_series(series: MatrixSeries, begin: int, end: int) -> MatrixSeries:
    """Return the part of a series from the number ``begin`` to ``end``."""
    if series.runs and begin <= series.runs[0][0] and sum(series.runs[-1]) <= end:
        return series
    runs, values, at = [], array("d"), 0
    for first, count in series.runs:
        low, high = max(first, begin), min(first + count, end)
        if low < high:
            runs.append((low, high - low))
            values += series.values[at + low - first : at + high - first]
        at += count
    return MatrixSeries(series.labels, runs, values)
