"""The rows of each target: read and checked, and written where they changed."""

import json
import math
import sqlite3
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from functools import cache
from itertools import chain, compress, count
from operator import attrgetter, is_not
from typing import NamedTuple

from autoscaler.adapters.sqlite_files import MalformedError
from autoscaler.adapters.store.clocks import Resumption, Stamp, seconds_between, seconds_to_move
from autoscaler.adapters.store.schema import OF_A_TARGET
from autoscaler.core.breaker import BreakerState, Trip
from autoscaler.core.breaker import moved as shifted_breaker
from autoscaler.core.history import History, Recommendation, shifted
from autoscaler.core.history_json import history_reader, to_json
from autoscaler.core.numbers import INT32_MAX, INT32_MIN

_AHEAD_SECONDS = 86400.0
"""Tolerance: an instant may be this much later than the save, if a clock was set between."""

_BEHIND_SECONDS = 100 * 366 * 86400.0
"""It may be this much earlier: a machine may start in 1970, and have its clock set later."""

_ROW_CHECKS = {
    # What metrics ask for may be negative, before it is limited.
    "recommendations": f"replicas BETWEEN {INT32_MIN} AND {INT32_MAX} AND first IN (0, 1)"
    " AND time BETWEEN :earliest AND :latest",
    "decided": "time BETWEEN :earliest AND :latest",
    "breakers": "(tripped IS NULL) = (until IS NULL) AND min(down, targets, again) >= 0"
    " AND coalesce(tripped, :earliest) BETWEEN :earliest AND :latest"
    " AND coalesce(until, :earliest) BETWEEN :earliest AND :latest"
    " AND coalesce(released_until, :earliest) BETWEEN :earliest AND :latest",
}
"""The condition that each row of a table meets."""

_ROWS_AT_ONCE = (512, 64, 8, 1)
"""Rows go many to a statement: each statement releases the interpreter's lock, and has to wait for
it again where other threads are busy."""

_json_fields = attrgetter(*(one.name for one in fields(History) if one.name != "recommendations"))
"""Returns the fields of a history that the table `histories` holds as one JSON text."""

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
    """What is in a file: records and row ids by target key, and when it was saved (None: never)."""

    stamp: Stamp | None
    records: dict[str, Record] = field(default_factory=dict)
    ids: dict[str, int] = field(default_factory=dict)
    breakers: dict[str, BreakerState] = field(default_factory=dict)

    def resumed(self, now: Stamp) -> Resumption:
        """Return what to go on with at ``now``."""
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
            seconds_between(saved, now),
            {
                key: saved.wall - record.decided
                for key, record in self.records.items()
                if record.decided is not None
            },
            earlier=True,
            breakers={server: shifted_breaker(one, moved) for server, one in self.breakers.items()},
        )


def read(connection: sqlite3.Connection) -> Contents:
    """Read all that is in a database, and check that it is plausible.

    An instant in the far future would keep a target from scaling down until then.  Raises
    MalformedError, or TypeError or RecursionError for damage that no check foresees.
    """
    row = connection.execute("SELECT wall, steady, boot_id FROM clock").fetchone()
    contents = Contents(None if row is None else Stamp(*row))
    earliest, latest = _bounds(contents.stamp)
    for table, check in _ROW_CHECKS.items():
        query = f"SELECT 1 FROM {table} WHERE ({check}) IS NOT TRUE LIMIT 1"  # noqa: S608 - ours
        if connection.execute(query, {"earliest": earliest, "latest": latest}).fetchone():
            raise MalformedError(f"{table}: a row holds a number that cannot be")
    contents.breakers = _breakers(connection)
    read_history = history_reader(earliest, latest)
    recommendations = _recommendations(connection)
    decided = dict(connection.execute("SELECT target, time FROM decided"))
    for target_id, key, text in connection.execute(
        "SELECT target, key, history FROM targets LEFT JOIN histories USING (target)"
    ):
        try:
            history = read_history(text)
        except ValueError as error:
            raise MalformedError(f"{key:.60}: {error}") from None
        if history.recommendations is not None:
            slots = tuple(recommendations.get(target_id, ()))
            history = replace(history, recommendations=slots)
        contents.ids[key] = target_id
        contents.records[key] = Record(history, decided.get(target_id))
    return contents


def _bounds(stamp: Stamp | None) -> tuple[float, float]:
    """Return the earliest and the latest instant that are plausible."""
    if stamp is None:
        return -1e300, 1e300
    if not (math.isfinite(stamp.wall) and math.isfinite(stamp.steady)):
        raise MalformedError("clock: a number that cannot be")
    return stamp.wall - _BEHIND_SECONDS, stamp.wall + _AHEAD_SECONDS


def _breakers(connection: sqlite3.Connection) -> dict[str, BreakerState]:
    """Read how the scale-down breakers stand, by server."""
    return {
        server: BreakerState(
            None if at is None else Trip(at, until, down, of, query, again), released_until
        )
        for server, at, until, down, of, query, again, released_until in connection.execute(
            "SELECT server, tripped, until, down, targets, query, again, released_until"
            " FROM breakers"
        )
    }


def _breaker_row(server: str, state: BreakerState) -> Row:
    trip, released_until = state.trip, state.released_until
    if trip is None:
        return (server, None, None, 0, 0, "", 0, released_until)
    counts = (trip.down, trip.of, trip.query, trip.again)
    return (server, trip.at, trip.until, *counts, released_until)


def _recommendations(connection: sqlite3.Connection) -> dict[int, list[Recommendation]]:
    """Read the recommendations by row id of their target; their slots have no holes."""
    found: dict[int, list[Recommendation]] = defaultdict(list)
    for slot, target_id, replicas, time, first in connection.execute(
        "SELECT slot, target, replicas, time, first FROM recommendations ORDER BY slot, target"
    ):
        slots = found[target_id]
        if len(slots) != slot:
            raise MalformedError(f"recommendations: slot {len(slots)} of a target is missing")
        slots.append(Recommendation(replicas, time, bool(first)))
    return found


class Changes:
    """Rows to be deleted and written, with one operation per target: deletions come first."""

    def __init__(self) -> None:
        self._rows: dict[str, list[Row]] = defaultdict(list)
        self._deleted_from: dict[str, list[int]] = defaultdict(list)
        self._whole: dict[str, list[Row]] = {}
        """Tables that are written anew."""

    def add(self, target_id: int, key: str, record: Record) -> None:
        """Write a target that is new."""
        self._rows["targets"].append((target_id, key))
        self._write_text(target_id, record.history)
        self._write_recommendations(target_id, (), record.history.recommendations or ())
        if record.decided is not None:
            self._rows["decided"].append((target_id, record.decided))

    def delete(self, target_id: int) -> None:
        """Delete a target and all that belongs to it."""
        for table in OF_A_TARGET:
            self._deleted_from[table].append(target_id)

    def replace(self, target_id: int, old: Record, new: Record) -> None:
        """Write what differs between a target's record and an old one."""
        before, after = old.history.recommendations, new.history.recommendations
        if after is not before:
            self._write_recommendations(target_id, before or (), after or ())
        if _json_fields(new.history) != _json_fields(old.history) or (after is None) is not (
            before is None
        ):
            self._write_text(target_id, new.history)
        if new.decided is not None and new.decided != old.decided:
            self._rows["decided"].append((target_id, new.decided))
        elif new.decided is None and old.decided is not None:
            self._deleted_from["decided"].append(target_id)

    def set_breakers(self, states: Mapping[str, BreakerState]) -> None:
        """Write how the scale-down breakers stand, in place of what the file holds of them."""
        self._whole["breakers"] = [_breaker_row(*one) for one in states.items()]

    def set_saved_at(self, stamp: Stamp) -> None:
        """Write when the rest is saved."""
        self._rows["clock"] = [(0, stamp.wall, stamp.steady, stamp.boot_id)]

    def apply(self, connection: sqlite3.Connection) -> None:
        """Write all changes, within the transaction of the caller."""
        for table, target_ids in self._deleted_from.items():
            connection.execute(
                f"DELETE FROM {table} WHERE target IN (SELECT value FROM json_each(?))",  # noqa: S608 - a table's name
                (json.dumps(target_ids),),
            )
        for table in self._whole:
            connection.execute(f"DELETE FROM {table}")  # noqa: S608 - a table's name
        for table, rows in (*self._rows.items(), *self._whole.items()):
            _upsert(connection, table, rows)

    def _write_text(self, target_id: int, history: History) -> None:
        slots = None if history.recommendations is None else ()
        self._rows["histories"].append((target_id, to_json(history, recommendations=slots)))

    def _write_recommendations(
        self, target_id: int, old: Sequence[Recommendation], new: Sequence[Recommendation]
    ) -> None:
        rows = self._rows["recommendations"]
        if len(new) < len(old):
            self._deleted_from["recommendations"].append(target_id)
            old = ()
        # Unchanged recommendations are the same objects, and identity is quick to compare.
        changed = compress(count(), map(is_not, new, old))
        for slot in chain(changed, range(len(old), len(new))):
            one = new[slot]
            # An exact int is bound faster than a bool.
            rows.append((slot, target_id, one.replicas, one.time, 1 if one.first else 0))


def _upsert(connection: sqlite3.Connection, table: str, rows: Sequence[Row]) -> None:
    """Insert rows, or replace those with the same key."""
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
