"""What it costs to keep state: `python -m benchmarks.store`.

Every target has the history that some minutes of real decisions leave.  Prints what keeping one
sync of all of them costs, processor time of all threads and time until it is on the disk, beside
the simplest thing that would keep the same: one file, pickled anew at every sync.
"""

import argparse
import gc
import math
import os
import pickle
import statistics
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from autoscaler.core.decide import decide
from autoscaler.core.history import History
from autoscaler.core.observation import Observation, Scale, Values
from autoscaler.core.spec import Flags, HorizontalPodAutoscalerSpec, ScaleTargetRef
from autoscaler.core.writes import settle
from autoscaler.persistence.store import SqliteHistoryStore
from benchmarks.core import BEHAVIOR, NOW, QUEUE, SYNC_PERIOD

SPEC = HorizontalPodAutoscalerSpec(
    ScaleTargetRef("apps/v1", "Deployment", "app"), 1, 100, (QUEUE,), BEHAVIOR
)
SYNCS_BEFORE = 25
"""Enough for every list to have as many slots as it ever gets."""

SYNCS_MEASURED = 20
INTENDED = 3000

KINDS = 100
"""So many targets are decided about; the others share what comes of it."""

Kept = list[tuple[str, History, float]]


class Fleet:
    """Targets that are synced on and on; their load stays, or changes from sync to sync."""

    def __init__(self, count: int) -> None:
        self.names = [f"namespace-{number % 50}/Deployment/app-{number}" for number in range(count)]
        self.moving = False
        self.syncs = 0
        self._replicas = [10] * KINDS
        self._histories = [History()] * KINDS

    def sync(self) -> Kept:
        """Decide about every target once more."""
        self.syncs += 1
        decided = [self._decide(kind) for kind in range(KINDS)]
        return [(name, *decided[number % KINDS]) for number, name in enumerate(self.names)]

    def _decide(self, kind: int) -> tuple[History, float]:
        swing = math.sin(self.syncs / 7 + kind) if self.moving else 0.0
        replicas = self._replicas[kind]
        seen = Observation(
            Scale(replicas, replicas, "app=app"), None, (Values((int(300_000 * (1.5 + swing)),)),)
        )
        now = NOW + self.syncs * SYNC_PERIOD
        decision, history = decide(SPEC, Flags(), seen, self._histories[kind], now)
        if decision.rescale:
            decision, history = settle(SPEC, decision, history)
            self._replicas[kind] = decision.desired
        self._histories[kind] = history
        return history, decision.time


class Pickled:
    """Keeps everything in one file, which is written anew each time."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory

    def keep(self, kept: Kept) -> None:
        """Write all there is, and wait until it is on the disk."""
        new = self._directory / "new"
        with new.open("wb") as file:
            for name, history, decided in kept:
                # One by one, lest what targets share in this benchmark is written once.
                file.write(pickle.dumps((name, history, decided)))
            file.flush()
            os.fsync(file.fileno())
        new.rename(self._directory / "state")


@dataclass(frozen=True, slots=True)
class Cost:
    """Milliseconds."""

    processor: float
    wall: float

    def __str__(self) -> str:
        return f"{self.processor:8.1f} ms of processor {self.wall:8.1f} ms"


def cost_of(work: Callable[[], object]) -> Cost:
    """Do some work, and return what it took."""
    processor, wall = time.process_time(), time.perf_counter()
    work()
    return Cost(1e3 * (time.process_time() - processor), 1e3 * (time.perf_counter() - wall))


def usual_cost(fleet: Fleet, keep: Callable[[Kept], object], syncs: int = SYNCS_MEASURED) -> Cost:
    """Return the median costs of keeping a sync."""
    costs = []
    for _ in range(syncs):
        kept = fleet.sync()
        costs.append(cost_of(lambda kept=kept: keep(kept)))  # type: ignore[misc]
    return Cost(
        statistics.median(cost.processor for cost in costs),
        statistics.median(cost.wall for cost in costs),
    )


def line(what: str, figure: object) -> None:
    """Print a figure."""
    print(f"{what:<34}{figure}")


@contextmanager
def opened(directory: Path) -> Iterator[SqliteHistoryStore]:
    """Open a store, and say so where it cannot keep anything."""
    store = SqliteHistoryStore(directory, lambda ok, sentence: None if ok else print(sentence))
    try:
        yield store
    finally:
        store.close()


def measure_keeping(fleet: Fleet, syncs: int, directory: Path) -> Cost:
    """Measure what a daemon has of it that runs on; return the cost of a usual sync."""
    with opened(directory) as store:
        store.start()

        def keep(kept: Kept) -> None:
            store.keep(kept)
            # It is done with the sync's transaction, or with a small one right after it.
            store.intend(kept[0][0], kept[0][1]).result()

        line("first sync, all targets new", usual_cost(fleet, keep, 1))
        usual_cost(fleet, keep, SYNCS_BEFORE)
        steady = usual_cost(fleet, keep)
        line("sync, loads as before", steady)
        fleet.moving = True
        line("sync, every decision another", usual_cost(fleet, keep))
        some = fleet.sync()[:INTENDED]
        line(
            f"{len(some)} notes before writes at once",
            cost_of(lambda: [done.result() for done in [store.intend(*row[:2]) for row in some]]),
        )
        while fleet.syncs < syncs:
            keep(fleet.sync())
    size = sum(file.stat().st_size for file in directory.glob("*.db"))
    line(f"file after {fleet.syncs} syncs", f"{size / 1e6:8.1f} MB")
    return steady


def run(targets: int, syncs: int, directory: Path) -> None:
    """Measure everything, and print it."""
    gc.freeze()
    gc.set_threshold(100_000, 20, 50)  # as the daemon does
    kept_in, pickled_in = directory / "kept", directory / "pickled"
    pickled_in.mkdir()
    fleet = Fleet(targets)
    steady = measure_keeping(fleet, syncs, kept_in)
    with opened(kept_in) as store:
        line("start", cost_of(store.start))
    pickled = usual_cost(fleet, Pickled(pickled_in).keep)
    line("sync, pickled", pickled)
    line("kept / pickled", f"{steady.processor / pickled.processor:8.2f} of its processor time")


def main() -> None:
    """Measure in a folder of its own, on a disk that counts."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--targets", type=int, default=10_000)
    parser.add_argument("--syncs", type=int, default=200, help="how many in all, at least")
    parser.add_argument("--directory", type=Path, default=Path(), help="where to make the folder")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="benchmark-", dir=options.directory) as folder:
        run(options.targets, options.syncs, Path(folder))


if __name__ == "__main__":
    main()
