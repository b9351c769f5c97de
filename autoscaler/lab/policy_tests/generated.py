"""Looks for series with which `never` is broken, and for a short one among them."""

import math
import random
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import count as counting

from autoscaler.lab.policy_tests.expectations import Unmet, unmet
from autoscaler.lab.policy_tests.running import PolicyTestRun, run
from autoscaler.lab.policy_tests.series_names import NamedSeries, ReadyTest
from autoscaler.lab.policy_tests.settings import RandomSeries
from autoscaler.lab.series_notation import Item, Omitted, Ramp, Stale, count_of

MOST_TRIES = 300
"""Of shorter and simpler series, once one has been found."""
_LONGEST_PIECE = 40
_GAP_SHARE, _RAMP_SHARE, _EDGE_SHARE = 0.12, 0.4, 0.25


@dataclass(frozen=True)
class CounterExample:
    """Series with which something is broken, its run, and what is broken."""

    number: int
    """Of the run in which it was found, from 1."""
    series: tuple[NamedSeries, ...]
    run: PolicyTestRun
    unmet: list[Unmet]

    @property
    def lasting(self) -> Iterator[NamedSeries]:
        """The series, with gaps behind them until all that is broken is.

        A test lasts to its last sample; a value in place of a gap might keep the rule.
        """
        last, interval = max(one.time for one in self.unmet), self.run.test.interval
        for one in self.series:
            missing = math.ceil(last / interval) + 1 - count_of(one.items)
            gap = (Omitted(missing),) if missing > 0 else ()
            yield one._replace(items=(*one.items, *gap))


def searched(test: ReadyTest, stated: RandomSeries) -> CounterExample | PolicyTestRun:
    """Return what breaks a test, made short; else its last run."""
    source = random.Random(stated.seed)  # noqa: S311 - nothing is kept secret by it
    intervals = int(test.duration / test.interval) + 1
    result = None
    for number in range(1, stated.runs + 1):
        series = tuple(
            one._replace(items=tuple(made_up(source, stated, intervals))) for one in test.generated
        )
        result = run(test, series)
        if broken := unmet(result):
            return _shortened(test, CounterExample(number, series, result, broken), stated)
    if result is None:
        raise ValueError("a search takes at least one run")
    return result


def made_up(source: random.Random, stated: RandomSeries, intervals: int) -> Iterator[Item]:
    """Yield pieces for so many intervals: steps, ramps, spikes, and samples that are missing."""
    low, high = stated.between
    left = intervals
    while left > 0:
        times = min(source.randint(1, _LONGEST_PIECE), left)
        if stated.gaps and source.random() < _GAP_SHARE:
            if source.random() < 0.5:
                yield Stale()
                left -= 1
            elif times:
                yield Omitted(times)
                left -= times
            continue
        first = _value(source, low, high)
        step = 0.0
        if times > 1 and source.random() < _RAMP_SHARE:
            step = _rounded((_value(source, low, high) - first) / (times - 1))
        item = Ramp(first, step, times - 1)
        last = first + step * item.times
        yield item if low <= last <= high else item._replace(step=0.0)
        left -= times


def _value(source: random.Random, low: float, high: float) -> float:
    """Return a value, often one of the ends."""
    if source.random() < _EDGE_SHARE:
        return source.choice((low, high))
    return min(max(_rounded(source.uniform(low, high)), low), high)


def _rounded(value: float) -> float:
    return float(f"{value:.3g}")


# -- made short ----------------------------------------------------------------------------------


def _shortened(test: ReadyTest, found: CounterExample, stated: RandomSeries) -> CounterExample:
    """Return a simpler example that breaks the same rule: each change that keeps it is kept."""
    rule = found.unmet[0].location
    tries = counting()
    is_better = True
    while is_better:
        is_better = False
        for index in range(len(found.series)):
            place = 0
            while place < len(found.series[index].items):
                for items in _simpler(found.series[index].items, place, stated):
                    if next(tries) >= MOST_TRIES:
                        return found
                    series = list(found.series)
                    series[index] = series[index]._replace(items=items)
                    result = run(test, series)
                    broken = [one for one in unmet(result) if one.location == rule]
                    if broken:
                        found = CounterExample(found.number, tuple(series), result, broken)
                        is_better = True
                        break
                else:
                    place += 1
    return found


def _simpler(
    items: tuple[Item, ...], place: int, stated: RandomSeries
) -> Iterator[tuple[Item, ...]]:
    """Yield what is simpler at a place: without it, without a gap, level, at an end, shorter."""
    before, item, after = items[:place], items[place], items[place + 1 :]
    if len(items) > 1:
        yield (*before, *after)
    if not isinstance(item, Ramp):
        if isinstance(item, Omitted) and item.times > 1:
            yield (*before, Omitted(item.times // 2), *after)
        return
    if item.step:
        yield (*before, item._replace(step=0.0), *after)
    else:
        low, high = stated.between
        ends = [low] if item.value == high else [] if item.value == low else [low, high]
        for end in ends:
            yield (*before, item._replace(value=end), *after)
    if item.times:
        yield (*before, item._replace(times=item.times // 2), *after)
