"""Where there is no time to read all scales and pods one by one, each has its turn."""

import time
from dataclasses import dataclass, field

import pytest

from autoscaler import clock
from autoscaler.core.observation import Pod, Scale, Unavailable
from autoscaler.core.spec import ScaleTargetRef
from tests.worlds.memory import T0, Memory, answer, external, per_pod, queue

LATE = Unavailable("no time was left")
MANY = 20
"""Syncs, of which a few should do."""

NAMES = [f"w{number}" for number in range(60)]


@dataclass
class Slow(Memory):
    """Takes a while for a read, and does none after its deadline."""

    seconds: float = 0.0
    read: set[str] = field(default_factory=set)

    def cached_scale(self, namespace: str, ref: ScaleTargetRef) -> Scale | Unavailable | None:
        """Take so long to tell what is at hand that the first reads have begun by then."""
        time.sleep(0.001)
        return super().cached_scale(namespace, ref)

    def read_scale(
        self, namespace: str, ref: ScaleTargetRef, deadline: float
    ) -> Scale | Unavailable:
        """Fit `Cluster`."""
        in_time = self._in_time(ref.name, deadline)
        return super().read_scale(namespace, ref, deadline) if in_time else LATE

    def list_pods(
        self, namespace: str, selector: str, deadline: float
    ) -> tuple[Pod, ...] | Unavailable:
        """Fit `Cluster`."""
        in_time = self._in_time(selector, deadline)
        return super().list_pods(namespace, selector, deadline) if in_time else LATE

    def _in_time(self, what: str, deadline: float) -> bool:
        if clock.monotonic() >= deadline:
            return False
        time.sleep(self.seconds)
        self.read.add(what)
        return True


@pytest.mark.parametrize("seconds", [0.1, 0.5])
@pytest.mark.parametrize("scales_cached", [False, True], ids=["scales", "pods"])
def test_reads_that_had_no_turn_come_first_the_next_time(
    seconds: float, *, scales_cached: bool
) -> None:
    """Sixty direct reads of which a sync has time for half, or for no more than are begun."""
    one = queue(30.0, **dict.fromkeys(NAMES, 1))
    answers = one.answers | {"rps": answer(30.0)}
    world = Slow(answers, one.scales, scales_cached=scales_cached, seconds=seconds)
    targets = [(per_pod if scales_cached else external)("shop", name) for name in NAMES]
    with world.syncer() as syncer:
        for sync in range(MANY):
            syncer.sync(targets, T0 + 15 * sync, budget=0.4 if scales_cached else 0.6)
            if len(world.read) == len(NAMES):
                break
    assert len(world.read) == len(NAMES)
