"""KEDA and the daemon at work at the same time, each on its own Deployment of every pair."""

import random
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field

from benchmarks import fleet, measures
from benchmarks.bed import Bed
from benchmarks.beside import Watched
from benchmarks.command import Report
from benchmarks.daemon import Daemon
from benchmarks.hpa import TUNED, HpaController
from benchmarks.keda import pairs as paired
from benchmarks.keda.pairs import SIDES, Pair, Times
from benchmarks.keda.programs import Keda
from benchmarks.landings import Change, Landings

_PATIENCE = 60.0
"""Seconds beyond what the settings explain, after which a count is said not to come."""


@dataclass
class Stage:
    """What a scenario acts on."""

    bed: Bed
    keda: Keda
    watched: Watched
    pairs: Sequence[Pair]
    times: Times
    random: random.Random
    messages: dict[str, int] = field(default_factory=dict)

    def fill(self, messages: Mapping[str, int | None]) -> None:
        """Give queues that many messages from the next scrape on; None takes the series away."""
        self.messages = {
            queue: count
            for queue, count in {**self.messages, **messages}.items()
            if count is not None
        }
        served = (({"queue": queue}, float(count)) for queue, count in self.messages.items())
        self.bed.page.set_all(fleet.METRIC, served)

    def settle(self, replicas: Mapping[str, int]) -> bool:
        """Wait until both Deployments of these queues have so many replicas; whether they did."""
        wanted = {
            pair.deployment(side): replicas[pair.queue]
            for pair in self.pairs
            for side in SIDES
            if pair.queue in replicas
        }
        timeout = self.times.cooldown + 2 * self.times.poll + _PATIENCE
        return self.watched.wait(
            f"the replicas are {replicas}",
            lambda found: all(found[name] == count for name, count in wanted.items()),
            timeout,
        )

    def let_pass(self, seconds: float) -> None:
        """Let so many seconds pass."""
        self.watched.let_pass(seconds)

    def new_phase(self) -> None:
        """Let KEDA's polls begin anew, at a random moment of the HPA's period and of ours.

        Its poll and the HPA's sync both begin when the ScaledObject does, so that their phases
        would be the same in every cycle.
        """
        self.let_pass(self.random.uniform(0, self.times.period))
        self.keda.restart_operator()
        self.let_pass(self.times.poll + 2 + self.random.uniform(0, self.times.poll))

    def changes(self, pair: Pair, side: str) -> list[Change]:
        """Return the changes of a Deployment's replicas so far."""
        return self.watched.changes(pair.deployment(side))


@contextmanager
def at_work(
    report: Report, pairs: Sequence[Pair], times: Times, messages: Mapping[str, int], seed: int
) -> Iterator[Stage]:
    """Start all servers, and let both sides scale the pairs, whose queues hold these messages."""
    names = [pair.deployment(side) for pair in pairs for side in SIDES]
    flags = [f"--horizontal-pod-autoscaler-sync-period={times.period}s", *TUNED]
    with Bed(report) as bed:
        paired.create(bed, pairs, 0)
        served = (({"queue": queue}, float(count)) for queue, count in messages.items())
        bed.page.set_all(fleet.METRIC, served)
        measures.wait_for_count(bed, fleet.METRIC, len(messages))
        config = paired.config(bed, pairs, times)
        with (
            Landings(bed.bulk, fleet.DEPLOYMENTS) as landings,
            HpaController(bed.plane, bed.folder, flags) as controller,
            Keda(bed) as keda,
            Daemon(bed, config, len(pairs), "debug") as process,
        ):

            def check() -> None:
                controller.check()
                keda.check()
                process.check()

            paired.create_scaled_objects(bed, pairs, times)
            process.wait_first_sync(timeout=2 * times.period + 60)
            watched = Watched(bed, landings, names, check, first=0)
            chance = random.Random(seed)  # noqa: S311 - moments, no secrets
            yield Stage(bed, keda, watched, pairs, times, chance, dict(messages))
