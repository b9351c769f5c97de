"""`autoscaler status` and `autoscaler agreement`: how targets stand, and how they agree with HPAs.

The status is what `kubectl get hpa` would print: a table for people at a terminal, or one line for
each target with tabs for programs.
"""

import json
import shutil
import sys
from collections import Counter
from collections.abc import Iterator, Sequence
from itertools import chain

from autoscaler import clock
from autoscaler.agreement.sentences import AGREEMENT_WORDS, READY, field_text, moved, percent
from autoscaler.cli import times
from autoscaler.cli.options import SourceOptions
from autoscaler.cli.output import counts, who_leads, wrapped
from autoscaler.cli.sources import chosen_from, live_of, objects_of
from autoscaler.core.classification import State
from autoscaler.core.observation import LONGEST_SENTENCE
from autoscaler.core.text import duration, printable
from autoscaler.persistence.record.agreement import Agreement
from autoscaler.rendering import wording
from autoscaler.rendering.answers import AgreementList, TargetAgreement, TargetList, TargetState
from autoscaler.rendering.record import UNKNOWN
from autoscaler.telemetry.health import Component

_HEADINGS = ("REFERENCE", "TARGETS", "MINPODS", "MAXPODS", "REPLICAS", "SINCE", "STATE")
_REASON = "REASON"
_METRICS_COLUMN = 1
_GAP = "  "
_MINUTE, _HOUR, _DAY, _YEAR = 60, 3600, 86400, 365 * 86400
_AGES = (
    (_YEAR, "y", 2, 8, _DAY, "d"),
    (_DAY, "d", 2, 8, _HOUR, "h"),
    (_HOUR, "h", 3, 8, _MINUTE, "m"),
    (_MINUTE, "m", 2, 10, 1, "s"),
)
"""As kubectl's (duration.HumanDuration of apimachinery): a unit, the number of it from which on it
is used, the number below which a smaller unit is added, and that unit."""
_MOST_OF_ONE, _MOST_OF_MANY = 20, 2
"""The most disagreements of a target that are printed."""


def print_status(names: Sequence[str], place: SourceOptions, *, as_json: bool) -> int:
    """Print how the named targets stand, or all; return the exit code."""
    source, listed = live_of(place)
    keys = chosen_from(source, names, objects_of(listed))
    targets = tuple(target for target in listed.targets if target.target in keys)
    shown = listed.model_copy(update={"targets": targets})
    if as_json:
        print(json.dumps([target.document() for target in targets], indent=2))
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
    states = sorted(found, key=lambda state: known.index(state) if state in known else len(known))
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

    Metrics that do not fit next to the counts are below them, indented, like the reason why a
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
    for target, row in zip(report.targets, rows, strict=True):
        yield from _row(row, widths)
        if is_narrow:
            metrics = _metrics(target)
            line = _GAP + ", ".join(metrics)
            below = [wrapped(metric, width, _GAP) for metric in metrics]
            yield from [line] if len(line) <= width else chain.from_iterable(below)
        if _needs_reason(target):
            yield from wrapped(_reason(target), width, _GAP)


def lines_for_programs(report: TargetList) -> Iterator[str]:
    """Yield a line of headings and one for each target, their columns separated by tabs."""
    yield "\t".join((*_HEADINGS, _REASON))
    for target in report.targets:
        yield "\t".join((*_cells(target, report.time), _reason(target)))


def age(seconds: float) -> str:
    """Write how long ago something was as kubectl does: 45s, 5m12s, 3h, 2d4h."""
    whole = max(0, int(seconds))
    for size, unit, least, exact_below, smaller_size, smaller in _AGES:
        if whole >= least * size:
            count, rest = divmod(whole, size)
            rest = rest // smaller_size if count < exact_below else 0
            return f"{count}{unit}" + (f"{rest}{smaller}" if rest else "")
    return f"{whole}s"


def _needs_reason(state: TargetState) -> bool:
    """Return whether the reason of a target's state is shown; shadow is not a problem."""
    is_well = state.state in {State.OK, State.SHADOW, State.CONTROLLED} and not _other_count(state)
    return not is_well or state.current_replicas != state.desired_replicas


def _reason(state: TargetState) -> str:
    other = _other_count(state)
    return f"{state.message}; the HPA wants {other}" if other else state.message


def _other_count(state: TargetState) -> str:
    """Return what the HPA that controls a target wants, if that is another count."""
    count = None if state.hpa is None else state.hpa.desired_replicas
    return "" if count in {None, state.desired_replicas} else str(count)


def _cells(state: TargetState, now: float) -> list[str]:
    other = f" ({state.object_name})" if state.object_name not in {"", state.name} else ""
    return [
        printable(f"{state.target}{other}", LONGEST_SENTENCE),
        ", ".join(_metrics(state)),
        str(state.min_replicas),
        str(state.max_replicas),
        counts(state.current_replicas, state.desired_replicas, UNKNOWN),
        UNKNOWN if state.since is None else age(now - state.since),
        printable(state.state),
    ]


def _metrics(state: TargetState) -> list[str]:
    return [
        f"{printable(metric.name, LONGEST_SENTENCE)}: {printable(metric.text)}"
        for metric in state.metrics
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
    rest = _GAP.join(
        cell.ljust(width) for cell, width in zip(others, widths[1:], strict=True)
    ).rstrip()
    if len(first) > widths[0]:
        yield first
        first = ""
    yield f"{first.ljust(widths[0])}{_GAP}{rest}"


# -- agreement -----------------------------------------------------------------------------------


def print_agreement(
    names: Sequence[str], place: SourceOptions, *, since: str, as_json: bool
) -> int:
    """Print how the named targets agree, or all that are in shadow; return the exit code.

    That is 0 where each is ready to go over, else 1.
    """
    now = clock.wall()
    begin = times.instant(since, now)
    source, listed = live_of(place)
    keys = chosen_from(source, names, objects_of(listed)) if names else ()
    found = source.agreement(sorted(keys), begin)
    if as_json:
        print(json.dumps(found.document(), indent=2))
    elif not found.targets:
        print("no target is in shadow: none is controlled by an HPA, or has `mode: shadow`")
    else:
        for line in _agreement_lines(found, shutil.get_terminal_size().columns):
            print(line)
    ready = all(target.verdict == READY for target in found.targets)
    return 0 if found.targets and ready else 1


def _agreement_lines(found: AgreementList, width: int) -> Iterator[str]:
    alone = len(found.targets) == 1
    by_need = sorted(
        found.targets, key=lambda target: (target.agreement is not None, target.agreement or 0)
    )
    for target in by_need:
        yield from wrapped(f"{printable(target.target)}: {target.message}", width, "")
        yield from _details(target, width, _MOST_OF_ONE if alone else _MOST_OF_MANY)
    yield moved(found.live, found.shadow)


def _details(agreement: TargetAgreement, width: int, most: int) -> Iterator[str]:
    words = [AGREEMENT_WORDS.get(time.kind, time.kind) for time in agreement.times]
    label = max(map(len, words), default=0)
    for word, time in zip(words, agreement.times, strict=True):
        stretches = wording.counted(time.stretches, "time")
        longest = f", {stretches}, at most {duration(time.longest_seconds)}"
        of = "" if time.kind == Agreement.EQUAL else longest
        share = percent(time.share).rjust(7)
        yield f"{_GAP}{word.ljust(label)} {share}  {duration(time.seconds)}{of}"
    for reason in agreement.not_compared:
        said = f"not compared for {duration(reason.seconds)}: {reason.reason}"
        yield from wrapped(said, width, _GAP)
    for field in agreement.differences:
        yield from wrapped(f"differs: {field_text(field)}", width, _GAP)
    shown = agreement.disagreements[:most]
    for each in sorted(shown, key=lambda stretch: stretch.begin):
        when = f"{times.local(each.begin)}, for {duration(each.end - each.begin)}"
        said = f"{when}: {each.ours} here, {each.theirs} there: {each.message}"
        yield from wrapped(said, width, _GAP)
    left = len(agreement.disagreements) - len(shown)
    if left:
        yield f"{_GAP}and {left} shorter ones: -o json has them"
