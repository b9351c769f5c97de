"""How targets agree is kept in the record as stretches, and added up for the time asked for."""

from pathlib import Path

import pytest

from autoscaler.persistence.record import DirectoryRecord, Limits
from autoscaler.persistence.record.agreement import (
    DAY,
    AgreementInterval,
    DifferingReading,
    KindTotal,
)
from autoscaler.persistence.record.file import SCHEMA
from autoscaler.persistence.record.rows import RecordError
from tests.adapters.record.agreed import (
    DIFFERENT,
    EQUAL,
    FIELD,
    NOT_COMPARED,
    WEB,
    WITHIN,
    record_with,
    stretch,
)
from tests.adapters.record.recording import Time, running, until
from tests.adapters.store.opening import execute
from tests.core.builders import BASE

DATABASE = "record.db"


def test_each_kind_is_added_up_by_target(tmp_path: Path) -> None:
    other = "shop/Deployment/api"
    record = record_with(tmp_path, stretch(0, 100), stretch(100, 50, WITHIN), stretch(150, 250))
    record_with(tmp_path, (other, stretch(7, 3)))
    found = record.agreement(None, 0.0, BASE + 400)
    assert {key: value.totals for key, value in found.items()} == {
        WEB: {
            EQUAL: KindTotal(BASE, 350, 350, 2, 250),
            WITHIN: KindTotal(BASE + 100, 50, 50, 1, 50),
        },
        other: {EQUAL: KindTotal(BASE + 7, 3, 3, 1, 3)},
    }
    assert record.agreement([WEB, "other"], 0.0, BASE, 9).keys() == {WEB}


@pytest.mark.parametrize("since", [0.5, 99.25, 100.0, 1234.5, 3599.0])
def test_intervals_are_cut_to_the_requested_time(tmp_path: Path, since: float) -> None:
    record = record_with(tmp_path, stretch(0, 100), stretch(100, 3500, DIFFERENT))
    (found,) = record.agreement([WEB], BASE + since, BASE + 3600, 9).values()
    assert sum(total.seconds for total in found.totals.values()) == 3600 - since
    assert min(total.begin for total in found.totals.values()) == BASE + since
    (different,) = found.different
    assert (different.begin, different.end) == (BASE + max(100, since), BASE + 3600)
    assert found.totals[DIFFERENT].longest == different.end - different.begin
    assert record.agreement([WEB], BASE + 3600, BASE + 3600, 9) == {}


def test_the_last_day_has_its_own_totals(tmp_path: Path) -> None:
    record = record_with(tmp_path, stretch(0, 2 * DAY), stretch(2 * DAY, 100, DIFFERENT))
    totals = record.agreement(None, 0.0, BASE + 2 * DAY + 100)[WEB].totals
    assert (totals[EQUAL].last_day, totals[DIFFERENT].last_day) == (DAY - 100, 100)


def test_a_stretch_that_continues_is_one(tmp_path: Path) -> None:
    for seconds in (60, 120):
        record_with(tmp_path, stretch(0, seconds))
    record = record_with(tmp_path, stretch(0, 180))
    assert record.agreement(None, 0.0, BASE)[WEB].totals[EQUAL][1:] == (180, 180, 1, 180)


def test_differences_are_listed_the_longest_first(tmp_path: Path) -> None:
    reading = DifferingReading("queue", 1000, 2500)
    longest = AgreementInterval(BASE + 100, BASE + 190, DIFFERENT, 9, 7, (FIELD,), (reading,))
    record = record_with(
        tmp_path,
        *(stretch(0, 10, DIFFERENT), longest, stretch(200, 40, DIFFERENT)),
        *(stretch(300 + 10 * n, 10, NOT_COMPARED, why="ab"[n % 2]) for n in range(3)),
    )
    (found,) = record.agreement([WEB], 0.0, BASE, 2).values()
    assert found.different == (longest, stretch(200, 40, DIFFERENT))
    assert found.not_compared == {"a": 20, "b": 10}


def test_intervals_beyond_the_oldest_age_are_removed(tmp_path: Path) -> None:
    record_with(tmp_path, *(stretch(n, 1, (EQUAL, WITHIN)[n % 2]) for n in range(600)))
    record, time = record_with(tmp_path, stretch(600, 1000)), Time()
    time.now = BASE + 1401
    with running(tmp_path, limits=Limits(max_age=800.0), time=time):
        until(lambda: WITHIN not in record.agreement(None, 0.0, BASE)[WEB].totals)
    assert record.agreement(None, 0.0, BASE)[WEB].totals[EQUAL].begin == BASE + 600


def test_the_writer_keeps_both_on_one_thread(tmp_path: Path) -> None:
    for number in (1, 2):
        with running(tmp_path) as writer:
            writer.put_agreement(WEB, stretch(0, 10 * number))
    assert record_with(tmp_path).agreement(None, 0.0, BASE)[WEB].totals[EQUAL].seconds == 20


# -- an older file -------------------------------------------------------------------------------


def test_an_older_record_is_set_aside(tmp_path: Path) -> None:
    record_with(tmp_path, stretch(0, 60))
    execute(tmp_path / DATABASE, f"PRAGMA user_version = {SCHEMA.version - 1}")
    with pytest.raises(RecordError, match=f"version {SCHEMA.version - 1}"):
        DirectoryRecord(tmp_path).agreement(None, 0.0, BASE)
    record = record_with(tmp_path, stretch(60, 20))
    assert record.agreement(None, 0.0, BASE)[WEB].totals[EQUAL].seconds == 20
    (aside,) = tmp_path.glob(f"{DATABASE}.unreadable-*")
    assert execute(aside, "SELECT begin FROM agreement") == [(BASE,)]


# -- a damaged one -------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "change",
    [
        *(f"{key} = {value}" for key in ("begin", "end") for value in ("9e999", "1e200")),
        "kind = 'other'",
        "body = replace(body, '9', '1e999')",
        "body = 'no json'",
    ],
)
def test_damaged_intervals_are_refused(tmp_path: Path, change: str) -> None:
    record = record_with(tmp_path, stretch(0, 10, DIFFERENT))
    execute(tmp_path / DATABASE, f"UPDATE agreement SET {change}")  # noqa: S608 - from this table
    since = -9e999 if change.startswith("begin") else 0.0
    with pytest.raises(RecordError, match=r"record\.db cannot be read: "):
        record.agreement([WEB], since, BASE, 9)
