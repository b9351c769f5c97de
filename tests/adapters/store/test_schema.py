"""The tables' versions: what an older one kept is read by every later one."""

import sqlite3
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from autoscaler.adapters.sqlite_files import migrate, version_of
from autoscaler.adapters.store.schema import MIGRATIONS, OF_A_TARGET
from autoscaler.core.history import History
from tests.adapters.store.histories import FULL, decided_at, nth
from tests.adapters.store.opening import DATABASE, Sayings, decided_in, kept_in, running, same

VERSIONS = {one: Path(__file__).with_name(f"version-{one}.sql") for one in (1, 2, 3)}
NEXT = "ALTER TABLE targets ADD COLUMN note TEXT; UPDATE targets SET note = 'of ' || key"


@pytest.fixture
def old() -> Iterator[sqlite3.Connection]:
    """Return a database of version 1 with three targets."""
    with closing(sqlite3.connect(":memory:", isolation_level=None)) as connection:
        connection.executescript(VERSIONS[1].read_text())
        yield connection


@pytest.mark.parametrize("version", [1, 2, 3])
def test_what_an_older_version_kept_is_still_read(tmp_path: Path, version: int) -> None:
    """Histories, exactly, and when they were decided about."""
    with closing(sqlite3.connect(tmp_path / DATABASE)) as connection:
        connection.executescript(VERSIONS[version].read_text())
    found = kept_in(tmp_path)
    expected = {
        "shop/Deployment/new": History(),
        "shop/Deployment/web": nth(7),
        "shop/StatefulSet.example.com/cache": nth(12, pending=True),
    }
    if version > 1:
        expected["shop/Deployment/full"] = FULL
    assert found.keys() == expected.keys()
    assert all(same(found[key], one) for key, one in expected.items())
    assert decided_in(tmp_path)["shop/Deployment/web"] == decided_at(7)


@pytest.mark.parametrize(
    "damage",
    [
        "UPDATE states SET pending = '[1, 2, 3]' WHERE target = 2",
        "UPDATE states SET rivalry = '[1e400, 0, []]' WHERE target = 2",
        "UPDATE states SET last_scale_time = 9e999 WHERE target = 2",
        "UPDATE conditions SET conditions = '[[1, \"Perhaps\", 2, 3, 4]]'",
        "UPDATE scale_downs SET change = -1",
    ],
)
def test_a_damaged_database_of_an_older_version_is_set_aside(tmp_path: Path, damage: str) -> None:
    """Whether it cannot be converted, or not be read afterwards."""
    with closing(sqlite3.connect(tmp_path / DATABASE)) as connection:
        connection.executescript(VERSIONS[2].read_text() + damage)
    sayings = Sayings()
    with running(tmp_path, sayings) as (_, resumption):
        assert resumption.histories == {}
    assert sayings.states == [False, True]
    assert list(tmp_path.glob(f"{DATABASE}.unreadable-*"))


def test_the_tables_of_a_new_database_are_those_of_a_migrated_one(
    old: sqlite3.Connection,
) -> None:
    """Whichever way it came to its version."""
    migrate(old, MIGRATIONS)
    tables = "SELECT name, replace(replace(sql, ' ', ''), char(10), '') FROM sqlite_schema"
    with closing(sqlite3.connect(":memory:")) as new:
        migrate(new, MIGRATIONS)
        assert version_of(new) == version_of(old) == len(MIGRATIONS)
        assert set(new.execute(tables)) == set(old.execute(tables))


def test_every_table_of_targets_is_known(old: sqlite3.Connection) -> None:
    """A table that is new is emptied with its target."""
    migrate(old, MIGRATIONS)
    names = {name for (name,) in old.execute("SELECT name FROM sqlite_schema WHERE type = 'table'")}
    of_a_target = {
        name
        for name in names
        if "target" in {row[1] for row in old.execute(f"PRAGMA table_info({name})")}
    }
    assert of_a_target == set(OF_A_TARGET)


def test_a_later_version_keeps_what_is_there(old: sqlite3.Connection) -> None:
    """Only the scripts that a database has not seen are run, and each of them once."""
    scripts = (*MIGRATIONS, NEXT)
    for _ in range(2):
        migrate(old, scripts)
        assert version_of(old) == len(scripts)
    notes = {note for (note,) in old.execute("SELECT note FROM targets")}
    assert "of shop/Deployment/web" in notes
    assert old.execute("SELECT count(*) FROM recommendations").fetchone() == (10,)


def test_a_script_that_fails_changes_nothing(tmp_path: Path) -> None:
    """The database is still of the version before."""
    path = tmp_path / DATABASE
    with closing(sqlite3.connect(path)) as connection:
        connection.executescript(VERSIONS[1].read_text())
    failing = f"{NEXT}; UPDATE nowhere SET key = 1"  # noqa: S608 - no input
    with (
        closing(sqlite3.connect(path, isolation_level=None)) as connection,
        pytest.raises(sqlite3.OperationalError, match="no such table: nowhere"),
    ):
        migrate(connection, (*MIGRATIONS, failing))
    with closing(sqlite3.connect(path)) as connection:
        assert version_of(connection) == len(MIGRATIONS)
        assert "note" not in {row[1] for row in connection.execute("PRAGMA table_info(targets)")}
    assert len(kept_in(tmp_path)) == 3
