"""Samples in a file: `t,value` and perhaps `replicas`, a row for each instant.

A time is Unix seconds or RFC 3339.  A sample holds until the next one, but no longer than one and a
half of the usual steps: beyond that is a gap.  Nothing is interpolated.
"""

import csv
import gzip
import io
import math
import zlib
from array import array
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from statistics import median_low
from typing import BinaryIO, cast

from autoscaler.core.text import instant_of, printable
from autoscaler.file_contents import opened
from autoscaler.lab.engine.answers import AnswerChunk, Answers, RecordedSeries, answers_from
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
    """A file cannot be taken; each line of the text is a sentence about one mistake."""


@dataclass(frozen=True, slots=True)
class Samples:
    """The columns of a file; ``replicas`` is empty where there is none."""

    times: "array[float]"
    values: "array[float]"
    replicas: "array[float]"

    @property
    def step(self) -> float:
        """The usual seconds from one row to the next."""
        first = self.times[:10_001]
        steps = [after - before for before, after in pairwise(first)]
        return median_low(steps) if steps else 60.0

    def answers(self) -> Answers:
        """Return the values as answers of one series."""
        return self._answers(self.values)

    def counts(self) -> Answers | None:
        """Return the replicas as answers of one series; None where the file has none."""
        return self._answers(self.replicas) if self.replicas else None

    def _answers(self, values: "array[float]") -> Answers:
        series = RecordedSeries({}, self.times, values)
        chunk = AnswerChunk(self.times[0], math.inf, [series])
        return answers_from([chunk], _HOLDS_STEPS * self.step)


def read_samples(path: Path) -> Samples:
    """Read a file, also one that gzip has made.  Raises SamplesError with every mistake, or 20."""
    try:
        with opened(path) as file, _text(path, file) as text:
            return _samples(path, _lines(path, text))
    except UnicodeDecodeError:
        raise SamplesError(f"{path}: the file is not UTF-8; save it as UTF-8") from None
    except (EOFError, gzip.BadGzipFile, zlib.error):
        raise SamplesError(f"{path}: it is no whole gzip file") from None
    except csv.Error as error:
        raise SamplesError(f"{path}: it is no CSV: {error}") from None
    except OSError as error:
        raise SamplesError(f"{path} cannot be read: {error.strerror or error}") from None


def _text(path: Path, file: BinaryIO) -> io.TextIOWrapper:
    unpacked = cast("BinaryIO", gzip.GzipFile(fileobj=file)) if path.suffix == ".gz" else file
    return io.TextIOWrapper(unpacked, "utf-8-sig", newline="")


def _lines(path: Path, text: io.TextIOWrapper) -> Iterator[str]:
    """Yield lines, of which no more than one is in memory at a time."""
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
    """Return how many columns there are.  Raises SamplesError if they are not named so."""
    header = [name.strip().lower() for name in names]
    if len(header) < 2 or header[0] not in _TIMES or header[1] in _TIMES:
        shown = printable(",".join(header), _LONGEST_SHOWN)
        raise SamplesError(
            f"{path}:1: the first line names the columns: t,value or t,value,{_REPLICAS} "
            f"(got {shown!r})"
        )
    if header[2:] not in ([], [_REPLICAS]):
        shown = printable(",".join(header[2:]), _LONGEST_SHOWN)
        raise SamplesError(f"{path}:1: a third column can only be {_REPLICAS} (got {shown!r})")
    return len(header)


def _take(row: list[str], columns: int, found: Samples) -> str:
    """Add a row; return what is wrong with it, empty if nothing is."""
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
    """Return what is wrong with a row of so many columns as there are; empty if nothing is."""
    if time is None:
        return f"{_shown(row[0])} is no time: write Unix seconds or 2026-01-31T03:12:00Z"
    if found.times and time <= found.times[-1]:
        twice = time == found.times[-1]
        what = "stands there twice" if twice else "is before that of the row above"
        return f"the time {_shown(row[0])} {what}: rows are in the order of time, each instant once"
    for text, number in zip(row[1:], numbers, strict=True):
        if number is None:
            return f"{_shown(text)} is no number; leave out a row of which the value is not known"
    if len(numbers) > 1 and not _is_count(numbers[1]):
        return f"{_shown(row[2])} is no count of replicas from 0 to {MOST_PODS:,}"
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


def _shown(text: str) -> str:
    return repr(printable(text, _LONGEST_SHOWN))


def _is_count(number: float | None) -> bool:
    return number is not None and 0 <= number <= MOST_PODS and number == int(number)
