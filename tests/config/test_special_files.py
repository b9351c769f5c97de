"""What is no file is refused at once: nothing waits for what a pipe or a device might give."""

import os
import socket
from collections.abc import Iterator
from pathlib import Path

import pytest

from autoscaler.config import ConfigError, load
from autoscaler.transport.credentials import SecretError, SecretFile
from tests.config.documents import PROMETHEUS, prometheus, refused

pytestmark = pytest.mark.timeout(20)


@pytest.fixture(params=["a pipe", "a socket", "a device"])
def kind(request: pytest.FixtureRequest) -> str:
    """Name what is no file."""
    return str(request.param)


@pytest.fixture
def special(tmp_path: Path, kind: str) -> Iterator[Path]:
    """Give a path that leads to one."""
    path = tmp_path / "special"
    with socket.socket(socket.AF_UNIX) as bound:
        if kind == "a pipe":
            os.mkfifo(path)
        elif kind == "a socket":
            bound.bind(str(path))
        else:
            path = Path("/dev/zero")
        yield path


def test_a_special_file_as_the_main_one_is_told(special: Path, kind: str) -> None:
    """A sentence says what it is, and how to check what comes through a pipe."""
    with pytest.raises(ConfigError) as caught:
        load(special)
    assert str(caught.value) == (
        f"{special}: it is {kind}, not a file; what is piped to `autoscaler validate -` can be "
        "checked"
    )


def test_a_special_file_that_is_included_is_told(tmp_path: Path, special: Path, kind: str) -> None:
    """So it is where `include` names it."""
    (problem,) = refused(tmp_path, f"{PROMETHEUS}include: [{special}]\n")
    assert problem.path == "include[0]"
    assert problem.message == f"must name a file, and {special} is {kind}"


def test_a_special_file_in_place_of_a_secret_is_told(
    tmp_path: Path, special: Path, kind: str
) -> None:
    """So it is where a key names it, and for the daemon, should one come in its file's place."""
    (problem,) = refused(tmp_path, prometheus(f"bearerTokenFile: {special}\n"))
    assert problem.path == "prometheus.bearerTokenFile"
    assert problem.message == f"must name a file, and {special} is {kind}"
    with pytest.raises(SecretError, match=f"cannot be read: it is {kind}, not a file"):
        SecretFile("bearer token", special).read()


def test_standard_input_is_as_bounded_as_a_file() -> None:
    """More than a file may have is refused like one."""
    with pytest.raises(ConfigError, match="more than 16 MiB"):
        load(Path("standard input"), content=b"#" * (32 * 2**20 + 1))
