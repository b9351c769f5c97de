"""Of the daemons with one state directory one is at work at a time."""

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
        self.told: list[str] = []
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
        self.turn = await_turn(directory, self.stop, self._told, self.stack)

    def _told(self, holder: str) -> None:
        self.told.append(holder)
        self.waits.set()


def test_the_second_waits_until_the_first_has_gone(tmp_path: Path) -> None:
    """It knows which process that is, and has its turn as soon as the lock is free."""
    with at_work(tmp_path):
        second = Waiting(tmp_path)
        assert second.waits.wait(LONG)
        assert second.turn is None
    assert second.result() is True
    assert set(second.told) == {f"process {os.getpid()} on {os.uname().nodename}"}
    third = Waiting(tmp_path)
    assert third.waits.wait(LONG)
    second.stack.close()
    assert third.result() is True
    third.stack.close()


def test_the_turn_outlives_the_errors_of_a_disk(tmp_path: Path) -> None:
    """The state's own lock is given up after an error; this one is not, and a reader needs none."""
    with ExitStack() as stack:
        assert await_turn(tmp_path, threading.Event(), pytest.fail, stack)
        with running(tmp_path):
            pass
        second = Waiting(tmp_path)
        assert second.waits.wait(LONG)
        second.stop.set()
        second.result()


def test_nobody_is_waited_for_where_nothing_can_be_locked(tmp_path: Path) -> None:
    """The daemon goes on from memory, as the store says."""
    (tmp_path / "file").touch()
    with ExitStack() as stack:
        assert await_turn(tmp_path / "file", threading.Event(), pytest.fail, stack)


@pytest.mark.parametrize("held", [b"", b"\xff\x1b[2J 3", b"12", b"x" * 9999])
def test_who_has_it_is_not_known_from_a_file_of_others(tmp_path: Path, held: bytes) -> None:
    """Whatever is in the file, the sentence is one line without control characters."""
    with at_work(tmp_path):
        (tmp_path / DAEMON_LOCK).write_bytes(held)
        second = Waiting(tmp_path)
        assert second.waits.wait(LONG)
        second.stop.set()
        second.result()
    assert second.told[0] in {"another process", "process 12"}
