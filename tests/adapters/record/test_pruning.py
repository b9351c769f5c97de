"""Old rows are removed first, by age and by size; samples of yesterday become steps of a minute."""

import random
import sqlite3
from contextlib import closing
from pathlib import Path

from autoscaler.persistence.record import DirectoryRecord, Limits
from autoscaler.persistence.record.file import RecordFile, open_file
from autoscaler.persistence.record.pruning import Pruner
from autoscaler.persistence.record.rows import Sample
from tests.adapters.record.recording import WEB, Time, decided, plain, running, until, values
from tests.core.builders import BASE
from tests.narrowing import known

HOUR = 3600.0
DAY = 24 * HOUR


def test_old_changes_are_pruned_but_not_the_last_one(tmp_path: Path) -> None:
    record, time = DirectoryRecord(tmp_path), Time()
    limits = Limits(max_age=2 * HOUR)
    with running(tmp_path, limits=limits, time=time) as writer:
        for number in range(40):
            writer.put(decided(replicas=3 + number, seconds=900.0 * number))
            writer.put(plain(900.0 * number, number, "shop/Deployment/api"))
        writer.put(decided(target="shop/Deployment/old"))
        names = [f"shop/Deployment/{name}" for name in ("api", "old", "web")]
        until(lambda: record.targets() == names)
        time.now = BASE + 36_000
        until(lambda: len(record.changes([WEB], 0, 2e12, limit=99)) < 12)
        until(lambda: not values(record, 0, 20_000))
        kept = record.changes([WEB], 0, 2e12, limit=99)
    assert [(change.time - BASE) / 900 for change in kept] == list(range(39, 31, -1))
    at = record.change_at(WEB, BASE + 28_801)
    assert at == kept[-1]
    assert record.entry(kept[-1]).decision.current == 35
    (old,) = record.changes(["shop/Deployment/old"], 0, 2e12, limit=9)
    assert old.time == BASE
    assert record.span() is not None
    assert values(record, 0, 36_000)[0][0] >= 27_000


def test_a_removed_target_is_forgotten(tmp_path: Path) -> None:
    record, time = DirectoryRecord(tmp_path), Time()
    with running(tmp_path, limits=Limits(max_age=HOUR), time=time) as writer:
        writer.put(decided(target="shop/Deployment/gone"))
        writer.retain([WEB])
        writer.put(decided())
        until(lambda: len(record.changes(None, 0, 2e12, limit=9)) == 3)
        time.now = BASE + 2 * HOUR
        until(lambda: record.targets() == [WEB])
        writer.put(decided(seconds=2 * HOUR, target="shop/Deployment/gone"))
        until(lambda: len(record.targets()) == 2)


def test_the_file_stays_within_its_size(tmp_path: Path) -> None:
    record, time, chance = DirectoryRecord(tmp_path), Time(), random.Random(1)  # noqa: S311 - no secret
    most = 6_000_000
    with running(tmp_path, limits=Limits(max_size=most), time=time) as writer:
        for step in range(15):
            for number in range(1000):
                seconds = 15.0 * (1000 * step + number)
                numbers = tuple(chance.randrange(10**15) for _ in range(60))
                writer.put(plain(seconds, 0)._replace(numbers=numbers))
                if number % 30 == 0:
                    writer.put(decided(replicas=3 + number // 30 % 2, seconds=seconds))
            time.now = BASE + 15.0 * 1000 * (step + 1)
            until(lambda: (record.span() or (0, 0))[1] >= time.now - 30)
        until(lambda: size_of(tmp_path) <= most)
        assert writer.status.dropped == 0
    span = known(record.span())
    assert BASE + HOUR < span[0] < span[1]
    assert len(record.changes(None, 0, 2e12, limit=9)) == 9


def filled(directory: Path, begin: float, syncs: int) -> RecordFile:
    """Return a file with samples of some syncs from a time on; each sync ends a chunk."""
    file, chance = open_file(directory, begin, print), random.Random(1)  # noqa: S311 - no secret
    for sync in range(syncs):
        numbers = tuple(chance.randrange(10**15) for _ in range(200))
        row = plain(900.0 * sync, 0)._replace(numbers=numbers)
        file.write([row._replace(time=begin + 900.0 * sync)] * 2, begin + 900.0 * sync)
    return file


def count_of(file: RecordFile, table: str) -> int:
    (count,) = file.connection.execute(f"SELECT count(*) FROM {table}").fetchone()  # noqa: S608 - no input
    return int(count)


def pruned(file: RecordFile, now: float, max_size: int, max_age: float = 14 * DAY) -> None:
    for _ in Pruner(file, max_size, max_age).steps(now):
        pass


def test_rows_from_the_future_delay_no_pruning(tmp_path: Path) -> None:
    filled(tmp_path, BASE + 365 * DAY, 500).close()
    file = filled(tmp_path, BASE, 500)
    now = BASE + 500 * 900.0
    pruned(file, now, 2**30)
    assert count_of(file, "minutes") > 0
    pruned(file, now, 2**30, 2 * DAY)
    (oldest,) = file.connection.execute("SELECT min(begin) FROM samples").fetchone()
    assert now - 2.1 * DAY < oldest < now
    assert count_of(file, "samples") > 500
    pruned(file, now, 100_000)
    assert count_of(file, "samples") < 10
    file.close()


def test_a_reader_that_hangs_costs_no_history(tmp_path: Path) -> None:
    """The write-ahead log grows while it does; deleting would only let it grow more."""
    file = filled(tmp_path, BASE, 1)
    uri = f"{file.path.as_uri()}?mode=ro"
    with closing(sqlite3.connect(uri, uri=True, isolation_level=None)) as reader:
        reader.execute("BEGIN")
        reader.execute("SELECT count(*) FROM targets").fetchall()
        chance = random.Random(1)  # noqa: S311 - no secret
        for sync in range(1, 2000):
            numbers = tuple(chance.randrange(10**15) for _ in range(200))
            row = plain(900.0 * sync, 0)._replace(numbers=numbers)
            file.write([row], row.time)
        most = 20_000_000
        assert size_of(tmp_path) > most
        before = count_of(file, "samples")
        pruned(file, BASE + 3600.0, most)
        assert count_of(file, "samples") == before
    file.close()


def size_of(directory: Path) -> int:
    return sum((directory / name).stat().st_size for name in ("record.db", "record.db-wal"))


def test_samples_become_steps_of_a_minute(tmp_path: Path) -> None:
    record, time = DirectoryRecord(tmp_path), Time()
    with running(tmp_path, time=time) as writer:
        for number in range(960):
            writer.put(plain(15.0 * number, number % 7))
        time.now = BASE + 15.0 * 959
    time.now = BASE + DAY - HOUR
    with running(tmp_path, time=time) as writer:
        writer.put(plain(DAY - HOUR, 5))
        until(lambda: len(values(record, 0, DAY)) > 900)
        before = list(record.samples(WEB, BASE, BASE + 4 * HOUR))
        time.now = BASE + DAY + 8 * HOUR
        until(lambda: len(values(record, 0, 4 * HOUR)) < 300)
    after = list(record.samples(WEB, BASE, BASE + 4 * HOUR))
    assert after == [minute(before, BASE + 60 * number) for number in range(240)]
    lapses = record.lapses(WEB, BASE, BASE + DAY - HOUR)
    assert [(lapse.begin - BASE, lapse.end - BASE) for lapse in lapses] == [(15 * 959, DAY - HOUR)]
    assert values(record, 5 * HOUR, 6 * HOUR) == []


def minute(samples: list[Sample], begin: float) -> Sample:
    own = [sample.numbers for sample in samples if begin <= sample.time < begin + 60]
    low, high = (tuple(fold(column) for column in zip(*own, strict=True)) for fold in (min, max))
    return Sample(begin, own[-1], 60.0, low, high)
