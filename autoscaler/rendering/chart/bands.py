"""The bands of a chart: where stabilization and the scaling policies would leave the count."""

import math
from bisect import bisect_left, bisect_right
from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from itertools import pairwise
from typing import Generic, NamedTuple, TypeVar

from autoscaler.core.history import GAP_PERIODS, History, Recommendation, ScaleEvent
from autoscaler.core.normalize import permitted
from autoscaler.core.spec import down_window
from autoscaler.core.sync_result import Rules, SyncResult
from autoscaler.core.writes import AFTER_DUE_SECONDS
from autoscaler.persistence.record.rows import Lapse, Sample
from autoscaler.rendering.chart.model import Band

MILLISECOND = 0.001
"""Samples are kept to a millisecond, changes are not: one this much later is of the same sync."""


_V = TypeVar("_V")


class OverTime(Generic[_V]):
    """What came into force when, in order."""

    def __init__(self, values: Sequence[tuple[float, _V]]) -> None:
        self.times = [time - MILLISECOND for time, _ in values]
        self.values = [one for _, one in values]

    def at(self, time: float) -> _V | None:
        """Return what is in force at an instant; None where that is not known."""
        index = bisect_right(self.times, time)
        return self.values[index - 1] if index else None

    def until(self, time: float) -> float:
        """Return when that is replaced; infinity if it is not."""
        index = bisect_right(self.times, time)
        return self.times[index] if index < len(self.times) else math.inf


RulesOverTime = OverTime[Rules | None]
"""None are those that are not known."""


class Proposals(NamedTuple):
    """What the metrics asked for in the syncs from ``time`` to ``last``: the least and the most.

    Both are None if nothing was to be asked for, as while a metric fails.  What is ``only_down``
    does not count for scaling up (`Recommendation.only_down`).
    """

    time: float
    last: float
    low: int | None
    high: int | None
    only_down: bool = False


class Write(NamedTuple):
    """A change of the count by us."""

    time: float
    step: int


def windows_of(rules: Rules) -> tuple[float, float]:
    """Return the stabilization windows of scale-up and scale-down in seconds (semantics 4.1)."""
    behavior = rules.target.spec.behavior
    up = 0.0 if behavior is None else float(behavior.scale_up.stabilization_window_seconds or 0)
    return up, down_window(behavior, rules.flags)


def _periods(rules: Rules) -> set[int]:
    behavior = rules.target.spec.behavior
    if behavior is None:
        return set()
    policies = (*behavior.scale_up.policies, *behavior.scale_down.policies)
    return {policy.period_seconds for policy in policies}


def _combined(current: int | None, proposals: Sequence[int | None]) -> int | None:
    """Return the combined proposal; None if failed metrics leave none (semantics 1.3.2)."""
    known = [one for one in proposals if one is not None]
    if not known or current is None:
        return None
    best = max(0, *known)
    return None if best < current and len(known) < len(proposals) else best


def asked_by(
    samples: Iterable[Sample], lapses: Sequence[Lapse], rules: RulesOverTime, end: float
) -> Iterator[Proposals]:
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
            yield Proposals(gap.begin, gap.begin, None, None)
            absent, current = sample.time - gap.begin, sample.numbers[0]
            if current is not None and absent > GAP_PERIODS * _period(rules, sample.time):
                yield Proposals(sample.time, sample.time, current, current, only_down=True)
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


def _asked_of(sample: Sample, last: float) -> Iterator[Proposals]:
    current = sample.numbers[0]
    count = _combined(current, sample.numbers[3::2])
    if sample.seconds and count is not None:
        low, high = (_combined(current, those[3::2]) for those in (sample.low, sample.high))
        end = min(last, sample.time + sample.seconds)
        counts = [one for one in (count, low, high) if one is not None]
        yield Proposals(sample.time, end, min(counts), max(counts))
    yield Proposals(sample.time, last, count, count)


def asked_before(entry: SyncResult) -> Iterator[Proposals]:
    """Yield what was asked for before a decision, as its history tells."""
    inputs, current = entry.inputs, entry.decision.current
    known = inputs.history.recommendations
    if current is not None and (known is None or inputs.history.unobserved):
        first = Recommendation(current, inputs.stamp, only_down=known is not None)
        known = (*(known or ()), first)
    for one in sorted(known or (), key=lambda one: one.time):
        yield Proposals(one.time, one.time, one.replicas, one.replicas, one.only_down)


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


def stabilization(asked: Sequence[Proposals], times: Sequence[float], rules: RulesOverTime) -> Band:
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
                if not now.only_down:
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


def releases(asked: Sequence[Proposals], rules: RulesOverTime) -> Iterator[float]:
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
    for write in writes:
        own = rules.at(write.time)
        yield from (write.time + period for period in (() if own is None else _periods(own)))


def policies(
    times: Sequence[float],
    counts: Sequence[int | None],
    bounds: Sequence[tuple[int, int] | None],
    writes: Sequence[Write],
    rules: RulesOverTime,
) -> Band:
    """Return how far a count may go at once at each time, given our writes before it."""
    written = [write.time for write in writes]
    band: list[tuple[int | None, int | None]] = []
    for time, count, bound in zip(times, counts, bounds, strict=True):
        own = rules.at(time)
        if own is None or count is None or bound is None:
            band.append((None, None))
            continue
        first = bisect_right(written, time - max(_periods(own), default=0))
        recent = writes[first : bisect_left(written, time - AFTER_DUE_SECONDS)]
        history = History(
            scale_ups=tuple(ScaleEvent(one.step, one.time) for one in recent if one.step > 0),
            scale_downs=tuple(ScaleEvent(-one.step, one.time) for one in recent if one.step < 0),
        )
        behavior, now = own.target.spec.behavior, time + AFTER_DUE_SECONDS
        band.append(permitted(count, bound, behavior, history, now))
    return Band(tuple(low for low, _ in band), tuple(high for _, high in band))
