"""What a run of kills is judged by: a load that is known, and every count that was ever set."""

import random
import threading
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Self

from autoscaler import clock
from tests.worlds.counts import Seen
from tests.worlds.daemon import Document, external, target
from tests.worlds.prometheus.exporter import Exporter

DELAY_SECONDS = 2.0
"""A load reaches a sync through a scrape and a sync, each of them a second later at most."""

Change = tuple[float, int, int]

METRIC = "kill_load"
LOADS = (1, 12)
STEP_SECONDS = (8.0, 14.0)


@dataclass(frozen=True)
class Rules:
    """A target's bounds and policies; a window and periods in seconds, values in pods.

    The periods are longer than a restart takes, so that it shows when one of them is forgotten.
    """

    minimum: int = 2
    maximum: int = 10
    window: int = 15
    up: tuple[int, int] = (2, 6)
    down: tuple[int, int] = (2, 5)

    def target(self, namespace: str, name: str) -> Document:
        """Return the target of the configuration: one replica for each unit of load."""
        down = {"stabilizationWindowSeconds": self.window, "policies": [_policy(self.down)]}
        return target(
            namespace,
            name,
            external(METRIC, 1, app=name),
            minReplicas=self.minimum,
            maxReplicas=self.maximum,
            behavior={"scaleUp": {"policies": [_policy(self.up)]}, "scaleDown": down},
        )


def _policy(policy: tuple[int, int]) -> Mapping[str, object]:
    return {"type": "Pods", "value": policy[0], "periodSeconds": policy[1]}


class Load:
    """Sets each target's load to another level every few seconds, and remembers it all."""

    def __init__(self, exporter: Exporter, names: list[str], seed: int) -> None:
        self.levels: dict[str, list[Seen]] = {name: [] for name in names}
        self._exporter = exporter
        self._random = random.Random(seed)  # noqa: S311 - a test's
        self._ended = threading.Event()
        for name in names:
            self._set(name)
        self._threads = [
            threading.Thread(target=self._run, args=(name,), daemon=True) for name in names
        ]

    def __enter__(self) -> Self:
        for thread in self._threads:
            thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._ended.set()
        for thread in self._threads:
            thread.join(10)

    def _run(self, name: str) -> None:
        while not self._ended.wait(self._random.uniform(*STEP_SECONDS)):
            self._set(name)

    def _set(self, name: str) -> None:
        level = self._random.randint(*LOADS)
        self._exporter.set(METRIC, {"app": name}, level)
        self.levels[name].append((clock.monotonic(), level))


def changes(counts: Sequence[Seen]) -> list[Change]:
    """Return when a count was set, from what to what."""
    return [(instant, before, after) for (_, before), (instant, after) in pairwise(counts)]


@dataclass(frozen=True)
class Judge:
    """Checks the counts against bounds, policies, and what an uninterrupted run would do.

    ``slack`` are the seconds by which a count may be seen earlier or later, after its decision,
    than another one.
    """

    rules: Rules
    slack: float = 1.0

    def faults(self, levels: Sequence[Seen], counts: Sequence[Seen]) -> Iterator[str]:
        """Say what went wrong with one target, by the loads that it had."""
        rules, made = self.rules, changes(counts)
        for change in made:
            _, before, after = change
            if not rules.minimum <= after <= rules.maximum:
                yield f"{before} -> {after} is out of bounds"
            yield from self._too_fast(change, made)
            yield from self._unwanted(change, levels)

    def _too_fast(self, change: Change, made: Sequence[Change]) -> Iterator[str]:
        """Say that a policy allows no such change so soon after others."""
        instant, before, after = change
        sign = 1 if after > before else -1
        value, period = self.rules.up if after > before else self.rules.down
        recent = [
            (instant - seen, new - old)
            for seen, old, new in made
            # A change the other way widens the allowance for as long as it may count.
            if 0 < instant - seen < period + (self.slack if (new - old) * sign < 0 else -self.slack)
        ]
        start = before - sum(change for _, change in recent)
        if (after - start) * sign > value:
            yield f"{before} -> {after} exceeds {value} in {period} s; before: {recent}"

    def _unwanted(self, change: Change, levels: Sequence[Seen]) -> Iterator[str]:
        """Say that the window forbids a scale-down, or that no load asked for a scale-up."""
        instant, before, after = change
        recent, rules = instant - DELAY_SECONDS - self.slack, self.rules
        if after < before:
            least = DELAY_SECONDS + self.slack
            most = highest(levels, instant - rules.window + self.slack, recent, least)
            if after < (wanted := min(most, rules.maximum)):
                yield f"{before} -> {after}: window at {wanted}"
        elif after > (wanted := max(highest(levels, recent, instant, 0), rules.minimum)):
            yield f"{before} -> {after}: {wanted} wanted"


def highest(levels: Sequence[Seen], since: float, until: float, least: float) -> int:
    """Return the highest level that held for ``least`` seconds of a span of time."""
    ends = [begin for begin, _ in levels[1:]] + [float("inf")]
    held = [
        level
        for (begin, level), end in zip(levels, ends, strict=True)
        if min(end, until) - max(begin, since) >= least
    ]
    return max(held, default=0)
