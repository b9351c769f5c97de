"""The rows of a file: read and checked, moved to the current clock, and written if changed.

A history is one JSON text (`codec`), except its recommendations, which are rows: a sync changes one
recommendation of each target. The slot is first in the key, so that the changes of one sync are
adjacent in the file. If the clock was set meanwhile, histories are moved as the daemon does it.
"""

import json
import math
import sqlite3
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from functools import cache
from itertools import chain, compress, count
from operator import attrgetter, is_not
from pathlib import Path

from autoscaler import clock
from autoscaler.core.breaker import BreakerState
from autoscaler.core.history import History, Instant, Recommendation, shifted
from autoscaler.core.numbers import INT32_MAX, INT32_MIN
from autoscaler.persistence.codec import dumps, reader_of
from autoscaler.persistence.sqlite_files import MalformedError, Schema
from autoscaler.persistence.state_directory import DATABASE, LOCK

SCHEMA = Schema(
    DATABASE,
    LOCK,
    6,
    """
    CREATE TABLE targets (target INTEGER PRIMARY KEY, key TEXT NOT NULL UNIQUE) STRICT;
    CREATE TABLE histories (target INTEGER PRIMARY KEY, history TEXT NOT NULL) STRICT;
    CREATE TABLE recommendations (
        slot INTEGER NOT NULL, target INTEGER NOT NULL, replicas INTEGER NOT NULL,
        time REAL NOT NULL, first INTEGER NOT NULL, only_down INTEGER NOT NULL,
        PRIMARY KEY (slot, target)
    ) STRICT, WITHOUT ROWID;
    CREATE TABLE decided (target INTEGER PRIMARY KEY, time REAL NOT NULL) STRICT;
    CREATE TABLE breakers (server TEXT PRIMARY KEY, state TEXT NOT NULL) STRICT, WITHOUT ROWID;
    CREATE TABLE clock (
        only INTEGER PRIMARY KEY CHECK (only = 0),
        wall REAL NOT NULL, steady REAL NOT NULL, boot_id TEXT NOT NULL
    ) STRICT;
    """,
    # What `intend` has confirmed must survive a power failure. The limit is what a large
    # transaction leaves in the write-ahead log, once the database has it.
    "PRAGMA synchronous = FULL; PRAGMA journal_size_limit = 16777216;",
)
OF_A_TARGET = ("recommendations", "histories", "decided", "targets")
"""Every table with rows of single targets, by a column `target`."""

# An instant may be later than the save by this much, if a clock was set in between; and earlier by
# this much: a machine may start in 1970, and have its clock set later.
_AHEAD_SECONDS = 86400.0
_BEHIND_SECONDS = 100 * 366 * 86400.0

_ROW_CHECKS = {
    # The desired count of metrics may be negative before limits apply.
    "recommendations": f"replicas BETWEEN {INT32_MIN} AND {INT32_MAX} AND first IN (0, 1)"
    " AND only_down IN (0, 1) AND time BETWEEN :earliest AND :latest",
    "decided": "time BETWEEN :earliest AND :latest",
}
"""The SQL condition that all rows of a table must meet."""

_ROWS_AT_ONCE = (512, 64, 8, 1)
"""Rows per statement: each statement waits for the interpreter's lock while threads are busy."""

_json_fields = attrgetter(
    *(field.name for field in fields(History) if field.name != "recommendations")
)
"""Returns the fields of a history that the table `histories` stores as one JSON text."""

Row = tuple[str | int | float | None, ...]

_BOOT_ID = Path("/proc/sys/kernel/random/boot_id")


@dataclass(frozen=True, slots=True)
class Stamp:
    """One instant by two clocks: Unix seconds, and steady seconds since the boot ``boot_id``."""

    wall: float
    steady: float
    boot_id: str


@dataclass(frozen=True, slots=True)
class Resumption:
    """The histories to continue, by the clock at the instant ``now``."""

    now: Stamp
    histories: Mapping[str, History] = field(default_factory=dict)
    moved: float = 0.0
    """The seconds by which every instant was moved to match the clock at ``now``."""
    absent: float = 0.0
    """The seconds since the last save; infinity if unknown."""
    undecided: Mapping[str, float] = field(default_factory=dict)
    """By target: the seconds between its last decision and the last save."""
    earlier: bool = False
    """Whether an earlier run saved anything."""
    saved_at: float = 0.0
    """The time of the last save, in Unix seconds by the clock at that time."""
    breakers: Mapping[str, BreakerState] = field(default_factory=dict)
    """The state of the scale-down breakers, by server."""


def this_boot() -> str:
    """Return the id of the machine's present boot; empty if unknown."""
    try:
        return _BOOT_ID.read_text("ascii").strip()
    except (OSError, ValueError):
        return ""


@dataclass(frozen=True, slots=True)
class Clocks:
    """The clocks that the store reads."""

    wall: Callable[[], float] = clock.wall
    steady: Callable[[], float] = clock.steady
    monotonic: Callable[[], float] = clock.monotonic
    boot_id: Callable[[], str] = this_boot

    def stamp(self) -> Stamp:
        """Return the present instant."""
        return Stamp(self.wall(), self.steady(), self.boot_id())


def seconds_to_move(saved: Stamp, now: Stamp) -> float:
    """Return by how many seconds the saved instants must move.

    Within one boot the steady clock shows how much time has passed; the rest is a step of the
    clock. After a reboot the elapsed time is unknown and counts as 0: windows may last too long,
    by their own length at most, but never end early.
    """
    if _same_boot(saved, now):
        return clock.Steps(saved.wall, saved.steady).total(now.wall, now.steady)
    return now.wall - saved.wall


def _same_boot(saved: Stamp, now: Stamp) -> bool:
    return bool(saved.boot_id) and saved.boot_id == now.boot_id and saved.steady <= now.steady


@dataclass(slots=True)
class Record:
    """The stored data of a target: its history, and the time of its last decision, if any."""

    history: History
    decided: Instant | None = None


@dataclass(slots=True)
class Contents:
    """The content of a file: records and row ids by target key, and the save time (None: never)."""

    stamp: Stamp | None
    records: dict[str, Record] = field(default_factory=dict)
    ids: dict[str, int] = field(default_factory=dict)
    breakers: dict[str, BreakerState] = field(default_factory=dict)

    def resumed(self, now: Stamp) -> Resumption:
        """Return the state to continue at ``now``."""
        saved = self.stamp
        if saved is None:
            return Resumption(now)
        moved = seconds_to_move(saved, now)
        return Resumption(
            now,
            {
                key: shifted(record.history, moved) if moved else record.history
                for key, record in self.records.items()
            },
            moved,
            now.steady - saved.steady if _same_boot(saved, now) else math.inf,
            {
                key: saved.wall - record.decided
                for key, record in self.records.items()
                if record.decided is not None
            },
            earlier=True,
            saved_at=saved.wall,
            breakers={server: shifted(state, moved) for server, state in self.breakers.items()},
        )


def read(connection: sqlite3.Connection) -> Contents:
    """Read a whole database; raises MalformedError for implausible data."""
    row = connection.execute("SELECT wall, steady, boot_id FROM clock").fetchone()
    contents = Contents(None if row is None else Stamp(*row))
    earliest, latest = _bounds(contents.stamp)
    for table, check in _ROW_CHECKS.items():
        query = f"SELECT 1 FROM {table} WHERE ({check}) IS NOT TRUE LIMIT 1"  # noqa: S608 - ours
        if connection.execute(query, {"earliest": earliest, "latest": latest}).fetchone():
            raise MalformedError(f"{table}: a row holds a number that cannot be")
    read_breaker = reader_of(BreakerState, (earliest, latest))
    for server, text in connection.execute("SELECT server, state FROM breakers"):
        contents.breakers[server] = read_breaker(json.loads(text))
    read_history = reader_of(History, (earliest, latest))
    recommendations = _recommendations(connection)
    decided = dict(connection.execute("SELECT target, time FROM decided"))
    for target_id, key, text in connection.execute(
        "SELECT target, key, history FROM targets LEFT JOIN histories USING (target)"
    ):
        try:
            history = read_history(json.loads(text))
        except ValueError as error:
            raise MalformedError(f"{key:.60}: {error}") from None
        if history.recommendations is not None:
            slots = tuple(recommendations.get(target_id, ()))
            history = replace(history, recommendations=slots)
        contents.ids[key] = target_id
        contents.records[key] = Record(history, decided.get(target_id))
    return contents


def _bounds(stamp: Stamp | None) -> tuple[float, float]:
    if stamp is None:
        return -1e300, 1e300
    if not (math.isfinite(stamp.wall) and math.isfinite(stamp.steady)):
        raise MalformedError("clock: a number that cannot be")
    return stamp.wall - _BEHIND_SECONDS, stamp.wall + _AHEAD_SECONDS


def _recommendations(connection: sqlite3.Connection) -> dict[int, list[Recommendation]]:
    """Read the recommendations by row id of their target; their slots have no gaps."""
    found: dict[int, list[Recommendation]] = defaultdict(list)
    for slot, target_id, replicas, time, first, only_down in connection.execute(
        "SELECT slot, target, replicas, time, first, only_down FROM recommendations"
        " ORDER BY slot, target"
    ):
        slots = found[target_id]
        if len(slots) != slot:
            raise MalformedError(f"recommendations: slot {len(slots)} of a target is missing")
        slots.append(Recommendation(replicas, time, bool(first), bool(only_down)))
    return found


class Changes:
    """Rows to delete and to write, with one operation per target: deletions come first."""

    def __init__(self) -> None:
        self._rows: dict[str, list[Row]] = defaultdict(list)
        self._deleted_from: dict[str, list[int]] = defaultdict(list)

    def delete(self, target_id: int) -> None:
        """Delete a target and all of its rows."""
        for table in OF_A_TARGET:
            self._deleted_from[table].append(target_id)

    def write(self, target_id: int, key: str, old: Record | None, new: Record) -> None:
        """Write the differences between a target's record and the one in the file, if any."""
        if old is None:
            self._rows["targets"].append((target_id, key))
        before = None if old is None else old.history.recommendations
        after = new.history.recommendations
        if after is not before:
            self._write_recommendations(target_id, before or (), after or ())
        if (
            old is None
            or (after is None) is not (before is None)
            or _json_fields(new.history) != _json_fields(old.history)
        ):
            text = dumps(replace(new.history, recommendations=None if after is None else ()))
            self._rows["histories"].append((target_id, text))
        decided = None if old is None else old.decided
        if new.decided is not None and new.decided != decided:
            self._rows["decided"].append((target_id, new.decided))
        elif new.decided is None and decided is not None:
            self._deleted_from["decided"].append(target_id)

    def apply(self, connection: sqlite3.Connection) -> None:
        """Write all changes, within the caller's transaction."""
        for table, target_ids in self._deleted_from.items():
            connection.execute(
                f"DELETE FROM {table} WHERE target IN (SELECT value FROM json_each(?))",  # noqa: S608 - a table's name
                (json.dumps(target_ids),),
            )
        for table, rows in self._rows.items():
            upsert(connection, table, rows)

    def _write_recommendations(
        self, target_id: int, old: Sequence[Recommendation], new: Sequence[Recommendation]
    ) -> None:
        rows = self._rows["recommendations"]
        if len(new) < len(old):
            self._deleted_from["recommendations"].append(target_id)
            old = ()
        # Unchanged recommendations are the same objects, and comparing identity is fast.
        changed = compress(count(), map(is_not, new, old))
        for slot in chain(changed, range(len(old), len(new))):
            recommendation = new[slot]
            # An exact int is bound faster than a bool.
            flags = (1 if recommendation.first else 0, 1 if recommendation.only_down else 0)
            rows.append((slot, target_id, recommendation.replicas, recommendation.time, *flags))


def upsert(connection: sqlite3.Connection, table: str, rows: Sequence[Row]) -> None:
    """Write rows, and replace those with the same key."""
    done = 0
    for size in _ROWS_AT_ONCE:
        while len(rows) - done >= size:
            some = rows[done : done + size]
            connection.execute(
                _upsert_statement(table, len(some[0]), size), tuple(chain.from_iterable(some))
            )
            done += size


@cache
def _upsert_statement(table: str, columns: int, rows: int) -> str:
    row = f"({','.join('?' * columns)})"
    return f"INSERT OR REPLACE INTO {table} VALUES {','.join([row] * rows)}"  # noqa: S608 - a table's name
