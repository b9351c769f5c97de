"""State of an earlier run, or of another process: what a start makes of it, and says."""

import json
import math
import os
import random
import shutil
import sqlite3
import stat
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import pytest

from autoscaler.core.history import History, shifted
from autoscaler.persistence.sqlite_files import set_aside
from autoscaler.persistence.store import Resumption, read_saved
from autoscaler.persistence.store.rows import SCHEMA
from tests.adapters.store.histories import decided_at, nth
from tests.adapters.store.opening import (
    DATABASE,
    LONG,
    RETRYING,
    T0,
    Sayings,
    Time,
    execute,
    kept_in,
    overwrite_page,
    running,
    same,
)
from tests.narrowing import assert_parts, instance

NONE = "held nothing"
DAMAGED = "not be read"
NEWER = "newer version"
"""Parts of what the operator reads, which docs/contributing/faults.md quotes."""


def fill(directory: Path, targets: int = 20) -> dict[str, History]:
    histories = {f"shop/Deployment/{number}": nth(number) for number in range(targets)}
    with running(directory) as (store, _):
        store.keep([(key, history, decided_at(2)) for key, history in histories.items()])
    return histories


def assert_goes_on_from_memory(directory: Path, *reason: str) -> None:
    """Check that a store accepts everything, keeps nothing, and names the reason."""
    sayings = Sayings()
    with running(directory, sayings) as (store, resumption):
        assert resumption.histories == {}
        store.keep([("shop/Deployment/web", nth(1), decided_at(1))])
        assert store.intend("shop/Deployment/web", nth(2)).result(LONG) is None
        store.shift(3600.0)
        store.drop(["shop/Deployment/web"])
    assert_parts(sayings.wait(ok=False), *reason)
    assert sayings.states == [False]
    assert store.errors >= 1


def assert_keeps(directory: Path, sayings: Sayings) -> None:
    with running(directory, sayings) as (store, _):
        store.intend("shop/Deployment/new", nth(7)).result(LONG)
        sayings.wait(ok=True)
    assert kept_in(directory)["shop/Deployment/new"] == nth(7)


@pytest.mark.parametrize("logged", [False, True], ids=["closed", "killed"])
def test_a_database_of_a_newer_version_is_left_as_it_is(tmp_path: Path, *, logged: bool) -> None:
    fill(tmp_path)
    path = tmp_path / DATABASE
    with closing(sqlite3.connect(path)) as connection:
        connection.execute("PRAGMA user_version = 99")
        if logged:
            shutil.copytree(tmp_path, tmp_path / "killed")
    directory = tmp_path / "killed" if logged else tmp_path
    files = [file for file in directory.glob(f"{DATABASE}*") if not file.name.endswith("-shm")]
    assert len(files) == 1 + logged
    before = {file: file.read_bytes() for file in files}
    assert_goes_on_from_memory(directory, NEWER, DATABASE, "99")
    assert {file: file.read_bytes() for file in files} == before


def no_database(path: Path) -> None:
    path.write_text("targets:\n" * 1000)


def other_tables(path: Path) -> None:
    path.unlink()
    for statement in ("PRAGMA journal_mode = WAL", "CREATE TABLE targets (url TEXT)"):
        execute(path, statement)


def changed(statement: str) -> Callable[[Path], None]:
    """Return what runs a statement in a database, and changes its schema if that is asked for."""

    def change(path: Path) -> None:
        with closing(sqlite3.connect(path)) as connection:
            connection.executescript(statement)

    change.__name__ = statement[:40]
    return change


ENDLESS = (
    "DROP TABLE decided; CREATE VIEW decided (target, time) AS WITH RECURSIVE n(i) AS"
    " (SELECT 1 UNION ALL SELECT i + 1 FROM n) SELECT i, 0.0 FROM n"
)
TAMPERED = [
    changed(statement)
    for statement in (
        "DROP TABLE histories",
        "DELETE FROM recommendations WHERE slot = 1 AND target = 9",
        "PRAGMA user_version = 1",
        ENDLESS,
        "CREATE TRIGGER more AFTER INSERT ON clock BEGIN DELETE FROM targets; END",
        "UPDATE recommendations SET time = 9e999 WHERE target = 9",
        "UPDATE histories SET history = replace(hex(zeroblob(50000)), '0', '[')",
        "UPDATE histories SET history = hex(zeroblob(9000000)) WHERE target = 9",
        "DELETE FROM histories WHERE target = 9",
        "UPDATE decided SET time = 9e999 WHERE target = 9",
        "UPDATE clock SET wall = 9e999",
        *(
            f"INSERT INTO breakers VALUES ('', '{state}')"  # noqa: S608 - ours
            for state in (
                '{"trip": {"at": 1.8e9, "until": 9e999, "down": 1, "of": 2}}',
                '{"trip": {"at": 1.8e9, "down": 1, "of": 2}}',
                '{"trip": {"at": 1.8e9, "until": 1.8e9, "down": 1, "of": 2, "again": -1}}',
                '{"released_until": 1.9e9}',
            )
        ),
    )
]
"""What no daemon writes: other tables, versions, rows, instants, counts and sizes."""


def field(name: str, value: object) -> Callable[[Path], None]:
    def change(path: Path) -> None:
        ((text,),) = execute(path, "SELECT history FROM histories WHERE target = 9")
        text = json.dumps(json.loads(text) | {name: value})
        execute(path, "UPDATE histories SET history = ? WHERE target = 9", text)

    change.__name__ = f"{name} {value}"
    return change


FIELDS = [
    field("scale_ups", [{"change": 1, "time": T0 + 2 * 86400}]),
    field("desired_replicas", 2**31),
    field("last_scale_time", -math.inf),
    field("conditions", [["A", "True", "", "", 0]]),
    field("mood", "good"),
]
"""What no history holds; `core/test_history.py` has more of it."""


def half_a_file(path: Path) -> None:
    content = path.read_bytes()
    path.write_bytes(content[: len(content) // 2])


def broken_index(path: Path) -> None:
    """Write over a page that a start does not read."""
    overwrite_page(path, "sqlite_autoindex_targets_1")


@pytest.mark.parametrize(
    "damage", [no_database, other_tables, half_a_file, broken_index, *TAMPERED, *FIELDS]
)
def test_a_damaged_database_is_set_aside(tmp_path: Path, damage: Callable[[Path], None]) -> None:
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
    for sentence in (warned, kept):
        assert_parts(sentence, DAMAGED, str(path), aside.name)
    assert aside.read_bytes() == damaged
    assert_keeps(tmp_path, Sayings())


def begun_in(directory: Path, sayings: Sayings | None = None) -> str:
    """Start once, store something, and return the last message."""
    heard = sayings or Sayings()
    with running(directory, heard) as (store, _):
        store.intend("shop/Deployment/web", nth(1)).result(LONG)
        return heard.wait(ok=True)


@pytest.mark.parametrize("earlier", ["nothing", "lock", "empty-database"])
def test_a_start_without_earlier_state_is_announced(tmp_path: Path, earlier: str) -> None:
    if earlier == "lock":
        (tmp_path / "autoscaler.lock").touch()
    elif earlier == "empty-database":
        with running(tmp_path, Sayings()):
            pass
        assert (tmp_path / DATABASE).exists()
    sayings = Sayings()
    anew = begun_in(tmp_path, sayings)
    assert sayings.states == [True]
    resumed = begun_in(tmp_path)
    assert resumed.endswith(str(tmp_path / DATABASE))
    assert anew.startswith(f"{resumed}; ")
    assert_parts(anew, NONE)


def test_state_that_was_not_read_at_the_start_is_reported_until_the_end(tmp_path: Path) -> None:
    """The message still names the lost history once state can be written again."""
    fill(tmp_path / "state")
    (tmp_path / "state").rename(tmp_path / "away")
    (tmp_path / "state").touch()
    sayings = Sayings()
    with running(tmp_path / "state", sayings, timeouts=RETRYING) as (store, _):
        (tmp_path / "state").unlink()
        (tmp_path / "away").rename(tmp_path / "state")
        store.intend("shop/Deployment/web", nth(1)).result(LONG)
        later = sayings.wait(ok=True)
    assert later.startswith(f"{begun_in(tmp_path / 'state')}; ")
    assert sayings.states == [False, True]


def modes_of(directory: Path) -> dict[str, int]:
    return {
        path.name: stat.S_IMODE(path.stat().st_mode) for path in (directory, *directory.iterdir())
    }


def test_state_files_are_private(tmp_path: Path) -> None:
    umask = os.umask(0)
    try:
        with running(tmp_path / "state") as (store, _):
            store.intend("shop/Deployment/web", nth(1)).result(LONG)
            modes = modes_of(tmp_path / "state")
    finally:
        os.umask(umask)
    names = [DATABASE, f"{DATABASE}-shm", f"{DATABASE}-wal", "autoscaler.lock"]
    assert modes == {"state": 0o700} | dict.fromkeys(names, 0o600)


@pytest.mark.parametrize("shared", [False, True], ids=["own-folder", "shared-folder"])
def test_state_of_an_earlier_run_becomes_private(tmp_path: Path, *, shared: bool) -> None:
    fill(tmp_path / "state")
    aside = f"{DATABASE}.unreadable-20270115T080000Z"
    (tmp_path / "state" / aside).touch()
    others = {"other": 0o644} if shared else {}
    if shared:
        (tmp_path / "state" / "other").touch()
    for path in (tmp_path / "state").iterdir():
        path.chmod(0o644)
    (tmp_path / "state").chmod(0o755)
    with running(tmp_path / "state"):
        pass
    folder = {"state": 0o755 if shared else 0o700}
    names = [aside, DATABASE, "autoscaler.lock"]
    assert modes_of(tmp_path / "state") == folder | others | dict.fromkeys(names, 0o600)


@pytest.mark.skipif(os.geteuid() != 0, reason="only root may give files away")
def test_the_modes_of_other_users_files_stay(tmp_path: Path) -> None:
    fill(tmp_path / "state")
    for path in (tmp_path / "state", tmp_path / "state" / DATABASE):
        path.chmod(0o777)
        os.chown(path, 65534, 65534)
    with running(tmp_path / "state"):
        pass
    modes = modes_of(tmp_path / "state")
    assert (modes["state"], modes[DATABASE]) == (0o777, 0o777)


def test_a_log_is_set_aside_with_its_database(tmp_path: Path) -> None:
    names = [DATABASE, *(f"{DATABASE}-{end}" for end in ("shm", "wal", "journal"))]
    for name in names:
        (tmp_path / name).write_text(name)
    (tmp_path / "autoscaler.lock").touch()
    aside = set_aside(tmp_path / DATABASE, 0.0)
    assert aside.name == "autoscaler.db.unreadable-19700101T000000Z"
    found = {file.name: file.read_text() for file in tmp_path.iterdir()}
    assert found == {name.replace(DATABASE, aside.name): name for name in names} | {
        "autoscaler.lock": ""
    }


def test_no_damage_stops_the_store(tmp_path: Path) -> None:
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


def read_state(directory: Path, time: Time) -> Resumption:
    return instance(Resumption, read_saved(directory, time.clocks))


def test_read_state_is_what_a_start_continues(tmp_path: Path) -> None:
    time = Time()
    with running(tmp_path, time=time) as (store, _):
        store.keep([("a", nth(3), decided_at(3))])
        store.intend("b", nth(4)).result(10)
        live = read_state(tmp_path, time)
    assert same(live.histories["a"], nth(3))
    assert same(live.histories["b"], nth(4))
    assert live.saved_at == T0
    time.pass_(60.0)
    time.wall += 3600.0
    later = read_state(tmp_path, time)
    with running(tmp_path, time=time) as (_, resumption):
        assert resumption == later
    assert later.histories == {"a": shifted(nth(3), 3600.0), "b": shifted(nth(4), 3600.0)}
    assert (later.moved, later.absent) == (3600.0, 60.0)


def test_reading_changes_nothing_and_needs_no_lock(tmp_path: Path) -> None:
    fill(tmp_path)
    before = (tmp_path / DATABASE).read_bytes()
    assert isinstance(read_saved(tmp_path), Resumption)
    assert (tmp_path / DATABASE).read_bytes() == before
    with running(tmp_path) as (_, resumption):
        assert resumption.earlier


def test_reading_a_directory_without_state_creates_nothing(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    for directory in (tmp_path, tmp_path / "none", tmp_path / "file"):
        assert read_saved(directory) is None
    assert [file.name for file in tmp_path.iterdir()] == ["file"]


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        (changed("PRAGMA user_version = 99"), ["99", str(SCHEMA.version)]),
        (changed("PRAGMA user_version = 1"), ["version 1", f"version {SCHEMA.version}"]),
        (half_a_file, ["malformed"]),
        (no_database, ["not a database"]),
    ],
)
def test_a_file_that_cannot_be_read_is_left_as_it_is(
    tmp_path: Path, change: Callable[[Path], None], reason: list[str]
) -> None:
    fill(tmp_path)
    path = tmp_path / DATABASE
    change(path)
    before = path.read_bytes()
    assert_parts(instance(str, read_saved(tmp_path)), str(path), *reason)
    assert path.read_bytes() == before
    assert list(tmp_path.glob("*unreadable*")) == []
