"""A count over the last hour as a small picture, drawn from the changes that are recorded."""

from collections import defaultdict
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass

from autoscaler.record.rows import Change, RecordError, RecordReader

SECONDS = 3600.0
WIDTH, HEIGHT = 120, 24
_EDGE = 2
"""So that a line at the border is not cut."""
_MOST_CHANGES = 5000
"""Of all targets of a page together; of what is older nothing is drawn."""

_Step = tuple[float, int | None]
"""A count from an instant on; None where it is not known."""


@dataclass(frozen=True, slots=True)
class Sparkline:
    """The path of an SVG from zero to the most, and the least and the most of what it shows."""

    path: str
    low: int
    high: int


def sparklines(
    record: RecordReader, targets: Collection[str], now: float
) -> Mapping[str, Sparkline]:
    """Return the pictures of some targets, without those of which nothing is recorded."""
    begin = now - SECONDS
    try:
        changes = record.changes(targets, begin, now, limit=_MOST_CHANGES)
        since = changes[-1].time if len(changes) == _MOST_CHANGES else begin
        drawn, own_changes = {}, defaultdict[str, list[Change]](list)
        for one in reversed(changes):
            own_changes[one.target].append(one)
        for target in targets:
            own = own_changes[target]
            before = record.change_at(target, begin) if since == begin else None
            steps = _steps(record, target, [before, *own] if before else own, begin, now)
            if (made := _drawn(steps, begin, now)) is not None:
                drawn[target] = made
    except RecordError:
        return {}
    return drawn


def _steps(
    record: RecordReader, target: str, changes: Sequence[Change], begin: float, end: float
) -> list[_Step]:
    """Return the counts in order, with what is not known while nothing was recorded."""
    steps: list[_Step] = [(max(one.time, begin), one.current) for one in changes]
    for lapse in record.lapses(target, begin, end) if steps else ():
        after = [count for time, count in steps if time <= lapse.end]
        inside = [one for one in steps if not lapse.begin <= one[0] < lapse.end]
        steps = [*inside, (max(lapse.begin, begin), None)]
        if lapse.end < end and after:
            steps.append((lapse.end, after[-1]))
        steps.sort(key=lambda one: one[0])
    return steps


def _drawn(steps: Sequence[_Step], begin: float, end: float) -> Sparkline | None:
    counts = [count for _, count in steps if count is not None]
    if not counts:
        return None
    low, high = min(counts), max(counts)

    def x(time: float) -> float:
        return round((time - begin) / (end - begin) * WIDTH, 1)

    def y(count: int) -> float:
        return round(HEIGHT - _EDGE - count / max(high, 1) * (HEIGHT - 2 * _EDGE), 1)

    parts: list[str] = []
    until = [*(time for time, _ in steps[1:]), end]
    drawing = False
    for (time, count), stop in zip(steps, until, strict=True):
        if count is None:
            drawing = False
            continue
        parts.append(f"V{y(count):g}" if drawing else f"M{x(time):g} {y(count):g}")
        parts.append(f"H{x(stop):g}")
        drawing = True
    return Sparkline("".join(parts), low, high)
