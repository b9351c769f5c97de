"""Files are replaced in one step."""

import os
from pathlib import Path

import pytest

from autoscaler.file_contents import replace_file


def test_a_file_keeps_its_mode_and_its_link(tmp_path: Path) -> None:
    """What others see of it is another content, and no second file."""
    file, link = tmp_path / "real.yaml", tmp_path / "link.yaml"
    file.write_bytes(b"before")
    file.chmod(0o640)
    link.symlink_to(file)
    replace_file(link, b"after")
    assert (link.is_symlink(), file.read_bytes()) == (True, b"after")
    assert file.stat().st_mode & 0o777 == 0o640
    replace_file(file, b"secret", private=True)
    replace_file(tmp_path / "new", b"")
    modes = {one.name: one.lstat().st_mode & 0o777 for one in tmp_path.iterdir() if one != link}
    assert modes == {"real.yaml": 0o600, "new": 0o600}


def test_nothing_is_left_of_one_that_cannot_be_replaced(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """On a full disk the old content stays, and no half of the new one."""
    file = tmp_path / "a.yaml"
    file.write_bytes(b"before")

    def full(_: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(OSError, match="No space left"):
        replace_file(file, b"after")
    assert [(one.name, one.read_bytes()) for one in tmp_path.iterdir()] == [("a.yaml", b"before")]
