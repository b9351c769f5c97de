"""What the changes of a target make of a chart: bounds, shades, marks, writes, rules."""

import math
from bisect import bisect_right
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import reduce
from itertools import pairwise
from operator import or_

from autoscaler.core.decision import ForeignChange
from autoscaler.core.entry import Entry
from autoscaler.record.rows import Change, Lapse, Mark, RecordError, RecordReader
from autoscaler.rendering import wording
from autoscaler.rendering.chart.bands import Write
from autoscaler.rendering.chart.model import ChartMark, MarkKind, Shade, ShadeKind
from autoscaler.rendering.chart.rules import MILLISECOND

_PAGE = 1000
_SHADES = (
    (Mark.FAILED, ShadeKind.FAILING),
    (Mark.FALLBACK, ShadeKind.FALLBACK),
    (Mark.PAUSED, ShadeKind.PAUSED),
    (Mark.IDLE, ShadeKind.IDLE),
    (Mark.BREAKER, ShadeKind.BREAKER),
    (Mark.CONTESTED, ShadeKind.CONTESTED),
    (Mark.CONTROLLED, ShadeKind.CONTROLLED),
    (Mark.DISABLED, ShadeKind.DISABLED),
    (Mark.STANDBY, ShadeKind.STANDBY),
    (Mark.REMOVED, ShadeKind.REMOVED),
)
_SHADED = reduce(or_, (mark for mark, _ in _SHADES))


def changes_of(record: RecordReader, target: str, begin: float, end: float) -> Iterator[Change]:
    """Yield a target's changes, the last ones first, down to the one that held at ``begin``."""
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


def entry_or_none(record: RecordReader, change: Change) -> Entry | None:
    """Return a change in full; None where it is lost."""
    try:
        return record.entry(change)
    except RecordError:
        return None


@dataclass(slots=True)
class Happenings:
    """What is gathered from the changes, each in order of time.

    ``rules`` has a change for each time at which other rules came into force; ``removals`` are the
    times in which the target was not configured.
    """

    bounds: list[tuple[float, tuple[int, int]]] = field(default_factory=list)
    shades: list[Shade] = field(default_factory=list)
    marks: list[ChartMark] = field(default_factory=list)
    writes: list[Write] = field(default_factory=list)
    rules: list[tuple[float, Change]] = field(default_factory=list)
    removals: list[Lapse] = field(default_factory=list)
    first: Change | None = None

    def bounds_at(self, time: float) -> tuple[int, int] | None:
        """Return the bounds in force at an instant; None where they are not known."""
        index = bisect_right(self.bounds, time + MILLISECOND, key=lambda one: one[0])
        return self.bounds[index - 1][1] if index else None


def happenings_of(changes: Iterable[Change], end: float, least: float) -> Happenings:
    """Gather what changes tell that come with the last first; ``least`` seconds can be seen.

    Shades that are nearer to each other than that are one, and so are marks.
    """
    found = Happenings()
    shades = {kind: _Merged(kind, least) for _, kind in _SHADES}
    marks = {kind: _Marks(kind, least) for kind in MarkKind}
    until, foreign = end, None
    for change in changes:
        if foreign is not None:
            marks[MarkKind.FOREIGN].add(_foreign(foreign, _count_after(change)))
        foreign = change if Mark.FOREIGN in change.marks else None
        if change.marks & _SHADED:
            for mark, kind in _SHADES:
                if mark in change.marks:
                    shades[kind].add(change.time, until, change.message)
        if Mark.WRITTEN in change.marks and (ours := _ours(change)) is not None:
            marks[MarkKind.OURS].add(ours)
            found.writes.append(Write(change.time, ours.after - ours.before))
        _note(found, change, math.inf if until == end else until)
        until = min(until, change.time)
    for one in (found.bounds, found.writes, found.rules, found.removals):
        one.reverse()
    found.shades = [shade for one in shades.values() for shade in one.found()]
    found.marks = sorted((one for those in marks.values() for one in those.found()), key=_time)
    return found


def _time(one: ChartMark) -> tuple[float, MarkKind]:
    """Order marks; a change by others was before that of the sync which found it."""
    return one.time, one.kind


def _note(found: Happenings, change: Change, until: float) -> None:
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
    found.first = change


def _ours(change: Change) -> ChartMark | None:
    before, after = change.current, change.desired
    if before is None or after is None:
        return None
    return ChartMark(change.time, MarkKind.OURS, before, after, change.message)


def _count_after(change: Change) -> int | None:
    return change.desired if Mark.WRITTEN in change.marks else change.current


def _foreign(change: Change, before: int | None) -> ChartMark | None:
    after = change.current
    if before is None or after is None:
        return None
    text = wording.foreign(ForeignChange(before, after, change.by))
    return ChartMark(change.time, MarkKind.FOREIGN, before, after, text)


class _Merged:
    """The shades of one kind, which come with the last first."""

    def __init__(self, kind: ShadeKind, least: float) -> None:
        self._kind, self._least = kind, least
        self._shades: list[Shade] = []

    def add(self, begin: float, end: float, text: str) -> None:
        shades = self._shades
        if shades and shades[-1].begin - end <= self._least:
            shades[-1] = replace(shades[-1], begin=begin, text=text)
        else:
            shades.append(Shade(self._kind, begin, end, text))

    def found(self) -> list[Shade]:
        return self._shades[::-1]


class _Marks:
    """The marks of one kind, which come with the last first."""

    def __init__(self, kind: MarkKind, least: float) -> None:
        self._kind, self._least = kind, least
        self._marks: list[ChartMark] = []
        self._counts: list[int] = []

    def add(self, mark: ChartMark | None) -> None:
        if mark is None:
            return
        if self._marks and self._marks[-1].time - mark.time < self._least:
            self._marks[-1] = replace(self._marks[-1], before=mark.before)
            self._counts[-1] += 1
        else:
            self._marks.append(mark)
            self._counts.append(1)

    def found(self) -> Iterator[ChartMark]:
        for mark, count in zip(self._marks, self._counts, strict=True):
            if count > 1:
                move = f"{mark.before} -> {wording.counted(mark.after, 'replica')}"
                yield replace(mark, text=f"{count} changes: {move}")
            else:
                yield mark


def without(shades: Iterable[Shade], lapses: Sequence[Lapse]) -> Iterator[Shade]:
    """Yield the shades without the times in which nothing was recorded."""
    for shade in shades:
        edges = [shade.begin]
        for lapse in lapses:
            if lapse.begin < shade.end and shade.begin < lapse.end:
                edges += [max(shade.begin, lapse.begin), min(shade.end, lapse.end)]
        edges.append(shade.end)
        for begin, end in [*pairwise(edges)][::2]:
            if begin < end:
                yield replace(shade, begin=begin, end=end)
