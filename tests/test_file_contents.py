"""Files are replaced in one step; names from outside never lead out of a folder."""

import errno
import os
import threading
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from autoscaler.file_contents import with_home, write_below, write_output
from autoscaler.lab.past.range_files import default_folder

# -- files that a user names -----------------------------------------------------------------------


def test_a_failed_replacement_leaves_only_the_old_content(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "a.yaml"
    file.write_bytes(b"before")

    def full(_: int) -> None:
        raise OSError(errno.ENOSPC, "full")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(OSError, match="full"):
        write_output(file, b"after")
    assert [(file.name, file.read_bytes()) for file in tmp_path.iterdir()] == [
        ("a.yaml", b"before")
    ]


def test_an_output_replaces_a_regular_file_and_keeps_its_mode(tmp_path: Path) -> None:
    file = tmp_path / "report.html"
    file.write_bytes(b"before")
    file.chmod(0o640)
    write_output(file, b"after")
    write_output(tmp_path / "new", b"new")
    assert (file.read_bytes(), file.stat().st_mode & 0o777) == (b"after", 0o640)
    umask = os.umask(0)
    os.umask(umask)
    assert (tmp_path / "new").stat().st_mode & 0o777 == 0o666 & ~umask


def test_a_device_is_written_to_and_stays_a_device() -> None:
    before = os.lstat("/dev/null")
    write_output(Path("/dev/null"), b"x")
    assert os.lstat("/dev/null").st_ino == before.st_ino
    assert os.lstat("/dev/null").st_mode == before.st_mode


def test_a_pipe_is_written_to(tmp_path: Path) -> None:
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    read: list[bytes] = []
    reader = threading.Thread(target=lambda: read.append(pipe.read_bytes()))
    reader.start()
    write_output(pipe, b"content")
    reader.join(10)
    assert read == [b"content"]
    assert pipe.is_fifo()


@pytest.mark.parametrize("kind", ["link", "dangling-link", "folder"])
def test_an_output_replaces_nothing_but_files(tmp_path: Path, kind: str) -> None:
    """A link may lead to a file of somebody else's choice."""
    victim, path = tmp_path / "victim", tmp_path / "out"
    victim.write_bytes(b"mine")
    if kind == "folder":
        path.mkdir()
    else:
        path.symlink_to(victim if kind == "link" else tmp_path / "none")
    with pytest.raises(OSError, match=kind.removeprefix("dangling-")):
        write_output(path, b"x")
    assert victim.read_bytes() == b"mine"
    assert not (tmp_path / "none").exists()


# -- files whose names come from outside -----------------------------------------------------------

NAMES = st.one_of(
    st.sampled_from(["..", ".", "", "/", "../x", "/etc", "a/../../x", "link", "file", "folder"]),
    st.text(st.characters(codec="utf-8"), max_size=30),
)


@settings(max_examples=300, deadline=None)
@given(st.lists(NAMES, min_size=1, max_size=4), st.booleans())
def test_no_name_leads_out_of_the_folder(
    tmp_path_factory: pytest.TempPathFactory, names: list[str], force: bool
) -> None:
    outside = tmp_path_factory.mktemp("outside")
    folder = outside / "folder"
    folder.mkdir()
    (folder / "link").symlink_to(outside)
    (folder / "file").write_bytes(b"mine")
    try:
        path = write_below(folder, names, b"theirs", force=force)
    except (OSError, ValueError):
        path = None
    assert [entry.name for entry in outside.iterdir()] == ["folder"]
    assert (folder / "link").is_symlink()
    if path is not None:
        assert path.resolve().is_relative_to(folder.resolve())
        assert path.read_bytes() == b"theirs"
    if not force:
        assert (folder / "file").read_bytes() == b"mine"


def test_a_file_below_a_folder_is_private_and_not_written_over(tmp_path: Path) -> None:
    folder = tmp_path / "new"
    file = write_below(folder, ["a", "b"], b"one")
    assert file.stat().st_mode & 0o777 == 0o600
    assert file.parent.stat().st_mode & 0o777 == 0o700
    assert write_below(folder, ["a", "b"], b"one") == file
    with pytest.raises(OSError, match="already"):
        write_below(folder, ["a", "b"], b"two")
    write_below(folder, ["a", "b"], b"two", force=True)
    assert file.read_bytes() == b"two"
    file.unlink()
    file.symlink_to(tmp_path / "victim")
    with pytest.raises(OSError, match="link"):
        write_below(folder, ["a", "b"], b"two", force=True)
    assert not (tmp_path / "victim").exists()


@pytest.mark.parametrize("name", ["~no-such-user/x", "~", "~\0/x", "a~b", "/x"])
def test_a_home_that_is_not_known_is_no_error(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("HOME", raising=False)
    monkeypatch.setattr(os, "getuid", lambda: 4_000_000)
    assert with_home(name) == Path(name)


def test_without_a_home_there_is_no_cache(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("HOME", raising=False)
    monkeypatch.delenv("XDG_CACHE_HOME", raising=False)
    monkeypatch.setattr(os, "getuid", lambda: 4_000_000)
    assert default_folder() is None
