"""Recorded rows can be read at once, after the end, after a kill and by other processes."""

import re
import sqlite3
import subprocess
import sys
import time
from itertools import count
from pathlib import Path
from typing import Any

import pytest

from autoscaler.core.classification import Mark
from autoscaler.core.step import recompute
from autoscaler.daemon.recording import Recorder
from autoscaler.persistence import sqlite_files
from autoscaler.persistence.codec import is_same
from autoscaler.persistence.record import DirectoryRecord, RecordWriter
from autoscaler.persistence.record.rows import EmptyRecordError, Lapse, LastState, RecordError
from tests.adapters.record.recording import QUICK, WEB, Time, decided, plain, running, until, values
from tests.adapters.store.opening import Sayings, execute, give_up
from tests.core.builders import BASE, average, external, spec
from tests.core.timeline import Timeline
from tests.worlds.record import MemoryRecord, synced


def wait_for(record: DirectoryRecord, seconds: float) -> None:
    until(lambda: (record.span() or (0, 0))[1] >= BASE + seconds)


def fill(writer: RecordWriter, memory: MemoryRecord) -> None:
    timeline = Timeline(spec(external(average("10"))), replicas=3)
    recorder = Recorder(writer)
    for number in range(240):
        timeline.sync(f"{number * 15}s", queue=30 + number % 7 + 40 * (number // 60 % 2))
        result = synced(timeline)
        if number == 0:
            recorder.configure([result.target], timeline.flags)
        recorder.report(result)
        memory.keep_synced(timeline)


def test_an_hour_is_read_as_it_was(tmp_path: Path) -> None:
    memory, record, time = MemoryRecord(), DirectoryRecord(tmp_path), Time()
    with running(tmp_path, time=time) as writer:
        fill(writer, memory)
        wait_for(record, 239 * 15)
        assert_same(record, memory)
        time.now += 3600
    assert_same(record, memory)
    assert record.span() == (BASE, BASE + 3600)
    assert {file.name for file in tmp_path.iterdir()} == {"record.lock", "record.db"}


def assert_same(record: DirectoryRecord, memory: MemoryRecord) -> None:
    assert record.targets() == [WEB]
    changes = record.changes(None, 0, BASE + 1e6, limit=1000)
    assert changes == memory.changes(None, 0, BASE + 1e6, limit=1000)
    assert len(changes) > 5
    for change in changes:
        entry = record.entry(change)
        assert entry == memory.entry(change)
        assert is_same(recompute(entry), entry.decision)
        assert record.change_at(WEB, change.time) == change
        assert record.change_at(WEB, change.time - 1) == memory.change_at(WEB, change.time - 1)
        assert record.change_after(change) == memory.change_after(change)
        last = memory.last_count_change(WEB, change.time)
        assert record.last_count_change(WEB, change.time) == last
    assert record.last_count_change(WEB, BASE + 1e6) is not None
    assert record.last_count_change("no/Deployment/other", BASE + 1e6) is None
    for begin, end in ((0, 3600), (100, 200), (901, 2000), (3000, 9000)):
        assert [*record.samples(WEB, BASE + begin, BASE + end)] == [
            *memory.samples(WEB, BASE + begin, BASE + end)
        ]
    page = record.changes([WEB, "no/Deployment/other"], BASE, BASE + 1e6, limit=3)
    assert page == changes[:3]
    rest = record.changes([WEB], BASE, BASE + 1e6, limit=1000, before=page[-1].id)
    assert rest == changes[3:]
    assert record.changes(None, BASE, changes[2].time, limit=2) == changes[3:5]


def test_equal_rules_have_few_rows(tmp_path: Path) -> None:
    with running(tmp_path) as writer:
        fill(writer, MemoryRecord())
    query = "SELECT digest, count(*) FROM rules GROUP BY digest"
    ((_, row_count),) = execute(tmp_path / "record.db", query)
    assert 1 < row_count < 4


def test_a_restart_continues_the_record_after_a_lapse(tmp_path: Path) -> None:
    record, time = DirectoryRecord(tmp_path), Time()
    with running(tmp_path, time=time) as writer:
        writer.put(decided())
        writer.put(plain(15, 31))
        time.now = BASE + 20
    time.now = BASE + 100
    with running(tmp_path, time=time) as writer:
        writer.put(decided(seconds=100))
        time.now = BASE + 115
    assert record.lapses(WEB, BASE, BASE + 120) == [Lapse(BASE + 20, BASE + 100)]
    assert record.lapses(WEB, BASE + 101, BASE + 120) == []
    assert values(record, 50, 60) == []
    assert values(record, 16, 110) == [(15, 31), (100, 10_000)]
    assert [change.id for change in record.changes(None, 0, 2e12, limit=9)] == [2, 1]
    assert record.lapses(WEB, BASE + 101, BASE + 900) == [Lapse(BASE + 115, BASE + 900)]


def test_a_state_is_dated_over_restarts_and_changes_within_it(tmp_path: Path) -> None:
    record, api = DirectoryRecord(tmp_path), "shop/Deployment/api"
    states = [("ok", 0), ("failing", 15), ("ok", 30), ("ok", 45)]
    for seconds, chosen in ((0, states[:3]), (100, states[3:])):
        with running(tmp_path) as writer:
            for state, at in chosen:
                row = decided(seconds=at + seconds)._replace(state=state)
                writer.put(row)
                writer.put(row._replace(target=api))
    assert record.standings() == dict.fromkeys((WEB, api), LastState("ok", BASE + 30))
    time = Time()
    time.now = BASE + 200
    with running(tmp_path, time=time) as writer:
        writer.retain([WEB])
        writer.put(plain(200, 1))
    assert record.standings() == {WEB: LastState("ok", BASE + 30)}


def test_a_target_that_is_no_longer_configured_is_removed(tmp_path: Path) -> None:
    record, time = DirectoryRecord(tmp_path), Time()
    with running(tmp_path, time=time) as writer:
        writer.put(decided())
        writer.put(decided(target="shop/Deployment/api"))
        wait_for(record, 0)
    time.now = BASE + 60
    for _ in range(2):
        with running(tmp_path, time=time) as writer:
            writer.retain([WEB])
            writer.put(decided(seconds=60))
    removed = record.change_at("shop/Deployment/api", BASE + 999)
    assert removed is not None
    assert (removed.marks, removed.time, removed.current) == (Mark.REMOVED, BASE + 60, 3)
    with pytest.raises(RecordError, match=r"shop/Deployment/api .*removed"):
        record.entry(removed)
    assert len(record.changes(["shop/Deployment/api"], 0, 2e12, limit=9)) == 2
    assert record.lapses("shop/Deployment/api", BASE, BASE + 90)[0].end == float("inf")
    assert values(record, 70, 80, "shop/Deployment/api") == []


def test_samples_and_changes_survive_a_clock_that_is_set_back(tmp_path: Path) -> None:
    record = DirectoryRecord(tmp_path)
    with running(tmp_path) as writer:
        for row in (decided(), plain(15, 31), plain(30, 32)):
            writer.put(row)
        for row in (decided(seconds=-600), plain(-585, 33), plain(-570, 34)):
            writer.put(row)
    assert values(record, -600, 60) == [
        *((-600, 10_000), (-585, 33), (-570, 34)),
        *((0, 10_000), (15, 31), (30, 32)),
    ]
    assert [change.id for change in record.changes(None, 0, 2e12, limit=9)] == [1, 2]


def test_a_kill_leaves_what_was_written(tmp_path: Path) -> None:
    record = DirectoryRecord(tmp_path)
    before: dict[int, list[tuple[float, int | None]]] = {}
    for begin in (0, 10_000, 20_000):
        with subprocess.Popen(
            [sys.executable, "-m", __name__, str(tmp_path), str(begin)]
        ) as victim:
            wait_for(record, begin + 900)
            before[begin] = values(record, begin, begin + 901)
            victim.kill()
        assert len(before[begin]) > 30
    heard, time = Sayings(), Time()
    time.now = BASE + 40_000
    with running(tmp_path, heard, time=time) as writer:
        writer.put(decided(seconds=40_000))
        heard.wait(ok=True)
    assert [item for item, _ in heard.all] == [True]
    for begin, known in before.items():
        assert values(record, begin, begin + 901)[: len(known)] == known
    lapses = record.lapses(WEB, BASE, BASE + 39_000)
    assert [lapse.end - BASE for lapse in lapses] == [10_000, 20_000, 40_000]


def test_reading_a_record_creates_no_files(tmp_path: Path) -> None:
    record = DirectoryRecord(tmp_path)
    with pytest.raises(EmptyRecordError, match=rf"{tmp_path}.* record\.db"):
        record.targets()
    assert list(tmp_path.iterdir()) == []
    with running(tmp_path) as writer:
        writer.put(decided())
    names = {file.name for file in tmp_path.iterdir()}
    assert record.targets() == [WEB]
    assert {file.name for file in tmp_path.iterdir()} == names


_SHORT = re.compile(r"^SCAN (sqlite_schema|targets|runs|open|CONSTANT ROW)\b")
"""The tables that may be scanned: they have a row for each target or start of the daemon."""


class ExplanationPanel(sqlite3.Connection):
    """Keeps how each statement is carried out."""

    plans: list[tuple[str, str]] = []  # noqa: RUF012 - sqlite3 makes the connection

    def execute(self, sql: str, parameters: Any = ()) -> sqlite3.Cursor:
        if sql.startswith("SELECT") and not sql.endswith("ORDER BY id LIMIT 1"):
            steps = super().execute(f"EXPLAIN QUERY PLAN {sql}", parameters)
            self.plans += [(sql, step[3]) for step in steps]
        return super().execute(sql, parameters)


def test_every_read_uses_an_index(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with running(tmp_path) as writer:
        for number in range(50):
            for name in (WEB, "shop/Deployment/api"):
                writer.put(decided(seconds=15.0 * number, target=name))
                writer.put(plain(15.0 * number + 1, number, name))
    monkeypatch.setattr(
        sqlite_files,
        "_read_only",
        lambda path, **_: sqlite3.connect(path, factory=ExplanationPanel),
    )
    record = DirectoryRecord(tmp_path)
    at = record.change_at(WEB, BASE + 300)
    assert at is not None
    assert record.change_after(at) is not None
    assert record.changes(None, BASE, BASE + 900, limit=5, before=at.id)
    assert record.changes([WEB], BASE, BASE + 900, limit=5)
    record.last_count_change(WEB, BASE + 900)
    assert list(record.samples(WEB, BASE + 100, BASE + 200))
    record.entry(at)
    record.span()
    record.targets()
    record.standings()
    record.lapses(WEB, BASE, BASE + 900)
    plans = ExplanationPanel.plans
    assert len(plans) > 15
    assert [plan for plan in plans if "SCAN" in plan[1] and not _SHORT.match(plan[1])] == []
    assert [plan for plan in plans if "TEMP B-TREE" in plan[1]] == []


def main(directory: Path, begin: int) -> None:
    """Record a sync every few milliseconds until it is killed, from seconds after BASE on."""
    clock = Time()
    clock.now = BASE + begin
    writer = RecordWriter(directory, give_up, None, QUICK, wall=clock)
    writer.start()
    writer.put(decided(seconds=begin))
    for number in count(1):
        clock.now = BASE + begin + 15 * number
        writer.put(plain(begin + 15 * number, number))
        time.sleep(0.001)


if __name__ == "__main__":
    main(Path(sys.argv[1]), int(sys.argv[2]))
