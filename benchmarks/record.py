"""What it costs to record every decision: `python -m benchmarks.record`.

Half of the targets have a constant load, 3 of 10 one that changes now and then, 2 of 10 one that is
another at every sync; each is decided on as the daemon does.  Prints bytes a sync and a day before
anything is thinned out to minutes, processor time a sync beside that of the decision itself, and
the size of a decision in full; then the same of a file that is written as the daemon's is.
"""

import argparse
import math
import sqlite3
import statistics
import tempfile
import time
import tracemalloc
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass, field, replace
from pathlib import Path
from random import Random

from autoscaler.core.decide import decide
from autoscaler.core.history import History
from autoscaler.core.observation import Observation, Scale, Values
from autoscaler.core.spec import Flags, HorizontalPodAutoscalerSpec, ScaleTargetRef
from autoscaler.core.sync_result import Inputs, Rules, SyncResult
from autoscaler.core.target import Query, Target
from autoscaler.core.writes import Written, intend, settle_write
from autoscaler.daemon.recording import Recorder
from autoscaler.persistence.record import DirectoryRecord, RecordWriter, SyncRow
from autoscaler.persistence.record.changes import (
    Seen,
    change_key,
    deflated,
    numbers_of,
    seen_after,
    texts_of,
)
from autoscaler.persistence.record.file import open_file
from autoscaler.persistence.record.packing import Packer, by_minute, pack_minutes, unpack
from autoscaler.persistence.state_directory import RECORD
from autoscaler.rendering.chart import chart_of
from benchmarks.core import BEHAVIOR, NOW, QUEUE, SYNC_PERIOD

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
_NONE: Seen | None = None


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
            write = Written(Scale(replicas, replicas, "app=app", "2"))
            pending, earlier = intend(decision, after), after.pending
            decision, after = settle_write(TARGET.spec, decision, write, pending, history, earlier)
        history = after
        yield SyncResult(TARGET, decision, write, given=given)


@dataclass(slots=True)
class Kept:
    """What is kept of one target's syncs: bytes of samples, and the decisions in full."""

    syncs: int
    samples: int
    minutes: int
    changes: list[SyncResult] = field(default_factory=list)


def kept_of(syncs: Sequence[SyncResult]) -> Kept:
    """Return what the record keeps of the syncs of one target."""
    packer, key = Packer(NOW, SYNC_PERIOD), _NONE
    kept = Kept(len(syncs), 0, 0)
    for one in syncs:
        packer.add(one.decision.stamp, numbers_of(one.decision))
        now = seen_after(key, change_key(one), one.decision)
        if now != key:
            key = now
            kept.changes.append(one)
    body = packer.body()
    kept.samples = len(body)
    kept.minutes = len(pack_minutes(by_minute(unpack(body, NOW, SYNC_PERIOD)), NOW))
    return kept


def json_of(sync: SyncResult) -> str:
    """Return a decision in full."""
    return texts_of(sync)[1]


# -- what is printed -----------------------------------------------------------------------------


def microseconds(work: Callable[[], object], calls: int, repeats: int = 7) -> float:
    """Return the median time of a call, in a work that makes so many."""
    each = []
    for _ in range(repeats):
        begun = time.process_time()
        work()
        each.append((time.process_time() - begun) / calls * 1e6)
    return statistics.median(each)


def print_sizes(lives: dict[str, list[list[SyncResult]]], targets: int) -> None:
    """Print bytes by kind of load and a day of all targets."""
    print(f"{'load':<16}{'bytes a sync':>14}{'in minutes':>12}{'changes an hour':>18}")
    samples = minutes = changes = 0.0
    found: list[SyncResult] = []
    for load, those in lives.items():
        kept = [kept_of(life) for life in those]
        syncs = sum(one.syncs for one in kept)
        each = sum(one.samples for one in kept) / syncs
        thin = sum(one.minutes for one in kept) / syncs
        new = sum(len(one.changes) for one in kept) / syncs
        print(f"{load:<16}{each:14.2f}{thin:12.2f}{new * 3600 / SYNC_PERIOD:18.1f}")
        a_day = targets * SHARES[load] * DAY / SYNC_PERIOD
        samples, minutes, changes = (
            total + one * a_day for total, one in ((samples, each), (minutes, thin), (changes, new))
        )
        found += [change for one in kept for change in one.changes]
    print_entries(found)
    print(
        f"{targets} targets a day: samples {samples / 1e6:.0f} MB, {minutes / 1e6:.0f} MB in ",
        end="",
    )
    print(f"minutes; {changes:.0f} decisions in full")


def print_entries(changes: Sequence[SyncResult]) -> None:
    """Print the size of decisions in full, without another one as their dictionary and with."""
    plain = statistics.mean(len(json_of(one)) for one in changes)
    print(f"a decision in full: {plain:.0f} bytes of JSON, deflated with a dictionary:")
    rules, like = (text.encode() for text in texts_of(changes[-1]))
    some = changes[:500]
    for name, words in {"none": b"", "the rules": rules, "the record's": rules + like}.items():
        size = statistics.mean([len(deflated(json_of(one).encode(), words)) for one in changes])
        cost = microseconds(
            lambda words=words: [deflated(json_of(one).encode(), words) for one in some],  # type: ignore[misc]
            len(some),
        )
        print(f"- {name}: {size:.0f} bytes, {cost:.0f} µs with the JSON")


class Collected(RecordWriter):
    """What the daemon hands to the writer, which does not run."""

    def __init__(self, directory: Path) -> None:
        super().__init__(directory, lambda *_: None)
        self.rows: list[SyncRow] = []

    def put(self, row: SyncRow) -> None:
        """Collect a row."""
        self.rows.append(row)


def print_file(targets: int, hours: float, directory: Path) -> None:
    """Record the mix as the daemon does; print the file's size and the processor time."""
    loads = [load for load, share in SHARES.items() for _ in range(round(SOME * share))]
    own = [replace(TARGET, namespace=f"shop-{number}") for number in range(len(loads))]
    syncs = round(hours * 3600 / SYNC_PERIOD)
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
        for target, one in zip(own, together, strict=True):
            recorder.report(replace(one, target=target))
        recorded = time.process_time()
        if len(rows) >= BATCH:
            file.write(rows, rows[-1].time)
            rows.clear()
        deciding, recording = deciding + decided - begun, recording + recorded - decided
        writing += time.process_time() - recorded
    file.write(rows, rows[-1].time if rows else NOW)
    file.finish()
    file.close()
    each = 1e6 / len(loads) / syncs
    print(
        f"{len(loads)} targets for {hours:g} h, µs a sync: decided in {deciding * each:.1f}, "
        f"recorded in {recording * each:.1f}, written by another thread in {writing * each:.1f}"
    )
    size = sum(one.stat().st_size for one in directory.glob("record.db*"))
    a_day = size * (DAY / 3600 / hours) * (targets / len(loads))
    print(f"file: {size / 1e6:.1f} MB; {targets} targets a day: {a_day / 1e6:.0f} MB")
    print_tables(directory)


def print_chart(directory: Path) -> None:
    """Record two weeks of a busy target, and print what its charts take."""
    writer = Collected(directory)
    recorder = Recorder(writer)
    recorder.configure([TARGET], RULES.flags)
    for one in lived(BUSY, 0, round(14 * DAY / SYNC_PERIOD)):
        recorder.report(one)
    file, rows = open_file(directory, NOW, print), writer.rows
    for first in range(0, len(rows), BATCH):
        file.write(rows[first : first + BATCH], rows[-1].time)
    end = rows[-1].time
    for name, seconds in (("15 min", 900.0), ("a day", DAY), ("14 days", 14 * DAY)):
        begun = time.perf_counter()
        chart = chart_of(DirectoryRecord(directory), TARGET.key, end - seconds, end)
        took = time.perf_counter() - begun
        assert chart is not None  # noqa: S101 - it was recorded
        print(f"chart of {name}, nothing thinned out: {took:.2f} s, {len(chart.times)} times")
    file.close()


def print_tables(directory: Path) -> None:
    """Print what the rows of each table hold, without what the file has besides."""
    with closing(sqlite3.connect(directory / RECORD)) as connection:
        for table, text in (("samples", "''"), ("changes", "message")):
            count, body, words = connection.execute(
                f"SELECT count(*), sum(length(body)), sum(length({text})) FROM {table}"  # noqa: S608 - constants
            ).fetchone()
            print(f"- {table}: {count} rows, {body} bytes of bodies, {words} of messages")


def print_processor(lives: dict[str, list[list[SyncResult]]]) -> None:
    """Print what a sync costs that changes nothing or only numbers."""
    for load, those in lives.items():
        cost = microseconds(
            lambda those=those: [record_all(life) for life in those],  # type: ignore[misc]
            sum(map(len, those)),
        )
        print(f"{load}: {cost:.2f} µs a sync to see whether it is a change, and to pack it")


def record_all(life: Sequence[SyncResult]) -> Packer:
    """Pack the samples of a target, and find which decisions are changes."""
    packer, key = Packer(NOW, SYNC_PERIOD), _NONE
    changes: list[SyncResult] = []
    for one in life:
        decision = one.decision
        now = seen_after(key, change_key(one), decision)
        if now != key:
            key = now
            changes.append(one)
        packer.add(decision.stamp, numbers_of(decision))
    return packer


def print_memory(lives: dict[str, list[list[SyncResult]]], targets: int) -> None:
    """Print what the packers of a quarter of an hour hold, and the keys to compare with."""
    samples = 60
    tracemalloc.start()
    held: list[object] = []
    for load, share in SHARES.items():
        for number in range(round(targets * share)):
            life = lives[load][number % len(lives[load])][:samples]
            last = life[-1]
            held.append((record_all(life), change_key(last)))
    memory = tracemalloc.get_traced_memory()[0] / 1e6
    tracemalloc.stop()
    print(
        f"memory of {len(held)} packers with {samples} syncs each, and their keys: {memory:.1f} MB"
    )


def main() -> None:
    """Print it all."""
    parser = argparse.ArgumentParser(description="Measure what recording every decision costs.")
    parser.add_argument("--targets", type=int, default=10_000, help="how many (10000)")
    parser.add_argument("--hours", type=float, default=24.0, help="for how long (24)")
    parser.add_argument("--directory", type=Path, default=Path(), help="where to make a folder")
    options = parser.parse_args()
    syncs = round(options.hours * 3600 / SYNC_PERIOD)
    lives = {load: [list(lived(load, seed, syncs)) for seed in range(LIVES)] for load in SHARES}
    print_sizes(lives, options.targets)
    print_processor(lives)
    print_memory(lives, options.targets)
    del lives
    with tempfile.TemporaryDirectory(prefix="benchmark-", dir=options.directory) as folder:
        print_file(options.targets, options.hours, Path(folder))
    with tempfile.TemporaryDirectory(prefix="benchmark-", dir=options.directory) as folder:
        print_chart(Path(folder))


if __name__ == "__main__":
    main()
