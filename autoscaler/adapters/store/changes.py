"""What differs between the file and what it is to hold, as rows; and their writing."""

import json
import sqlite3
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import astuple
from functools import cache
from itertools import chain, compress, count
from operator import is_not

from autoscaler.adapters.store.contents import Record
from autoscaler.adapters.store.schema import OF_A_TARGET
from autoscaler.core.history import Condition, History, Recommendation, ScaleEvent

Value = str | int | float | None
Row = tuple[Value, ...]

_ROWS_AT_ONCE = (512, 64, 8, 1)
"""Rows go many to a statement: each statement hands over the interpreter's lock, and has to
wait for it again where other threads are busy."""

_encode = json.JSONEncoder(separators=(",", ":")).encode


class Changes:
    """Rows to be written, gathered target by target."""

    def __init__(self) -> None:
        self._rows: dict[str, list[Row]] = defaultdict(list)
        self._emptied: dict[str, list[int]] = defaultdict(list)

    def add(self, target: int, key: str) -> None:
        """Take in a target that is new."""
        self._rows["targets"].append((target, key))

    def drop(self, target: int) -> None:
        """Take out a target and all that belongs to it."""
        for table in OF_A_TARGET:
            self._emptied[table].append(target)

    def record(self, target: int, old: Record, new: Record) -> None:
        """Take in a target's record in place of an old one."""
        self._history(target, old.history, new.history)
        # Most syncs decide as the one before did, only later.
        if new.decided != old.decided:
            self._rows["decided"].append((target, new.decided))
        if new.decision != old.decision:
            self._rows["decisions"].append((target, _encode(new.decision)))

    def apply(self, connection: sqlite3.Connection) -> None:
        """Write all of it, within the transaction of the caller."""
        for table, targets in self._emptied.items():
            connection.execute(
                f"DELETE FROM {table} WHERE target IN (SELECT value FROM json_each(?))",  # noqa: S608 - a table's name
                (_encode(targets),),
            )
        for table, rows in self._rows.items():
            put(connection, table, rows)

    def _history(self, target: int, old: History, new: History) -> None:
        if new.recommendations is not old.recommendations:
            self._recommendations(target, old.recommendations or (), new.recommendations or ())
        if new.scale_ups is not old.scale_ups:
            self._scale_events("scale_ups", target, old.scale_ups, new.scale_ups)
        if new.scale_downs is not old.scale_downs:
            self._scale_events("scale_downs", target, old.scale_downs, new.scale_downs)
        if new.conditions is not old.conditions and new.conditions != old.conditions:
            self._rows["conditions"].append((target, _encode(_conditions(new.conditions))))
        if (
            new.desired_replicas != old.desired_replicas
            or new.last_scale_time != old.last_scale_time
            or new.zeroed_by_us is not old.zeroed_by_us
            or new.pending != old.pending
            or (new.contention is not old.contention and new.contention != old.contention)
            or new.unobserved is not old.unobserved
            or (new.gaps is not old.gaps and new.gaps != old.gaps)
            or new.unseen != old.unseen
            or new.controller != old.controller
            or (new.recommendations is None) is not (old.recommendations is None)
        ):
            self._rows["states"].append(_state(target, new))

    def _recommendations(
        self, target: int, old: Sequence[Recommendation], new: Sequence[Recommendation]
    ) -> None:
        rows = self._rows["recommendations"]
        if len(new) < len(old):
            self._emptied["recommendations"].append(target)
            old = ()
        for slot in _differing(old, new):
            one = new[slot]
            # An exact int is bound faster than a bool.
            rows.append((slot, target, one.replicas, one.time, 1 if one.first else 0))

    def _scale_events(
        self, table: str, target: int, old: Sequence[ScaleEvent], new: Sequence[ScaleEvent]
    ) -> None:
        if len(new) < len(old):
            self._emptied[table].append(target)
            old = ()
        for slot in _differing(old, new):
            one = new[slot]
            if slot >= len(old) or one != old[slot]:
                self._rows[table].append(
                    (slot, target, one.change, one.time, int(one.outdated), one.earliest)
                )


def _differing(old: Sequence[object], new: Sequence[object]) -> chain[int]:
    """Return the slots of ``new`` that hold another object than ``old`` does, or that it lacks."""
    return chain(compress(count(), map(is_not, new, old)), range(len(old), len(new)))


def _conditions(conditions: Sequence[Condition]) -> list[Row]:
    return [
        (one.type, one.status.value, one.reason, one.message, one.last_transition)
        for one in conditions
    ]


def _state(target: int, history: History) -> Row:
    pending, rivalry = history.pending, history.contention
    return (
        target,
        int(history.recommendations is not None),
        history.desired_replicas,
        history.last_scale_time,
        int(history.zeroed_by_us),
        None
        if pending is None
        else _encode((pending.before, pending.after, pending.time, pending.resource_version)),
        _encode((rivalry.known, rivalry.our_step, rivalry.reversals)),
        int(history.unobserved),
        _encode([astuple(one) for one in history.gaps]),
        history.unseen,
        rivalry.generation,
        _encode(history.controller),
    )


def put(connection: sqlite3.Connection, table: str, rows: Sequence[Row]) -> None:
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
