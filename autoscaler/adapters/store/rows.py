"""What the tables hold of each target: how it is read and checked, and how changes are written."""

import json
import math
import sqlite3
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, field, fields, replace
from functools import cache
from itertools import chain, compress, count
from operator import attrgetter, is_not
from typing import NamedTuple

from autoscaler.adapters.store.clocks import Resumption, Stamp, seconds_between, seconds_to_move
from autoscaler.adapters.store.schema import OF_A_TARGET, MalformedError
from autoscaler.core.history import History, Recommendation, shifted
from autoscaler.core.history_json import history_reader, to_json
from autoscaler.core.numbers import INT32_MAX, INT32_MIN

_AHEAD_SECONDS = 86400.0
"""By so much an instant may be later than the save: a clock may be set in between."""

_BEHIND_SECONDS = 100 * 366 * 86400.0
"""By so much it may be earlier: a machine may begin in 1970, and have its clock set later."""

_SOUND = {
    # What metrics ask for may be negative, before it is limited.
    "recommendations": f"replicas BETWEEN {INT32_MIN} AND {INT32_MAX} AND first IN (0, 1)"
    " AND time BETWEEN :earliest AND :latest",
    "decided": "time BETWEEN :earliest AND :latest",
}
"""What is true of each row of a table."""

_ROWS_AT_ONCE = (512, 64, 8, 1)
"""Rows go many to a statement: each statement releases the interpreter's lock, and has to wait for
it again where other threads are busy."""

_as_one_text = attrgetter(*(one.name for one in fields(History) if one.name != "recommendations"))
"""Return the fields that the table `histories` holds."""

Row = tuple[str | int | float | None, ...]


class Record(NamedTuple):
    """What is kept of a target: its history, and when it was last decided about, if it was."""

    history: History
    decided: float | None = None

    def shifted(self, seconds: float) -> "Record":
        """Move every instant."""
        decided = None if self.decided is None else self.decided + seconds
        return Record(shifted(self.history, seconds), decided)


@dataclass(slots=True)
class Contents:
    """What is in a file: records and numbers by target, and when it was saved (None: never)."""

    stamp: Stamp | None
    records: dict[str, Record] = field(default_factory=dict)
    numbers: dict[str, int] = field(default_factory=dict)

    def resumed(self, now: Stamp) -> Resumption:
        """Return what to go on with at ``now``."""
        saved = self.stamp
        if saved is None:
            return Resumption(now)
        moved = seconds_to_move(saved, now)
        return Resumption(
            now,
            {
                target: shifted(record.history, moved) if moved else record.history
                for target, record in self.records.items()
            },
            moved,
            seconds_between(saved, now),
            {
                target: saved.wall - record.decided
                for target, record in self.records.items()
                if record.decided is not None
            },
            earlier=True,
        )


def read(connection: sqlite3.Connection) -> Contents:
    """Read all that is in a database, and check that it could have been written so.

    An instant of the year 3000 would hold a target for as long.  Raises MalformedError, or
    TypeError or RecursionError for damage that no check foresees.
    """
    row = connection.execute("SELECT wall, steady, boot_id FROM clock").fetchone()
    contents = Contents(None if row is None else Stamp(*row))
    earliest, latest = _bounds(contents.stamp)
    for table, sound in _SOUND.items():
        query = f"SELECT 1 FROM {table} WHERE ({sound}) IS NOT TRUE LIMIT 1"  # noqa: S608 - ours
        if connection.execute(query, {"earliest": earliest, "latest": latest}).fetchone():
            raise MalformedError(f"{table}: a row holds a number that cannot be")
    read_history = history_reader(earliest, latest)
    recommendations = _recommendations(connection)
    decided = dict(connection.execute("SELECT target, time FROM decided"))
    for target, key, text in connection.execute(
        "SELECT target, key, history FROM targets LEFT JOIN histories USING (target)"
    ):
        try:
            history = read_history(text)
        except ValueError as error:
            raise MalformedError(f"{key:.60}: {error}") from None
        if history.recommendations is not None:
            slots = tuple(recommendations.get(target, ()))
            history = replace(history, recommendations=slots)
        contents.numbers[key] = target
        contents.records[key] = Record(history, decided.get(target))
    return contents


def _bounds(stamp: Stamp | None) -> tuple[float, float]:
    """Return the earliest and the latest instant that can have been kept."""
    if stamp is None:
        return -1e300, 1e300
    if not (math.isfinite(stamp.wall) and math.isfinite(stamp.steady)):
        raise MalformedError("clock: a number that cannot be")
    return stamp.wall - _BEHIND_SECONDS, stamp.wall + _AHEAD_SECONDS


def _recommendations(connection: sqlite3.Connection) -> dict[int, list[Recommendation]]:
    """Read the recommendations by target; their slots follow one another."""
    found: dict[int, list[Recommendation]] = defaultdict(list)
    for slot, target, replicas, time, first in connection.execute(
        "SELECT slot, target, replicas, time, first FROM recommendations ORDER BY slot, target"
    ):
        slots = found[target]
        if len(slots) != slot:
            raise MalformedError(f"recommendations: slot {len(slots)} of a target is missing")
        slots.append(Recommendation(replicas, time, bool(first)))
    return found


class Changes:
    """Rows to be written, gathered target by target."""

    def __init__(self) -> None:
        self._rows: dict[str, list[Row]] = defaultdict(list)
        self._emptied: dict[str, list[int]] = defaultdict(list)

    def add(self, target: int, key: str, record: Record) -> None:
        """Write a target that is new."""
        self._rows["targets"].append((target, key))
        self._write_text(target, record.history)
        self._write_recommendations(target, (), record.history.recommendations or ())
        if record.decided is not None:
            self._rows["decided"].append((target, record.decided))

    def drop(self, target: int) -> None:
        """Delete a target and all that belongs to it."""
        for table in OF_A_TARGET:
            self._emptied[table].append(target)

    def replace(self, target: int, old: Record, new: Record) -> None:
        """Write what differs between a target's record and an old one."""
        before, after = old.history.recommendations, new.history.recommendations
        if after is not before:
            self._write_recommendations(target, before or (), after or ())
        if _as_one_text(new.history) != _as_one_text(old.history) or (after is None) is not (
            before is None
        ):
            self._write_text(target, new.history)
        if new.decided is not None and new.decided != old.decided:
            self._rows["decided"].append((target, new.decided))
        elif new.decided is None and old.decided is not None:
            self._emptied["decided"].append(target)

    def stamp(self, stamp: Stamp) -> None:
        """Write when this is saved."""
        self._rows["clock"] = [(0, stamp.wall, stamp.steady, stamp.boot_id)]

    def apply(self, connection: sqlite3.Connection) -> None:
        """Write all of it, within the transaction of the caller."""
        for table, targets in self._emptied.items():
            connection.execute(
                f"DELETE FROM {table} WHERE target IN (SELECT value FROM json_each(?))",  # noqa: S608 - a table's name
                (json.dumps(targets),),
            )
        for table, rows in self._rows.items():
            _put(connection, table, rows)

    def _write_text(self, target: int, history: History) -> None:
        slots = None if history.recommendations is None else ()
        self._rows["histories"].append((target, to_json(history, recommendations=slots)))

    def _write_recommendations(
        self, target: int, old: Sequence[Recommendation], new: Sequence[Recommendation]
    ) -> None:
        rows = self._rows["recommendations"]
        if len(new) < len(old):
            self._emptied["recommendations"].append(target)
            old = ()
        others = compress(count(), map(is_not, new, old))
        for slot in chain(others, range(len(old), len(new))):
            one = new[slot]
            # An exact int is bound faster than a bool.
            rows.append((slot, target, one.replicas, one.time, 1 if one.first else 0))


def _put(connection: sqlite3.Connection, table: str, rows: Sequence[Row]) -> None:
    """Insert rows, or replace those with the same key."""
    done = 0
    for size in _ROWS_AT_ONCE:
        while len(rows) - done >= size:
            some = rows[done : done + size]
            connection.execute(
                _put_statement(table, len(some[0]), size), tuple(chain.from_iterable(some))
            )
            done += size


@cache
def _put_statement(table: str, columns: int, rows: int) -> str:
    row = f"({','.join('?' * columns)})"
    return f"INSERT OR REPLACE INTO {table} VALUES {','.join([row] * rows)}"  # noqa: S608 - a table's name
