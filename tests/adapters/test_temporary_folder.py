"""What a process that was killed has left in /tmp is removed, and nothing that somebody uses."""

import os
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import pytest

from autoscaler.persistence.state_directory import RECORD_LOCK, lock
from autoscaler.persistence.temporary_folders import hold_folder, temporary_folder

PREFIX = "autoscaler-test-"
LIVES = f"""
import sys, time
from autoscaler.persistence.temporary_folders import temporary_folder
with temporary_folder({PREFIX!r}) as folder:
    (folder / "record.db").write_text("rows")
    print(folder, flush=True)
    time.sleep(60)
"""


@pytest.fixture(autouse=True)
def tmp(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    monkeypatch.setattr(tempfile, "tempdir", None)
    return tmp_path


def age(path: Path, seconds: float = 3600.0) -> None:
    then = time.time() - seconds
    os.utime(path, (then, then), follow_symlinks=False)


def mark(folder: Path) -> None:
    (folder / f".{folder.name}").touch()


def process() -> tuple["subprocess.Popen[str]", Path]:
    # It inherits TMPDIR.
    begun = subprocess.Popen([sys.executable, "-c", LIVES], stdout=subprocess.PIPE, text=True)
    assert begun.stdout is not None
    folder = Path(begun.stdout.readline().strip())
    age(folder)
    return begun, folder


def left_by_a_killed_process() -> Path:
    dead, left = process()
    dead.kill()
    dead.communicate(timeout=20)
    return left


def test_the_folder_of_a_killed_process_is_removed_by_the_next_and_that_of_a_living_stays() -> None:
    left = left_by_a_killed_process()
    living, used = process()
    try:
        assert left.parent == used.parent == Path(tempfile.gettempdir())
        assert not left.exists()
        with temporary_folder(PREFIX) as own:
            assert own.stat().st_mode & 0o777 == 0o700
            assert (used / "record.db").read_text() == "rows"
        assert not own.exists()
    finally:
        living.kill()
        living.communicate(timeout=20)


def test_a_child_keeps_the_folder_of_its_parent(tmp: Path) -> None:
    folder = tmp / f"{PREFIX}1"
    folder.mkdir(0o700)
    mark(folder)
    with hold_folder(folder) as descriptor:
        child = subprocess.Popen(["sleep", "60"], pass_fds=(descriptor,))
    age(folder)
    with temporary_folder(PREFIX):
        assert folder.exists()
    child.kill()
    child.wait(20)
    with temporary_folder(PREFIX):
        assert not folder.exists()


def test_a_foreign_folder_stays(tmp: Path) -> None:
    names = ("link", "file", "open", "marked-by-link")
    link, file, opened, marked = (tmp / f"{PREFIX}{name}" for name in names)
    other, aim = tmp / "autoscaler-other-1", tmp / "aim"
    for folder in (opened, marked, other, aim):
        folder.mkdir(0o700)
    for folder in (opened, other):
        mark(folder)
    (aim / f".{link.name}").touch()
    (marked / f".{marked.name}").symlink_to(aim / f".{link.name}")
    (aim / "precious").write_text("x")
    opened.chmod(0o755)
    link.symlink_to(aim)
    file.write_text("x")
    for path in (link, file, opened, marked, other, aim):
        age(path)
    with temporary_folder(PREFIX):
        pass
    assert all(path.exists() for path in (link, file, opened, marked, other, aim / "precious"))


def test_a_folder_that_was_not_made_as_a_temporary_one_stays(tmp: Path) -> None:
    used, backup, copied = (tmp / f"{PREFIX}{name}" for name in ("prod", "backup", "copied"))
    descriptor = lock(used, RECORD_LOCK)
    backup.mkdir(0o700)
    (backup / "record.db").write_text("rows")
    left = left_by_a_killed_process()
    shutil.copytree(left, copied)
    for path in (used, backup, copied):
        age(path)
    with temporary_folder(PREFIX):
        pass
    os.close(descriptor)
    assert not left.exists()
    assert all(path.exists() for path in (used, backup / "record.db", copied / "record.db"))


def test_a_folder_that_is_left_goes_however_young_it_is(tmp: Path) -> None:
    left = tmp / f"{PREFIX}1"
    left.mkdir(0o700)
    mark(left)
    with temporary_folder(PREFIX):
        assert not left.exists()
