"""How targets agree is kept in a file: sums by the hour, and each disagreement."""

import json
import re
import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from autoscaler import clock
from autoscaler.agreement.comparison import Agreement
from autoscaler.agreement.database import (
    AgreementError,
    DirectoryAgreement,
    KeptAgreement,
    NothingComparedError,
)
from tests.adapters.agreement.keeping import FIELD, WEB, keeping, row
from tests.adapters.store.opening import Sayings
from tests.core.builders import BASE
from tests.worlds.waiting import wait_until

DATABASE = "agreement.db"
EQUAL, OTHER = Agreement.EQUAL, Agreement.CONFIGURATION
HOUR = 3600.0

# What the operator reads, as patterns.
NOT_KEPT = "; how targets in shadow agree is not kept until it can be"
SET_ASIDE = r"; the one before could not be read \("


def read(directory: Path, since: float = 0.0, limit: int = 100) -> KeptAgreement:
    """Return what is kept of one target."""
    return DirectoryAgreement(directory).of([WEB], since, limit)[WEB]


def test_each_kind_is_a_sum(tmp_path: Path) -> None:
    """Of seconds, times, the longest of them, and the counts meanwhile, ours and the free run's."""
    with keeping(tmp_path) as writer:
        writer.put(row(0, 100, replicas=3, free=3))
        writer.put(row(100, 50, OTHER, replicas=8, free=9))
        writer.put(row(150, 250, replicas=3, free=5))
    kept = read(tmp_path)
    equal, other = kept.sums[EQUAL], kept.sums[OTHER]
    assert (equal.seconds, equal.stretches, equal.longest) == (350, 2, 250)
    assert (equal.replicas, equal.free) == (3 * 350, 3 * 100 + 5 * 250)
    assert (other.seconds, other.replicas, other.free) == (50, 400, 450)
    assert kept.begin == BASE


def test_only_a_disagreement_is_kept_with_its_cause(tmp_path: Path) -> None:
    """What is the same, or is timing, has sums only."""
    with keeping(tmp_path) as writer:
        for number, kind in enumerate(Agreement):
            writer.put(row(10.0 * number, 10, kind))
    kept = read(tmp_path)
    assert set(kept.sums) == set(Agreement)
    told = {Agreement.EQUAL, Agreement.TIMING, Agreement.NOT_COMPARED}
    assert {one.agreement for one in kept.stretches} == set(Agreement) - told
    assert [one.fields for one in kept.stretches if one.agreement is OTHER] == [(FIELD,)]


def test_a_stretch_that_goes_on_is_one(tmp_path: Path) -> None:
    """Its rows add up, and it is listed once, with its whole time."""
    with keeping(tmp_path) as writer:
        writer.put(row(0, 60, OTHER))
        writer.put(row(60, 60, OTHER, before=60))
        writer.put(row(120, 30, OTHER, before=120))
    kept = read(tmp_path)
    assert (kept.sums[OTHER].seconds, kept.sums[OTHER].stretches) == (150, 1)
    assert kept.sums[OTHER].longest == 150
    assert [(one.begin, one.end) for one in kept.stretches] == [(BASE, BASE + 150)]


def test_the_longest_disagreements_come_first(tmp_path: Path) -> None:
    """As many as are asked for."""
    with keeping(tmp_path) as writer:
        for number, seconds in enumerate((10, 90, 40)):
            writer.put(row(100.0 * number, seconds, OTHER))
    lasted = [one.end - one.begin for one in read(tmp_path, limit=2).stretches]
    assert lasted == [90, 40]


@pytest.mark.parametrize(("minutes", "after"), [(24.5, 35.5), (25, 35), (1, 59.0), (60, 0)])
def test_no_more_time_is_summed_than_is_asked_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, minutes: float, after: float
) -> None:
    """To a minute: the minute that the time begins in is left out."""
    monkeypatch.setattr(clock, "wall", lambda: BASE + HOUR)
    with keeping(tmp_path) as writer:
        for number in range(240):
            writer.put(row(15.0 * number, 15))
    since = BASE + 60 * after
    seconds = read(tmp_path, since).sums[EQUAL].seconds
    assert 60 * minutes - 60 < seconds <= 60 * minutes
    assert DirectoryAgreement(tmp_path).times(since) == {WEB: {EQUAL: seconds}}


def test_old_sums_are_by_the_hour(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing of them is lost."""
    monkeypatch.setattr(clock, "wall", lambda: BASE + HOUR)
    with keeping(tmp_path) as writer:
        for number in range(60):
            writer.put(row(60.0 * number, 60, (EQUAL, OTHER)[number % 2]))
    before = read(tmp_path)
    for hours in (8, 9):
        monkeypatch.setattr(clock, "wall", lambda hours=hours: BASE + hours * HOUR)
        with keeping(tmp_path) as writer:
            writer.put(row(HOUR * hours, 60, Agreement.UNKNOWN))
    after = read(tmp_path)
    assert {kind: after.sums[kind] for kind in (EQUAL, OTHER)} == before.sums
    with closing(sqlite3.connect(tmp_path / DATABASE)) as connection:
        query = "SELECT count(*) FROM sums WHERE agreement IN ('equal', 'configuration')"
        assert connection.execute(query).fetchone() == (2,)


@pytest.mark.parametrize(
    "change",
    [
        *(
            f"{column} = {value}"
            for column in ("begin", "seconds", "longest", "replicas", "free")
            for value in ("9e999", "-9e999", "1e200")
        ),
        f"stretches = {2**63 - 1}",
        "agreement = 'other'",
    ],
)
def test_a_sum_that_nobody_wrote_is_refused(tmp_path: Path, change: str) -> None:
    """As an infinity: with a sentence that names the file."""
    with keeping(tmp_path) as writer:
        writer.put(row(0, 10))
    with closing(sqlite3.connect(tmp_path / DATABASE)) as connection, connection:
        connection.execute(f"UPDATE sums SET {change}")  # noqa: S608 - from this table
    reader = DirectoryAgreement(tmp_path)
    with pytest.raises(AgreementError, match=r"agreement\.db cannot be read: "):
        reader.of([WEB], 0, 9)
    if change.startswith(("seconds", "agreement")):
        with pytest.raises(AgreementError, match=r"agreement\.db cannot be read: "):
            reader.times(0)


@pytest.mark.parametrize("field", ["begin", "end", "remembered", "lag"])
@pytest.mark.parametrize("value", ["Infinity", "-Infinity", "NaN", "1e999", "1e300"])
def test_a_disagreement_with_such_a_number_is_refused(
    tmp_path: Path, field: str, value: str
) -> None:
    """Where it is kept as JSON."""
    with keeping(tmp_path) as writer:
        writer.put(row(0, 10, OTHER))
    reading = {"index": 0, "metric": "queue", "ours": 1, "theirs": 2, "lag": 1.5}
    whole = {"begin": 1.5, "end": 1.5, "remembered": 1.5, "agreement": "unknown"}
    good = json.dumps(whole | {"readings": [reading]})
    body = good.replace(f'"{field}": 1.5', f'"{field}": {value}')
    with closing(sqlite3.connect(tmp_path / DATABASE)) as connection:
        connection.execute("UPDATE stretches SET body = ?", (good,))
        connection.commit()
        assert read(tmp_path).stretches
        connection.execute("UPDATE stretches SET body = ?", (body,))
        connection.commit()
    with pytest.raises(AgreementError, match=r"agreement\.db cannot be read: "):
        read(tmp_path)


def test_a_restart_goes_on_with_the_sums(tmp_path: Path) -> None:
    """Those of the same hour are extended, and each target keeps its own."""
    for number, target in enumerate((WEB, "shop/Deployment/api", WEB)):
        with keeping(tmp_path) as writer:
            writer.put(row(10.0 * number, 10, target=target))
    assert read(tmp_path).sums[EQUAL].seconds == 20
    assert DirectoryAgreement(tmp_path).targets() == ["shop/Deployment/api", WEB]
    assert list(DirectoryAgreement(tmp_path).of(["other", WEB], 0, 9)) == [WEB]


def test_it_is_read_while_it_is_written(tmp_path: Path) -> None:
    """By another connection, at any time."""
    reader = DirectoryAgreement(tmp_path)
    with keeping(tmp_path) as writer:
        for number in range(5):
            writer.put(row(10.0 * number, 10))
            seconds = 10.0 * (number + 1)
            wait_until(
                f"{seconds} s",
                lambda seconds=seconds: (  # type: ignore[misc] # bound now
                    (tmp_path / DATABASE).exists() and reader.times(0) == {WEB: {EQUAL: seconds}}
                ),
                timeout=10,
            )


def test_what_is_too_old_is_forgotten(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Hours and disagreements that ended before then, with the next row."""
    with keeping(tmp_path) as writer:
        writer.put(row(0, 10, OTHER))
        writer.put(row(5 * HOUR, 10, OTHER))
    monkeypatch.setattr(clock, "wall", lambda: BASE + 6 * HOUR)
    with keeping(tmp_path, max_age=2 * HOUR) as writer:
        writer.put(row(6 * HOUR, 10))
    kept = read(tmp_path)
    assert kept.begin == BASE + 5 * HOUR
    assert [one.begin for one in kept.stretches] == [BASE + 5 * HOUR]


def test_without_a_file_nothing_was_compared(tmp_path: Path) -> None:
    """The sentence says where it was looked for; so of a directory that there is not."""
    for directory in (tmp_path, tmp_path / "missing"):
        with pytest.raises(NothingComparedError, match="no target has been compared with an HPA"):
            DirectoryAgreement(directory).targets()


def test_a_damaged_file_is_set_aside(tmp_path: Path) -> None:
    """A reader says that it cannot be read; the writer begins another one, and says so."""
    with keeping(tmp_path) as writer:
        writer.put(row(0, 10))
    with closing(sqlite3.connect(tmp_path / DATABASE)) as connection:
        connection.execute("DROP TABLE targets")
    with pytest.raises(AgreementError, match=r"agreement\.db cannot be read: "):
        DirectoryAgreement(tmp_path).targets()
    heard = Sayings()
    with keeping(tmp_path, heard) as writer:
        writer.put(row(10, 20))
        sentence = heard.wait(ok=True)
    (aside,) = tmp_path.glob(f"{DATABASE}.unreadable-*")
    assert re.search(SET_ASIDE, sentence)
    assert aside.name in sentence
    assert read(tmp_path).sums[EQUAL].seconds == 20


def test_a_file_of_a_newer_version_is_left_alone(tmp_path: Path) -> None:
    """Nothing is kept then, and both sides say why."""
    with keeping(tmp_path) as writer:
        writer.put(row(0, 10))
    with closing(sqlite3.connect(tmp_path / DATABASE)) as connection:
        connection.execute("PRAGMA user_version = 99")
    heard = Sayings()
    with keeping(tmp_path, heard) as writer:
        writer.put(row(10, 10))
        assert "is of a newer version of autoscaler" in heard.wait(ok=False)
    with pytest.raises(AgreementError, match="newer version"):
        DirectoryAgreement(tmp_path).targets()


def test_a_directory_that_cannot_be_written_is_told(tmp_path: Path) -> None:
    """In a sentence that says what is lost."""
    (tmp_path / "file").touch()
    heard = Sayings()
    with keeping(tmp_path / "file" / "state", heard) as writer:
        writer.put(row(0, 10))
        sentence = heard.wait(ok=False)
    assert "Not a directory" in sentence
    assert sentence.endswith(NOT_KEPT)
