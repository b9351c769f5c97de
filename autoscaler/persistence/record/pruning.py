"""Prunes the record: by age, by size, and by merging samples into one-minute steps.

Each step is one short transaction; a step returns whether more are needed.
"""

import math
from collections.abc import Iterator, Sequence
from typing import Any

from autoscaler.core.classification import Mark
from autoscaler.persistence.record.changes import deflated
from autoscaler.persistence.record.file import OLDEST, WAL_BYTES, RecordFile
from autoscaler.persistence.record.packing import by_minute, pack_minutes, samples_of

FULL_SECONDS = 24 * 3600.0
"""The age at which samples become one-minute steps, in seconds."""

_SPAN_SECONDS = 4 * 3600.0
"""The time whose samples become one row of steps, in seconds."""

_DELETE_EMPTY = (
    "DELETE FROM targets WHERE id = ?1"
    " AND NOT EXISTS (SELECT 1 FROM changes WHERE target = ?1)"
    " AND NOT EXISTS (SELECT 1 FROM samples WHERE target = ?1)"
    " AND NOT EXISTS (SELECT 1 FROM minutes WHERE target = ?1)"
    " AND NOT EXISTS (SELECT 1 FROM open WHERE target = ?1)"
    " AND NOT EXISTS (SELECT 1 FROM agreement WHERE target = ?1)"
)

_ROWS = 200
_TARGETS = 20
_PAGES = 250
_MOST_STEPS_BACK = 64
_GAP_PERIODS = 3


class Pruner:
    """Prunes a file to bytes (with its log) and seconds; used by its writer's thread."""

    def __init__(self, file: RecordFile, max_size: int, max_age: float) -> None:
        self._file = file
        self._connection = file.connection
        self._max_size = max_size
        self._max_age = max_age
        self._now = 0.0

    def steps(self, now: float) -> Iterator[None]:
        """Prune as of a Unix time, in steps; raises as `DatabaseFile.transaction`."""
        self._now = now
        yield from self._to_minutes(now - FULL_SECONDS)
        yield from self._drop(now - self._max_age)
        yield from self._shrink(now)
        yield from self._vacuum()

    def size(self) -> int:
        """Return the bytes of the file and its write-ahead log."""
        return self._file.path.stat().st_size + self._log_size()

    # -- by age ------------------------------------------------------------------------------

    def _drop(self, before: float) -> Iterator[None]:
        """Delete data that ended before an instant; each target's change in force then stays."""
        for table in ("samples", "minutes"):
            yield from self._delete(
                f"DELETE FROM {table} WHERE id IN (SELECT id FROM (SELECT id, end FROM {table}"  # noqa: S608 - a constant
                f" WHERE begin <= ? ORDER BY id LIMIT {_ROWS:d}) WHERE end < ?)",
                (self._now, before),
            )
        yield from self._delete(
            "DELETE FROM agreement WHERE id IN (SELECT id FROM agreement WHERE end < ? LIMIT ?)",
            (before, _ROWS),
        )
        yield from self._drop_changes(before)
        self._connection.execute("DELETE FROM runs WHERE end < ?", (before,))

    def _drop_changes(self, before: float) -> Iterator[None]:
        after = (-math.inf, -1)
        while rows := self._connection.execute(
            "SELECT time, id, target, rules, marks & ?, EXISTS (SELECT 1 FROM changes AS later"
            " WHERE later.target = one.target AND later.time <= ?"
            " AND (later.time, later.id) > (one.time, one.id)) FROM changes AS one"
            " WHERE time < ? AND (time, id) > (?, ?) ORDER BY time, id LIMIT ?",
            (int(Mark.REMOVED), before, before, *after, _ROWS),
        ).fetchall():
            after = rows[-1][:2]
            gone = [row for row in rows if row[4] or row[5]]
            if gone:
                self._delete_changes(gone)
                yield

    def _delete_changes(self, rows: Sequence[Any]) -> None:
        """Delete changes, rules without changes, and targets without data."""
        with self._file.transaction() as connection:
            connection.executemany("DELETE FROM changes WHERE id = ?", [(row[1],) for row in rows])
            connection.executemany(
                "DELETE FROM rules WHERE id = ? AND NOT EXISTS"
                " (SELECT 1 FROM changes WHERE target = ? AND rules = ?)",
                {(row[3], row[2], row[3]) for row in rows if row[3] is not None},
            )
            removed = sorted({row[2] for row in rows if row[4]})
            emptied = [
                target
                for target in removed
                if connection.execute(_DELETE_EMPTY, (target,)).rowcount
            ]
        if emptied:
            self._file.forget(emptied)

    # -- by size -----------------------------------------------------------------------------

    def _shrink(self, now: float) -> Iterator[None]:
        """Delete the oldest data until the size fits, a 64th of the time per step."""
        yield from self._drop_later(now)
        oldest = self.oldest()
        if oldest is None or self._used() <= self._max_size:
            return
        for step in range(1, _MOST_STEPS_BACK):
            yield from self._drop(oldest + (now - oldest) * step / _MOST_STEPS_BACK)
            if self._used() <= self._max_size:
                return

    def _drop_later(self, now: float) -> Iterator[None]:
        """Delete data from when the clock was ahead, no more than the size limit requires."""
        connection = self._connection
        for table in ("samples", "minutes", "agreement"):
            delete = (
                f"DELETE FROM {table} WHERE id IN (SELECT id FROM {table}"  # noqa: S608 - a constant
                f" WHERE begin > ? ORDER BY id LIMIT {_ROWS:d})"
            )
            while self._used() > self._max_size and connection.execute(delete, (now,)).rowcount:
                yield
        later = (
            "SELECT time, id, target, rules, marks & ? FROM changes WHERE time > ?"
            " ORDER BY time, id LIMIT ?"
        )
        values = (int(Mark.REMOVED), now, _ROWS)
        while self._used() > self._max_size and (
            rows := connection.execute(later, values).fetchall()
        ):
            self._delete_changes(rows)
            yield

    def _used(self) -> int:
        """Return the bytes in use; a log that a reader keeps counts as twice its usual size."""
        (used,) = self._connection.execute(
            "SELECT (page_count - freelist_count) * page_size"
            " FROM pragma_page_count, pragma_freelist_count, pragma_page_size"
        ).fetchone()
        return int(used) + min(self._log_size(), 2 * WAL_BYTES)

    def _log_size(self) -> int:
        wal = self._file.path.with_name(f"{self._file.path.name}-wal")
        return wal.stat().st_size if wal.exists() else 0

    def oldest(self) -> float | None:
        """Return the first instant with data; None without any."""
        (oldest,) = self._connection.execute(f"SELECT min({OLDEST})").fetchone()
        return None if oldest == math.inf else float(oldest)

    def _vacuum(self) -> Iterator[None]:
        """Return pages to the disk if many are free; a few are soon used again."""
        while True:
            free, pages = self._connection.execute(
                "SELECT freelist_count, page_count FROM pragma_freelist_count, pragma_page_count"
            ).fetchone()
            is_large = self.size() > self._max_size
            if free <= (0 if is_large else _PAGES + pages // 8):
                break
            self._connection.execute(f"PRAGMA incremental_vacuum({_PAGES:d})").fetchall()
            yield
        if is_large:
            # Only this shrinks the file. It waits for no reader.
            self._connection.execute("PRAGMA wal_checkpoint(PASSIVE)").fetchall()

    # -- steps of a minute -------------------------------------------------------------------

    def _to_minutes(self, before: float) -> Iterator[None]:
        first = self._connection.execute(
            "SELECT begin FROM samples WHERE begin <= ? ORDER BY id LIMIT 1", (self._now,)
        ).fetchone()
        if first is None:
            return
        end = (first[0] // _SPAN_SECONDS + 1) * _SPAN_SECONDS
        if end > before:
            return
        after = -1
        while rows := self._connection.execute(
            "SELECT DISTINCT target FROM samples WHERE target > ? AND begin < ?"
            " ORDER BY target LIMIT ?",
            (after, end, _TARGETS),
        ).fetchall():
            after = rows[-1][0]
            self._pack_minutes([target for (target,) in rows], end)
            yield

    def _pack_minutes(self, targets: Sequence[int], end: float) -> None:
        with self._file.transaction() as connection:
            for target in targets:
                chunks = connection.execute(
                    "SELECT begin, end, period, body FROM samples WHERE target = ? AND begin < ?"
                    " ORDER BY begin, id",
                    (target, end),
                ).fetchall()
                connection.executemany(
                    "INSERT INTO minutes (target, begin, end, body) VALUES (?, ?, ?, ?)",
                    [(target, *_steps(group)) for group in _without_lapses(chunks)],
                )
                connection.execute(
                    "DELETE FROM samples WHERE target = ? AND begin < ?", (target, end)
                )

    def _delete(self, statement: str, values: Sequence[Any]) -> Iterator[None]:
        while self._connection.execute(statement, values).rowcount > 0:
            yield


def _without_lapses(chunks: Sequence[Any]) -> Iterator[list[Any]]:
    """Split chunks at lapses, and where the clock was set."""
    group: list[Any] = []
    for chunk in chunks:
        if group and not 0 <= chunk[0] - group[-1][1] <= _GAP_PERIODS * chunk[2]:
            yield group
            group = []
        group.append(chunk)
    if group:
        yield group


def _steps(chunks: Sequence[Any]) -> tuple[float, float, bytes]:
    steps = list(by_minute(samples_of(chunks)))
    begin = steps[0].time if steps else chunks[0][0]
    body = deflated(pack_minutes(steps, begin).encode())
    return begin, chunks[-1][1], body
