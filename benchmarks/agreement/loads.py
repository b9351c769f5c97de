"""Loads over time, in replicas' worth: what a workload would need at exactly its metric's target.

A load is computed from the time alone, so that whoever asks for the same instant is told the same.
"""

import math
import random
from bisect import bisect_right
from collections.abc import Callable, Iterator, Sequence
from itertools import accumulate, pairwise

Load = Callable[[float], float]
"""Replicas' worth at a time in seconds since the beginning."""

Range = tuple[float, float]

_HOURS = 4.0
"""How long the changes of a load are drawn ahead; the last one then holds."""

_NOISE_SECONDS = 5.0
"""A noisy load holds each of its values for so long."""


def constant(replicas: float) -> Load:
    """Return a load that never changes."""
    return lambda _: replicas


def steps(seed: str, low_high: Range, every: Range) -> Load:
    """Return plateaus at random heights, each of a random length."""
    knots = list(_knots(seed, low_high, every))
    times = [at for at, _ in knots]

    def load(at: float) -> float:
        return knots[max(0, bisect_right(times, at) - 1)][1]

    return load


def ramps(seed: str, low_high: Range, every: Range) -> Load:
    """Return straight lines from one random height to the next."""
    knots = list(_knots(seed, low_high, every))

    def load(at: float) -> float:
        return _between(knots, at)

    return load


def diurnal(seed: str, low_high: Range, day: float) -> Load:
    """Return days and nights, each day squeezed into so many seconds."""
    low, high = low_high
    phase = _dice(seed).random()

    def load(at: float) -> float:
        height = (1 - math.cos(2 * math.pi * (at / day + phase))) / 2
        return low + (high - low) * height

    return load


def bursts(seed: str, low_high: Range, every: Range, seconds: float) -> Load:
    """Return a low load with bursts of so many seconds to the high one."""
    low, high = low_high
    starts = [at for at, _ in _knots(seed, low_high, every)][1:]

    def load(at: float) -> float:
        last = bisect_right(starts, at) - 1
        return high if last >= 0 and at - starts[last] < seconds else low

    return load


def noisy(seed: str, load: Load, share: float) -> Load:
    """Return a load that is off by a random share, at most so large, in each few seconds."""

    def changed(at: float) -> float:
        dice = _dice(f"{seed} {math.floor(at / _NOISE_SECONDS)}")
        return load(at) * (1 + dice.uniform(-share, share))

    return changed


def _dice(seed: str) -> random.Random:
    return random.Random(seed)  # noqa: S311 - no secret


def _knots(seed: str, low_high: Range, every: Range) -> Iterator[tuple[float, float]]:
    dice = _dice(seed)
    lengths = [dice.uniform(*every) for _ in range(math.ceil(_HOURS * 3600 / every[0]))]
    for at in accumulate(lengths, initial=0.0):
        yield at, dice.uniform(*low_high)


def _between(knots: Sequence[tuple[float, float]], at: float) -> float:
    for (since, height), (until, next_height) in pairwise(knots):
        if at < until:
            return height + (next_height - height) * (at - since) / (until - since)
    return knots[-1][1]
