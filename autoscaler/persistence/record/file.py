"""The record's file: its tables, and the rows in them.

- `runs`: times without lost rows
- `samples`: the samples of some minutes per row, as deflated texts of `packing`
- `minutes`: the one-minute steps of some hours per row, in the same form
- `recent`: samples that are not in `samples` yet, a JSON object of texts by target for each batch
- `open`: the begin of a target's unfinished text, and the first row of `recent` with a part of it
- `changes`: deflated bodies (`changes.texts_of`); one without rules and body removes a target
- `rules`: the rules of changes, each with the first body that used them
- `agreement`: one row for each interval
"""

import json
import sqlite3
from collections.abc import Callable, Collection, Iterable, Sequence
from functools import partial
from hashlib import blake2b
from pathlib import Path
from typing import NamedTuple

from autoscaler.core.classification import Mark
from autoscaler.core.sync_result import SyncResult
from autoscaler.persistence.record import agreement
from autoscaler.persistence.record.changes import deflated, inflated, texts_of
from autoscaler.persistence.record.packing import MINUTE_SECONDS, Packer
from autoscaler.persistence.record.rows import Numbers
from autoscaler.persistence.sqlite_files import NAME_CLUSTER, DatabaseFile, Schema, open_to_write
from autoscaler.persistence.state_directory import RECORD, RECORD_LOCK

WAL_BYTES = 4 * 2**20
"""The usual size of the write-ahead log; it grows while a reader holds it."""

OLDEST = ", ".join(
    f"coalesce(({query}), 9e999)"
    for query in (
        "SELECT min(time) FROM changes",
        "SELECT begin FROM samples WHERE id = (SELECT min(id) FROM samples)",
        "SELECT begin FROM minutes WHERE id = (SELECT min(id) FROM minutes)",
    )
)
"""SQL for the oldest time of each table; infinity if it is empty."""

_CHUNK_MINUTES = 15
_LONGER = 1.5
"""A body that is this many times longer than its dictionary starts another row of `rules`: the
first one was a poor dictionary."""
REMOVED = "it is no longer configured"
_ADD_SAMPLES = "INSERT INTO samples (target, begin, end, period, body) VALUES (?, ?, ?, ?, ?)"

SCHEMA = Schema(
    RECORD,
    RECORD_LOCK,
    4,
    """
    CREATE TABLE runs (id INTEGER PRIMARY KEY, begin REAL NOT NULL, end REAL NOT NULL) STRICT;
    CREATE TABLE targets (id INTEGER PRIMARY KEY, key TEXT NOT NULL UNIQUE) STRICT;
    CREATE TABLE rules (
        id INTEGER PRIMARY KEY, digest BLOB NOT NULL, body BLOB NOT NULL, first BLOB NOT NULL
    ) STRICT;
    CREATE INDEX rules_by_digest ON rules (digest);
    CREATE TABLE changes (
        id INTEGER PRIMARY KEY, target INTEGER NOT NULL, time REAL NOT NULL, state TEXT NOT NULL,
        current INTEGER, desired INTEGER,
        min_replicas INTEGER NOT NULL, max_replicas INTEGER NOT NULL,
        marks INTEGER NOT NULL, message TEXT NOT NULL, by TEXT NOT NULL, rules INTEGER, body BLOB
    ) STRICT;
    CREATE INDEX changes_of_targets ON changes (target, time);
    CREATE INDEX changes_in_time ON changes (time);
    CREATE INDEX removals ON changes (target, time) WHERE marks & 16384;
    CREATE TABLE samples (
        id INTEGER PRIMARY KEY, target INTEGER NOT NULL,
        begin REAL NOT NULL, end REAL NOT NULL, period REAL NOT NULL, body BLOB NOT NULL
    ) STRICT;
    CREATE INDEX samples_of_targets ON samples (target, begin);
    CREATE TABLE minutes (
        id INTEGER PRIMARY KEY, target INTEGER NOT NULL,
        begin REAL NOT NULL, end REAL NOT NULL, body BLOB NOT NULL
    ) STRICT;
    CREATE INDEX minutes_of_targets ON minutes (target, begin);
    CREATE TABLE open (
        target INTEGER PRIMARY KEY,
        begin REAL NOT NULL, period REAL NOT NULL, first INTEGER NOT NULL
    ) STRICT;
    CREATE TABLE recent (id INTEGER PRIMARY KEY, body TEXT NOT NULL) STRICT;
    """
    + agreement.TABLES,
    # A power failure may lose the last seconds, but the file stays intact.
    "PRAGMA auto_vacuum = INCREMENTAL; PRAGMA synchronous = NORMAL;"
    f" PRAGMA journal_size_limit = {WAL_BYTES:d}; PRAGMA cache_size = -1024;",
    keeps_one=True,
)


class SyncRow(NamedTuple):
    """A sync of a target in Unix seconds, with its period; in full if it is a ``change``."""

    target: str
    time: float
    period: float
    numbers: Numbers
    change: SyncResult | None = None
    state: str = ""
    message: str = ""


class _Chunk(Packer):
    """A target's samples up to ``until``, a full minute that differs between targets."""

    __slots__ = ("period", "until")

    def __init__(self, target: int, begin: float, period: float) -> None:
        super().__init__(begin, period)
        self.period = period
        minutes = (int(begin // MINUTE_SECONDS) + target) % _CHUNK_MINUTES
        self.until = (begin // MINUTE_SECONDS + _CHUNK_MINUTES - minutes) * MINUTE_SECONDS


class RecordFile(DatabaseFile):
    """The file, with the ids of its targets."""

    def __init__(self, file: DatabaseFile, ids: dict[str, int]) -> None:
        super().__init__(file.path, file.connection, file.identity, file.held)
        self._ids = ids
        self._open: dict[int, _Chunk] = {}
        self._run: int | None = None

    def write(self, rows: Sequence[SyncRow], now: float) -> None:
        """Write all rows, none later than ``now`` (Unix time), or none; raises as `transaction`."""
        with self.transaction():
            self._extend_run(rows, now)
            self._append(rows)
            for row in rows:
                if row.change is not None:
                    self._add_change(row, row.change)

    def write_agreement(self, rows: Iterable[tuple[str, agreement.AgreementInterval]]) -> None:
        """Write intervals of targets by key, or extend them. Raises as `write`."""
        with self.transaction() as connection:
            own = [(self._ids.get(key) or self._new_target(key), row) for key, row in rows]
            agreement.put(connection, own)

    def remove_others(self, targets: Collection[str], now: float) -> None:
        """Record the removal of all other targets. Raises as `write`."""
        with self.transaction():
            for key in self._ids.keys() - targets:
                self._note_removal(self._ids[key], now)

    def end_run(self) -> None:
        """Start a new run with the next rows, since some were lost. Raises as `write`."""
        self.finish()
        self._run = None

    def finish(self) -> None:
        """Write the samples that are not in a chunk yet. Raises as `write`."""
        with self.transaction() as connection:
            for target, chunk in self._open.items():
                self._close_chunk(target, chunk)
            self._open.clear()
            connection.execute("DELETE FROM open")
            connection.execute("DELETE FROM recent")

    def forget(self, targets: Collection[int]) -> None:
        """Forget targets that have no data left in the file."""
        gone = set(targets)
        self._ids = {key: number for key, number in self._ids.items() if number not in gone}

    def _extend_run(self, rows: Sequence[SyncRow], now: float) -> None:
        if self._run is None:
            begin = min([now, *(row.time for row in rows)])
            insert = "INSERT INTO runs (begin, end) VALUES (?, ?)"
            self._run = self.connection.execute(insert, (begin, now)).lastrowid
        else:
            update = "UPDATE runs SET end = max(end, ?) WHERE id = ?"
            self.connection.execute(update, (now, self._run))

    def _append(self, rows: Sequence[SyncRow]) -> None:
        """Append samples to the chunks of their targets, and the new text to `recent`."""
        parts: dict[int, str] = {}
        begun: dict[int, _Chunk] = {}
        ids, chunks = self._ids, self._open
        for key, time, period, numbers, *_ in rows:
            target = ids.get(key) or self._new_target(key)
            chunk = chunks.get(target)
            if chunk is None or not chunk.end <= time < chunk.until:
                if chunk is not None:
                    self._close_chunk(target, chunk)
                chunk = chunks[target] = begun[target] = _Chunk(target, time, period)
                parts.pop(target, None)
            try:
                added = chunk.add(time, numbers)
            except ValueError:  # Too many or too large numbers: only changes are recorded.
                continue
            if added:
                parts[target] = parts.get(target, "") + added
        if not parts:
            return
        execute = self.connection.execute
        batch = execute("INSERT INTO recent (body) VALUES (?)", (json.dumps(parts),))
        if begun:
            first = batch.lastrowid
            rows_of_open = [(key, chunk.begin, chunk.period, first) for key, chunk in begun.items()]
            insert = "INSERT OR REPLACE INTO open VALUES (?, ?, ?, ?)"
            self.connection.executemany(insert, rows_of_open)
            execute("DELETE FROM recent WHERE id < (SELECT min(first) FROM open)")

    def _close_chunk(self, target: int, chunk: _Chunk) -> None:
        body = deflated(chunk.text.encode())
        values = (target, chunk.begin, chunk.end, chunk.period, body)
        self.connection.execute(_ADD_SAMPLES, values)

    def _new_target(self, key: str) -> int:
        inserted = self.connection.execute("INSERT INTO targets (key) VALUES (?)", (key,))
        self._ids[key] = target = int(inserted.lastrowid or 0)
        return target

    def _add_change(self, row: SyncRow, change: SyncResult) -> None:
        decision, foreign = change.decision, change.decision.foreign
        rules, body = [text.encode() for text in texts_of(change)]
        number, dictionary = self._rules(rules, body)
        current = decision.current
        self.connection.execute(
            "INSERT INTO changes VALUES (NULL, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
            (
                self._ids[row.target],
                row.time,
                row.state,
                current,
                None if current is None else decision.desired,
                decision.min_replicas,
                decision.max_replicas,
                int(change.classified().marks),
                _storable(row.message),
                "" if foreign is None else _storable(foreign.manager),
                number,
                deflated(body, dictionary),
            ),
        )

    def _rules(self, text: bytes, body: bytes) -> tuple[int, bytes]:
        """Return the id of rules, which many changes share, and the dictionary of their bodies."""
        execute = self.connection.execute
        digest = blake2b(text, digest_size=16).digest()
        row = execute(
            "SELECT id, first FROM rules WHERE digest = ? ORDER BY id DESC LIMIT 1", (digest,)
        ).fetchone()
        if row is not None:
            first = inflated(row[1], text)
            if len(body) < _LONGER * len(first):
                return row[0], text + first
        inserted = execute(
            "INSERT INTO rules (digest, body, first) VALUES (?, ?, ?)",
            (digest, deflated(text), deflated(body, text)),
        )
        return int(inserted.lastrowid or 0), text + body

    def _note_removal(self, target: int, now: float) -> None:
        """Copy the counts of its last change, unless that is its removal."""
        removed = int(Mark.REMOVED)
        noted = self.connection.execute(
            "INSERT INTO changes SELECT NULL, target, ?, 'unknown', current, desired,"
            " min_replicas, max_replicas, ?, ?, '', NULL, NULL"
            " FROM (SELECT * FROM changes WHERE target = ? ORDER BY time DESC, id DESC LIMIT 1)"
            " WHERE NOT marks & ?",
            (now, removed, REMOVED, target, removed),
        )
        chunk = self._open.pop(target, None) if noted.rowcount else None
        if chunk is not None:
            self._close_chunk(target, chunk)
            self.connection.execute("DELETE FROM open WHERE target = ?", (target,))


def open_file(
    directory: Path,
    now: float,
    on_set_aside: Callable[[str], None],
    damage: str = "",
    cluster: str = "",
) -> RecordFile:
    """Open the file of a directory, or create it (`open_to_write`).

    Data of targets without a cluster belong to ``cluster`` from now on.
    """
    begin = partial(_begin, cluster)
    return RecordFile(*open_to_write(directory, SCHEMA, begin, now, on_set_aside, damage))


def _storable(text: str) -> str:
    """Replace lone surrogates, which SQLite cannot keep."""
    return text.encode("utf-8", "replace").decode()


def _begin(cluster: str, connection: sqlite3.Connection) -> dict[str, int]:
    """Write chunks from the `recent` rows of a killed process; return the ids of targets."""
    if cluster:
        connection.execute(NAME_CLUSTER, (cluster,))
    ids = dict(connection.execute("SELECT key, id FROM targets"))
    begins = {target: row for target, *row in connection.execute("SELECT * FROM open")}
    last = connection.execute("SELECT end FROM runs ORDER BY id DESC LIMIT 1").fetchone()
    if not begins or last is None:
        return ids
    texts = dict.fromkeys(begins, "")
    connection.execute("BEGIN IMMEDIATE")
    for target, part in connection.execute(
        "SELECT target, value FROM recent, json_each(body) JOIN open ON target = key"
        " WHERE recent.id >= first ORDER BY recent.id"
    ):
        texts[target] += part
    connection.executemany(
        _ADD_SAMPLES,
        [
            (target, begin, max(begin, last[0]), period, deflated(texts[target].encode()))
            for target, (begin, period, _) in begins.items()
        ],
    )
    connection.execute("DELETE FROM open")
    connection.execute("DELETE FROM recent")
    connection.execute("COMMIT")
    return ids
