"""Bad state, bad disks, another process: the store continues in memory, reports it and recovers."""

import errno
import os
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from autoscaler.core.history import History, Recommendation
from tests.adapters.store.histories import decided_at, nth
from tests.adapters.store.opening import (
    DATABASE,
    LONG,
    RETRYING,
    T0,
    Sayings,
    decided_in,
    kept_in,
    running,
)
from tests.adapters.store.test_earlier_state import assert_goes_on_from_memory, fill
from tests.narrowing import assert_parts

CANNOT_BE_USED = "memory only"
"""Part of what the operator reads, which docs/contributing/faults.md quotes."""


def test_a_missing_directory_is_created(tmp_path: Path) -> None:
    histories = fill(tmp_path / "var" / "lib")
    assert kept_in(tmp_path / "var" / "lib") == histories


def test_state_stays_in_memory_where_no_file_can_be_written(tmp_path: Path) -> None:
    """A file in place of a folder, /proc, and a folder in place of the database.

    Not even root creates files in /proc. The folder is left as it is.
    """
    (tmp_path / "file").touch()
    (tmp_path / DATABASE).mkdir()
    for directory, reason in (
        (tmp_path / "file" / "state", os.strerror(errno.ENOTDIR)),
        (Path("/proc/sys"), ""),
        (tmp_path, "SQLITE_CANTOPEN"),
    ):
        assert_goes_on_from_memory(directory, CANNOT_BE_USED, str(directory), reason)
    assert (tmp_path / DATABASE).is_dir()


def test_a_second_process_keeps_state_in_memory_until_the_first_ends(tmp_path: Path) -> None:
    """The state of the first stays intact; then the second writes all of its own.

    A target that it has only noted a write of was never decided about by it.
    """
    sayings, noted, decided = Sayings(), "shop/Deployment/a", "shop/Deployment/b"
    with running(tmp_path) as (first, _):
        first.keep([(noted, nth(1), decided_at(1))])
        with running(tmp_path, sayings, timeouts=RETRYING) as (second, resumption):
            assert_parts(sayings.wait(ok=False), "another process", str(tmp_path))
            assert resumption.histories == {}
            second.keep([(decided, nth(2), decided_at(2))])
            second.intend(noted, nth(3)).result(LONG)
            first.intend(noted, nth(4)).result(LONG)
            first.close()
            second.intend(noted, nth(5)).result(LONG)
            sayings.wait(ok=True)
    assert sayings.states == [False, True]
    assert kept_in(tmp_path) == {decided: nth(2), noted: nth(5)}
    assert decided_in(tmp_path) == {decided: decided_at(2)}


def replace_by_copy(path: Path) -> None:
    """Put a copy in its place, as an editor or a restored backup does."""
    shutil.copy(path, path.with_suffix(".copy"))
    path.with_suffix(".copy").rename(path)


def overwrite(path: Path) -> None:
    for file in path.parent.glob(f"{DATABASE}*"):
        file.write_bytes(b"\xff" * file.stat().st_size)


@pytest.mark.parametrize(
    "damage", [lambda path: shutil.rmtree(path.parent), replace_by_copy, overwrite]
)
def test_a_file_lost_while_in_use_is_created_again(
    tmp_path: Path, damage: Callable[[Path], None]
) -> None:
    sayings, directory = Sayings(), tmp_path / "state"
    with running(directory, sayings, timeouts=RETRYING) as (store, _):
        store.keep([(f"t{number}", nth(number), decided_at(number)) for number in range(1, 50)])
        store.intend("t0", nth(0)).result(LONG)
        damage(directory / DATABASE)
        for number in range(100):
            store.intend("t0", nth(number)).result(LONG)
            if sayings.states[-2:] == [False, True]:
                break
        assert store.errors >= 1
    assert sayings.all[-1] == sayings.all[0]
    assert all("begins anew" not in sentence for ok, sentence in sayings.all if not ok)
    assert kept_in(directory) == {f"t{number}": nth(number) for number in range(1, 50)} | {
        "t0": nth(number)
    }
    assert decided_in(directory)["t49"] == decided_at(49)


def test_nothing_is_tried_in_the_pause_after_an_error(tmp_path: Path) -> None:
    (tmp_path / "state").touch()
    sayings = Sayings()
    with running(tmp_path / "state", sayings) as (store, _):
        for number in range(50):
            store.intend("shop/Deployment/a", nth(number)).result(LONG)
        assert store.errors == 1
    assert store.errors == 2  # the end is worth another try
    assert sayings.states == [False]


def test_a_value_that_cannot_be_stored_stops_no_other_value(tmp_path: Path) -> None:
    sayings = Sayings()
    with running(tmp_path, sayings, timeouts=RETRYING) as (store, _):
        odd = History((Recommendation(2**70, T0),))
        store.intend("shop/Deployment/odd", odd).result(LONG)
        assert_parts(sayings.wait(ok=False), "OverflowError")
        store.intend("shop/Deployment/a", nth(1)).result(LONG)
        store.drop(["shop/Deployment/odd"])
        store.intend("shop/Deployment/b", nth(2)).result(LONG)
        sayings.wait(ok=True)
    assert kept_in(tmp_path) == {"shop/Deployment/a": nth(1), "shop/Deployment/b": nth(2)}


def test_nothing_happens_after_the_end(tmp_path: Path) -> None:
    with running(tmp_path) as (store, _):
        store.keep([("shop/Deployment/a", nth(1), decided_at(1))])
    store.keep([("shop/Deployment/a", nth(2), decided_at(2))])
    assert store.intend("shop/Deployment/a", nth(3)).done()
    assert kept_in(tmp_path) == {"shop/Deployment/a": nth(1)}
