"""Where there is no time to read all scales and pods one by one, each has its turn."""

import threading
import time
from contextlib import ExitStack

import pytest

from autoscaler import clock
from autoscaler.core.observation import Pod, Scale, Unavailable
from autoscaler.core.spec import ScaleTargetRef
from autoscaler.core.target import Target
from tests.worlds.cluster.cluster import eventually
from tests.worlds.memory import T0, Memory, answer, external, per_pod

LATE = Unavailable("no time was left")
MANY = 20
"""Syncs, of which a few should do."""

NAMES = [f"w{number}" for number in range(60)]
SCALES: dict[str, Scale | Unavailable] = {
    f"shop/{name}": Scale(1, 1, f"app={name}") for name in NAMES
}
SCALE = Scale(1, 1, "app=one")
AT_ONCE = 24
"""Reads in hand, of at least two namespaces."""


class Slow(Memory):
    """Takes a while for a read, and does none after its deadline."""

    seconds = 0.0

    def cached_scale(self, namespace: str, ref: ScaleTargetRef) -> Scale | Unavailable | None:
        """Take so long to tell what is at hand that the first reads have begun by then."""
        time.sleep(0.001)
        return super().cached_scale(namespace, ref)

    def read_scale(
        self, namespace: str, ref: ScaleTargetRef, deadline: float
    ) -> Scale | Unavailable:
        """Fit `Cluster`."""
        return super().read_scale(namespace, ref, deadline) if self._in_time(deadline) else LATE

    def list_pods(
        self, namespace: str, selector: str, deadline: float
    ) -> tuple[Pod, ...] | Unavailable:
        """Fit `Cluster`."""
        return super().list_pods(namespace, selector, deadline) if self._in_time(deadline) else LATE

    def _in_time(self, deadline: float) -> bool:
        if clock.monotonic() >= deadline:
            return False
        time.sleep(self.seconds)
        return True


@pytest.mark.parametrize("seconds", [0.1, 0.5])
def test_scales_that_had_no_turn_come_first_the_next_time(seconds: float) -> None:
    """Sixty direct reads of which a sync has time for half, or for no more than are begun."""
    world = Slow(answers={"queue": answer(30.0)}, scales=SCALES)
    world.seconds = seconds
    left = {name: external("shop", name) for name in NAMES}
    targets = list(left.values())
    with world.syncer() as syncer:
        for sync in range(MANY):
            syncer.sync(targets, T0 + 15 * sync, budget=0.6)
            for one in world.results:
                if isinstance(one.decision.scale, Scale):
                    left.pop(one.target.spec.scale_target_ref.name, None)
            if not left:
                break
    assert left == {}


@pytest.mark.parametrize("seconds", [0.1, 0.5])
def test_pods_that_had_no_turn_come_first_the_next_time(seconds: float) -> None:
    """The same of lists of pods where the scales are at hand."""
    world = Slow(answers={"rps": answer(30.0)}, scales=SCALES, scales_cached=True)
    world.seconds = seconds
    targets = [per_pod("shop", name) for name in NAMES]
    with world.syncer() as syncer:
        for sync in range(MANY):
            syncer.sync(targets, T0 + 15 * sync, budget=0.4)
            if len(set(world.listed)) == len(NAMES):
                break
    assert set(world.listed) == {f"shop: app={name}" for name in NAMES}


def test_turns_hold_across_syncs() -> None:
    """While a sync has many scales to read, one of another sync that had no turn comes next."""
    release = threading.Semaphore(0)

    class Held(Memory):
        begun = 0

        def read_scale(
            self, namespace: str, ref: ScaleTargetRef, deadline: float
        ) -> Scale | Unavailable:
            with self.lock:
                self.begun += 1
                self.listed.append(ref.name)
            release.acquire()
            return super().read_scale(namespace, ref, deadline)

    targets = [external(f"n{number % 2}", name) for number, name in enumerate(NAMES)]
    scales = {f"{one.namespace}/{one.spec.scale_target_ref.name}": SCALE for one in targets}
    world = Held(answers={"queue": answer(30.0)}, scales={**scales, "n2/new": SCALE})
    with world.syncer() as syncer, ExitStack() as stack:
        stack.callback(release.release, 3 * len(NAMES))

        def sync(some: list[Target], now: float) -> threading.Thread:
            thread = threading.Thread(target=syncer.sync, args=(some, now, 60.0))
            thread.start()
            return thread

        release.release(len(NAMES))
        sync(targets, T0).join()
        many = sync(targets, T0 + 15)
        at_once = eventually(lambda: world.begun - len(NAMES), lambda count: count == AT_ONCE)
        other = sync([external("n2", "new")], T0 + 16)
        waiting = syncer._state.reads._waiting
        eventually(lambda: len(waiting), lambda count: count == len(NAMES) - at_once + 1)
        release.release()
        eventually(lambda: world.begun - len(NAMES), lambda count: count == AT_ONCE + 1)
        assert world.listed[-1] == "new"
        release.release(len(NAMES))
        for thread in (many, other):
            thread.join()
