"""Queues fill and empty, each at moments of its own: waking, climbing, going to sleep."""

import random
import statistics
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from benchmarks import beside, fleet, measures
from benchmarks.bed import Bed
from benchmarks.beside import OURS, Pair, Watched
from benchmarks.command import Report
from benchmarks.keda import pairs as paired
from benchmarks.keda.pairs import KEDA, SIDES, Times
from benchmarks.keda.programs import Keda
from benchmarks.landings import Change
from benchmarks.tables import markdown

MESSAGES = 200
REPLICAS = -(-MESSAGES // fleet.PER_REPLICA)
"""What 200 messages at 30 ask for: 7."""

_PATIENCE = 60.0
"""Seconds beyond what the settings explain, after which a count is said not to come."""


@dataclass(frozen=True)
class Plan:
    """How often the queues fill, and how many."""

    times: Times
    cycles: int
    pairs: int
    seed: int


Samples = dict[str, dict[str, list[float | None]]]
"""Seconds by row and side, None where something did not happen."""


class Stage:
    """The queues, and what scales by them."""

    def __init__(self, bed: Bed, keda: Keda, watched: Watched, plan: Plan) -> None:
        self.pairs = pairs_of(plan)
        self.random = random.Random(plan.seed)  # noqa: S311 - moments, no secrets
        self.watched = watched
        self._bed = bed
        self._keda = keda
        self._times = plan.times
        self._messages = {pair.queue: 0 for pair in self.pairs}

    def spread(self, messages: int) -> dict[Pair, float]:
        """Give each queue its messages at a random moment of one poll; return when (Unix times)."""
        began = time.time()
        offsets = {pair: self.random.uniform(0, self._times.poll) for pair in self.pairs}
        sent = {}
        for pair in sorted(self.pairs, key=offsets.__getitem__):
            self.watched.let_pass(max(0.0, began + offsets[pair] - time.time()))
            self._messages[pair.queue] = messages
            beside.fill(self._bed, self._messages)
            sent[pair] = time.time()
        return sent

    def settle(self, replicas: int) -> None:
        """Wait until all Deployments have so many replicas, or it takes too long."""
        self.watched.wait(
            f"all have {replicas} replicas",
            lambda found: set(found.values()) == {replicas},
            self._times.cooldown + 2 * self._times.poll + _PATIENCE,
        )

    def new_phase(self) -> None:
        """Let KEDA's polls begin anew, at a random moment of the HPA's period and of ours.

        Its poll and the HPA's sync both begin when the ScaledObject does, so that their phases
        would be the same in every cycle.
        """
        self.watched.let_pass(self.random.uniform(0, self._times.period))
        self._keda.restart_operator()
        self.watched.let_pass(self._times.poll + 2 + self.random.uniform(0, self._times.poll))


def pairs_of(plan: Plan) -> list[Pair]:
    """Return a pair for each queue."""
    return [Pair(f"queue-{number}") for number in range(plan.pairs)]


def measure(report: Report, plan: Plan) -> Samples:
    """Start all servers, and let both sides follow the queues."""
    pairs, times, found = pairs_of(plan), plan.times, Samples()
    with Bed(report) as bed:
        names = paired.create(bed, pairs, 0)
        beside.fill(bed, {pair.queue: 0 for pair in pairs})
        measures.wait_for_count(bed, fleet.METRIC, len(pairs))
        config = paired.config(bed, pairs, times)
        with (
            beside.at_work(bed, names, 0, config, len(pairs), times.period) as (watched, _),
            Keda(bed) as keda,
        ):
            watched.checks.append(keda.check)
            paired.create_scaled_objects(bed, pairs, times)
            stage = Stage(bed, keda, watched, plan)
            for cycle in range(plan.cycles):
                report(f"queues fill and empty, cycle {cycle + 1} of {plan.cycles}")
                _cycle(stage, times, found)
    return found


def _cycle(stage: Stage, times: Times, found: Samples) -> None:
    """Let all queues fill and empty once, and add what was seen."""
    stage.new_phase()
    filled = stage.spread(MESSAGES)
    stage.settle(REPLICAS)
    stage.watched.let_pass(stage.random.uniform(0, times.period))
    emptied = stage.spread(0)
    stage.settle(0)
    for pair in stage.pairs:
        for side in SIDES:
            changes = stage.watched.changes(pair.deployment(side))
            waking = _first(changes, filled[pair], lambda count: count > 0)
            climbed = _first(changes, filled[pair], lambda count: count >= REPLICAS)
            asleep = _first(changes, emptied[pair], lambda count: count == 0)
            for row, seconds in (
                ("first message to leaving 0, s", waking),
                (f"first message to {REPLICAS} replicas for {MESSAGES} messages, s", climbed),
                ("queue empty to 0, s", asleep),
            ):
                found.setdefault(row, {}).setdefault(side, []).append(seconds)


def _first(changes: Sequence[Change], since: float, reached: Callable[[int], bool]) -> float | None:
    """Return the seconds from `since` to the first change to such a count."""
    times = (change.at for change in changes if change.at >= since and reached(change.replicas))
    first = next(times, None)
    return None if first is None else first - since


def table(samples: Samples) -> str:
    """Return the table of seconds: median, and the least and the most of all samples."""
    body = []
    for row, of_side in samples.items():
        theirs, ours = (_median(of_side[side]) for side in SIDES)
        ratio = f"{theirs / ours:.1f}" if theirs is not None and ours else ""
        body.append([row, *(_seconds(of_side[side]) for side in SIDES), ratio])
    return markdown(["median (least to most)", *SIDES, f"{KEDA} / {OURS}"], body)


def _median(samples: Sequence[float | None]) -> float | None:
    found = [seconds for seconds in samples if seconds is not None]
    return statistics.median(found) if found else None


def _seconds(samples: Sequence[float | None]) -> str:
    found = [seconds for seconds in samples if seconds is not None]
    if not found:
        return "never"
    text = f"{statistics.median(found):.1f} ({min(found):.1f} to {max(found):.1f})"
    missing = len(samples) - len(found)
    return f"{text}, {missing} of {len(samples)} never" if missing else text
