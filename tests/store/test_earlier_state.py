"""State of an earlier run that is missing, damaged or newer: what a start makes of it, and says."""

import random
import re
import shutil
import sqlite3
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import pytest

from autoscaler.adapters.store.files import set_aside
from tests.store.failing import assert_goes_on_from_memory, assert_keeps, fill
from tests.store.histories import nth
from tests.store.opening import ANEW, DATABASE, LONG, RETRYING, Sayings, running

NONE = f"it held nothing of an earlier run: {ANEW}"
DAMAGED = rf" could not be read \(.*\) and is now .*: {ANEW}"
NEWER = " is of a newer version of autoscaler .* and is left as it is"
"""What the operator sees, as patterns."""


@pytest.mark.parametrize("logged", [False, True], ids=["closed", "killed"])
def test_a_database_of_a_newer_version_is_left_as_it_is(tmp_path: Path, *, logged: bool) -> None:
    """Byte for byte, and so is a write-ahead log that its process left behind."""
    fill(tmp_path)
    path = tmp_path / DATABASE
    with closing(sqlite3.connect(path)) as connection:
        connection.execute("PRAGMA user_version = 99")
        if logged:
            shutil.copytree(tmp_path, tmp_path / "killed")
    directory = tmp_path / "killed" if logged else tmp_path
    files = [one for one in directory.glob(f"{DATABASE}*") if not one.name.endswith("-shm")]
    assert len(files) == 1 + logged
    before = {one: one.read_bytes() for one in files}
    assert_goes_on_from_memory(directory, NEWER)
    assert {one: one.read_bytes() for one in files} == before


def no_database(path: Path) -> None:
    """Write something else."""
    path.write_text("targets:\n" * 1000)


def other_tables(path: Path) -> None:
    """Make a database of another program's."""
    path.unlink()
    with closing(sqlite3.connect(path)) as connection:
        connection.execute("PRAGMA journal_mode = WAL")
        connection.execute("CREATE TABLE targets (url TEXT)")


def missing_table(path: Path) -> None:
    """Take a table out."""
    with closing(sqlite3.connect(path)) as connection:
        connection.execute("DROP TABLE states")


def missing_slot(path: Path) -> None:
    """Take a row out of the middle of a list."""
    with closing(sqlite3.connect(path, isolation_level=None)) as connection:
        connection.execute("DELETE FROM recommendations WHERE slot = 1 AND target = 9")


def odd_value(path: Path) -> None:
    """Write what no condition can be."""
    with closing(sqlite3.connect(path, isolation_level=None)) as connection:
        connection.execute("UPDATE conditions SET conditions = '[[1, \"Perhaps\", 2, 3, 4]]'")


def half_a_file(path: Path) -> None:
    """Lose the end."""
    content = path.read_bytes()
    path.write_bytes(content[: len(content) // 2])


def broken_index(path: Path) -> None:
    """Write over a page that a start does not read."""
    with closing(sqlite3.connect(path)) as connection:
        index = "SELECT rootpage FROM sqlite_schema WHERE name = 'sqlite_autoindex_targets_1'"
        ((page,),) = connection.execute(index)
        ((size,),) = connection.execute("PRAGMA page_size")
    with path.open("r+b") as file:
        file.seek((page - 1) * size)
        file.write(b"\xff" * size)


@pytest.mark.parametrize(
    "damage",
    [no_database, other_tables, missing_table, missing_slot, odd_value, half_a_file, broken_index],
)
def test_a_damaged_database_is_set_aside(tmp_path: Path, damage: Callable[[Path], None]) -> None:
    """It gets another name, which is said, and a new one is begun, which keeps."""
    fill(tmp_path)
    path = tmp_path / DATABASE
    damage(path)
    damaged = path.read_bytes()
    sayings = Sayings()
    with running(tmp_path, sayings) as (store, resumption):
        assert resumption.histories == {}
        assert store.errors == 1
    assert sayings.states == [False, True]
    (aside,) = tmp_path.glob("autoscaler.db.unreadable-20270115T080000Z")
    (_, warned), (_, kept) = sayings.all
    assert re.fullmatch(f"{path}{DAMAGED}", warned, re.DOTALL)
    assert re.fullmatch(f"state is kept in {path}; the one before{DAMAGED}", kept, re.DOTALL)
    for sentence in (warned, kept):
        assert f" and is now {aside.name}: " in sentence
    assert aside.read_bytes() == damaged
    assert_keeps(tmp_path, Sayings())


def begun_in(directory: Path, sayings: Sayings | None = None) -> str:
    """Start once, keep something, and return what was said last."""
    heard = sayings or Sayings()
    with running(directory, heard) as (store, _):
        store.intend("shop/Deployment/web", nth(1)).result(LONG)
        return heard.wait(ok=True)


@pytest.mark.parametrize("left", ["nothing", "no database", "a database of no sync"])
def test_a_start_without_earlier_state_says_so(tmp_path: Path, left: str) -> None:
    """State can be kept, and what is missing is told with what it does; the next start has it."""
    if left == "no database":
        (tmp_path / "autoscaler.lock").touch()
    elif left == "a database of no sync":
        with running(tmp_path, Sayings()):
            pass
        assert (tmp_path / DATABASE).exists()
    kept = f"state is kept in {tmp_path / DATABASE}"
    sayings = Sayings()
    assert begun_in(tmp_path, sayings) == f"{kept}; {NONE}"
    assert sayings.states == [True]
    assert begun_in(tmp_path) == kept


def test_state_that_was_not_read_at_the_start_is_missed_for_good(tmp_path: Path) -> None:
    """Once it can be kept again the sentence still tells that this run goes on with none."""
    fill(tmp_path / "state")
    (tmp_path / "state").rename(tmp_path / "away")
    (tmp_path / "state").touch()
    sayings = Sayings()
    with running(tmp_path / "state", sayings, patience=RETRYING) as (store, _):
        (tmp_path / "state").unlink()
        (tmp_path / "away").rename(tmp_path / "state")
        store.intend("shop/Deployment/web", nth(1)).result(LONG)
        assert sayings.wait(ok=True).endswith(f"; it could not be read at the start: {ANEW}")
    assert sayings.states == [False, True]


def test_a_log_is_set_aside_with_its_database(tmp_path: Path) -> None:
    """Where SQLite has left one, it belongs to the database that it lies beside."""
    names = [DATABASE, f"{DATABASE}-shm", f"{DATABASE}-wal"]
    for name in names:
        (tmp_path / name).write_text(name)
    (tmp_path / "autoscaler.lock").touch()
    aside = set_aside(tmp_path / DATABASE, 0.0)
    assert aside.name == "autoscaler.db.unreadable-19700101T000000Z"
    found = {one.name: one.read_text() for one in tmp_path.iterdir()}
    assert found == {name.replace(DATABASE, aside.name): name for name in names} | {
        "autoscaler.lock": ""
    }


def test_no_damage_stops_the_store(tmp_path: Path) -> None:
    """Bytes changed at random, in the database, its log or both: it says what it makes of it."""
    chance = random.Random(4)  # noqa: S311 - any damage does
    fill(tmp_path / "whole")
    with closing(sqlite3.connect(tmp_path / "whole" / DATABASE)) as connection:
        connection.execute("UPDATE targets SET key = key || 'x'")
        connection.commit()
        shutil.copytree(tmp_path / "whole", tmp_path / "logged")
    for number in range(40):
        directory = tmp_path / str(number)
        shutil.copytree(tmp_path / "logged", directory)
        for path in directory.glob(f"{DATABASE}*"):
            content = bytearray(path.read_bytes())
            for _ in range(chance.choice((0, 1, 30, 1000))):
                content[chance.randrange(len(content))] = chance.randrange(256)
            path.write_bytes(content[: chance.choice((None, None, chance.randrange(5000)))])
        sayings = Sayings()
        assert_keeps(directory, sayings)
        assert sayings.states in ([True], [False, True]), sayings.all
