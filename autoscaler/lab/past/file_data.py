"""Samples in files as the data of a replay: each file belongs to one query or metric.

A file has the columns `t,value` and optionally `replicas`, with a row for each instant. A time is
Unix seconds or RFC 3339. A sample holds until the next one, but no longer than one and a half of
the usual steps: beyond that is a gap. Nothing is interpolated.
"""

import csv
import gzip
import io
import math
import zlib
from array import array
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from statistics import median_low
from typing import BinaryIO, cast

from typing_extensions import override

from autoscaler.core.series import QueryFailure, QueryResult, Series
from autoscaler.core.target import QueryKey, Target
from autoscaler.core.text import instant_of, printable
from autoscaler.file_contents import opened
from autoscaler.lab.engine.answers import (
    Answer,
    AnswerChunk,
    Answers,
    RecordedSeries,
    answers_from,
    constant,
)
from autoscaler.lab.engine.assumptions import Assumptions
from autoscaler.lab.engine.building import BuildError, ReplayData, stated_replicas
from autoscaler.lab.engine.loads import Totals, labels_of, totals_of_answers
from autoscaler.lab.engine.workloads import MOST_PODS

_MOST_ROWS = 20_000_000
_MOST_MISTAKES = 20
_MOST_BLANK = 1_000
_LONGEST_LINE = 4096
_LONGEST_SHOWN = 40
_HOLDS_STEPS = 1.5
_TIMES = ("t", "time", "timestamp")
_REPLICAS = "replicas"


class SamplesError(Exception):
    """A file is refused; each line of the text is a sentence about one error."""


@dataclass(frozen=True, slots=True)
class Samples:
    """The columns of a file; ``replicas`` is empty without such a column."""

    times: "array[float]"
    values: "array[float]"
    replicas: "array[float]"

    @property
    def step(self) -> float:
        """The usual seconds between two rows."""
        first = self.times[:10_001]
        steps = [after - before for before, after in pairwise(first)]
        return median_low(steps) if steps else 60.0

    def answers(self) -> Answers:
        """Return the values as answers with one series."""
        return self._answers(self.values)

    def counts(self) -> Answers | None:
        """Return the replicas as answers with one series; None without replicas in the file."""
        return self._answers(self.replicas) if self.replicas else None

    def _answers(self, values: "array[float]") -> Answers:
        series = RecordedSeries({}, self.times, values)
        chunk = AnswerChunk(self.times[0], math.inf, [series])
        return answers_from([chunk], _HOLDS_STEPS * self.step)


def read_samples(path: Path) -> Samples:
    """Read a file, plain or gzipped. Raises SamplesError with up to 20 errors."""
    try:
        with opened(path) as file, _text(path, file) as text:
            return _samples(path, _lines(path, text))
    except UnicodeDecodeError:
        raise SamplesError(f"{path}: the file is not UTF-8; save it as UTF-8") from None
    except (EOFError, gzip.BadGzipFile, zlib.error):
        raise SamplesError(f"{path}: the gzip file is truncated or corrupt") from None
    except csv.Error as error:
        raise SamplesError(f"{path}: invalid CSV: {error}") from None
    except OSError as error:
        raise SamplesError(f"{path} cannot be read: {error.strerror or error}") from None


def _text(path: Path, file: BinaryIO) -> io.TextIOWrapper:
    unpacked = cast("BinaryIO", gzip.GzipFile(fileobj=file)) if path.suffix == ".gz" else file
    return io.TextIOWrapper(unpacked, "utf-8-sig", newline="")


def _lines(path: Path, text: io.TextIOWrapper) -> Iterator[str]:
    """Yield lines; at most one is in memory at a time."""
    number = 1
    while line := text.readline(_LONGEST_LINE):
        if len(line) == _LONGEST_LINE:
            raise SamplesError(f"{path}:{number}: the line is longer than {_LONGEST_LINE} bytes")
        yield line
        number += 1


def _samples(path: Path, lines: Iterator[str]) -> Samples:
    rows = csv.reader(lines)
    columns = _columns(path, next(rows, []))
    found = Samples(array("d"), array("d"), array("d"))
    mistakes, blank = [], 0
    for row in rows:
        blank += not row
        if blank > len(found.times) + _MOST_BLANK:
            mistakes.append(f"{path}:{rows.line_num}: more lines are blank than have samples")
            break
        mistake = _take(row, columns, found)
        if mistake:
            mistakes.append(f"{path}:{rows.line_num}: {mistake}")
        if len(mistakes) >= _MOST_MISTAKES:
            mistakes.append(f"{path}: it is not read further: mend these first")
            break
        if len(found.times) > _MOST_ROWS:
            mistakes.append(f"{path}: it has more than {_MOST_ROWS:,} rows: give it in parts")
            break
    if not found.times and not mistakes:
        mistakes.append(f"{path}: it has no rows below the names of the columns")
    if mistakes:
        raise SamplesError("\n".join(mistakes))
    return found


def _columns(path: Path, names: list[str]) -> int:
    """Return the number of columns. Raises SamplesError for other headings."""
    header = [name.strip().lower() for name in names]
    if len(header) < 2 or header[0] not in _TIMES or header[1] in _TIMES:
        form = f"the first line names the columns: t,value or t,value,{_REPLICAS}"
        raise SamplesError(f"{path}:1: {form} (got {_excerpt(','.join(header))})")
    if header[2:] not in ([], [_REPLICAS]):
        got = _excerpt(",".join(header[2:]))
        raise SamplesError(f"{path}:1: a third column can only be {_REPLICAS} (got {got})")
    return len(header)


def _take(row: list[str], columns: int, found: Samples) -> str:
    """Add a row; return what is wrong with it, empty if it is valid."""
    if not row:
        return ""
    if len(row) != columns:
        return f"it has {len(row)} columns, and the first line names {columns}"
    time, numbers = _time(row[0]), [_number(text) for text in row[1:]]
    mistake = _mistake(row, time, numbers, found)
    if time is not None and not mistake:
        found.times.append(time)
        for column, number in zip((found.values, found.replicas), numbers, strict=False):
            column.append(number or 0.0)
    return mistake


def _mistake(
    row: list[str], time: float | None, numbers: list[float | None], found: Samples
) -> str:
    """Return the error of a row with the right number of columns; empty if it is valid."""
    if time is None:
        return f"{_excerpt(row[0])} is not a valid time: use Unix seconds or 2026-01-31T03:12:00Z"
    if found.times and time <= found.times[-1]:
        twice = time == found.times[-1]
        what = "is there twice" if twice else "is before the time of the row above"
        return (
            f"the time {_excerpt(row[0])} {what}: rows are in the order of time, each instant once"
        )
    for text, number in zip(row[1:], numbers, strict=True):
        if number is None:
            return f"{_excerpt(text)} is not a number; leave out rows without a value"
    if len(numbers) > 1 and not _is_count(numbers[1]):
        return f"{_excerpt(row[2])} is not a number of replicas from 0 to {MOST_PODS:,}"
    return ""


def _time(text: str) -> float | None:
    number = _number(text)
    return instant_of(text.strip()) if number is None else number


def _number(text: str) -> float | None:
    try:
        number = float(text)
    except ValueError:
        return None
    return number if math.isfinite(number) else None


def _excerpt(text: str) -> str:
    return repr(printable(text, _LONGEST_SHOWN))


def _is_count(number: float | None) -> bool:
    return number is not None and 0 <= number <= MOST_PODS and number == int(number)


# -- the data ------------------------------------------------------------------------------------


class FileData(ReplayData):
    """Samples by the name of a query or metric, or by PromQL.

    Files with an empty name belong to every query. ``names`` are the names of PromQL.
    """

    def __init__(
        self, files: Mapping[str, Samples], names: Mapping[str, str], assumptions: Assumptions
    ) -> None:
        self._files = files
        self._names = names
        self._assumptions = assumptions

    @override
    def answers(self, query: QueryKey) -> Answers:
        # A queue's arrivals have the name of its metric.
        return self._samples(query.promql, "").answers()

    @override
    def reading(self, target: Target, number: int) -> Answers:
        """Return the values with the labels that the metric selects."""
        metric, query = target.spec.metrics[number], target.queries[number]
        samples = self._samples(query.promql, metric.name)
        return _labelled(samples.answers(), labels_of(metric, query, target.namespace))

    @override
    def totals(self, target: Target, number: int) -> Totals:
        """Return averages: each value is the average over the pods at that time.

        If the file does not have the count, it is the assumed one.
        """
        metric, query = target.spec.metrics[number], target.queries[number]
        name = metric.name
        samples = self._samples(query.promql, name)
        counts: Answers | None = samples.counts()
        if counts is None:
            stated = stated_replicas(self._assumptions, target)
            if stated is None:
                raise BuildError(
                    f"of how many pods the samples of {name} are the average is not known: give "
                    "their file a third column, replicas, or state replicas with --assume"
                )
            counts = constant(float(stated))
        return totals_of_answers(samples.answers(), counts)

    @override
    def ran(self, target: Target) -> Answers | None:
        """Return the replicas of the first file with such a column."""
        counted = (samples.counts() for samples in self._of_metrics(target))
        return next((counts for counts in counted if counts is not None), None)

    @override
    def replicas(self, target: Target) -> int | None:
        """Return the replicas of the first row."""
        counts = (samples.replicas for samples in self._of_metrics(target))
        return next((int(column[0]) for column in counts if column), None)

    def span(self) -> tuple[float, float]:
        """Return the first instant of all files, and the end of the last sample."""
        every = self._files.values()
        last = max(file.times[-1] + file.step for file in every)
        return min(file.times[0] for file in every), last

    def _of_metrics(self, target: Target) -> Iterator[Samples]:
        for metric, query in zip(target.spec.metrics, target.queries, strict=True):
            samples = self._samples_for(query.promql, metric.name)
            if samples is not None:
                yield samples

    def _samples_for(self, promql: str, metric: str) -> Samples | None:
        for name in (self._names.get(promql, promql), metric, promql, ""):
            if name in self._files:
                return self._files[name]
        return None

    def _samples(self, promql: str, metric: str) -> Samples:
        found = self._samples_for(promql, metric)
        if found is not None:
            return found
        known = self._names.get(promql) or metric or promql
        raise BuildError(
            f"there are no samples of {known}: name their file with --csv {known}=FILE"
        )


def _labelled(answers: Answers, labels: Mapping[str, str]) -> Answers:
    """Return the single series of some answers with these labels."""

    def answer(instant: float) -> Answer:
        found = answers(instant)
        if isinstance(found, QueryFailure) or not labels:
            return found
        series = [Series(labels, sample.value, sample.timestamp) for sample in found.series]
        return QueryResult(series, found.warnings)

    return answer
