"""Another process's state is read: it is what a start goes on with, and nothing changes."""

from collections.abc import Callable
from pathlib import Path

import pytest

from autoscaler.adapters.store import Saved, Unreadable, read_saved
from autoscaler.core.history import shifted
from tests.adapters.store.histories import decided_at, nth
from tests.adapters.store.opening import DATABASE, T0, Time, running, same
from tests.adapters.store.test_earlier_state import changed, fill, half_a_file, no_database


def found(directory: Path, time: Time) -> Saved:
    """Read what there is."""
    saved = read_saved(directory, time.clocks)
    assert isinstance(saved, Saved), saved
    return saved


def test_what_is_found_is_what_a_start_goes_on_with(tmp_path: Path) -> None:
    """While the daemon runs, and after it; moved where the clock was set meanwhile."""
    time = Time()
    with running(tmp_path, time=time) as (store, _):
        store.keep([("a", nth(3), decided_at(3))])
        store.intend("b", nth(4)).result(10)
        live = found(tmp_path, time)
    assert same(live.resumption.histories["a"], nth(3))
    assert same(live.resumption.histories["b"], nth(4))
    assert (live.path, live.time) == (tmp_path / DATABASE, T0)
    time.pass_(60.0)
    time.wall += 3600.0
    later = found(tmp_path, time).resumption
    with running(tmp_path, time=time) as (_, resumption):
        assert resumption == later
    assert later.histories == {"a": shifted(nth(3), 3600.0), "b": shifted(nth(4), 3600.0)}
    assert (later.moved, later.absent) == (3600.0, 60.0)


def test_reading_changes_nothing_and_needs_no_lock(tmp_path: Path) -> None:
    """Not a byte of the database, and a start right after it is as without it."""
    fill(tmp_path)
    before = (tmp_path / DATABASE).read_bytes()
    assert isinstance(read_saved(tmp_path), Saved)
    assert (tmp_path / DATABASE).read_bytes() == before
    with running(tmp_path) as (_, resumption):
        assert resumption.earlier


def test_where_nothing_was_kept_nothing_is_found_or_made(tmp_path: Path) -> None:
    """No folder, no file, and a folder that is a file."""
    (tmp_path / "file").touch()
    for directory in (tmp_path, tmp_path / "none", tmp_path / "file"):
        assert read_saved(directory) is None
    assert [one.name for one in tmp_path.iterdir()] == ["file"]


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (changed("PRAGMA user_version = 99"), "is of a newer version of autoscaler"),
        (
            changed("PRAGMA user_version = 1"),
            "cannot be read: its tables have version 1, and version 6 is read",
        ),
        (half_a_file, "cannot be read: "),
        (no_database, "cannot be read: "),
    ],
)
def test_what_cannot_be_read_is_told_and_left(
    tmp_path: Path, change: Callable[[Path], None], said: str
) -> None:
    """A sentence that names the file; the daemon's start deals with it."""
    fill(tmp_path)
    path = tmp_path / DATABASE
    change(path)
    before = path.read_bytes()
    outcome = read_saved(tmp_path)
    assert isinstance(outcome, Unreadable)
    assert outcome.message.startswith(f"{path} {said}")
    assert path.read_bytes() == before
    assert list(tmp_path.glob("*unreadable*")) == []
