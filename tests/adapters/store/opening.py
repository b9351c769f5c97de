"""Stores for tests, with clocks that stand still, and the messages of these stores."""

import os
import sqlite3
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from autoscaler.core.history import History
from autoscaler.persistence.store import Clocks, DiskTimeouts, Resumption, SqliteHistoryStore

DATABASE = "autoscaler.db"
T0 = 1_800_000_000.0
LONG = 30.0
"""More seconds than anything takes here."""

PATIENT = DiskTimeouts(start=LONG, intend=LONG, close=LONG)
"""However busy the machine is, its disk is never taken for one that stalls."""

RETRYING = replace(PATIENT, pause=0.0)
IMPATIENT = DiskTimeouts(start=2.5, intend=2.5, pause=0.0)
"""So that only a disk that stalls on purpose is taken for one."""


@dataclass
class Time:
    wall: float = T0
    steady: float = 1000.0
    boot_id: str = "this boot"

    def pass_(self, seconds: float) -> None:
        self.wall += seconds
        self.steady += seconds

    @property
    def clocks(self) -> Clocks:
        """Return them as the store reads them; deadlines are real."""
        return Clocks(lambda: self.wall, lambda: self.steady, boot_id=lambda: self.boot_id)


def give_up(ok: bool, sentence: str) -> None:
    """End this process for a message of trouble."""
    if not ok:
        print(sentence, file=sys.stderr, flush=True)
        os._exit(1)


class Sayings:
    """Hears whether state can be kept."""

    def __init__(self) -> None:
        self.all: list[tuple[bool, str]] = []
        self._heard = threading.Condition()

    def __call__(self, ok: bool, sentence: str) -> None:
        with self._heard:
            self.all.append((ok, sentence))
            self._heard.notify_all()

    @property
    def states(self) -> list[bool]:
        return [ok for ok, _ in self.all]

    def wait(self, *, ok: bool) -> str:
        """Wait until the last message has this state, and return it."""
        with self._heard:
            assert self._heard.wait_for(lambda: self.all and self.all[-1][0] is ok, LONG), self.all
            return self.all[-1][1]


@contextmanager
def running(
    directory: Path,
    on_state: Callable[[bool, str], None] | None = None,
    time: Time | None = None,
    timeouts: DiskTimeouts = PATIENT,
) -> Iterator[tuple[SqliteHistoryStore, Resumption]]:
    """Run a store; without ``on_state`` it must be able to keep everything."""
    heard = Sayings()
    store = SqliteHistoryStore(directory, on_state or heard, (time or Time()).clocks, timeouts)
    try:
        yield store, store.start()
    finally:
        store.close()
    if on_state is None:
        assert heard.states == [True], heard.all


def execute(file: Path, statement: str, *parameters: object) -> list[Any]:
    """Carry out a statement in a database, and return its rows."""
    with closing(sqlite3.connect(file, isolation_level=None)) as connection:
        return connection.execute(statement, parameters).fetchall()


def overwrite_page(file: Path, name: str) -> None:
    """Damage the first page of a table or an index."""
    ((page,),) = execute(file, "SELECT rootpage FROM sqlite_schema WHERE name = ?", name)
    ((size,),) = execute(file, "PRAGMA page_size")
    with file.open("r+b") as opened:
        opened.seek((page - 1) * size)
        opened.write(b"\xff" * size)


@contextmanager
def stalled(
    directory: Path, begin: str = "BEGIN IMMEDIATE", name: str = DATABASE
) -> Iterator[None]:
    """Make every transaction wait, by one of another program."""
    with closing(sqlite3.connect(directory / name, isolation_level=None)) as other:
        other.execute(begin)
        yield
        other.execute("ROLLBACK")


def kept_in(directory: Path, time: Time | None = None) -> dict[str, History]:
    with running(directory, time=time) as (_, resumption):
        return dict(resumption.histories)


def decided_in(directory: Path) -> dict[str, float]:
    query = "SELECT key, time FROM targets JOIN decided USING (target)"
    return dict(execute(directory / DATABASE, query))


def same(first: History, other: History) -> bool:
    """Tell whether two histories are equal in every field, those that `==` leaves out as well."""
    firsts = [
        None
        if history.recommendations is None
        else [recommendation.first for recommendation in history.recommendations]
        for history in (first, other)
    ]
    return first == other and firsts[0] == firsts[1]
