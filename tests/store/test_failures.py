"""Bad state, a bad disk, another process: the store goes on from memory, says so, and recovers."""

import random
import shutil
import sqlite3
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import pytest

from autoscaler.adapters.store import Store, Unreadable, last_decisions
from autoscaler.adapters.store.files import set_aside
from autoscaler.core.history import History
from tests.store.histories import decision, nth
from tests.store.opening import DATABASE, LONG, RETRYING, Sayings, kept_in, running


def fill(directory: Path, targets: int = 20) -> dict[str, History]:
    """Keep some targets, and return their histories."""
    histories = {f"shop/Deployment/{one}": nth(one) for one in range(targets)}
    with running(directory) as (store, _):
        store.keep([(key, one, decision(2)) for key, one in histories.items()])
    return histories


def assert_goes_on_from_memory(directory: Path, words: str) -> None:
    """Find that a store takes in everything, keeps nothing and says why."""
    sayings = Sayings()
    with running(directory, sayings) as (store, resumption):
        assert resumption.histories == {}
        store.keep([("shop/Deployment/web", nth(1), decision(1))])
        assert store.intend("shop/Deployment/web", nth(2)).result(LONG) is None
        store.shift(3600.0)
        store.drop(["shop/Deployment/web"])
    assert words in sayings.wait(ok=False)
    assert sayings.states == [False]
    assert store.errors >= 1


def assert_keeps(directory: Path, sayings: Sayings) -> None:
    """Find that what is kept from now on is there after a restart."""
    with running(directory, sayings) as (store, _):
        store.intend("shop/Deployment/new", nth(7)).result(LONG)
        sayings.wait(ok=True)
    assert kept_in(directory)["shop/Deployment/new"] == nth(7)


def test_a_directory_that_is_missing_is_made(tmp_path: Path) -> None:
    """With its parents."""
    histories = fill(tmp_path / "var" / "lib")
    assert kept_in(tmp_path / "var" / "lib") == histories


def test_a_directory_that_cannot_be_made(tmp_path: Path) -> None:
    """A file stands in its way."""
    (tmp_path / "file").touch()
    assert_goes_on_from_memory(tmp_path / "file" / "state", "cannot be used: Not a directory")


def test_a_directory_that_cannot_be_written() -> None:
    """Nobody may make files in /proc, not even root."""
    assert_goes_on_from_memory(Path("/proc/sys"), "/proc/sys cannot be used")


def test_a_database_that_cannot_be_opened(tmp_path: Path) -> None:
    """It is left alone: the fault may lie elsewhere."""
    (tmp_path / DATABASE).mkdir()
    assert_goes_on_from_memory(tmp_path, "cannot be used: unable to open database file")
    assert (tmp_path / DATABASE).is_dir()


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
    assert_goes_on_from_memory(directory, "its tables have version 99, this one knows 1")
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
    assert f"is now {aside.name}" in sayings.all[0][1]
    assert "every target begins anew" in sayings.all[0][1]
    assert aside.read_bytes() == damaged
    assert_keeps(tmp_path, Sayings())


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


def test_a_second_process_goes_on_from_memory_until_the_first_has_ended(tmp_path: Path) -> None:
    """What the first keeps stays whole; then the second writes everything that it has."""
    sayings = Sayings()
    with running(tmp_path) as (first, _):
        first.keep([("shop/Deployment/a", nth(1), decision(1))])
        with running(tmp_path, sayings, patience=RETRYING) as (second, resumption):
            assert f"another process keeps its state in {tmp_path}" in sayings.wait(ok=False)
            assert resumption.histories == {}
            second.keep([("shop/Deployment/b", nth(2), decision(2))])
            second.intend("shop/Deployment/c", nth(3)).result(LONG)
            first.intend("shop/Deployment/a", nth(4)).result(LONG)
            first.close()
            second.intend("shop/Deployment/c", nth(5)).result(LONG)
            sayings.wait(ok=True)
    assert sayings.states == [False, True]
    assert kept_in(tmp_path) == {"shop/Deployment/b": nth(2), "shop/Deployment/c": nth(5)}


def unlink(path: Path) -> None:
    """Remove the directory."""
    shutil.rmtree(path.parent)


def replace_by_copy(path: Path) -> None:
    """Put a copy in its place, as an editor or a restored backup does."""
    shutil.copy(path, path.with_suffix(".copy"))
    path.with_suffix(".copy").rename(path)


def overwrite(path: Path) -> None:
    """Write over it."""
    for one in path.parent.glob(f"{DATABASE}*"):
        one.write_bytes(b"\xff" * one.stat().st_size)


@pytest.mark.parametrize("damage", [unlink, replace_by_copy, overwrite])
def test_a_file_that_is_lost_while_in_use_is_made_anew(
    tmp_path: Path, damage: Callable[[Path], None]
) -> None:
    """Everything is written again, also what nothing is said of any more."""
    sayings, directory = Sayings(), tmp_path / "state"
    with running(directory, sayings, patience=RETRYING) as (store, _):
        store.keep([(f"t{one}", nth(one), decision(one)) for one in range(1, 50)])
        store.intend("t0", nth(0)).result(LONG)
        damage(directory / DATABASE)
        for number in range(100):
            store.intend("t0", nth(number)).result(LONG)
            if sayings.states[-2:] == [False, True]:
                break
        assert store.errors >= 1
    assert kept_in(directory) == {f"t{one}": nth(one) for one in range(1, 50)} | {"t0": nth(number)}
    kept = last_decisions(directory)
    assert not isinstance(kept, Unreadable)
    assert kept["t49"].time == decision(49).time


def test_nothing_is_tried_in_the_pause_after_an_error(tmp_path: Path) -> None:
    """A disk that fails is left alone for a while, and the error is counted and told once."""
    (tmp_path / "state").touch()
    sayings = Sayings()
    with running(tmp_path / "state", sayings) as (store, _):
        for number in range(50):
            store.intend("shop/Deployment/a", nth(number)).result(LONG)
        assert store.errors == 1
    assert store.errors == 2  # the end is worth another try
    assert sayings.states == [False]


def test_a_value_that_cannot_be_kept_stops_nobody(tmp_path: Path) -> None:
    """A defect is told like a failing disk, and is over when the value is gone."""
    sayings = Sayings()
    with running(tmp_path, sayings, patience=RETRYING) as (store, _):
        store.intend("shop/Deployment/odd", History(desired_replicas=2**70)).result(LONG)
        assert "a fault of the autoscaler, OverflowError" in sayings.wait(ok=False)
        store.intend("shop/Deployment/a", nth(1)).result(LONG)
        store.drop(["shop/Deployment/odd"])
        store.intend("shop/Deployment/b", nth(2)).result(LONG)
        sayings.wait(ok=True)
    assert kept_in(tmp_path) == {"shop/Deployment/a": nth(1), "shop/Deployment/b": nth(2)}


def test_nothing_happens_after_the_end(tmp_path: Path) -> None:
    """Calls of a thread that comes late neither fail nor wait."""
    with running(tmp_path) as (store, _):
        store.keep([("shop/Deployment/a", nth(1), decision(1))])
    store.keep([("shop/Deployment/a", nth(2), decision(2))])
    assert store.intend("shop/Deployment/a", nth(3)).done()
    assert kept_in(tmp_path) == {"shop/Deployment/a": nth(1)}


def test_the_end_comes_in_time(tmp_path: Path) -> None:
    """A store that never could keep anything closes at once."""
    store = Store(tmp_path / "a" / "b", Sayings())
    (tmp_path / "a").touch()
    store.start()
    store.close()
