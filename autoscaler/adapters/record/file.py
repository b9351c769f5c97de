"""The record's file as the writer has it: opened, and rows put into it."""

import os
import sqlite3
import zlib
from collections.abc import Callable, Collection, Sequence
from contextlib import ExitStack
from hashlib import blake2b
from pathlib import Path

from autoscaler.adapters.record import journal
from autoscaler.adapters.record.dictionary import DICTIONARY
from autoscaler.adapters.record.row import NewChange, Row
from autoscaler.adapters.record.schema import MIGRATIONS
from autoscaler.adapters.sqlite_files import (
    UNREADABLE,
    check_tables,
    distrust,
    identity,
    is_damage,
    migrate,
    refuse_newer,
    require_sqlite,
)
from autoscaler.adapters.state_directory import (
    RECORD,
    RECORD_LOCK,
    UnusableError,
    create,
    lock,
    set_aside,
)
from autoscaler.core.entry import body_to_json, rules_to_json
from autoscaler.record.packing import Packer
from autoscaler.record.rows import Mark

_BUSY_SECONDS = 10.0
"""How long a statement waits for another program that has locked the file."""

WAL_BYTES = 4 * 2**20
"""The usual size of the write-ahead log; a reader that hangs lets it grow."""
_CACHE_KIB = 1024
_CHUNK_MINUTES = 15
_MINUTE = 60.0

REMOVED = "it is no longer configured"


class _Chunk(Packer):
    """The samples of one target that are not in `samples` yet, up to the Unix time ``until``.

    That is a full minute, and not the same for all targets.
    """

    __slots__ = ("period", "until")

    def __init__(self, target: int, begin: float, period: float) -> None:
        super().__init__(begin, period)
        self.period = period
        minutes = (int(begin // _MINUTE) + target) % _CHUNK_MINUTES
        self.until = (begin // _MINUTE + _CHUNK_MINUTES - minutes) * _MINUTE


class RecordFile:
    """A file that is locked for this process.  It belongs to the thread that opened it.

    After an error it can only be closed.
    """

    def __init__(self, path: Path, connection: sqlite3.Connection, held: ExitStack) -> None:
        self.path = path
        self.connection = connection
        self._identity = identity(path)
        self._ids: dict[str, int] = dict(connection.execute("SELECT key, id FROM targets"))
        self._open: dict[int, _Chunk] = {}
        self._run: int | None = None
        # Last: what raises above leaves the lock to the caller.
        self._held = held.pop_all()
        self._held.callback(connection.close)

    def write(self, rows: Sequence[Row], now: float) -> None:
        """Write rows in one transaction; all until ``now`` (Unix seconds) is recorded then.

        Raises UnusableError, OSError or sqlite3.Error, and the file is as it was.
        """
        if identity(self.path) != self._identity:
            raise UnusableError(f"{self.path} was replaced while it was in use")
        connection = self.connection
        connection.execute("BEGIN IMMEDIATE")
        self._extend_run(rows, now)
        self._append(rows)
        for row in rows:
            if row.change is not None:
                self._add_change(row, row.change)
        connection.execute("COMMIT")

    def remove_others(self, targets: Collection[str], now: float) -> None:
        """Note of each target that is not among these that it was removed.  Raises as `write`."""
        connection = self.connection
        connection.execute("BEGIN IMMEDIATE")
        for key in self._ids.keys() - targets:
            self._note_removal(self._ids[key], now)
        connection.execute("COMMIT")

    def end_run(self) -> None:
        """Begin another run with the next rows: some were lost.  Raises as `write`."""
        self.finish()
        self._run = None

    def finish(self) -> None:
        """Write the samples that are in no chunk yet.  Raises as `write`."""
        connection = self.connection
        connection.execute("BEGIN IMMEDIATE")
        for target, chunk in self._open.items():
            self._close_chunk(target, chunk)
        self._open.clear()
        connection.execute("DELETE FROM open")
        connection.execute("DELETE FROM recent")
        connection.execute("COMMIT")

    def close(self) -> None:
        """Close the file, and unlock it."""
        self._held.close()

    def forget(self, targets: Collection[int]) -> None:
        """Note that nothing is left in the file of some targets."""
        gone = set(targets)
        self._ids = {key: one for key, one in self._ids.items() if one not in gone}

    def _extend_run(self, rows: Sequence[Row], now: float) -> None:
        if self._run is None:
            begin = min([now, *(row.time for row in rows)])
            inserted = self.connection.execute(
                "INSERT INTO runs (begin, end) VALUES (?, ?)", (begin, now)
            )
            self._run = inserted.lastrowid
        else:
            self.connection.execute(
                "UPDATE runs SET end = max(end, ?) WHERE id = ?", (now, self._run)
            )

    def _append(self, rows: Sequence[Row]) -> None:
        """Append samples to the chunks of their targets, and what that adds to `recent`."""
        parts: dict[int, bytes | bytearray] = {}
        begun: dict[int, _Chunk] = {}
        ids, chunks = self._ids, self._open
        for key, time, period, numbers, _ in rows:
            target = ids.get(key) or self._new_target(key)
            chunk = chunks.get(target)
            if chunk is None or not chunk.end <= time < chunk.until:
                if chunk is not None:
                    self._close_chunk(target, chunk)
                chunk = chunks[target] = begun[target] = _Chunk(target, time, period)
                parts.pop(target, None)
            try:
                added = chunk.add(time, numbers)
            except ValueError:  # too many numbers, or too large ones: it has its changes
                continue
            if added:
                before = parts.get(target)
                parts[target] = added if before is None else before + added
        if not parts:
            return
        execute = self.connection.execute
        batch = execute("INSERT INTO recent (body) VALUES (?)", (journal.pack_batch(parts),))
        if begun:
            self.connection.executemany(
                "INSERT OR REPLACE INTO open VALUES (?, ?, ?, ?)",
                [
                    (target, chunk.begin, chunk.period, batch.lastrowid)
                    for target, chunk in begun.items()
                ],
            )
            execute("DELETE FROM recent WHERE id < (SELECT min(first) FROM open)")

    def _close_chunk(self, target: int, chunk: _Chunk) -> None:
        self.connection.execute(
            "INSERT INTO samples (target, begin, end, period, body) VALUES (?, ?, ?, ?, ?)",
            (target, chunk.begin, chunk.end, chunk.period, chunk.body()),
        )

    def _new_target(self, key: str) -> int:
        inserted = self.connection.execute("INSERT INTO targets (key) VALUES (?)", (key,))
        target = int(inserted.lastrowid or 0)
        self._ids[key] = target
        return target

    def _add_change(self, row: Row, change: NewChange) -> None:
        decision = change.decision
        rules = rules_to_json(change.rules).encode()
        body = body_to_json(change.inputs, decision, change.write)
        packer = zlib.compressobj(zdict=DICTIONARY + rules)
        packed = packer.compress(body.encode()) + packer.flush()
        current = decision.current
        self.connection.execute(
            "INSERT INTO changes (target, time, state, current, desired, min_replicas,"
            " max_replicas, marks, message, by, rules, body)"
            " VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
            (
                self._ids[row.target],
                row.time,
                change.state,
                current,
                None if current is None else decision.desired,
                decision.min_replicas,
                decision.max_replicas,
                int(change.marks),
                _storable(change.message),
                _storable(change.by),
                self._rules(rules),
                packed,
            ),
        )

    def _rules(self, text: bytes) -> int:
        """Return the id of rules, which many changes share."""
        execute = self.connection.execute
        digest = blake2b(text, digest_size=16).digest()
        known = execute("SELECT id FROM rules WHERE digest = ?", (digest,)).fetchone()
        if known is not None:
            return int(known[0])
        body = zlib.compress(text)
        return int(
            execute("INSERT INTO rules (digest, body) VALUES (?, ?)", (digest, body)).lastrowid or 0
        )

    def _note_removal(self, target: int, now: float) -> None:
        """Copy the counts of its last change, unless that is its removal."""
        last = self.connection.execute(
            "SELECT current, desired, min_replicas, max_replicas, marks FROM changes"
            " WHERE target = ? ORDER BY time DESC, id DESC LIMIT 1",
            (target,),
        ).fetchone()
        if last is None or last[-1] & Mark.REMOVED:
            return
        chunk = self._open.pop(target, None)
        if chunk is not None:
            self._close_chunk(target, chunk)
            self.connection.execute("DELETE FROM open WHERE target = ?", (target,))
        self.connection.execute(
            "INSERT INTO changes (target, time, state, current, desired, min_replicas,"
            " max_replicas, marks, message, by) VALUES (?, ?, 'unknown', ?, ?, ?, ?, ?, ?, '')",
            (target, now, *last[:-1], int(Mark.REMOVED), REMOVED),
        )


def open_file(
    directory: Path, now: float, on_set_aside: Callable[[str], None], damage: str = ""
) -> RecordFile:
    """Open the file of a directory, or create it.

    One that cannot be read, or whose ``damage`` was met while it was written, is renamed after the
    Unix time ``now``, and a new one begun; ``on_set_aside`` is called with a sentence ("could not
    be read ...").  One of a newer version is left as it is.  Raises UnusableError, OSError or
    sqlite3.Error.
    """
    require_sqlite()
    path = directory / RECORD
    with ExitStack() as held:
        held.callback(os.close, lock(directory, RECORD_LOCK))
        if path.exists():
            refuse_newer(path, len(MIGRATIONS))
        try:
            if not damage:
                return _opened(path, held)
        except (*UNREADABLE, sqlite3.Error) as error:
            if isinstance(error, sqlite3.Error) and not is_damage(error):
                raise
            damage = str(error)
        # One is kept to look into: they may be large, and a bad disk makes many.
        for older in directory.glob(f"{RECORD}.unreadable-*"):
            older.unlink(missing_ok=True)
        aside = set_aside(path, now)
        on_set_aside(f"could not be read ({damage}) and is now {aside.name}")
        return _opened(path, held)


def _opened(path: Path, held: ExitStack) -> RecordFile:
    connection = _open(path)
    try:
        return RecordFile(path, connection, held)
    except BaseException:
        connection.close()
        raise


def _open(path: Path) -> sqlite3.Connection:
    """Open a file, migrate it, and bring what was left of an earlier run into its place."""
    create(path)
    connection = sqlite3.connect(path, timeout=_BUSY_SECONDS, isolation_level=None)
    try:
        distrust(connection)
        connection.execute("PRAGMA auto_vacuum = INCREMENTAL")
        connection.execute("PRAGMA journal_mode = WAL")
        # The last seconds may be lost with the power; the file is whole all the same.
        connection.execute("PRAGMA synchronous = NORMAL")
        connection.execute(f"PRAGMA journal_size_limit = {WAL_BYTES:d}")
        connection.execute(f"PRAGMA cache_size = -{_CACHE_KIB:d}")
        check_tables(connection, MIGRATIONS)
        migrate(connection, MIGRATIONS)
        _finish_open(connection)
    except BaseException:
        connection.close()
        raise
    return connection


def _storable(text: str) -> str:
    """Replace lone surrogates, which SQLite cannot keep."""
    return text.encode("utf-8", "replace").decode()


def _finish_open(connection: sqlite3.Connection) -> None:
    """Write as chunks what an earlier process that was killed has left in `recent`."""
    begins = {
        target: (begin, period, first)
        for target, begin, period, first in connection.execute("SELECT * FROM open")
    }
    last = connection.execute("SELECT end FROM runs ORDER BY id DESC LIMIT 1").fetchone()
    if not begins or last is None:
        return
    bodies = {target: bytearray() for target in begins}
    connection.execute("BEGIN IMMEDIATE")
    for batch, body in connection.execute("SELECT id, body FROM recent ORDER BY id"):
        for target, part in journal.parts_of(body):
            if target in begins and batch >= begins[target][2]:
                bodies[target] += part
    connection.executemany(
        "INSERT INTO samples (target, begin, end, period, body) VALUES (?, ?, ?, ?, ?)",
        [
            (target, begin, max(begin, last[0]), period, bytes(bodies[target]))
            for target, (begin, period, _) in begins.items()
        ],
    )
    connection.execute("DELETE FROM open")
    connection.execute("DELETE FROM recent")
    connection.execute("COMMIT")
