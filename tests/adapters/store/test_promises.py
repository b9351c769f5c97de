"""A write to the cluster waits until it is noted, but never for a disk that does not answer."""

import subprocess
import sys
import time
from pathlib import Path

from autoscaler.persistence.store import DiskTimeouts, SqliteHistoryStore
from tests.adapters.store.histories import decided_at, nth
from tests.adapters.store.opening import (
    DATABASE,
    IMPATIENT,
    LONG,
    Sayings,
    Time,
    execute,
    kept_in,
    running,
    stalled,
)
from tests.narrowing import assert_parts

TARGETS = [f"shop/Deployment/{number}" for number in range(2000)]


def commits(directory: Path) -> int:
    """Count the transactions in the write-ahead log (its format: sqlite.org/fileformat2.html)."""
    log = (directory / f"{DATABASE}-wal").read_bytes()
    header, page = 32, int.from_bytes(log[8:12], "big")
    found = 0
    for start in range(header, len(log), 24 + page):
        frame = log[start : start + 24]
        found += frame[8:16] == log[16:24] and any(frame[4:8])
    return found


def test_a_finished_promise_is_on_the_disk(tmp_path: Path) -> None:
    with running(tmp_path) as (store, _):
        assert store.intend(TARGETS[0], nth(5, pending=True)).result(LONG) is None
        ((history,),) = execute(tmp_path / DATABASE, "SELECT history FROM histories")
        assert '"pending":{"before":5,"after":6,' in history
    assert kept_in(tmp_path) == {TARGETS[0]: nth(5, pending=True)}


def test_thousands_of_notes_share_transactions(tmp_path: Path) -> None:
    with running(tmp_path) as (store, _):
        store.intend(TARGETS[0], nth(1)).result(LONG)
        before = commits(tmp_path)
        with stalled(tmp_path):
            promises = [store.intend(target, nth(2)) for target in TARGETS]
        for promise in promises:
            promise.result(LONG)
        assert commits(tmp_path) - before < 40
    assert kept_in(tmp_path) == dict.fromkeys(TARGETS, nth(2))


def test_a_sync_is_one_transaction(tmp_path: Path) -> None:
    with running(tmp_path) as (store, _):
        before = commits(tmp_path)
        store.keep([(target, nth(1), decided_at(1)) for target in TARGETS])
        while not (rows := execute(tmp_path / DATABASE, "SELECT key FROM targets")):
            time.sleep(0.01)
        assert len(rows) == len(TARGETS)
        assert commits(tmp_path) == before + 1


def test_a_promise_waits_no_longer_than_its_time(tmp_path: Path) -> None:
    sayings = Sayings()
    with running(tmp_path, sayings, timeouts=IMPATIENT) as (store, _):
        store.intend(TARGETS[0], nth(0)).result(LONG)
        with stalled(tmp_path):
            begun = time.monotonic()
            first = [store.intend(target, nth(1)) for target in TARGETS[:10]]
            assert [finding.result(LONG) for finding in first] == [None] * 10
            assert 2.5 <= time.monotonic() - begun < 15.0
            assert_parts(sayings.wait(ok=False), DATABASE, "2.5 s")
            for number in range(2, 500):
                assert store.intend(TARGETS[0], nth(number)).done()
                store.keep([(TARGETS[1], nth(number), decided_at(number))])
            assert store.errors == 1
        sayings.wait(ok=True)
        with stalled(tmp_path):
            assert not store.intend(TARGETS[2], nth(3)).done()
    expected = dict.fromkeys(TARGETS[:10], nth(1)) | {TARGETS[2]: nth(3)}
    assert kept_in(tmp_path) == expected | dict.fromkeys(TARGETS[:2], nth(499))


def test_a_promise_can_be_cancelled(tmp_path: Path) -> None:
    with running(tmp_path) as (store, _):
        with stalled(tmp_path):
            store.intend(TARGETS[0], nth(1))
            cancelled, kept = store.intend(TARGETS[1], nth(2)), store.intend(TARGETS[2], nth(3))
            assert cancelled.cancel()
        assert kept.result(LONG) is None
    assert kept_in(tmp_path) == {TARGETS[0]: nth(1), TARGETS[1]: nth(2), TARGETS[2]: nth(3)}


def test_the_end_keeps_what_was_promised_and_waits_for_no_more(tmp_path: Path) -> None:
    with running(tmp_path) as (store, _):
        promise = store.intend(TARGETS[0], nth(1))
        begun = time.monotonic()
    assert promise.done()
    assert time.monotonic() - begun < LONG / 2
    assert kept_in(tmp_path) == {TARGETS[0]: nth(1)}


def test_the_end_does_not_wait_for_a_disk_that_stalls(tmp_path: Path) -> None:
    sayings = Sayings()
    store = SqliteHistoryStore(tmp_path, sayings, timeouts=DiskTimeouts(intend=0.1, close=0.3))
    store.start()
    with stalled(tmp_path):
        store.keep([(TARGETS[0], nth(1), decided_at(1))])
        begun = time.monotonic()
        store.close()
        assert time.monotonic() - begun < 15.0
        assert_parts(sayings.wait(ok=False), DATABASE, "0.3 s")
    sayings.wait(ok=True)


def test_a_start_does_not_wait_for_a_disk_that_stalls(tmp_path: Path) -> None:
    with running(tmp_path) as (store, _):
        store.keep([(target, nth(9), decided_at(1)) for target in TARGETS[:9]])
    execute(tmp_path / DATABASE, "PRAGMA journal_mode = DELETE")  # else readers would not wait
    sayings = Sayings()
    store = SqliteHistoryStore(tmp_path, sayings, Time().clocks, IMPATIENT)
    with stalled(tmp_path, "BEGIN EXCLUSIVE"):
        begun = time.monotonic()
        assert store.start().histories == {}
        assert time.monotonic() - begun < 15.0
        assert_parts(sayings.wait(ok=False), DATABASE, "2.5 s")
        store.keep([(TARGETS[0], nth(2), decided_at(2))])
    later = sayings.wait(ok=True)
    assert not later.endswith(DATABASE), "it names the history that was not read"
    store.close()
    assert kept_in(tmp_path) == dict.fromkeys(TARGETS[1:9], nth(9)) | {TARGETS[0]: nth(2)}


def test_the_benchmark_prints_its_figures(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "benchmarks.store", "--targets", "20", "--syncs", "1"]
    done = subprocess.run(
        [*command, "--directory", str(tmp_path)], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    assert_parts(done.stdout, "start ", "sync, loads", "pickled")
    assert list(tmp_path.iterdir()) == []
