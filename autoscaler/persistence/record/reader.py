"""Reads the record of a directory, also while a daemon writes it."""

import math
import sqlite3
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from heapq import nlargest
from itertools import pairwise
from pathlib import Path
from typing import Any, TypeVar

from autoscaler.core.classification import Mark
from autoscaler.core.sync_result import SyncResult
from autoscaler.persistence.codec import UnreadableError
from autoscaler.persistence.record import agreement
from autoscaler.persistence.record.changes import inflated, result_of
from autoscaler.persistence.record.file import OLDEST, SCHEMA
from autoscaler.persistence.record.packing import samples_of
from autoscaler.persistence.record.rows import (
    Change,
    EmptyRecordError,
    Lapse,
    LastState,
    RecordError,
    Sample,
)
from autoscaler.persistence.sqlite_files import opened_to_read, version_of
from autoscaler.persistence.state_directory import RECORD, UnusableError

T = TypeVar("T")

STALE_SECONDS = 60.0
"""If nothing was recorded for this time up to now, in seconds, it is a lapse."""

_CHANGE = (
    "changes.id, key, time, state, current, desired, min_replicas, max_replicas, marks, message,"
    " by, rules"
)
_TARGET = "(SELECT id FROM targets WHERE key = ?)"
_REMOVALS = (
    "SELECT time, (SELECT min(time) FROM changes AS later WHERE later.target = one.target"
    " AND later.time > one.time) FROM changes AS one WHERE time < ? AND marks & 16384"
    " AND target = (SELECT id FROM targets WHERE key = ?)"
)
"""When a target was removed, and when it was added again."""


class DirectoryRecord:
    """The record of a state directory, also while a daemon writes it. Thread-safe.

    Each method opens the file again, changes nothing, and raises RecordError.
    """

    def __init__(self, directory: Path) -> None:
        self._path = directory / RECORD

    def targets(self) -> Sequence[str]:
        """Return the keys of all recorded targets, sorted."""
        with self._opened() as connection:
            return [key for (key,) in connection.execute("SELECT key FROM targets ORDER BY key")]

    def span(self) -> tuple[float, float] | None:
        """Return the first and the last recorded instant; None without data."""
        with self._opened() as connection:
            begin, end = connection.execute(
                f"SELECT min({OLDEST}, coalesce((SELECT min(begin) FROM open), 9e999)),"  # noqa: S608 - constants
                " (SELECT max(end) FROM runs)"
            ).fetchone()
        return None if begin == math.inf or end is None else (begin, max(begin, end))

    def standings(self) -> Mapping[str, LastState]:
        """Return the last state of each target, without removed targets."""
        found: dict[str, LastState] = {}
        with self._opened() as connection:
            for number, key in connection.execute("SELECT id, key FROM targets").fetchall():
                changes = connection.execute(
                    "SELECT state, time, marks FROM changes WHERE target = ?"
                    " ORDER BY time DESC, id DESC",
                    (number,),
                )
                for state, time, marks in changes:
                    known = found.get(key)
                    if marks & Mark.REMOVED or (known is not None and known.state != state):
                        break
                    found[key] = LastState(state, time)
        return found

    def change_at(self, target: str, at: float) -> Change | None:
        """Return the change that held at an instant: the last one at or before it."""
        return self._one_change(
            f"target = {_TARGET} AND time <= ? ORDER BY time DESC, changes.id DESC", target, at
        )

    def change_after(self, change: Change) -> Change | None:
        """Return the target's next change; None if it is the last one."""
        return self._one_change(
            f"target = {_TARGET} AND (time, changes.id) > (?, ?) ORDER BY time, changes.id",
            change.target,
            change.time,
            change.id,
        )

    def changes(
        self,
        targets: Collection[str] | None,
        begin: float,
        end: float,
        *,
        limit: int,
        before: int | None = None,
    ) -> Sequence[Change]:
        """Return at most ``limit`` changes of some or all targets, from ``begin`` to ``end``.

        The last ones first; ``before`` is the id of the last change of the previous page.
        """
        with self._opened() as connection:
            last = (end, -1)
            if before is not None:
                times = connection.execute("SELECT time FROM changes WHERE id = ?", (before,))
                # The oldest are deleted first: nothing is left before a deleted one.
                last = min(last, (next(times, (-math.inf,))[0], before))
            bounds = (begin, *last, limit)
            within = "time >= ? AND (time, changes.id) < (?, ?)"
            within += " ORDER BY time DESC, changes.id DESC LIMIT ?"
            if targets is None:
                return list(_changes(connection, within, *bounds))
            own = f"SELECT time, id FROM changes WHERE target = {_TARGET} AND {within}"  # noqa: S608 - as above
            rows: list[tuple[float, int]] = []
            for target in set(targets):
                rows = nlargest(limit, rows + connection.execute(own, (target, *bounds)).fetchall())
            return [next(_changes(connection, "changes.id = ?", change)) for _, change in rows]

    def entry(self, change: Change) -> SyncResult:
        """Return a change in full; raises RecordError if it is lost or unreadable."""
        with self._opened() as connection:
            row = connection.execute(
                "SELECT rules.body, first, changes.body FROM changes LEFT JOIN rules"
                " ON rules.id = changes.rules WHERE changes.id = ?",
                (change.id,),
            ).fetchone()
        if row is None:
            raise RecordError(f"the decision about {change.target} is not kept any more")
        rules, first, body = row
        if body is None:
            raise RecordError(f"{change.target} was removed then: there is no decision about it")
        try:
            text = inflated(rules or b"")
            dictionary = text + inflated(first, text)
            return result_of(text.decode(), inflated(body, dictionary).decode())
        except ValueError as error:
            what = error if isinstance(error, UnreadableError) else "it is damaged"
            raise RecordError(
                f"the decision about {change.target} cannot be read: {what}"
            ) from None

    def entry_or_none(self, change: Change) -> SyncResult | None:
        """Return a change in full; None if it is lost."""
        try:
            return self.entry(change)
        except RecordError:
            return None

    def last_count_change(self, target: str, until: float) -> Change | None:
        """Return a count's last change by any client until an instant, of the last 10,000."""
        own = "target = (SELECT id FROM targets WHERE key = ?1) AND time <= ?2"
        first = f"SELECT time FROM changes WHERE {own} ORDER BY time DESC LIMIT 1 OFFSET 9999"  # noqa: S608 - constants
        return self._one_change(
            f"{own} AND marks & ?3 AND time >= coalesce(({first}), -1e300)"
            " ORDER BY time DESC, changes.id DESC",
            target,
            until,
            int(Mark.WRITTEN | Mark.FOREIGN),
        )

    def samples(self, target: str, begin: float, end: float) -> Iterator[Sample]:
        """Yield the samples of a period in order, starting with the one in force at its begin."""
        with self._opened() as connection:
            found = connection.execute("SELECT id FROM targets WHERE key = ?", (target,)).fetchone()
            if found is None:
                return
            chunks = _chunks(connection, found[0], begin, end)
            lapses = _lapses_of(connection, target, -math.inf, begin)
        gone = max((lapse.begin for lapse in lapses), default=-math.inf)
        held: list[Sample] = []
        for sample in samples_of(chunks):
            if sample.time <= begin:
                held = [sample] if sample.time > gone else []
                continue
            yield from held
            held = []
            if sample.time >= end:
                return
            yield sample
        yield from held

    def lapses(self, target: str | None, begin: float, end: float) -> Sequence[Lapse]:
        """Return the lapses in the record of a target, or of all targets, within a time."""
        with self._opened() as connection:
            return _lapses_of(connection, target, begin, end)

    def agreement(
        self, targets: Collection[str] | None, since: float, now: float, limit: int = 0
    ) -> Mapping[str, agreement.RecordedAgreement]:
        """Return the agreement of some or all targets with their HPAs since a Unix time, by key.

        Each has at most ``limit`` intervals with different counts, the longest first.
        """
        with self._opened() as connection:
            return agreement.kept_of(connection, targets, since, now, limit)

    def _one_change(self, condition: str, *values: str | float) -> Change | None:
        with self._opened() as connection:
            return next(_changes(connection, f"{condition} LIMIT 1", *values), None)

    @contextmanager
    def _opened(self) -> Iterator[sqlite3.Connection]:
        path = self._path
        try:
            with opened_to_read(path, SCHEMA) as connection:
                if not version_of(connection):
                    raise EmptyRecordError(f"nothing is recorded in {path.parent} yet")
                yield connection
        except (FileNotFoundError, NotADirectoryError):
            raise EmptyRecordError(
                f"nothing is recorded in {path.parent}: there is no {path.name}"
            ) from None
        except UnusableError as error:
            raise RecordError(str(error)) from None


def _lapses_of(
    connection: sqlite3.Connection, target: str | None, begin: float, end: float
) -> list[Lapse]:
    runs = connection.execute("SELECT begin, end FROM runs ORDER BY id").fetchall()
    found = [Lapse(run[1], other[0]) for run, other in pairwise(runs)]
    if runs and end - runs[-1][1] > STALE_SECONDS:
        found.append(Lapse(runs[-1][1], end))
    removals = connection.execute(_REMOVALS, (end, target))
    found += [Lapse(at, math.inf if back is None else back) for at, back in removals]
    return _joined(
        lapse
        for lapse in found
        if lapse.begin < lapse.end and lapse.begin < end > begin < lapse.end
    )


def _changes(
    connection: sqlite3.Connection, condition: str, *values: str | float
) -> Iterator[Change]:
    for row in connection.execute(
        f"SELECT {_CHANGE} FROM changes JOIN targets ON targets.id = target WHERE {condition}",  # noqa: S608 - constants
        values,
    ):
        fields: list[Any] = [*row[:8], Mark(row[8]), *row[9:]]
        yield Change(*fields)


def _chunks(
    connection: sqlite3.Connection, target: int, begin: float, end: float
) -> list[tuple[Any, ...]]:
    """Return begin, end, period (0 for minutes) and text, usually deflated, of a time, in order."""
    found: list[tuple[Any, ...]] = []
    for table, period in (("minutes", "0.0"), ("samples", "period")):
        found += connection.execute(
            f"SELECT begin, end, {period}, body FROM {table} WHERE target = ?1 AND begin < ?3"  # noqa: S608 - constants
            f" AND begin >= coalesce((SELECT max(begin) FROM {table} WHERE target = ?1"
            " AND begin <= ?2), -1e300) ORDER BY begin, id",
            (target, begin, end),
        ).fetchall()
    row = connection.execute(
        "SELECT begin, period, first FROM open WHERE target = ? AND begin < ?", (target, end)
    ).fetchone()
    if row is not None:
        parts = connection.execute(
            "SELECT json_extract(body, ?) FROM recent WHERE id >= ? ORDER BY id",
            (f'$."{target}"', row[2]),
        )
        text = "".join([part for (part,) in parts if part is not None])
        found.append((row[0], math.inf, row[1], text))
    return found


def _joined(lapses: Any) -> list[Lapse]:
    """Return lapses in order, with overlapping ones merged."""
    found: list[Lapse] = []
    for lapse in sorted(lapses):
        if found and lapse.begin <= found[-1].end:
            found[-1] = Lapse(found[-1].begin, max(found[-1].end, lapse.end))
        else:
            found.append(lapse)
    return found
