"""Tokens and passwords in files that are replaced while the program runs."""

from collections.abc import Callable
from pathlib import Path

import pytest

from autoscaler.transport.credentials import SecretError, SecretFile


@pytest.mark.parametrize("spoil", [Path.unlink, lambda path: path.write_text("\n")])
def test_in_the_middle_of_a_rotation_the_last_secret_is_used(
    tmp_path: Path, spoil: Callable[[Path], object]
) -> None:
    """While the file is gone or empty; the next secret is used as soon as it is there."""
    path = tmp_path / "token"
    path.write_text(" one\n")
    file = SecretFile("token", path)
    assert file.read() == "one"
    spoil(path)
    assert file.read() == "one"
    path.write_text("two")
    assert file.read() == "two"


@pytest.mark.parametrize("ascii_only", [False, True])
def test_what_no_header_can_carry_is_refused_without_quoting_it(
    tmp_path: Path, *, ascii_only: bool
) -> None:
    """Only a password may have letters beyond ASCII, and nothing may have several lines."""
    path = tmp_path / "secret"
    file = SecretFile("token", path, ascii_only=ascii_only)
    path.write_text("two\nl1nes")
    with pytest.raises(SecretError, match="holds characters that no token may have") as caught:
        file.read()
    assert "l1nes" not in str(caught.value)
    path.write_text("\u00fcber")
    if ascii_only:
        with pytest.raises(SecretError, match="right is one line of printable ASCII"):
            file.read()
    else:
        assert file.read() == "\u00fcber"
