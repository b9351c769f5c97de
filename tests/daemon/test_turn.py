"""Only one of the daemons with the same state directory works at a time."""

import os
import threading
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import pytest

from autoscaler.daemon.state_directory import await_turn
from autoscaler.persistence.state_directory import DAEMON_LOCK, lock
from tests.adapters.store.opening import running

LONG = 30.0


@contextmanager
def at_work(directory: Path) -> Iterator[None]:
    """Be another daemon; a lock is that of a descriptor, not of a process."""
    descriptor = lock(directory, DAEMON_LOCK)
    try:
        yield
    finally:
        os.close(descriptor)


class Waiting:
    def __init__(self, directory: Path) -> None:
        self.stop = threading.Event()
        self.holders: list[str] = []
        self.waits = threading.Event()
        self.turn: bool | None = None
        self.stack = ExitStack()
        self._thread = threading.Thread(target=self._run, args=(directory,), daemon=True)
        self._thread.start()

    def result(self) -> bool | None:
        """Wait until it no longer waits."""
        self._thread.join(LONG)
        return self.turn

    def _run(self, directory: Path) -> None:
        self.turn = await_turn(directory, self.stop, self._note, self.stack)

    def _note(self, holder: str) -> None:
        self.holders.append(holder)
        self.waits.set()


def test_a_second_daemon_waits_until_the_first_has_ended(tmp_path: Path) -> None:
    with at_work(tmp_path):
        second = Waiting(tmp_path)
        assert second.waits.wait(LONG)
        assert second.turn is None
    assert second.result() is True
    assert set(second.holders) == {f"process {os.getpid()} on {os.uname().nodename}"}
    third = Waiting(tmp_path)
    assert third.waits.wait(LONG)
    second.stack.close()
    assert third.result() is True
    third.stack.close()


def test_the_lock_outlives_errors_of_the_disk(tmp_path: Path) -> None:
    """The state's own lock is given up after an error; this one is not, and a reader needs none."""
    with ExitStack() as stack:
        assert await_turn(tmp_path, threading.Event(), pytest.fail, stack)
        with running(tmp_path):
            pass
        second = Waiting(tmp_path)
        assert second.waits.wait(LONG)
        second.stop.set()
        second.result()


def test_without_a_lock_a_daemon_does_not_wait(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with ExitStack() as stack:
        assert await_turn(tmp_path / "file", threading.Event(), pytest.fail, stack)


@pytest.mark.parametrize("held", [b"", b"\xff\x1b[2J 3", b"12", b"x" * 9999])
def test_a_holder_file_with_other_content_is_shown_as_one_printable_line(
    tmp_path: Path, held: bytes
) -> None:
    with at_work(tmp_path):
        (tmp_path / DAEMON_LOCK).write_bytes(held)
        second = Waiting(tmp_path)
        assert second.waits.wait(LONG)
        second.stop.set()
        second.result()
    assert second.holders[0] in {"another process", "process 12"}
