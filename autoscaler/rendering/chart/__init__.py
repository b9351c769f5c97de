"""A target over time, for a chart: lines, bands, shades and marks.  Instants are Unix seconds."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace

from autoscaler.core.decide import LONGEST_WINDOW_SECONDS
from autoscaler.core.entry import Rules
from autoscaler.record.rows import Lapse, RecordReader, Sample
from autoscaler.rendering.chart import bands
from autoscaler.rendering.chart.happenings import (
    Happenings,
    changes_of,
    entry_or_none,
    happenings_of,
    without,
)
from autoscaler.rendering.chart.metrics import metric_lines
from autoscaler.rendering.chart.model import (
    Band,
    Chart,
    ChartMark,
    Line,
    MarkKind,
    MetricLines,
    Shade,
    ShadeKind,
)
from autoscaler.rendering.chart.rows import Row, rows_of, shown, with_instants
from autoscaler.rendering.chart.rules import MILLISECOND, RulesOverTime

__all__ = [
    "Band",
    "Chart",
    "ChartMark",
    "Line",
    "MarkKind",
    "MetricLines",
    "Shade",
    "ShadeKind",
    "chart_of",
]

_LAPSE_TEXT = "nothing was recorded: the daemon did not run, or the record could not be written"


def chart_of(
    record: RecordReader, target: str, begin: float, end: float, *, most_points: int = 1000
) -> Chart | None:
    """Return a target's chart of at most so many times, from eight on.

    Returns None where nothing is recorded.  Raises RecordError.
    """
    span = record.span()
    until = end if span is None else min(end, span[1])
    if span is None or until < begin:
        return None
    known = _gathered(record, target, (begin, end), until, (end - begin) / most_points)
    rows = rows_of(known.samples, known.gaps, begin, until)
    if not any(row.numbers for row in rows):
        return None
    if len(rows) < most_points:
        rows = with_instants(rows, known.instants())
    kept = shown(rows, begin, until, most_points)
    return _chart(known, rows, kept, target, (begin, end))


@dataclass(frozen=True, slots=True)
class _Known:
    """What is recorded of a target in a time, and before it as far as decisions look back."""

    found: Happenings
    rules: RulesOverTime
    samples: Sequence[Sample]
    lapses: Sequence[Lapse]
    gaps: Sequence[Lapse]
    """The lapses, and when it was not configured."""
    asked: Sequence[bands.Asked]

    def instants(self) -> Iterator[float]:
        """Yield when a band or a bound changes, to the millisecond."""
        writes = self.found.writes
        yield from (round(time, 3) for time, _ in self.found.bounds)
        yield from (round(time, 3) for time in bands.releases(self.asked, self.rules))
        yield from (round(time, 3) for time in bands.renewals(writes, self.rules))


def _gathered(
    record: RecordReader, target: str, view: tuple[float, float], until: float, least: float
) -> _Known:
    begin, end = view
    earliest, after = begin - LONGEST_WINDOW_SECONDS, until + MILLISECOND
    found = happenings_of(changes_of(record, target, earliest, after), until, least)
    rules = _rules(record, found)
    since = begin - max(map(_reach, rules.all()), default=0.0)
    lapses = record.lapses(target, since, end)
    samples = list(record.samples(target, since, after))
    gaps = sorted([*lapses, *found.removals])
    asked = list(bands.asked_by(samples, gaps, rules, until))
    entry = None if found.first is None else entry_or_none(record, found.first)
    if entry is not None:
        first = asked[0].time if asked else until
        asked[:0] = [one for one in bands.asked_before(entry) if one.time <= first]
    return _Known(found, rules, samples, lapses, gaps, asked)


def _rules(record: RecordReader, found: Happenings) -> RulesOverTime:
    known: dict[int, Rules | None] = {}
    rules: list[tuple[float, Rules | None]] = []
    for time, change in found.rules:
        if known.get(change.rules) is None:
            entry = entry_or_none(record, change)
            known[change.rules] = None if entry is None else entry.rules
        rules.append((time, known[change.rules]))
    return RulesOverTime(rules)


def _reach(rules: Rules) -> float:
    """Return how far back decisions look, in seconds."""
    return max(bands.windows_of(rules)) + rules.target.sync_period


def _chart(
    known: _Known,
    rows: Sequence[Row],
    kept: Sequence[int],
    target: str,
    view: tuple[float, float],
) -> Chart:
    begin, end = view
    found, rules = known.found, known.rules
    those = [rows[index] for index in kept]
    times = tuple(row.time for row in those)
    current = [row.numbers[0] if row.numbers else None for row in those]
    bounds = [found.bounds_at(row.time) if row.numbers else None for row in those]
    return Chart(
        target,
        begin,
        end,
        times,
        tuple(current),
        tuple(row.numbers[1] if row.numbers else None for row in those),
        tuple(None if one is None else one[0] for one in bounds),
        tuple(None if one is None else one[1] for one in bounds),
        bands.stabilization(known.asked, times, rules),
        bands.policies(times, current, bounds, found.writes, rules),
        metric_lines(rows, kept, rules),
        tuple(_within(_shades(known), begin, end)),
        tuple(one for one in found.marks if begin <= one.time <= end),
    )


def _shades(known: _Known) -> Iterator[Shade]:
    """Yield what held while something was recorded, and why nothing was where it was not."""
    removed = [one for one in known.found.shades if one.kind is ShadeKind.REMOVED]
    held = [one for one in known.found.shades if one.kind is not ShadeKind.REMOVED]
    lapses = [Shade(ShadeKind.LAPSE, *one, _LAPSE_TEXT) for one in known.lapses]
    yield from without(held, known.lapses)
    yield from without(lapses, known.found.removals)
    yield from removed


def _within(shades: Iterable[Shade], begin: float, end: float) -> Iterator[Shade]:
    """Yield the shades within a time in the order of their begins."""
    for one in sorted(shades, key=lambda one: one.begin):
        if one.begin < end and begin < one.end:
            yield replace(one, begin=max(begin, one.begin), end=min(end, one.end))
