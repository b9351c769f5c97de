"""Targets as a table: for people at a terminal, or one line each with tabs for programs."""

from collections.abc import Iterator, Sequence
from datetime import datetime

from autoscaler.cli.reported import Report, ReportedTarget
from autoscaler.cli.wrapping import wrapped
from autoscaler.core.observation import LONGEST_SENTENCE
from autoscaler.core.text import printable
from autoscaler.rendering.verdict import State

_HEADINGS = ("REFERENCE", "TARGETS", "MINPODS", "MAXPODS", "REPLICAS", "SINCE", "STATE")
_REASON = "REASON"
_METRICS_COLUMN = 1
_UNKNOWN = "<unknown>"
_GAP = "  "
# As kubectl's ages (duration.HumanDuration of apimachinery): below so many seconds, in these units.
_MINUTE, _HOUR, _DAY, _YEAR = 60, 3600, 86400, 365 * 86400
_AGES = (
    (2 * _MINUTE, (1, "s"), None),
    (10 * _MINUTE, (_MINUTE, "m"), (1, "s")),
    (3 * _HOUR, (_MINUTE, "m"), None),
    (8 * _HOUR, (_HOUR, "h"), (_MINUTE, "m")),
    (2 * _DAY, (_HOUR, "h"), None),
    (8 * _DAY, (_DAY, "d"), (_HOUR, "h")),
    (2 * _YEAR, (_DAY, "d"), None),
    (8 * _YEAR, (_YEAR, "y"), (_DAY, "d")),
)


def lines_for_terminal(report: Report, width: int) -> Iterator[str]:
    """Yield the lines of a table of at most ``width`` characters, if no word is longer.

    Metrics that do not fit beside the counts are below them, indented, as is the reason why a
    target does not have the count that its metrics ask for.
    """
    rows = [_cells(one, report.time) for one in report.targets]
    columns = tuple(range(len(_HEADINGS)))
    if _table_width(_HEADINGS, *rows) > width:
        columns = tuple(index for index in columns if index != _METRICS_COLUMN)
    table = [[row[index] for index in columns] for row in (_HEADINGS, *rows)]
    widths = _column_widths(table, width)
    yield from _row(table[0], widths)
    for one, row in zip(report.targets, table[1:], strict=True):
        yield from _row(row, widths)
        if _METRICS_COLUMN not in columns:
            yield from _metrics_below(one, width)
        if one.state != State.OK or one.current_replicas != one.desired_replicas:
            yield from wrapped(printable(one.message, LONGEST_SENTENCE), width, _GAP)


def lines_for_programs(report: Report) -> Iterator[str]:
    """Yield a line of headings and one for each target, their columns separated by tabs."""
    yield "\t".join((*_HEADINGS, _REASON))
    for one in report.targets:
        reason = printable(one.message, LONGEST_SENTENCE)
        yield "\t".join((*_cells(one, report.time), reason))


def age(seconds: float) -> str:
    """Write how long ago something was as kubectl does: 45s, 5m12s, 3h, 2d4h."""
    whole = max(0, int(seconds))
    for below, (size, unit), smaller in _AGES:
        if whole < below:
            rest = 0 if smaller is None else whole % size // smaller[0]
            return f"{whole // size}{unit}" + (f"{rest}{smaller[1]}" if smaller and rest else "")
    return f"{whole // _YEAR}y"


def _cells(one: ReportedTarget, now: datetime) -> list[str]:
    since = _UNKNOWN if one.since is None else age((now - one.since).total_seconds())
    return [
        printable(one.target, LONGEST_SENTENCE),
        ", ".join(_metrics(one)),
        str(one.min_replicas),
        str(one.max_replicas),
        _replicas(one.current_replicas, one.desired_replicas),
        since,
        printable(one.state),
    ]


def _replicas(current: int | None, desired: int | None) -> str:
    if current is None:
        return _UNKNOWN
    return str(current) if desired in {None, current} else f"{current} -> {desired}"


def _metrics(one: ReportedTarget) -> list[str]:
    return [
        f"{printable(metric.name, LONGEST_SENTENCE)}: {printable(metric.text)}"
        for metric in one.metrics
    ]


def _table_width(*rows: Sequence[str]) -> int:
    """Return the width of a table whose cells are all written in full."""
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    return sum(widths) + len(_GAP) * (len(widths) - 1)


def _column_widths(rows: Sequence[Sequence[str]], width: int) -> list[int]:
    """Return the widths of the columns.

    The first is that of its longest cell that fits beside the others, at least of its heading.
    """
    first, *others = ([len(cell) for cell in column] for column in zip(*rows, strict=True))
    rest = [max(column) for column in others]
    room = width - sum(rest) - len(_GAP) * len(rest)
    fitting = [length for length in first if length <= max(room, first[0])]
    return [max(fitting), *rest]


def _row(cells: Sequence[str], widths: Sequence[int]) -> Iterator[str]:
    """Yield the line of a row; a first cell that is too long has a line of its own before it."""
    first, *others = cells
    beside = _GAP.join(
        cell.ljust(width) for cell, width in zip(others, widths[1:], strict=True)
    ).rstrip()
    if len(first) > widths[0]:
        yield first
        first = ""
    yield f"{first.ljust(widths[0])}{_GAP}{beside}"


def _metrics_below(one: ReportedTarget, width: int) -> Iterator[str]:
    metrics = _metrics(one)
    line = _GAP + ", ".join(metrics)
    if len(line) <= width:
        yield line
    else:
        for metric in metrics:
            yield from wrapped(metric, width, _GAP)
