"""What is no file in a state directory holds nobody up: neither the daemon nor a command."""

import os
import socket
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest
from typer.testing import CliRunner

from autoscaler.app import app
from autoscaler.file_contents import NoFileError
from autoscaler.persistence.record import DirectoryRecord
from autoscaler.persistence.record.file import open_file
from autoscaler.persistence.record.rows import RecordError
from autoscaler.persistence.sqlite_files import open_to_write
from autoscaler.persistence.state_directory import (
    DATABASE,
    LOCK,
    RECORD,
    RECORD_LOCK,
    UnusableError,
    lock,
)
from autoscaler.persistence.store import read_saved
from autoscaler.persistence.store.rows import SCHEMA, read
from tests.narrowing import assert_parts, instance

pytestmark = pytest.mark.timeout(20)

NOW = 1_767_225_600.0
Make = Callable[[Path], None]


@pytest.fixture(params=["a pipe", "a socket", "a device", "a linked pipe"])
def make(request: pytest.FixtureRequest) -> Iterator[tuple[Make, str]]:
    """Give what puts something that is no file at a path, and its name."""
    kind = str(request.param)
    with ExitStack() as stack:

        def put(path: Path) -> None:
            elsewhere = path.with_name("elsewhere")
            for former in (path, elsewhere):
                former.unlink(missing_ok=True)
            if kind == "a pipe":
                os.mkfifo(path)
            elif kind == "a socket":
                stack.enter_context(socket.socket(socket.AF_UNIX)).bind(str(path))
            elif kind == "a device":
                path.symlink_to("/dev/zero")
            else:
                os.mkfifo(elsewhere)
                path.symlink_to(elsewhere)

        yield put, kind.replace("linked ", "")


def state_in(directory: Path) -> None:
    open_file(directory, NOW, print).close()
    open_to_write(directory, SCHEMA, read, NOW, print)[0].close()


@pytest.mark.parametrize("end", ["", "-wal", "-shm", "-journal"])
def test_a_special_file_in_place_of_the_record_or_the_state_is_refused(
    tmp_path: Path, make: tuple[Make, str], end: str
) -> None:
    state_in(tmp_path)
    make[0](tmp_path / f"{RECORD}{end}")
    with pytest.raises(RecordError, match=make[1]):
        DirectoryRecord(tmp_path).targets()
    with pytest.raises(NoFileError):
        open_file(tmp_path, NOW, print)
    make[0](tmp_path / f"{DATABASE}{end}")
    assert make[1] in instance(str, read_saved(tmp_path))
    with pytest.raises(NoFileError):
        open_to_write(tmp_path, SCHEMA, read, NOW, print)


def test_a_special_file_in_place_of_a_lock_is_refused(
    tmp_path: Path, make: tuple[Make, str]
) -> None:
    state_in(tmp_path)
    make[0](tmp_path / LOCK)
    with pytest.raises(UnusableError):
        open_to_write(tmp_path, SCHEMA, read, NOW, print)
    make[0](tmp_path / RECORD_LOCK)
    with pytest.raises(UnusableError):
        open_file(tmp_path, NOW, print)


@pytest.mark.parametrize("name", [LOCK, RECORD_LOCK])
def test_a_lock_is_not_written_through_a_link(tmp_path: Path, name: str) -> None:
    precious = tmp_path / "precious"
    precious.write_text("x")
    (tmp_path / name).symlink_to(precious)
    with pytest.raises(UnusableError):
        lock(tmp_path, name)
    assert precious.read_text() == "x"


@pytest.mark.parametrize(
    "asked", [["history"], ["explain", "shop/web"], ["status"], ["history", "-o", "json"]]
)
def test_commands_refuse_a_pipe_in_place_of_the_record(tmp_path: Path, asked: list[str]) -> None:
    os.mkfifo(tmp_path / RECORD)
    ran = CliRunner().invoke(app, [*asked, "--state-directory", str(tmp_path)])
    assert ran.exit_code == 1
    assert_parts(ran.stderr, str(tmp_path / RECORD), "a pipe")
    assert ran.stdout == ""
