"""The lines of a chart: rows of values from an instant on, and the rows of each metric."""

import math
from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Sequence
from typing import Generic, NamedTuple, TypeVar

from autoscaler.core.spec import MetricSpec
from autoscaler.core.sync_result import Rules
from autoscaler.persistence.record.rows import Lapse, Numbers, Sample
from autoscaler.rendering import wording
from autoscaler.rendering.chart.model import MetricLines

_COUNTS = (0, 1)
"""The positions of the current and the desired count in the numbers."""
_MOST_OF_BUCKET = 8
"""The rows shown of a bucket: the last, two extremes of two counts, a gap and the row after it."""

MILLISECOND = 0.001
"""Samples are rounded to a millisecond; a change this much later is of the same sync."""


_V = TypeVar("_V")


class Timeline(Generic[_V]):
    """Values and the instants at which they came into force, in order."""

    def __init__(self, values: Sequence[tuple[float, _V]]) -> None:
        self.times = [time - MILLISECOND for time, _ in values]
        self.values = [item for _, item in values]

    def value_at(self, time: float) -> _V | None:
        """Return the value in force at an instant; None if unknown."""
        index = bisect_right(self.times, time)
        return self.values[index - 1] if index else None

    def until(self, time: float) -> float:
        """Return when that value is replaced; infinity if never."""
        index = bisect_right(self.times, time)
        return self.times[index] if index < len(self.times) else math.inf


RulesOverTime = Timeline[Rules | None]
"""None is an unknown number."""


class ChartRow(NamedTuple):
    """The numbers from an instant on, and their extremes until the next row; None in a gap."""

    time: float
    numbers: Numbers = ()
    low: Numbers = ()
    high: Numbers = ()


def rows_of(
    samples: Iterable[Sample], lapses: Sequence[Lapse], begin: float, end: float
) -> list[ChartRow]:
    """Return the rows of a period; the last is at its end, an earlier row applies at its begin."""
    rows: list[ChartRow] = []
    gaps = [lapse for lapse in lapses if lapse.begin < end]
    for sample in samples:
        if sample.time > end:
            break
        while gaps and gaps[0].begin < sample.time:
            _append(rows, ChartRow(gaps.pop(0).begin), begin)
        numbers = sample.numbers
        low, high = sample.low or numbers, sample.high or numbers
        _append(rows, ChartRow(sample.time, numbers, low, high), begin)
    for gap in gaps:
        _append(rows, ChartRow(gap.begin), begin)
    if rows and rows[-1].numbers and rows[-1].time < end:
        rows.append(_extended(rows[-1], end))
    return rows


def _append(rows: list[ChartRow], row: ChartRow, begin: float) -> None:
    """Append a row at its time, or just after the previous row; at the begin the last one wins."""
    time = row.time
    if time > begin and (not rows or time > rows[-1].time):
        rows.append(row)
        return
    time = max(time, begin)
    if rows and time <= rows[-1].time:
        if time == begin:
            rows.pop()
        else:
            time = rows[-1].time + MILLISECOND
    rows.append(row._replace(time=time))


def _extended(row: ChartRow, time: float) -> ChartRow:
    return ChartRow(time, row.numbers, row.numbers, row.numbers)


def with_instants(rows: Sequence[ChartRow], instants: Iterable[float]) -> list[ChartRow]:
    """Return the rows with more rows at some instants, which repeat the previous row."""
    if not rows:
        return []
    known = {row.time: row for row in rows}
    first, last = rows[0].time, rows[-1].time
    merged: list[ChartRow] = []
    for time in sorted({*known, *(at for at in instants if first < at < last)}):
        merged.append(known[time] if time in known else _extended(merged[-1], time))
    return merged


def sampled_indexes(rows: Sequence[ChartRow], begin: float, end: float, most: int) -> list[int]:
    """Return the indexes of at most ``most`` rows, at least eight, that represent all rows.

    Of each time bucket these are the last row, the rows with counts beyond those before and after,
    so that no step is lost, and the first gap.
    """
    if len(rows) <= most:
        return [*range(len(rows))]
    times = [row.time for row in rows]
    kept: list[int] = []
    for part in (1, 0.8, 0.5, 0.25, 1 / _MOST_OF_BUCKET):
        kept = _of_buckets(rows, times, begin, end, max(1, int(most * part)))
        if len(kept) <= most:
            break
    return kept


def _of_buckets(
    rows: Sequence[ChartRow], times: Sequence[float], begin: float, end: float, buckets: int
) -> list[int]:
    width = (end - begin) / buckets
    kept: list[int] = []
    start = 0
    while start < len(rows):
        bucket = int((times[start] - begin) / width)
        stop = len(rows)
        if bucket < buckets - 1:
            stop = max(start + 1, bisect_left(times, begin + (bucket + 1) * width, lo=start))
        kept += [start] if stop == start + 1 else _of_bucket(rows, start, stop)
        start = stop
    return kept


def _of_bucket(rows: Sequence[ChartRow], start: int, stop: int) -> list[int]:
    kept = {stop - 1}
    before = rows[start - 1].numbers if start else ()
    for count in _COUNTS:
        known = [
            (number, index)
            for index in range(start, stop)
            if rows[index].numbers and (number := rows[index].numbers[count]) is not None
        ]
        if not known:
            continue
        ends = [known[-1][0]]
        if before and (held := before[count]) is not None:
            ends.append(held)
        least, most = min(known), max(known)
        if least[0] < min(ends):
            kept.add(least[1])
        if most[0] > max(ends):
            kept.add(most[1])
    gap = next((index for index in range(start, stop) if not rows[index].numbers), None)
    if gap is not None:
        kept |= {gap, min(gap + 1, stop - 1)}
    return sorted(kept)


# -- metrics -------------------------------------------------------------------------------------

_FIRST = 2
"""The position of the numbers of the first metric."""
_Key = tuple[str, str, int]
"""Name, unit, and the number among equal ones."""
_Number = float | None


def metric_lines(
    rows: Sequence[ChartRow], kept: Sequence[int], rules: RulesOverTime
) -> tuple[MetricLines, ...]:
    """Return the lines of each metric that was configured, at the rows that are kept."""
    found: dict[_Key, list[list[_Number]]] = {}
    targets: dict[_Key, float] = {}
    shown: dict[int, dict[_Key, float]] = {}
    for at, (index, after) in enumerate(zip(kept, [*kept[1:], len(rows)], strict=True)):
        row = rows[index]
        own = rules.value_at(row.time)
        if own is None:
            continue
        if id(own) not in shown:
            shown[id(own)] = _targets(own)
        until = rules.until(row.time)
        those = [row for row in rows[index:after] if row.time < until]
        for number, (key, target) in enumerate(shown[id(own)].items()):
            targets[key] = target
            column, divisor = _FIRST + 2 * number, 1 if key[1] == "%" else 1000
            values: list[_Number] = [
                target if row.numbers else None,
                _divided(_known([row.numbers], column), divisor),
                _divided(sorted(_known([row.low for row in those], column))[:1], divisor),
                _divided(sorted(_known([row.high for row in those], column))[-1:], divisor),
                _divided(_known([row.numbers], column + 1), 1),
            ]
            lines = found.setdefault(key, [[None] * len(kept) for _ in values])
            for line, value in zip(lines, values, strict=True):
                line[at] = value
    return tuple(
        MetricLines(*key[:2], targets[key], *map(tuple, lines)) for key, lines in found.items()
    )


def _divided(numbers: Sequence[int], divisor: int) -> _Number:
    """Return a single number, divided; None for others."""
    return None if not numbers else numbers[0] if divisor == 1 else numbers[0] / divisor


def _known(rows: Sequence[Numbers], column: int) -> list[int]:
    return [
        number
        for numbers in rows
        if column < len(numbers) and (number := numbers[column]) is not None
    ]


def _targets(rules: Rules) -> dict[_Key, float]:
    targets: dict[_Key, float] = {}
    for metric in rules.target.spec.metrics:
        name, unit = wording.metric_name(metric), _unit(metric)
        equal = sum(key[:2] == (name, unit) for key in targets)
        targets[name, unit, equal] = wording.target_number(metric)[1]
    return targets


def _unit(metric: MetricSpec) -> str:
    if wording.target_number(metric)[0] == "utilization":
        return "%"
    unit = ""
    if metric.of_resource:
        unit = "cores" if metric.name == "cpu" else "bytes"
    return f"{unit}{wording.per(metric)}".strip()
