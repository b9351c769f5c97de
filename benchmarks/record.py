"""What it costs to record every decision: `python -m benchmarks.record`.

Half of the targets have a constant load, 3 of 10 one that changes now and then, 2 of 10 one that is
another at every sync; each is decided on as the daemon does.  Prints the bytes of a sync by load;
the processor time of recording a sync beside that of the decision itself, and the size of the file,
which is written as the daemon's is; and what charts of two weeks of a busy target take.
"""

import argparse
import math
import tempfile
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from random import Random

from autoscaler.core.decide import decide
from autoscaler.core.history import History
from autoscaler.core.observation import Observation, Scale, Values
from autoscaler.core.spec import Flags, HorizontalPodAutoscalerSpec, ScaleTargetRef
from autoscaler.core.sync_result import Inputs, Rules, SyncResult
from autoscaler.core.target import Query, Target
from autoscaler.core.writes import AcceptedWrite, intend, settle_write
from autoscaler.daemon.recording import Recorder
from autoscaler.persistence.record import DirectoryRecord, RecordWriter, SyncRow
from autoscaler.persistence.record.changes import deflated
from autoscaler.persistence.record.file import open_file
from autoscaler.persistence.record.packing import Packer, by_minute, pack_minutes, unpack
from autoscaler.rendering.chart import chart_of
from benchmarks.core import BEHAVIOR, NOW, QUEUE, SYNC_PERIOD
from benchmarks.tables import markdown

LIVES = 6
"""So many targets of each load are decided on for the sizes of what is packed."""
SOME = 100
"""So many targets are recorded in a file, whose tables grow with its rows."""
BATCH = 1000
"""So many rows are written together, as of 10,000 targets in 2 s."""
CONSTANT, SLOW, BUSY = "constant", "now and then", "every sync"
SHARES = {CONSTANT: 0.5, SLOW: 0.3, BUSY: 0.2}
DAY = 86_400.0
TARGET = Target(
    "shop",
    HorizontalPodAutoscalerSpec(
        ScaleTargetRef("apps/v1", "Deployment", "app"), 1, 100, (QUEUE,), BEHAVIOR
    ),
    (Query('sum(queue_messages{queue="orders"})'),),
)
RULES = Rules(TARGET, Flags())


def lived(load: str, seed: int, syncs: int) -> Iterator[SyncResult]:
    """Yield the syncs of a target with a load of one kind, which swings over a day."""
    chance = Random(seed)  # noqa: S311 - no secret
    base, replicas, history = chance.randint(100, 1000) * 1000, 10, History()
    queue = base
    for sync in range(syncs):
        if load == BUSY or (load == SLOW and chance.random() < 0.1):
            swing = 1.5 + math.sin(sync * SYNC_PERIOD / DAY * math.tau + seed)
            queue = round(base * swing * chance.uniform(0.95, 1.05) / 1000) * 1000
        seen = Observation(Scale(replicas, replicas, "app=app", "1"), None, (Values((queue,)),))
        stamp = NOW + sync * SYNC_PERIOD
        given = Inputs(seen, history, stamp + 0.001, stamp)
        decision, after = decide(
            TARGET.spec, RULES.flags, seen, history, given.now, stamp, TARGET.extensions
        )
        write = None
        if decision.rescale:
            replicas = decision.desired
            write = AcceptedWrite(Scale(replicas, replicas, "app=app", "2"))
            pending, earlier = intend(decision, after), after.pending
            decision, after = settle_write(TARGET.spec, decision, write, pending, history, earlier)
        history = after
        yield SyncResult(TARGET, decision, write, given=given)


class Collected(RecordWriter):
    """What the daemon hands to the writer, which does not run."""

    def __init__(self, directory: Path) -> None:
        super().__init__(directory, lambda *_: None)
        self.rows: list[SyncRow] = []

    def put(self, row: SyncRow) -> None:
        """Collect a row."""
        self.rows.append(row)


def rows_of(load: str, seed: int, syncs: int, directory: Path) -> list[SyncRow]:
    """Return the rows that the daemon makes of the syncs of one target."""
    writer = Collected(directory)
    recorder = Recorder(writer)
    recorder.configure([TARGET], RULES.flags)
    for result in lived(load, seed, syncs):
        recorder.report(result)
    return writer.rows


def print_sizes(targets: int, syncs: int, directory: Path) -> None:
    """Print bytes by kind of load, and what the numbers of a day of all targets take."""
    body, a_day, number = [], 0.0, LIVES * syncs
    for load, share in SHARES.items():
        packed = thin = changes = 0
        for seed in range(LIVES):
            packer = Packer(NOW, SYNC_PERIOD)
            rows = rows_of(load, seed, syncs, directory)
            for row in rows:
                packer.add(row.time, row.numbers)
            packed += len(deflated(packer.text.encode()))
            minutes = pack_minutes(by_minute(unpack(packer.text, NOW, SYNC_PERIOD)), NOW)
            thin += len(deflated(minutes.encode()))
            changes += sum(row.change is not None for row in rows)
        sizes = (packed / number, thin / number, changes / number * 3600 / SYNC_PERIOD)
        body.append([load, *(f"{size:.2f}" for size in sizes)])
        a_day += targets * share * DAY / SYNC_PERIOD * packed / number
    print(markdown(["load", "bytes a sync", "in minutes", "decisions in full an hour"], body))
    print(f"numbers of {targets} targets a day: {a_day / 1e6:.0f} MB")


def print_file(targets: int, syncs: int, directory: Path) -> None:
    """Record the mix as the daemon does; print the processor time and the file's size."""
    loads = [load for load, share in SHARES.items() for _ in range(round(SOME * share))]
    own = [replace(TARGET, namespace=f"shop-{number}") for number in range(len(loads))]
    lives = [lived(load, number, syncs) for number, load in enumerate(loads)]
    writer = Collected(directory)
    rows, recorder = writer.rows, Recorder(writer)
    recorder.configure(own, RULES.flags)
    file = open_file(directory, NOW, print)
    deciding = recording = writing = 0.0
    for _ in range(syncs):
        begun = time.process_time()
        together = [next(life) for life in lives]
        decided = time.process_time()
        for target, result in zip(own, together, strict=True):
            recorder.report(replace(result, target=target))
        recorded = time.process_time()
        if len(rows) >= BATCH:
            file.write(rows, rows[-1].time)
            rows.clear()
        deciding, recording = deciding + decided - begun, recording + recorded - decided
        writing += time.process_time() - recorded
    file.write(rows, rows[-1].time if rows else NOW)
    file.finish()
    file.close()
    costs = {"decided": deciding, "recorded": recording, "written by another thread": writing}
    each = 1e6 / len(loads) / syncs
    body = [
        [name, f"{seconds * each:.1f}", f"{seconds / deciding:.2f}"]
        for name, seconds in costs.items()
    ]
    print(markdown(["a sync of a target", "µs", "/ decided"], body))
    size = sum(file.stat().st_size for file in directory.glob("record.db*"))
    a_day = size * DAY / SYNC_PERIOD / syncs * targets / len(loads)
    print(f"file: {size / 1e6:.1f} MB; {targets} targets a day: {a_day / 1e6:.0f} MB")


def print_chart(days: float, directory: Path) -> None:
    """Record a busy target, and print what its charts take."""
    rows = rows_of(BUSY, 0, round(days * DAY / SYNC_PERIOD), directory)
    file = open_file(directory, NOW, print)
    for first in range(0, len(rows), BATCH):
        file.write(rows[first : first + BATCH], rows[-1].time)
    end = rows[-1].time
    for name, seconds in (("15 min", 900.0), ("a day", DAY), (f"{days:g} days", days * DAY)):
        begun = time.perf_counter()
        chart = chart_of(DirectoryRecord(directory), TARGET.key, end - seconds, end)
        took = time.perf_counter() - begun
        assert chart is not None  # noqa: S101 - it was recorded
        print(f"chart of {name}, nothing thinned out: {took:.2f} s, {len(chart.times)} times")
    file.close()


def main() -> None:
    """Print it all."""
    parser = argparse.ArgumentParser(description="Measure what recording every decision costs.")
    parser.add_argument("--targets", type=int, default=10_000, help="how many (10000)")
    parser.add_argument("--hours", type=float, default=24.0, help="for how long (24)")
    parser.add_argument("--days", type=float, default=14.0, help="of the longest chart (14)")
    parser.add_argument("--directory", type=Path, default=Path(), help="where to make a folder")
    options = parser.parse_args()
    syncs = round(options.hours * 3600 / SYNC_PERIOD)
    with tempfile.TemporaryDirectory(prefix="benchmark-", dir=options.directory) as folder:
        for name in ("sizes", "file", "chart"):
            (Path(folder) / name).mkdir()
        print_sizes(options.targets, syncs, Path(folder) / "sizes")
        print_file(options.targets, syncs, Path(folder) / "file")
        print_chart(options.days, Path(folder) / "chart")


if __name__ == "__main__":
    main()
