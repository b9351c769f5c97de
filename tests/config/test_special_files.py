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


def test_a_special_file_is_told_wherever_a_file_belongs(
    tmp_path: Path, special: Path, kind: str
) -> None:
    """As the main file, where `include` or a key names it, and should one replace a secret's."""
    with pytest.raises(ConfigError) as caught:
        load(special)
    assert str(caught.value) == (
        f"{special}: it is {kind}, not a file; what is piped to `autoscaler validate -` can be "
        "checked"
    )
    for path, text in (
        ("include[0]", f"{PROMETHEUS}include: [{special}]\n"),
        ("prometheus.bearerTokenFile", prometheus(f"bearerTokenFile: {special}\n")),
    ):
        (problem,) = refused(tmp_path, text)
        assert problem.path == path
        assert problem.message == f"must name a file, and {special} is {kind}"
    with pytest.raises(SecretError, match=f"cannot be read: it is {kind}, not a file"):
        SecretFile("bearer token", special).read()


def test_standard_input_is_as_bounded_as_a_file() -> None:
    """More than a file may have is refused like one."""
    with pytest.raises(ConfigError, match="more than 16 MiB"):
        load(Path("standard input"), content=b"#" * (32 * 2**20 + 1))
