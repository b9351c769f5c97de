"""A pod's CPU as cAdvisor counts it, and what Prometheus and metrics-server keep of it.

Times are in seconds since the beginning of the model, usage is in cores.
"""

import bisect
import random
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import accumulate, pairwise

HOUSEKEEPING = 10.0
"""The kubelet's `housekeeping_interval`: a look comes one to two of them after the last."""

METRIC_RESOLUTION = 15.0
"""How often metrics-server asks the kubelet, unless `--metric-resolution` says otherwise."""


@dataclass(frozen=True, slots=True)
class Counter:
    """Seconds of CPU used since the beginning; the usage is constant between two changes."""

    changes: tuple[tuple[float, float], ...]
    """From when on so many cores are used; the first one from 0 on."""

    def at(self, instant: float) -> float:
        """Return what was used until an instant."""
        total = 0.0
        for (since, cores), (until, _) in pairwise([*self.changes, (instant, 0.0)]):
            if since >= instant:
                break
            total += cores * (min(until, instant) - since)
        return total


def bursts(seconds: float, mean: float, turn: float, dice: random.Random) -> Counter:
    """Return a pod that works at twice the mean and rests in turns, each of `turn` on average."""
    lengths = [dice.expovariate(1 / turn) for _ in range(int(2 * seconds / turn))]
    starts = [0.0, *accumulate(lengths)]
    return Counter(tuple((start, 2 * mean * (at % 2)) for at, start in enumerate(starts)))


@dataclass(frozen=True, slots=True)
class Sample:
    """What one scrape finds: the counter as it was when cAdvisor last looked."""

    scraped: float
    looked: float
    value: float


@dataclass(frozen=True, slots=True)
class CAdvisor:
    """One container of it."""

    looks: tuple[float, ...]
    values: tuple[float, ...]

    @classmethod
    def of(cls, counter: Counter, seconds: float, dice: random.Random) -> "CAdvisor":
        """Look at a counter until the end."""
        looks = [dice.uniform(0, HOUSEKEEPING)]
        while looks[-1] < seconds:
            looks.append(looks[-1] + HOUSEKEEPING * (1 + dice.random()))
        return cls(tuple(looks), tuple(counter.at(look) for look in looks))

    def scraped(self, instants: Sequence[float]) -> list[Sample]:
        """Return what scrapes at these instants find."""
        found = []
        for instant in instants:
            at = bisect.bisect_right(self.looks, instant) - 1
            if at >= 0:
                found.append(Sample(instant, self.looks[at], self.values[at]))
        return found


def scrapes(interval: float, seconds: float, dice: random.Random, lost: float) -> list[float]:
    """Return the instants of scrapes, without the first one from `lost` on."""
    instants = [dice.uniform(0, interval)]
    while instants[-1] < seconds:
        instants.append(instants[-1] + interval)
    instants.remove(next(instant for instant in instants if instant >= lost))
    return instants


class MetricsServer:
    """Usage between the last two looks that it was told of, as its `podStorage` has it.

    A scrape that fails leaves it without the pod; it answers again from the second one on.
    """

    def __init__(self, samples: Sequence[Sample]) -> None:
        self._readings: list[tuple[float, float | None]] = []
        last: Sample | None = None
        previous: Sample | None = None
        for sample in samples:
            if last is not None and sample.scraped - last.scraped > 1.5 * METRIC_RESOLUTION:
                self._readings.append((last.scraped + METRIC_RESOLUTION, None))
                last = previous = None
            if last is not None and sample.looked > last.looked:
                previous = last
            last = sample
            usage = None
            if previous is not None:
                usage = (last.value - previous.value) / (last.looked - previous.looked)
            self._readings.append((sample.scraped, usage))

    def at(self, instant: float) -> float | None:
        """Return the usage that it would answer; None where it knows none."""
        at = bisect.bisect_right(self._readings, instant, key=lambda reading: reading[0]) - 1
        return self._readings[at][1] if at >= 0 else None
