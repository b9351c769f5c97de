"""An unusable file costs history, never a decision, and delays nothing."""

import time as clock
from pathlib import Path

import pytest

from autoscaler.persistence.record import DirectoryRecord, Times
from autoscaler.persistence.record.rows import RecordError
from tests.adapters.record.recording import (
    WEB,
    Time,
    decided,
    plain,
    running,
    until,
    values,
    wait_recorded,
)
from tests.adapters.store.opening import LONG, Sayings, execute, overwrite_page, stalled
from tests.core.builders import BASE
from tests.narrowing import assert_parts

DATABASE = "record.db"
ASIDE = f"{DATABASE}.unreadable-"

TOO_SLOW = "too slowly"
NEWER = "newer version"
SET_ASIDE = "not be read"
"""Parts of what the operator reads, which docs/contributing/faults.md quotes."""


def fill(directory: Path) -> None:
    with running(directory) as writer:
        writer.put(decided())


def test_a_damaged_file_is_set_aside(tmp_path: Path) -> None:
    """A new file is created; the writer names the old one, and readers report the damage.

    What else damages a file, or keeps it from being used, the tests of the store have.
    """
    fill(tmp_path)
    execute(tmp_path / DATABASE, "DROP TABLE changes")
    with pytest.raises(RecordError, match=r"record\.db .*changes"):
        DirectoryRecord(tmp_path).changes(None, 0, 2e12, limit=1)
    (tmp_path / f"{ASIDE}of-last-year").touch()
    heard = Sayings()
    with running(tmp_path, heard) as writer:
        writer.put(decided())
        sentence = heard.wait(ok=True)
    (aside,) = tmp_path.glob(f"{ASIDE}*")
    assert_parts(sentence, SET_ASIDE, aside.name)
    assert aside.name.endswith("Z")
    assert values(DirectoryRecord(tmp_path), 0, 10) == [(0, 10_000)]


def test_a_file_of_a_newer_version_is_left_alone(tmp_path: Path) -> None:
    fill(tmp_path)
    execute(tmp_path / DATABASE, "PRAGMA user_version = 99")
    heard = Sayings()
    with running(tmp_path, heard):
        assert_parts(heard.wait(ok=False), NEWER, DATABASE, "99")
    with pytest.raises(RecordError, match="99"):
        DirectoryRecord(tmp_path).targets()


@pytest.mark.parametrize("name", ["targets", "changes_in_time", "recent"])
def test_damage_found_by_a_write_sets_the_file_aside(tmp_path: Path, name: str) -> None:
    """What opening does not read fails a write, once: the next try begins another file."""
    fill(tmp_path)
    overwrite_page(tmp_path / DATABASE, name)
    heard = Sayings()
    with running(tmp_path, heard) as writer:
        deadline = clock.monotonic() + LONG
        while not any(ASIDE in sentence for ok, sentence in heard.all if ok):
            assert clock.monotonic() < deadline, heard.all
            writer.put(decided())
            clock.sleep(0.01)
        writer.put(decided(seconds=30))
    (last,) = DirectoryRecord(tmp_path).changes(None, 0, 2e12, limit=1)
    assert last.time == BASE + 30
    assert sum(not ok for ok, _ in heard.all) <= 1


def test_a_disk_that_does_not_answer_keeps_nobody_waiting(tmp_path: Path) -> None:
    heard, time = Sayings(), Time()
    with running(tmp_path, heard, time=time) as writer:
        writer.put(decided())
        heard.wait(ok=True)
        wait_recorded(tmp_path)
        with stalled(tmp_path, name=DATABASE):
            epoch, begun = writer.epoch, clock.monotonic()
            for number in range(1, 7001):
                writer.put(plain(15.0 * number, number))
            assert clock.monotonic() - begun < 1
            assert_parts(heard.wait(ok=False), TOO_SLOW, DATABASE)
            assert writer.status.dropped > 0
            assert writer.epoch > epoch
        heard.wait(ok=True)
        time.now = BASE + 200_000
        writer.put(decided(seconds=200_000))
    record = DirectoryRecord(tmp_path)
    last = values(record, 0, 110_000)[-1][0]
    assert last < 15 * 7000
    (lapse,) = record.lapses(WEB, BASE, BASE + 200_000)
    assert (lapse.begin, lapse.end) == (BASE + last, BASE + 200_000)
    assert [item for item, _ in heard.all] == [True, False, True]


def test_the_end_does_not_wait_for_a_disk(tmp_path: Path) -> None:
    times = Times(batch=0.01, close=0.2)
    with running(tmp_path, times=times) as writer:
        writer.put(decided())
        until((tmp_path / DATABASE).exists)
        clock.sleep(0.1)
        with stalled(tmp_path, name=DATABASE):
            writer.put(plain(15, 31))
            begun = clock.monotonic()
            writer.close()
            assert clock.monotonic() - begun < 2
