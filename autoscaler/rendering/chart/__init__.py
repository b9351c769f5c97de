"""A target over time, for a chart: lines, shades and marks. Instants are Unix seconds."""

import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import reduce
from itertools import pairwise
from operator import or_
from typing import Any

from autoscaler.core.classification import Mark
from autoscaler.core.decision import ForeignChange
from autoscaler.core.sync_result import Rules
from autoscaler.persistence.record import DirectoryRecord
from autoscaler.persistence.record.rows import Change, Lapse
from autoscaler.rendering import wording
from autoscaler.rendering.chart.lines import (
    MILLISECOND,
    ChartRow,
    RulesOverTime,
    Timeline,
    metric_lines,
    rows_of,
    sampled_indexes,
    with_instants,
)
from autoscaler.rendering.chart.model import Chart, ChartMark, MarkKind, Shade, ShadeKind

__all__ = ["Chart", "ChartMark", "MarkKind", "Shade", "ShadeKind", "chart_of"]

_LAPSE_TEXT = "nothing was recorded: the daemon did not run, or the record could not be written"
_BEFORE_TEXT = "before anything was recorded of the target"
_FUTURE_TEXT = "after now"
_PAGE = 1000
_SHADES = {Mark.FAILED: ShadeKind.FAILING} | {
    Mark[kind.name]: kind for kind in ShadeKind if kind.name in Mark.__members__
}
_SHADED = reduce(or_, _SHADES)


def chart_of(
    record: DirectoryRecord,
    target: str,
    begin: float,
    end: float,
    *,
    now: float = math.inf,
    most_points: int = 1000,
) -> Chart | None:
    """Return a target's chart of at most ``most`` times, at least eight.

    Times after ``now`` are in the future. Returns None if nothing is recorded. Raises RecordError.
    """
    span = record.span()
    until = end if span is None else min(end, span[1])
    if span is None or until < begin:
        return None
    found = _happenings_of(
        _changes_of(record, target, begin, until + MILLISECOND), until, (end - begin) / most_points
    )
    lapses = record.lapses(target, begin, min(end, now))
    samples = record.samples(target, begin, until + MILLISECOND)
    rows = rows_of(samples, sorted([*lapses, *found.removals]), begin, until)
    first = next((row.time for row in rows if row.numbers), None)
    if first is None:
        return None
    if len(rows) < most_points:
        rows = with_instants(rows, (round(time, 3) for time, _ in found.bounds))
    kept = sampled_indexes(rows, begin, until, most_points)
    return Chart(
        target=target,
        begin=begin,
        end=end,
        **_counts([rows[index] for index in kept], Timeline(found.bounds)),
        metrics=metric_lines(rows, kept, _rules(record, found)),
        shades=tuple(_shades(found, lapses, (begin, end), (first, now))),
        marks=tuple(mark for mark in found.marks if begin <= mark.time <= end),
    )


def _counts(
    rows: Sequence[ChartRow], in_force: Timeline[tuple[int, int]]
) -> dict[str, tuple[Any, ...]]:
    """Return the times, and the counts and bounds at each."""
    bounds = [in_force.value_at(row.time) if row.numbers else None for row in rows]
    return {
        "times": tuple(row.time for row in rows),
        "current": tuple(row.numbers[0] if row.numbers else None for row in rows),
        "desired": tuple(row.numbers[1] if row.numbers else None for row in rows),
        "minimum": tuple(None if bound is None else bound[0] for bound in bounds),
        "maximum": tuple(None if bound is None else bound[1] for bound in bounds),
    }


def _rules(record: DirectoryRecord, found: "_ChartEvents") -> RulesOverTime:
    known: dict[int, Rules | None] = {}
    rules: list[tuple[float, Rules | None]] = []
    for time, change in found.rules:
        if known.get(change.rules) is None:
            entry = record.entry_or_none(change)
            known[change.rules] = None if entry is None else entry.rules
        rules.append((time, known[change.rules]))
    return RulesOverTime(rules)


def _shades(
    found: "_ChartEvents",
    gaps: Sequence[Lapse],
    view: tuple[float, float],
    recordable: tuple[float, float],
) -> Iterator[Shade]:
    """Yield the states, and the reasons for missing records, in the order of their begins."""
    (begin, end), (first, now) = view, recordable
    removed = [shade for shade in found.shades if shade.kind is ShadeKind.REMOVED]
    held = [shade for shade in found.shades if shade.kind is not ShadeKind.REMOVED]
    before = [Shade(ShadeKind.BEFORE, begin, first, _BEFORE_TEXT)] if begin < first else []
    lapses = [Shade(ShadeKind.LAPSE, *lapse, _LAPSE_TEXT) for lapse in gaps]
    unrecorded = [*lapses, *_without(before, gaps)]
    shades = [*_without(held, gaps), *_without(unrecorded, found.removals), *removed]
    if now < end:
        shades.append(Shade(ShadeKind.FUTURE, now, end, _FUTURE_TEXT))
    for shade in sorted(shades, key=lambda shade: shade.begin):
        if shade.begin < end and begin < shade.end:
            yield replace(shade, begin=max(begin, shade.begin), end=min(end, shade.end))


# -- what the changes of a target tell -----------------------------------------------------------


def _changes_of(record: DirectoryRecord, target: str, begin: float, end: float) -> Iterator[Change]:
    """Yield a target's changes, the last first, down to the one in force at ``begin``."""
    before: int | None = None
    while True:
        page = record.changes([target], begin, end, limit=_PAGE, before=before)
        yield from page
        if len(page) < _PAGE:
            break
        before = page[-1].id
    held = record.change_at(target, math.nextafter(begin, -math.inf))
    if held is not None:
        yield held


@dataclass(slots=True)
class _ChartEvents:
    """The events in the changes, in order; ``removals`` are times without the target."""

    bounds: list[tuple[float, tuple[int, int]]] = field(default_factory=list)
    shades: list[Shade] = field(default_factory=list)
    marks: list[ChartMark] = field(default_factory=list)
    rules: list[tuple[float, Change]] = field(default_factory=list)
    removals: list[Lapse] = field(default_factory=list)


def _happenings_of(changes: Iterable[Change], end: float, least: float) -> _ChartEvents:
    """Collect the events of changes, which come last first; ``least`` seconds are visible.

    Shades of the same kind that are nearer than that are merged, and so are marks.
    """
    found = _ChartEvents()
    shades: dict[ShadeKind, list[Shade]] = {kind: [] for kind in _SHADES.values()}
    ours: list[ChartMark] = []
    theirs: list[ChartMark] = []
    until, foreign = end, None
    for change in changes:
        if foreign is not None and (mark := _foreign(foreign, change)) is not None:
            theirs.append(mark)
        foreign = change if Mark.FOREIGN in change.marks else None
        if change.marks & _SHADED:
            for shaded, kind in _SHADES.items():
                if shaded in change.marks:
                    shade = Shade(kind, change.time, until, change.message)
                    _add_shade(shades[kind], shade, least)
        before, after = change.current, change.desired
        if Mark.WRITTEN in change.marks and before is not None and after is not None:
            ours.append(ChartMark(change.time, MarkKind.OURS, before, after, change.message))
        _note(found, change, math.inf if until == end else until)
        until = min(until, change.time)
    for timeline in (found.bounds, found.rules, found.removals):
        timeline.reverse()
    found.shades = [shade for those in shades.values() for shade in reversed(those)]
    # A change by another client happened before the sync that found it.
    marks = [*_merged(ours, least), *_merged(theirs, least)]
    found.marks = sorted(marks, key=lambda mark: (mark.time, mark.kind))
    return found


def _note(found: _ChartEvents, change: Change, until: float) -> None:
    if Mark.REMOVED in change.marks:
        found.removals.append(Lapse(change.time, until))
        return
    bounds = (change.min_replicas, change.max_replicas)
    if found.bounds and found.bounds[-1][1] == bounds:
        found.bounds.pop()
    found.bounds.append((change.time, bounds))
    if found.rules and found.rules[-1][1].rules == change.rules:
        found.rules.pop()
    found.rules.append((change.time, change))


def _foreign(change: Change, earlier: Change) -> ChartMark | None:
    before = earlier.desired if Mark.WRITTEN in earlier.marks else earlier.current
    after = change.current
    if before is None or after is None:
        return None
    text = wording.foreign(ForeignChange(before, after, change.by))
    return ChartMark(change.time, MarkKind.FOREIGN, before, after, text)


def _add_shade(shades: list[Shade], shade: Shade, least: float) -> None:
    """Add a shade to the others of its kind, which are sorted last first."""
    if shades and shades[-1].begin - shade.end <= least:
        shades[-1] = replace(shades[-1], begin=shade.begin, text=shade.text)
    else:
        shades.append(shade)


def _merged(marks: Iterable[ChartMark], least: float) -> Iterator[ChartMark]:
    """Yield marks of one kind, which come last first, with near ones merged."""
    groups: list[list[ChartMark]] = []
    for mark in marks:
        if groups and groups[-1][0].time - mark.time < least:
            groups[-1].append(mark)
        else:
            groups.append([mark])
    for group in groups:
        last, before = group[0], group[-1].before
        move = f"{before} -> {wording.counted(last.after, 'replica')}"
        text = last.text if len(group) == 1 else f"{len(group)} changes: {move}"
        yield replace(last, before=before, text=text)


def _without(shades: Iterable[Shade], lapses: Sequence[Lapse]) -> Iterator[Shade]:
    for shade in shades:
        edges = [shade.begin]
        for lapse in lapses:
            if lapse.begin < shade.end and shade.begin < lapse.end:
                edges += [max(shade.begin, lapse.begin), min(shade.end, lapse.end)]
        edges.append(shade.end)
        for begin, end in [*pairwise(edges)][::2]:
            if begin < end:
                yield replace(shade, begin=begin, end=end)
