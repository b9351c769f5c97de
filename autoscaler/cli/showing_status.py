"""`autoscaler status`: what `kubectl get hpa` would print, from a running daemon.

It is a table for people at a terminal, or one line for each target with tabs for programs.
"""

import json
import shutil
import sys
from collections import Counter
from collections.abc import Iterator, Sequence
from itertools import chain

from autoscaler.agreement.sentences import moved
from autoscaler.cli.options import SourceOptions
from autoscaler.cli.output import counts, exit_code, who_leads, wrapped
from autoscaler.cli.sources import chosen_from, live_of
from autoscaler.core.classification import State
from autoscaler.core.observation import LONGEST_SENTENCE
from autoscaler.core.text import printable
from autoscaler.rendering import wording
from autoscaler.rendering.answers import TargetList, TargetState
from autoscaler.rendering.record import UNKNOWN
from autoscaler.telemetry.health import Component

_HEADINGS = ("REFERENCE", "TARGETS", "MINPODS", "MAXPODS", "REPLICAS", "SINCE", "STATE")
_REASON = "REASON"
_METRICS_COLUMN = 1
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


@exit_code
def print_status(names: Sequence[str], place: SourceOptions, *, as_json: bool) -> int:
    """Print how the named targets stand, or all; return the exit code."""
    source, (listed, documents), note = live_of(place)
    keys = chosen_from(source, names, [target.target for target in listed.targets])
    if note:
        print(note, file=sys.stderr)
    targets = tuple(target for target in listed.targets if target.target in keys)
    shown = listed.model_copy(update={"targets": targets})
    if as_json:
        wanted = [document for document in documents if document["target"] in keys]
        print(json.dumps(wanted, indent=2))
    elif not targets:
        print(f"{source.name} has no targets")
    else:
        if sys.stdout.isatty():
            lines = lines_for_terminal(shown, shutil.get_terminal_size().columns)
        else:
            lines = lines_for_programs(shown)
        for line in lines:
            print(line)
        print(summary(shown))
        if in_shadow := sum(target.in_shadow for target in listed.targets):
            print(moved(len(listed.targets) - in_shadow, in_shadow))
    for line in (*who_leads(shown.leaders or (), keys), *what_is_not_ok(shown)):
        print(line, file=sys.stderr if as_json else sys.stdout)
    return 0


def summary(report: TargetList) -> str:
    """Sum up the states: "14 targets: 12 ok, 1 failing, 1 held"."""
    found = Counter(printable(target.state) for target in report.targets)
    known = [State.OK.value, *(state.value for state in State if state is not State.OK)]
    states = sorted(found, key=lambda one: known.index(one) if one in known else len(known))
    total = wording.counted(len(report.targets), "target")
    return f"{total}: {', '.join(f'{found[state]} {state}' for state in states)}"


def what_is_not_ok(report: TargetList) -> Iterator[str]:
    """Yield a sentence for each part of the daemon that is not ok."""
    for component in report.components:
        message = printable(component.message, LONGEST_SENTENCE)
        if component.name == Component.RELOAD:
            yield f"the configuration on the disk is {message}"
        else:
            lasts = age(report.time - component.since)
            yield f"{printable(component.name)} has not been ok for {lasts}: {message}"


def lines_for_terminal(report: TargetList, width: int) -> Iterator[str]:
    """Yield the lines of a table of at most ``width`` characters, if no word is longer.

    Metrics that do not fit beside the counts are below them, indented, as is the reason why a
    target does not have the count that its metrics ask for.
    """
    rows = [_cells(target, report.time) for target in report.targets]
    table = [[*_HEADINGS], *rows]
    full = [max(map(len, column)) for column in zip(*table, strict=True)]
    is_narrow = sum(full) + len(_GAP) * (len(full) - 1) > width
    if is_narrow:
        for cells in table:
            del cells[_METRICS_COLUMN]
    widths = _column_widths(table, width)
    yield from _row(table[0], widths)
    for one, row in zip(report.targets, rows, strict=True):
        yield from _row(row, widths)
        if is_narrow:
            metrics = _metrics(one)
            line = _GAP + ", ".join(metrics)
            below = [wrapped(metric, width, _GAP) for metric in metrics]
            yield from [line] if len(line) <= width else chain.from_iterable(below)
        if _needs_reason(one):
            yield from wrapped(_reason(one), width, _GAP)


def lines_for_programs(report: TargetList) -> Iterator[str]:
    """Yield a line of headings and one for each target, their columns separated by tabs."""
    yield "\t".join((*_HEADINGS, _REASON))
    for target in report.targets:
        yield "\t".join((*_cells(target, report.time), _reason(target)))


def age(seconds: float) -> str:
    """Write how long ago something was as kubectl does: 45s, 5m12s, 3h, 2d4h."""
    whole = max(0, int(seconds))
    for below, (size, unit), smaller in _AGES:
        if whole < below:
            rest = 0 if smaller is None else whole % size // smaller[0]
            return f"{whole // size}{unit}" + (f"{rest}{smaller[1]}" if smaller and rest else "")
    return f"{whole // _YEAR}y"


def _needs_reason(one: TargetState) -> bool:
    """Return whether it is told why a target stands as it does; to be in shadow is no problem."""
    is_well = one.state in {State.OK, State.SHADOW, State.CONTROLLED} and not _other_count(one)
    return not is_well or one.current_replicas != one.desired_replicas


def _reason(one: TargetState) -> str:
    other = _other_count(one)
    return f"{one.message}; the HPA wants {other}" if other else one.message


def _other_count(one: TargetState) -> str:
    """Return what the HPA that controls a target wants, if that is another count."""
    count = None if one.hpa is None else one.hpa.desired_replicas
    return "" if count in {None, one.desired_replicas} else str(count)


def _cells(one: TargetState, now: float) -> list[str]:
    return [
        printable(one.target, LONGEST_SENTENCE),
        ", ".join(_metrics(one)),
        str(one.min_replicas),
        str(one.max_replicas),
        counts(one.current_replicas, one.desired_replicas, UNKNOWN),
        UNKNOWN if one.since is None else age(now - one.since),
        printable(one.state),
    ]


def _metrics(one: TargetState) -> list[str]:
    return [
        f"{printable(metric.name, LONGEST_SENTENCE)}: {printable(metric.text)}"
        for metric in one.metrics
    ]


def _column_widths(rows: Sequence[Sequence[str]], width: int) -> list[int]:
    """Return the widths: the first is of its longest cell that fits, at least of its heading."""
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
