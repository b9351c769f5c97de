"""The bands of a chart: where stabilization and the scaling policies would leave the count."""

import math
from bisect import bisect_left, bisect_right
from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from itertools import pairwise
from typing import NamedTuple

from autoscaler.core.entry import Entry, Rules
from autoscaler.core.history import GAP_PERIODS, Recommendation, ScaleEvent
from autoscaler.core.instants import AFTER_DUE_SECONDS
from autoscaler.core.limits import Changes, permitted
from autoscaler.core.normalize import down_window
from autoscaler.core.spec import Behavior
from autoscaler.record.rows import Lapse, Sample
from autoscaler.rendering.chart.model import Band
from autoscaler.rendering.chart.rules import RulesOverTime


class Asked(NamedTuple):
    """What the metrics asked for in the syncs from ``time`` to ``last``: the least and the most.

    Both are None if nothing was to be asked for, as while a metric fails.
    """

    time: float
    last: float
    low: int | None
    high: int | None


class Write(NamedTuple):
    """A change of the count by us."""

    time: float
    step: int


def up_window(behavior: Behavior | None) -> float:
    """Return the stabilization window of scale-up in seconds (semantics 4.1, 4.2)."""
    return 0.0 if behavior is None else float(behavior.scale_up.stabilization_window_seconds or 0)


def windows_of(rules: Rules) -> tuple[float, float]:
    """Return the stabilization windows of scale-up and scale-down in seconds."""
    behavior = rules.target.spec.behavior
    return up_window(behavior), down_window(behavior, rules.flags)


def longest_period(rules: Rules) -> float:
    """Return the longest period of a policy in seconds; 0 without one."""
    behavior = rules.target.spec.behavior
    if behavior is None:
        return 0.0
    policies = (*behavior.scale_up.policies, *behavior.scale_down.policies)
    return float(max((one.period_seconds for one in policies), default=0))


def combined(current: int | None, proposals: Sequence[int | None]) -> int | None:
    """Return the combined proposal; None if failed metrics leave none (semantics 1.3.2)."""
    known = [one for one in proposals if one is not None]
    if not known or current is None:
        return None
    best = max(0, *known)
    return None if best < current and len(known) < len(proposals) else best


def asked_by(
    samples: Iterable[Sample], lapses: Sequence[Lapse], rules: RulesOverTime, end: float
) -> Iterator[Asked]:
    """Yield what the samples asked for in each sync; a minute first as its extremes.

    After a lapse of more than some periods the current count is a recommendation too, since others
    are missing (semantics 7.3).
    """
    held: Sample | None = None
    gaps = list(lapses)
    for sample in samples:
        while gaps and gaps[0].begin < sample.time:
            gap = gaps.pop(0)
            if held is not None:
                yield from _asked_of(held, gap.begin)
            yield Asked(gap.begin, gap.begin, None, None)
            absent, current = sample.time - gap.begin, sample.numbers[0]
            if current is not None and absent > GAP_PERIODS * _period(rules, sample.time):
                yield Asked(sample.time, sample.time, current, current)
            held = None
        if held is not None:
            last = max(held.time, sample.time - _period(rules, held.time))
            yield from _asked_of(held, last)
        held = sample
    if held is not None:
        yield from _asked_of(held, end)


def _period(rules: RulesOverTime, time: float) -> float:
    own = rules.at(time)
    return 0.0 if own is None else own.target.sync_period


def _asked_of(sample: Sample, last: float) -> Iterator[Asked]:
    current = sample.numbers[0]
    count = combined(current, sample.numbers[3::2])
    if sample.seconds and count is not None:
        low, high = (combined(current, those[3::2]) for those in (sample.low, sample.high))
        end = min(last, sample.time + sample.seconds)
        counts = [one for one in (count, low, high) if one is not None]
        yield Asked(sample.time, end, min(counts), max(counts))
    yield Asked(sample.time, last, count, count)


def asked_before(entry: Entry) -> Iterator[Asked]:
    """Yield what was asked for before a decision, as its history tells."""
    inputs, current = entry.inputs, entry.decision.current
    known = inputs.history.recommendations
    if known is None or inputs.history.unobserved:
        initial = () if current is None else (Recommendation(current, inputs.stamp),)
        known = (*(known or ()), *initial)
    for one in sorted(known, key=lambda one: one.time):
        yield Asked(one.time, one.time, one.replicas, one.replicas)


class _Window:
    """The extreme of what was asked for within a window that moves on."""

    def __init__(self, *, most: bool) -> None:
        self._sign = 1 if most else -1
        self._counting: deque[tuple[int, float]] = deque()

    def add(self, count: int, last: float) -> None:
        """Add a count that was asked for until an instant."""
        count *= self._sign
        while self._counting and self._counting[-1][0] <= count:
            self._counting.pop()
        self._counting.append((count, last))

    def extreme(self, count: int, after: float) -> int:
        """Return the extreme of a count and all that were still asked for after an instant."""
        while self._counting and self._counting[0][1] <= after:
            self._counting.popleft()
        held = self._counting[0][0] if self._counting else self._sign * count
        return self._sign * max(held, self._sign * count)


def stabilization(asked: Sequence[Asked], times: Sequence[float], rules: RulesOverTime) -> Band:
    """Return the least that scale-up's window permits, and the most that scale-down's holds.

    They are the extremes of what was asked for within each (semantics 4.1, 4.2).
    """
    lows, highs = _Window(most=False), _Window(most=True)
    band: list[tuple[int | None, int | None]] = []
    index, now = 0, None
    for time in times:
        own = rules.at(time)
        since = -math.inf if own is None else time - max(windows_of(own))
        while index < len(asked) and asked[index].time <= time:
            now = asked[index]
            if now.low is not None and now.high is not None and now.last > since:
                lows.add(now.low, now.last)
                highs.add(now.high, now.last)
            index += 1
        if own is None or now is None or now.low is None or now.high is None:
            band.append((None, None))
            continue
        up, down = windows_of(own)
        at = time + AFTER_DUE_SECONDS
        band.append((lows.extreme(now.low, at - up), highs.extreme(now.high, at - down)))
    return Band(tuple(low for low, _ in band), tuple(high for _, high in band))


def releases(asked: Sequence[Asked], rules: RulesOverTime) -> Iterator[float]:
    """Yield the instants from which something that was asked for no longer counts."""
    for one, after in pairwise(asked):
        own = rules.at(one.time)
        if own is None or one.low is None or one.high is None:
            continue
        up, down = windows_of(own)
        if after.high is None or after.high < one.high:
            yield one.last + down
        if up and (after.low is None or after.low > one.low):
            yield one.last + up


def renewals(writes: Sequence[Write], rules: RulesOverTime) -> Iterator[float]:
    """Yield the instants from which a write no longer counts for a policy."""
    for one in writes:
        own = rules.at(one.time)
        behavior = None if own is None else own.target.spec.behavior
        if behavior is not None:
            policies = (*behavior.scale_up.policies, *behavior.scale_down.policies)
            yield from (one.time + period for period in {one.period_seconds for one in policies})


def policies(
    times: Sequence[float],
    counts: Sequence[int | None],
    bounds: Sequence[tuple[int, int] | None],
    writes: Sequence[Write],
    rules: RulesOverTime,
) -> Band:
    """Return how far a count may go at once at each time, given our writes before it."""
    written = [one.time for one in writes]
    band: list[tuple[int | None, int | None]] = []
    for time, count, bound in zip(times, counts, bounds, strict=True):
        own = rules.at(time)
        if own is None or count is None or bound is None:
            band.append((None, None))
            continue
        first = bisect_right(written, time - longest_period(own))
        recent = writes[first : bisect_left(written, time - AFTER_DUE_SECONDS)]
        changes = Changes(
            tuple(ScaleEvent(one.step, one.time) for one in recent if one.step > 0),
            tuple(ScaleEvent(-one.step, one.time) for one in recent if one.step < 0),
        )
        behavior, now = own.target.spec.behavior, time + AFTER_DUE_SECONDS
        band.append(permitted(count, bound, behavior, changes, now))
    return Band(tuple(low for low, _ in band), tuple(high for _, high in band))
